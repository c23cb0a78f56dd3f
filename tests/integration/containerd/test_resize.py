"""In-place resize on a real containerd: other amounts for a process that runs on, restarts where they are asked for."""

import os
import signal
from pathlib import Path

import pytest

from tests.conformance.containers.cri import cgroups_of
from tests.harness.cri.image import BUSYBOX_NAME

pytestmark = pytest.mark.real
FOREVER = "exec sleep 1000000"
MI = 1 << 20


def put(node, cpu, memory, *, limits=True, policy=(), script=FOREVER, restart="Always"):
    """Write the manifest of a pod that keeps its UID, with these amounts."""
    amounts = {"cpu": cpu, "memory": memory}
    resources = {"requests": amounts} | ({"limits": amounts} if limits else {})
    container = {
        "name": "main",
        "image": BUSYBOX_NAME,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        "resources": resources,
        "resizePolicy": [{"resourceName": name, "restartPolicy": "RestartContainer"} for name in policy],
    }
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container], "restartPolicy": restart}
    node.write_pod("grows", {"name": "grows", "uid": "fixed-grows"}, spec)


def confined(node):
    """Return CPU quota (us), shares and memory limit (bytes) that the kernel holds the pod's process to."""
    mains = node.mains("grows")
    if "main" not in mains:
        return None
    groups = cgroups_of(mains["main"][0])
    return tuple(
        int(Path(f"/sys/fs/cgroup/{controller}{groups[controller]}/{file}").read_text())
        for controller, file in (
            ("cpu", "cpu.cfs_quota_us"),
            ("cpu", "cpu.shares"),
            ("memory", "memory.limit_in_bytes"),
        )
    )


def conditions(node):
    """Return the reason of each condition about a resize."""
    found = node.pod("grows")["status"].get("conditions", ())
    return {c["type"]: c.get("reason", "") for c in found if c["type"].startswith("PodResize")}


def test_a_running_container_gets_other_amounts_and_runs_on(node):
    put(node, "200m", "64Mi")
    node.start()
    node.until_running("grows")
    before = node.mains("grows")
    assert confined(node) == (20_000, 204, 64 * MI)
    put(node, "400m", "96Mi")
    node.until(lambda: confined(node) == (40_000, 409, 96 * MI), "it has what it asks for")
    assert node.mains("grows") == before
    assert node.row("grows")["restarts"] == 0
    node.until(lambda: conditions(node) == {}, "the resize is over")
    told = node.explain("grows")
    assert (told["waits_for"], told["problems"]) == ("", [])
    assert any(step["what"].startswith("UpdateContainer") for step in told["tried"])
    # What is given back, with the agent dead in between.
    node.kill9()
    put(node, "100m", "32Mi")
    node.start()
    node.until(lambda: confined(node) == (10_000, 102, 32 * MI), "it has less")
    assert node.mains("grows") == before


def test_what_the_node_will_never_have_is_infeasible_and_changes_nothing(node):
    put(node, "200m", "64Mi")
    node.start()
    node.until_running("grows")
    before = node.mains("grows")
    put(node, "4000", "64Mi")
    node.until(lambda: conditions(node) == {"PodResizePending": "Infeasible"}, "it is told")
    assert confined(node) == (20_000, 204, 64 * MI)
    put(node, "300m", "64Mi")
    node.until(lambda: confined(node) == (30_000, 307, 64 * MI), "what fits is given")
    node.until(lambda: conditions(node) == {}, "nothing waits any more")
    assert node.mains("grows") == before


def test_a_policy_that_asks_for_a_restart_gets_one(node):
    put(node, "200m", "64Mi", policy=("memory",))
    node.start()
    node.until_running("grows")
    before = node.mains("grows")
    put(node, "200m", "96Mi", policy=("memory",))
    node.until(lambda: confined(node) == (20_000, 204, 96 * MI), "its next instance has what it asks for")
    assert node.mains("grows") != before
    assert node.row("grows")["restarts"] == 1


def test_less_memory_than_is_in_use_is_told_while_it_is_refused_and_given_once_it_is_free(node):
    if not Path("/sys/fs/cgroup/memory").is_dir():
        pytest.skip("needs cgroup version 1: on version 2 the kernel takes such a limit")
    script = "dd if=/dev/zero of=/dev/shm/held bs=1M count=40; trap 'rm /dev/shm/held' USR1; while :; do sleep 0.1; done"
    put(node, "200m", "96Mi", script=script)
    node.start()
    node.until_running("grows")
    before = node.mains("grows")
    node.until(lambda: usage(node) > 40 * MI, "it holds memory")
    put(node, "200m", "32Mi", script=script)
    node.until(lambda: conditions(node) == {"PodResizeInProgress": "Error"}, "it is refused and told")
    told = node.explain("grows")
    assert any(text.startswith("resize in progress: ") for text in told["problems"]), told
    assert any(step["what"] == "retry UpdateContainer" and step["in_s"] < 60 for step in told["next"])
    assert [e for e in node.json("/events?pod=grows")["events"] if e["reason"] == "ResizeError"]
    assert confined(node) == (20_000, 204, 96 * MI)
    os.kill(before["main"][0], signal.SIGUSR1)
    # By itself, without anybody telling the pod anything.
    node.until(lambda: confined(node) == (20_000, 204, 32 * MI), "it is given once there is room", 60.0)
    node.until(lambda: conditions(node) == {}, "the resize is over")
    assert node.explain("grows")["problems"] == []
    assert node.mains("grows") == before


def test_a_restart_that_a_policy_forbids_is_told(node):
    put(node, "200m", "64Mi", policy=("memory",), restart="Never")
    node.start()
    node.until_running("grows")
    before = node.mains("grows")
    put(node, "200m", "96Mi", policy=("memory",), restart="Never")
    node.until(lambda: conditions(node) == {"PodResizeInProgress": "Error"}, "it is told")
    (problem,) = node.explain("grows")["problems"]
    assert "must be restarted for the resize, which restartPolicy Never forbids" in problem
    assert node.mains("grows") == before


def usage(node):
    """Return how much memory the kernel counts for the pod's container, 0 when it does not run."""
    mains = node.mains("grows")
    if "main" not in mains:
        return 0
    return int(
        Path(
            f"/sys/fs/cgroup/memory{cgroups_of(mains['main'][0])['memory']}/memory.usage_in_bytes"
        ).read_text()
    )
