"""What a real agent on a real containerd writes of its pods' cgroups: each class with its values, until the pod is gone."""

from pathlib import Path

import pytest

from tests.conformance.containers.cri import cgroups_of
from tests.harness.agent.node import container
from tests.harness.cgroups import BOMB, blind, first_value, stamps, tasks
from tests.harness.cri.containerd import CGROUPS

pytestmark = pytest.mark.real
FOREVER = "exec sleep 1000000"
LIMIT = 60
MI = 1 << 20

CLASSES = {
    # Name: resources of the container, folder of the class, what the pod's files of version 1 say.
    "best": ({}, "besteffort", ("2", "-1", "")),
    "burst": (
        {"requests": {"cpu": "100m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
        "burstable",
        ("102", "-1", str(64 * MI)),
    ),
    "sure": ({"limits": {"cpu": "250m", "memory": "32Mi"}}, "kubepods", ("256", "25000", str(32 * MI))),
}


@pytest.fixture
def limited(node):
    """Return an agent whose pods may have few processes, not started yet."""
    if not all((CGROUPS / name).is_dir() for name in ("cpu", "memory", "pids")):
        pytest.skip("needs controllers of cgroup version 1, mounted one by one")
    node.configure(podPidsLimit=LIMIT)
    return node


def groups(node, name):
    """Return the cgroups of a pod, by its name."""
    return of_uid(node, node.row(name)["uid"])


def of_uid(node, uid):
    root = node.runtime.cgroup_root.strip("/")
    return [path for at in CGROUPS.glob(f"*/{root}") for path in at.rglob(f"pod{uid}")]


def shown(paths):
    """Return CPU shares, quota and memory limit of a pod."""
    memory = first_value(paths, "memory.limit_in_bytes")
    return (
        first_value(paths, "cpu.shares"),
        first_value(paths, "cpu.cfs_quota_us"),
        "" if int(memory) >= 1 << 62 else memory,
    )


def test_pods_of_each_class_have_their_values_until_they_are_gone(limited):
    node = limited
    for name, (resources, _, _) in CLASSES.items():
        node.put_pod(name, container("main", FOREVER, resources=resources))
    node.start()
    node.until_running(*CLASSES)
    made = {name: groups(node, name) for name in CLASSES}
    for name, (_, tier, values) in CLASSES.items():
        assert shown(made[name]) == values, name
        assert {path.parent.name for path in made[name]} == {tier}
        assert first_value(made[name], "pids.max") == str(LIMIT)
        # Its containers are really in it: the sandbox and the container.
        assert tasks(made[name]) >= 2
    root = CGROUPS / "cpu" / node.runtime.cgroup_root.strip("/") / "kubepods"
    node.until(lambda: first_value([root / "burstable"], "cpu.shares") == "102", "Burstable has the sum")
    assert first_value([root / "besteffort"], "cpu.shares") == "2"
    mains, before = node.mains("sure"), {name: stamps(paths) for name, paths in made.items()}
    for end in (node.stop, node.kill9):
        end()
        node.start()
        node.until_running(*CLASSES)
        node.until(
            lambda: [
                row for row in node.json("/events")["events"] if row["reason"] == "NodeAllocatableEnforced"
            ],
            "the node's cgroups were looked at",
        )
        assert node.mains("sure") == mains
        assert {name: stamps(paths) for name, paths in made.items()} == before
        assert {name: shown(paths) for name, paths in made.items()} == {n: c[2] for n, c in CLASSES.items()}
    for name in CLASSES:
        node.drop(name)
    node.until_gone(*CLASSES)
    node.until_empty()
    left = [path for paths in made.values() for path in paths]
    node.until(lambda: not any(path.exists() for path in left), "their cgroups are gone")
    assert all((root / tier).is_dir() for tier in ("burstable", "besteffort"))
    node.until(
        lambda: first_value([root / "burstable"], "cpu.shares") == "2", "Burstable has nothing to give"
    )


def test_a_pod_that_asks_for_its_amounts_as_a_whole_shares_them_among_its_containers(limited):
    node = limited

    def put(milli, memory):
        amounts = {"cpu": f"{milli}m", "memory": f"{memory}Mi"}
        spec = {
            "terminationGracePeriodSeconds": 1,
            "containers": [container(name, FOREVER) for name in ("a", "b")],
            "resources": {"requests": amounts, "limits": amounts},
        }
        node.write_pod("whole", {"name": "whole", "uid": "fixed-whole"}, spec)

    put(300, 48)
    node.start()
    node.until_running("whole")
    paths, before = groups(node, "whole"), node.mains("whole")
    assert shown(paths) == ("307", "30000", str(48 * MI))
    assert {path.parent.name for path in paths} == {"kubepods"}, "it is Guaranteed as a whole"
    assert node.pod("whole")["status"]["qosClass"] == "Guaranteed"

    def own(name):
        place = cgroups_of(node.mains("whole")[name][0])["memory"]
        return (CGROUPS / "memory" / place.strip("/") / "memory.limit_in_bytes").read_text().strip()

    assert {own(name) for name in ("a", "b")} == {str(48 * MI)}, "what a container leaves open is the pod's"
    for milli, memory in ((500, 64), (200, 32)):
        put(milli, memory)
        values = (str(milli * 1024 // 1000), str(milli * 100), str(memory * MI))
        node.until(lambda values=values: shown(paths) == values, "the pod as a whole has other amounts")
        assert {own(name) for name in ("a", "b")} == {str(memory * MI)}
    assert node.mains("whole") == before
    assert node.explain("whole")["problems"] == []


def test_a_container_that_forks_without_end_stays_within_its_pods_limit(limited):
    node = limited
    node.put("calm", FOREVER, grace=1)
    node.start()
    node.until_running("calm")
    node.put("bomb", BOMB, grace=1)
    node.until_running("bomb")
    paths = groups(node, "bomb")
    node.until(lambda: tasks(paths) >= LIMIT - 1, "it forked as often as it may")
    assert tasks(paths) <= LIMIT
    node.put("late", FOREVER, grace=1)
    node.until_running("late")
    assert node.row("calm")["restarts"] == 0
    node.drop("bomb")
    node.until_gone("bomb")
    node.until(lambda: not any(path.exists() for path in paths), "its cgroup is gone")
    assert {node.row(name)["status"] for name in ("calm", "late")} == {"Running"}


def test_where_cgroups_may_not_be_written_pods_run_and_one_notice_says_so(limited):
    node = limited
    blind(node)
    for name, (resources, _, _) in CLASSES.items():
        node.put_pod(name, container("main", FOREVER, resources=resources))
    node.start()
    node.until_running(*CLASSES)

    def told():
        rows = node.json("/events")["events"]
        return [(row["reason"], row["count"]) for row in rows if "cgroup" in row["message"].lower()]

    # The node's cgroups are looked at beside its pods, not before them.
    node.until(told, "it is said")
    assert told() == [("CgroupsNotEnforced", 1)]
    assert node.stderr().count("CgroupsNotEnforced") == 1
    for name in CLASSES:
        node.drop(name)
    node.until_gone(*CLASSES)


def test_pods_move_when_the_nodes_cgroups_do_and_leave_nothing_behind(limited):
    node = limited
    node.put("web", FOREVER, grace=1)
    node.put("once", FOREVER, grace=1, restart="Never")
    node.start()
    node.until_running("web", "once")
    mains, old = node.mains("web"), groups(node, "web") + groups(node, "once")
    node.stop()
    node.configure(cgroupRoot=f"{node.runtime.cgroup_root}/deeper")
    node.start()
    node.until(lambda: (now := node.mains("web")) and now != mains, "it was started anew")
    node.until(lambda: node.row("once")["status"] != "Running", "what is never restarted is not")
    node.until(lambda: not any(path.exists() for path in old if "web" in str(path)), "the old one is gone")
    assert all(path.parent.parent.parent.name == "deeper" for path in groups(node, "web"))
    uid = node.row("web")["uid"]
    node.until(lambda: all("deeper" in str(path) for path in of_uid(node, uid)), "it is in the new one only")
    assert Path(f"/sys/fs/cgroup/cpu{node.runtime.cgroup_root}/deeper/kubepods").is_dir()
