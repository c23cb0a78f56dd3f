"""Init containers and sidecars on a real containerd: order, retries, another sandbox, the end of a job."""

import os

import pytest

from tests.harness.agent.agent import processes
from tests.harness.agent.node import container
from tests.harness.agent.usage import read

pytestmark = pytest.mark.real
FOREVER = "exec sleep 1000000"
BESIDE = "echo up; trap 'echo down; exit 0' TERM; sleep 1000000 & wait"


def test_an_init_container_that_fails_is_tried_again_and_all_come_before_the_main(node_of_each):
    node = node_of_each
    gate = node.folder / "gate"
    gate.mkdir()
    mounts = [{"name": "gate", "mountPath": "/gate"}]
    second = container("second", "echo try; test -e /gate/open || exit 3", volumeMounts=mounts)
    node.put_pod(
        "web",
        container("main", f"echo main; {FOREVER}"),
        initContainers=[container("first", "echo first"), second],
        volumes=[{"name": "gate", "hostPath": {"path": str(gate)}}],
    )
    node.start()
    node.until_status("web", "Init:CrashLoopBackOff")
    assert node.printed("web") == []
    assert node.init_statuses("web")["second"]["lastState"]["terminated"]["exitCode"] == 3
    assert node.statuses("web")["main"]["state"]["waiting"]["reason"] == "PodInitializing"
    (gate / "open").touch()
    node.until_running("web", deadline_s=60)
    assert node.printed("web", "first") == [["first"]]
    assert node.printed("web", "second") == [["try"], ["try"]], "the last run and the one before it are kept"
    assert node.printed("web") == [["main"]]
    status = node.init_statuses("web")["second"]
    assert status["ready"]
    assert status["restartCount"] >= 2
    node.drop("web")
    node.until_gone("web")
    node.until_empty()


def test_a_sidecar_outlives_the_init_containers_and_ends_with_the_job(node_of_each):
    node = node_of_each
    node.put_pod(
        "job",
        container("main", "echo main; exit 0"),
        initContainers=[
            container("side", BESIDE, restartPolicy="Always"),
            container("prepare", "echo prepared"),
        ],
        restartPolicy="Never",
        terminationGracePeriodSeconds=10,
    )
    node.start()
    node.until_status("job", "Completed")
    assert node.phase("job") == "Succeeded"
    assert node.printed("job", "side") == [["up", "down"]]
    assert node.printed("job", "prepare") == [["prepared"]]
    side = node.init_statuses("job")["side"]["state"]["terminated"]
    assert side["startedAt"] <= node.statuses("job")["main"]["state"]["terminated"]["finishedAt"]


def test_what_an_init_container_leaves_in_a_volume_is_there_for_the_main(node):
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    node.put_pod(
        "web",
        container("main", f"cat /shared/word; {FOREVER}", volumeMounts=mounts),
        initContainers=[container("prepare", "echo hello >/shared/word", volumeMounts=mounts)],
        volumes=[{"name": "shared", "emptyDir": {}}],
    )
    node.start()
    node.until_running("web")
    node.until(lambda: node.printed("web") == [["hello"]], "it read what was prepared")


def test_a_sandbox_that_dies_lets_every_init_container_run_again(node):
    node.put_pod(
        "web",
        container("main", f"echo main; {FOREVER}"),
        initContainers=[
            container("first", "echo first"),
            container("side", BESIDE, restartPolicy="Always"),
        ],
    )
    node.start()
    node.until_running("web")
    node.until(lambda: node.row("web")["ready"] == "2/2", "both are ready")
    [old] = node.runtime.link.sandboxes()
    [pause] = [pid for pid in processes.all_pids() if runs_pause_of(pid, old)]
    os.kill(pause, 9)
    node.until(
        lambda: (
            node.init_statuses("web")["first"].get("restartCount") == 1 and node.row("web")["ready"] == "2/2"
        ),
        "all of it runs in a new sandbox",
        60,
    )
    node.until(lambda: node.runtime.link.sandboxes() != [old], "the old sandbox is gone")
    # The record and the log of the first run went with the old sandbox: its number was not used twice.
    assert node.printed("web", "first") == [["first"]]
    assert node.statuses("web")["main"]["restartCount"] == 1
    assert "conditions" in node.pod("web")["status"]


def runs_pause_of(pid, sandbox):
    """Tell whether a process is the one that holds a sandbox."""
    return sandbox.encode() in read(f"/proc/{pid}/cgroup") and b"pause" in read(f"/proc/{pid}/cmdline")
