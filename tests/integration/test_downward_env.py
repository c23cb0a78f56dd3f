"""What a pod may know of itself, also where it is a plain process of the host."""

import json
import os

from tests.harness.agent.agent import NODE, pod

FOREVER = "exec sleep 1000000"
FIELDS = {
    "NAME": "metadata.name",
    "SPACE": "metadata.namespace",
    "ID": "metadata.uid",
    "ON": "spec.nodeName",
    "ADDRESS": "status.podIP",
    "HOST": "status.hostIP",
    "TIER": "metadata.labels['tier']",
}


def test_fields_and_resources_of_a_pod_reach_the_environment(agent):
    manifest = pod("down", "", folder=agent.folder)
    [main] = manifest["spec"]["containers"]
    main["env"] += [{"name": n, "valueFrom": {"fieldRef": {"fieldPath": p}}} for n, p in FIELDS.items()]
    main["env"] += [
        {"name": "ASKED", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}},
        {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    ]
    main["resources"] = {"requests": {"cpu": "250m"}}
    names = [*FIELDS, "ASKED", "CPUS"]
    main["command"] = ["sh", "-c", "".join(f"echo ${name};" for name in names) + FOREVER]
    manifest["metadata"]["labels"] = {"tier": "back"}
    agent.write("down.json", json.dumps(manifest))
    agent.start()
    agent.until_status("down", "Running")
    [shown] = agent.json("/pods")["items"]
    status, uid = shown["status"], shown["metadata"]["uid"]
    printed = agent.until(
        lambda: (
            (lines := agent.verb("logs", "down").stdout.splitlines()) and len(lines) == len(names) and lines
        ),
        "it spoke",
    )
    assert printed == [
        f"down-{NODE}", "default", uid, NODE, status["podIP"], status["hostIP"], "back", "250", str(os.cpu_count()),
    ]  # fmt: skip


def test_a_field_that_no_pod_has_is_told_with_its_path(agent):
    manifest = pod("bad", FOREVER, folder=agent.folder)
    [main] = manifest["spec"]["containers"]
    source = {"resourceFieldRef": {"containerName": "other", "resource": "limits.cpu"}}
    main["env"].append({"name": "N", "valueFrom": source})
    agent.write("bad.json", json.dumps(manifest))
    agent.start()
    row = agent.until_status("bad", "CreateContainerConfigError")
    assert "container other not found" in row["why"]
    [event] = [e for e in agent.json("/events?pod=bad")["events"] if e["reason"] == "Failed"]
    assert event["message"] == "Error: container other not found"
    assert "other not found" in agent.explain("bad")["waits_for"]
