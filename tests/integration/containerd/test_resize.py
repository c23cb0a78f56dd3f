"""In-place resize on a real containerd: other amounts for a process that runs on, restarts where they are asked for."""

from pathlib import Path

import pytest

from tests.conformance.containers.cri import cgroups_of
from tests.harness.image import BUSYBOX_NAME

pytestmark = pytest.mark.real
FOREVER = "exec sleep 1000000"
MI = 1 << 20


def put(node, cpu, memory, *, limits=True, policy=()):
    """Write the manifest of a pod that keeps its UID, with these amounts."""
    amounts = {"cpu": cpu, "memory": memory}
    resources = {"requests": amounts} | ({"limits": amounts} if limits else {})
    container = {
        "name": "main",
        "image": BUSYBOX_NAME,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", FOREVER],
        "resources": resources,
        "resizePolicy": [{"resourceName": name, "restartPolicy": "RestartContainer"} for name in policy],
    }
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
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
