"""The life of a pod on a real containerd: start, crash, update, removal, and what goes wrong."""

import ipaddress
import json
import os
import time
from pathlib import Path

import pytest

from tests.harness.agent.agent import NODE, processes
from tests.harness.agent.node import container, fetch
from tests.harness.agent.reading import metrics
from tests.harness.agent.usage import read
from tests.harness.cri.image import BUSYBOX_NAME, USER_ID, make_image

pytestmark = pytest.mark.real
FOREVER = "exec sleep 1000000"
SERVE = "mkdir /tmp/www; echo {text} >/tmp/www/index.html; exec httpd -f -p {port} -h /tmp/www"


def test_a_pod_starts_with_an_address_of_the_network_and_the_node_reaches_it(node_of_each):
    node = node_of_each
    node.put("web", SERVE.format(text="hello", port=8080), grace=1)
    node.start()
    node.until_running("web")
    address = node.address("web")
    assert ipaddress.ip_address(address) in ipaddress.ip_network(node.runtime.subnet)
    [sandbox] = node.runtime.link.sandboxes()
    assert node.runtime.link.address(sandbox) == address
    assert fetch(address, 8080) == "hello\n"
    assert node.status("web")["containerID"].startswith("containerd://")
    assert node.status("web")["imageID"]


def test_a_container_that_crashes_is_started_again_and_both_runs_are_kept(node_of_each):
    node = node_of_each
    node.put("crash", "echo run; exit 37", grace=1)
    node.start()
    node.until(lambda: node.row("crash")["restarts"] >= 1, "it was started again")
    status = node.status("crash")
    ended = status["lastState"].get("terminated") or status["state"]["terminated"]
    assert ended["exitCode"] == 37
    assert ended["reason"] == "Error"
    assert ended["finishedAt"] >= ended["startedAt"]
    node.until_status("crash", "CrashLoopBackOff")
    assert node.printed("crash")[:2] == [["run"], ["run"]]
    assert len(node.runtime.link.sandboxes()) == 1


def test_a_killed_container_has_a_successor_within_a_second(node):
    node.put("web", FOREVER, grace=1)
    node.start()
    node.until_running("web")
    [(pid, start)] = node.mains("web").values()
    began = time.monotonic()
    os.kill(pid, 9)
    node.until(
        lambda: (m := node.mains("web")) and m["main"] != (pid, start), "its successor runs", deadline_s=10
    )
    took_s = time.monotonic() - began
    assert node.status("web")["lastState"]["terminated"]["exitCode"] == 137
    assert node.row("web")["restarts"] == 1
    assert took_s < 3.0, took_s


def test_an_updated_manifest_replaces_the_pod(node):
    node.put("web", f"echo old; {FOREVER}", grace=1)
    node.start()
    node.until_running("web")
    old, uid = node.runtime.link.sandboxes(), node.row("web")["uid"]
    node.put("web", f"echo new; {FOREVER}", grace=1)
    node.until(lambda: node.row("web")["uid"] not in ("", uid), "the new pod is known")
    node.until_running("web")
    node.until(lambda: not set(old) & set(node.runtime.link.sandboxes()), "the old sandbox is gone")
    node.until(lambda: ["new"] in node.printed("web"), "the new one spoke")
    assert node.row("web")["restarts"] == 0
    assert len(node.runtime.link.sandboxes()) == 1


def test_a_container_under_another_name_in_the_same_pod_takes_the_place_of_the_old_one(node):
    told = f"trap 'echo term; exit 0' TERM; echo on; {FOREVER.removeprefix('exec ')} & wait"
    metadata = {"name": "web", "uid": "11111111-2222-3333-4444-555555555555"}
    sidecar = container("side", FOREVER, restartPolicy="Always")
    spec = {"terminationGracePeriodSeconds": 5, "initContainers": [sidecar]}
    node.write_pod("web", metadata, spec | {"containers": [container("old", told)]})
    node.start()
    node.until(lambda: node.row("web")["ready"] == "2/2", "it is ready")
    node.until(lambda: node.printed("web", "old") == [["on"]], "it listens to signals")
    [box] = node.runtime.link.sandboxes()
    node.write_pod("web", metadata, spec | {"containers": [container("new", told)]})
    # The row may still count the old one, which is one of two that the runtime has until then.
    node.until(lambda: node.state("web", "new")[0] == "running", "the new one runs")
    node.until(lambda: node.row("web")["ready"] == "2/2", "it is ready")
    node.until(lambda: len(node.runtime.link.containers()) == 2, "nothing is kept of the old one")
    assert (list(node.runtime.link.sandboxes()), list(node.statuses("web"))) == ([box], ["new"])
    events = [(e["reason"], e["message"]) for e in node.json("/events?pod=web")["events"]]
    assert ("Killing", "Container old is no longer in the pod spec") in events
    exited = [message for reason, message in events if reason == "Exited"]
    assert exited == ["Container old exited with code 0 (Completed)"], events


def test_a_removed_pod_leaves_nothing_in_the_runtime_and_gives_its_address_back(node_of_each):
    node = node_of_each
    node.put("web", FOREVER, grace=1)
    node.start()
    node.until_running("web")
    address = node.address("web")
    given = node.runtime.folder / "addresses" / node.runtime.bridge
    assert (given / address).exists()
    node.drop("web")
    node.until_gone("web")
    node.until_empty()
    assert not (given / address).exists()


def test_a_pod_that_ignores_sigterm_gets_its_grace_and_no_more(node):
    node.put("deaf", "trap '' TERM; echo on; while :; do sleep 0.1; done", grace=2)
    node.start()
    node.until(lambda: node.printed("deaf") == [["on"]], "it began")
    began = time.monotonic()
    node.drop("deaf")
    node.until_gone("deaf")
    took_s = time.monotonic() - began
    assert 2.0 < took_s < 7.0, took_s
    node.until_empty()


def test_a_command_that_is_not_there_is_told_with_its_name_and_tried_again(node):
    node.put_pod("lost", {"name": "main", "image": BUSYBOX_NAME, "command": ["no-such-program"]})
    node.put("web", FOREVER, grace=1)
    node.start()
    node.until_running("web")

    def failure():
        status = node.status("lost")
        states = [status.get("state", {}), status.get("lastState", {})]
        return next((s["terminated"] for s in states if "terminated" in s), None)

    ended = node.until(failure, "its end is told")
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert "no-such-program" in ended["message"]
    assert "Traceback" not in node.stderr()
    node.until(lambda: node.row("lost")["restarts"] >= 1, "it is tried again")


def test_a_container_that_takes_too_much_memory_is_told_to_have(node_of_each):
    node = node_of_each
    limits = {"limits": {"memory": "24Mi"}, "requests": {"memory": "24Mi"}}
    node.put_pod("greedy", container("main", "exec tail /dev/zero", resources=limits), restartPolicy="Never")
    node.start()
    word, fields = node.until(
        lambda: node.state("greedy")[0] == "terminated" and node.state("greedy"),
        "it was killed",
        deadline_s=40,
    )
    assert (word, fields["exitCode"], fields["reason"]) == ("terminated", 137, "OOMKilled")
    node.until_status("greedy", "OOMKilled")
    labels = (("container", "main"), ("namespace", "default"), ("pod", f"greedy-{NODE}"))

    def counted():
        return metrics(node.ask("/metrics")[1]).get("container_oom_events_total", {}).get(labels)

    node.until(lambda: counted() == 1, "it is counted", deadline_s=40)
    assert not [row for row in node.json("/events")["events"] if row["reason"] == "SystemOOM"]


def test_two_containers_of_a_pod_share_one_network(node):
    ask = "until wget -q -O- http://127.0.0.1:8081; do sleep 0.1; done; exec sleep 1000000"
    node.put_pod("pair", container("serves", SERVE.format(text="shared", port=8081)), container("asks", ask))
    node.start()
    node.until(lambda: node.printed("pair", "asks") == [["shared"]], "one reached the other")
    assert fetch(node.address("pair"), 8081) == "shared\n"
    networks = {network_of(pid) for pid, _ in node.mains("pair").values()}
    assert len(networks) == 1
    assert network_of("self") not in networks


def test_a_pod_on_the_hosts_network_sees_the_hosts_and_has_its_address(node):
    node.put_pod("host", container("main", FOREVER), hostNetwork=True)
    node.start()
    node.until_running("host")
    [(pid, _)] = node.mains("host").values()
    assert network_of(pid) == network_of("self")
    status = node.pod("host")["status"]
    assert status["podIP"] == status["hostIP"]


def test_several_containers_are_stopped_side_by_side(node):
    slow = "trap 'sleep 2; exit 0' TERM; echo on; sleep 1000000 & wait"
    node.put_pod("many", *(container(f"c{n}", slow) for n in range(4)), terminationGracePeriodSeconds=20)
    node.start()
    node.until(lambda: all(node.printed("many", f"c{n}") == [["on"]] for n in range(4)), "all began")
    began = time.monotonic()
    node.drop("many")
    node.until_gone("many")
    took_s = time.monotonic() - began
    assert 2.0 < took_s < 6.0, took_s


def test_user_group_environment_and_working_folder_reach_the_process(node):
    script = "id -u; id -g; echo $GREETING; pwd; exec sleep 1000000"
    node.put_pod(
        "who",
        container(
            "main",
            script,
            env=[{"name": "GREETING", "value": "hello there"}],
            workingDir="/tmp",
            securityContext={"runAsUser": 4321, "runAsGroup": 5432},
        ),
    )
    node.start()
    node.until(lambda: len(next(iter(node.printed("who")), [])) == 4, "it spoke")
    assert node.printed("who") == [["4321", "5432", "hello there", "/tmp"]]


def test_an_images_own_entry_point_and_user_are_used(node):
    image = make_image(
        "localhost/entry:1",
        entrypoint=("sh", "-c"),
        cmd=("id -u; echo $FROM; exec sleep 1000000",),
        user="app",
        env=("FROM=image",),
    )
    node.runtime.add_images(image)
    node.put_pod("own", {"name": "main", "image": image.name, "imagePullPolicy": "Never"})
    node.start()
    node.until(lambda: len(next(iter(node.printed("own")), [])) == 2, "it spoke")
    assert node.printed("own") == [[str(USER_ID), "image"]]
    node.drop("own")
    node.until_gone("own")
    node.runtime.link.remove_image(image.name)


def test_a_finished_pod_keeps_its_exit_code_and_is_not_started_again(node):
    node.put("job", "echo done; exit 7", restart="Never")
    node.start()
    node.until_status("job", "Error")
    assert node.status("job")["state"]["terminated"]["exitCode"] == 7
    node.kill9()
    node.start()
    node.until_status("job", "Error")
    assert node.status("job")["state"]["terminated"]["exitCode"] == 7
    assert node.printed("job") == [["done"]]


def test_a_pod_whose_sandbox_dies_gets_another_one(node):
    node.put("web", FOREVER, grace=1)
    node.start()
    node.until_running("web")
    [old] = node.runtime.link.sandboxes()
    [(main, start)] = node.mains("web").values()
    pauses = [pid for pid in processes.all_pids() if runs_pause_of(pid, old)]
    [pause] = pauses
    os.kill(pause, 9)
    node.until(
        lambda: (now := node.mains("web")) and (main, start) not in now.values(),
        "it runs in a new sandbox",
        30,
    )
    node.until_running("web")
    assert node.address("web")


def test_a_pod_of_somebody_else_is_shown_and_left_alone(node):
    link = node.runtime.link
    foreign = link.run_sandbox("theirs", str(node.folder / "their-logs"))
    node.put("web", FOREVER, grace=1)
    node.start()
    node.until_running("web")
    node.drop("web")
    node.until_gone("web")
    # What the agent removes of orphans it removes with the listings that led to this removal.
    node.until(lambda: link.sandboxes() == [foreign], "only the other's pod is left")
    node.kill9()
    node.start()
    node.put("next", FOREVER, grace=1)
    node.until_running("next")
    assert foreign in link.sandboxes()
    assert link.is_sandbox_ready(foreign)


def test_a_pod_of_somebody_else_is_ended_when_the_agent_takes_over(node):
    node.runtime.link.run_sandbox("theirs", str(node.folder / "their-logs"))
    node.start("--take-over")
    node.until_empty()


def test_a_log_folder_that_cannot_be_made_is_told_and_holds_up_nothing(node):
    node.logs.write_text("a file where the folder of logs should be")
    node.put("web", FOREVER, grace=1)
    node.start(ready=False)
    node.until(lambda: "web" in node.rows(), "the pod is known")

    def told():
        text = json.dumps(node.explain("web"))
        return "log directory" in text and str(node.logs) in text and text

    node.until(told, "the folder is named")
    assert node.process.poll() is None
    assert "Traceback" not in node.stderr()
    node.logs.unlink()
    node.until_running("web", deadline_s=40)


def network_of(pid):
    """Return which network namespace a process is in."""
    return str(Path(f"/proc/{pid}/ns/net").readlink())


def runs_pause_of(pid, sandbox):
    """Tell whether a process is the one that holds a sandbox."""
    return sandbox.encode() in read(f"/proc/{pid}/cgroup") and b"pause" in read(f"/proc/{pid}/cmdline")
