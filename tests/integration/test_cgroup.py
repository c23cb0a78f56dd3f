"""Pods of the embedded runtime in cgroups of their own: limits, classes of service, what is left; and without cgroups."""

import contextlib
import json
import os
import shutil
from pathlib import Path

import pytest

from runtime.drivers.host.cgroups.cgroupfile import mounted_hierarchies
from tests.harness.cgroups import BOMB, blind, first_value, stamps, tasks

pytestmark = pytest.mark.real
LIMIT = 40


def controllers():
    """Return the controllers that a cgroup can be made with here."""
    found = set()
    for one in mounted_hierarchies():
        if os.access(one.root, os.W_OK):
            found |= set(one.controllers)
    return found


@pytest.fixture
def limited(agent):
    """Return an agent on a machine whose cgroups may be written, not started yet."""
    if not {"cpu", "memory", "pids"} <= controllers() or os.geteuid() != 0:
        pytest.skip("needs hierarchies of cpu, memory and pids that may be written to: run as root")
    return agent


def groups(agent, uid):
    """Return the cgroups of a pod of this agent."""
    return [path for root in agent.cgroups() for path in root.rglob(f"pod{uid}")]


@contextlib.contextmanager
def standing(name):
    """Have a cgroup of the operator's own for a while, in each hierarchy of CPU, memory and processes; yield its paths."""
    limiting = {"cpu", "memory", "pids"}
    roots = [one.root for one in mounted_hierarchies() if not limiting.isdisjoint(one.controllers)]
    paths = [Path(f"{root}{name}") for root in roots]
    try:
        for path in paths:
            path.mkdir()
        yield paths
    finally:
        for path in paths:
            if path.is_dir():
                path.rmdir()


def requests(**amounts):
    return {"resources": {"requests": amounts}}


def put(agent, name, script="exec sleep 100000", **container):
    document = {
        "name": "main",
        "image": "nodeagent.local/host",
        "command": ["sh", "-c", script],
        "env": [{"name": "HARNESS_FOLDER", "value": str(agent.folder)}],
        **container,
    }
    spec = {"terminationGracePeriodSeconds": 1, "containers": [document]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    agent.write(f"{name}.yaml", json.dumps(pod))


def test_a_container_that_forks_without_end_stays_within_its_pods_limit(limited):
    agent = limited
    agent.configure(podPidsLimit=LIMIT)
    put(agent, "calm")
    agent.start()
    agent.until_status("calm", "Running")
    put(agent, "bomb", BOMB)
    agent.until_status("bomb", "Running")
    uid = agent.row("bomb")["uid"]
    agent.until(lambda: tasks(groups(agent, uid)) >= LIMIT - 1, "it forked as often as it may")
    assert first_value(groups(agent, uid), "pids.max") == str(LIMIT)
    assert tasks(groups(agent, uid)) <= LIMIT
    # The rest of the node goes on: the other pod, new pods, the agent itself.
    assert agent.row("calm")["restarts"] == 0
    put(agent, "late")
    agent.until_status("late", "Running")
    agent.drop("bomb")
    agent.until_gone("bomb")
    agent.until(lambda: not groups(agent, uid), "its cgroup is gone")
    assert {agent.row(name)["status"] for name in ("calm", "late")} == {"Running"}


def test_pods_are_in_the_cgroup_of_their_class_and_the_class_has_what_they_request(limited):
    agent = limited
    agent.start()
    put(agent, "best")
    put(agent, "burst", **requests(cpu="500m", memory="32Mi"))
    for name in ("best", "burst"):
        agent.until_status(name, "Running")
    best, burst = (groups(agent, agent.row(name)["uid"]) for name in ("best", "burst"))
    assert {path.parent.name for path in best} == {"besteffort"}
    assert {path.parent.name for path in burst} == {"burstable"}
    assert first_value(best, "cpu.shares", "cpu.weight") in ("2", "1")
    assert first_value(burst, "cpu.shares", "cpu.weight") in ("512", "20")
    tiers = {path.parent for path in burst}
    agent.until(
        lambda: first_value(tiers, "cpu.shares", "cpu.weight") in ("512", "20"), "the class has the sum"
    )
    ((pid, _),) = agent.mains("burst").values()
    assert any(str(pid) in at.read_text().split() for path in burst for at in path.glob("*/cgroup.procs"))
    reasons = [row["reason"] for row in agent.json("/events")["events"]]
    assert reasons.count("NodeAllocatableEnforced") == 1
    put(agent, "more", **requests(cpu="250m"))
    agent.until(
        lambda: first_value(tiers, "cpu.shares", "cpu.weight") in ("768", "30"), "the class has the sum"
    )
    agent.drop("burst")
    agent.until_gone("burst")
    agent.until(
        lambda: first_value(tiers, "cpu.shares", "cpu.weight") in ("256", "10"), "the class has the sum"
    )


def test_a_restart_of_the_agent_changes_no_cgroup(limited):
    agent = limited
    agent.configure(podPidsLimit=LIMIT)
    put(agent, "burst", **requests(cpu="500m"))
    agent.start()
    agent.until_status("burst", "Running")
    mains, uid = agent.mains("burst"), agent.row("burst")["uid"]
    made = stamps(groups(agent, uid))
    for end in (agent.stop, agent.kill9):
        end()
        agent.start()
        agent.until_status("burst", "Running")
        assert agent.mains("burst") == mains
        assert stamps(groups(agent, uid)) == made
    assert first_value(made, "pids.max") == str(LIMIT)


def test_what_stands_empty_is_removed_when_the_agent_stops(limited):
    agent = limited
    put(agent, "best")
    agent.start()
    agent.until_status("best", "Running")
    assert agent.cgroups()
    agent.drop("best")
    agent.until_gone("best")
    agent.stop()
    agent.until(lambda: not agent.cgroups(), "nothing is left among the cgroups")


def test_where_cgroups_may_not_be_written_pods_run_and_one_notice_says_so(agent):
    if os.geteuid() != 0 or not mounted_hierarchies() or not shutil.which("unshare"):
        pytest.skip("needs root, cgroups and unshare to take the right to write them away")
    blind(agent)
    agent.configure(podPidsLimit=LIMIT)
    for name in ("one", "two"):
        put(agent, name, **requests(cpu="100m"))
    agent.start()
    for name in ("one", "two"):
        agent.until_status(name, "Running")
    notices = [row for row in agent.json("/events")["events"] if "cgroup" in row["message"].lower()]
    assert [(row["pod"], row["reason"], row["count"]) for row in notices] == [
        ("node/n1", "CgroupsNotEnforced", 1)
    ]
    (notice,) = notices
    assert notice["message"].startswith("pods are not limited as a whole: cgroup ")
    assert "Read-only file system" in notice["message"]
    assert agent.stderr().count("CgroupsNotEnforced") == 1
    assert "Read-only" in agent.ask("/healthz?verbose")[1].decode()
    for name in ("one", "two"):
        told = agent.explain(name)
        assert (told["waits_for"], told["problems"]) == ("", []), "the node says it, not each pod"
    for name in ("one", "two"):
        agent.drop(name)
    agent.until_gone("one", "two")


def test_a_reservation_beyond_the_machine_is_said_at_the_start(agent):
    agent.configure(kubeReserved={"memory": "900Ti"})
    ended = agent.run()
    assert ended.returncode != 0
    assert 'Resource "memory" has a reservation of 989560569856000 but capacity of' in ended.stderr


def test_a_reserved_cgroup_must_be_there_and_gets_its_values(limited):
    agent = limited
    name = f"/nodeagent-kube-{os.getpid()}"
    agent.configure(
        kubeReserved={"cpu": "500m", "memory": "64Mi", "pid": "100"},
        kubeReservedCgroup=name,
        enforceNodeAllocatable=["pods", "kube-reserved"],
    )
    ended = agent.run()
    assert ended.returncode != 0
    assert f'Failed to enforce Kube Reserved Cgroup Limits on "{name}": ' in ended.stderr
    with standing(name) as paths:
        agent.start()
        assert first_value(paths, "pids.max") == "100"
        assert first_value(paths, "memory.limit_in_bytes", "memory.max") == str(64 << 20)
        assert first_value(paths, "cpu.shares", "cpu.weight") in ("512", "20")
        agent.until(
            lambda: any(
                row["message"] == f"Updated limits on kube reserved cgroup {name}"
                for row in agent.json("/events")["events"]
            ),
            "it is told",
        )
        agent.stop()
        assert all(path.is_dir() for path in paths), "the operator's cgroup is not removed"


def test_a_reservation_without_cpu_leaves_the_share_of_its_cgroup_alone(limited):
    agent = limited
    name = f"/nodeagent-system-{os.getpid()}"
    agent.configure(
        systemReserved={"memory": "64Mi"},
        systemReservedCgroup=name,
        enforceNodeAllocatable=["pods", "system-reserved"],
    )
    with standing(name) as paths:
        before = first_value(paths, "cpu.shares", "cpu.weight")
        agent.start()
        agent.until(
            lambda: first_value(paths, "memory.limit_in_bytes", "memory.max") == str(64 << 20),
            "it has the memory that is reserved",
        )
        assert first_value(paths, "cpu.shares", "cpu.weight") == before
        agent.stop()
