"""Real pods of the embedded runtime that take too much memory: who is told what, and how soon."""

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from runtime.drivers.host.kernel.kernellog import KMSG
from runtime.drivers.host.usage.usagegroup import Hierarchies
from tests.harness.agent.agent import IMAGE, MARK, NODE
from tests.harness.agent.reading import metrics
from tests.harness.cgroups import first_value
from tests.harness.part import need

pytestmark = [pytest.mark.real, pytest.mark.slow]
MI = 1 << 20
POOL = 150
"""MiB that pods have together."""
DEADLINE_S = 60.0
PERIOD_S = 10.0
HOLD = f"{sys.executable} -c \"import time; x = bytearray(b'x') * ({{mib}} << 20); time.sleep(1000000)\""
FOREVER = "exec sleep 1000000"
NO_LOG = 'mount --bind /dev/null /dev/kmsg && exec "$@"'


@pytest.fixture
def limited(agent):
    """Return an agent on a machine where memory can be limited, not started yet."""
    need("root")
    if not os.access("/sys/fs/cgroup/memory", os.W_OK) and not Path("/sys/fs/cgroup/memory.stat").exists():
        pytest.skip("needs a hierarchy of the memory controller that may be written to")
    return agent


@pytest.fixture
def heard(limited):
    """Return such an agent on a machine whose kernel log may be read."""
    try:
        os.close(os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        pytest.skip(f"needs {KMSG}: {error.strerror}")
    return limited


def limit_pods(agent, mib, **fields):
    """Configure the agent so that all its pods together have so much memory: containers have no limits here."""
    capacity = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    agent.configure(systemReserved={"memory": str(capacity - mib * MI)}, **fields)


def put(agent, name, script, restart="Never"):
    """Write a pod with one container."""
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["sh", "-c", script],
        "env": [{"name": MARK, "value": str(agent.folder)}],
    }
    spec = {"restartPolicy": restart, "terminationGracePeriodSeconds": 1, "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    agent.write(f"{name}.yaml", json.dumps(pod))


def counted(agent, name):
    """Return how many kills of a pod's container are counted, None when nothing is said of it."""
    labels = (("container", "main"), ("namespace", "default"), ("pod", f"{name}-{NODE}"))
    return metrics(agent.ask("/metrics")[1]).get("container_oom_events_total", {}).get(labels)


def kills(agent):
    return agent.json("/eviction")["oom_kills"]


def test_a_container_that_takes_too_much_says_oomkilled_and_is_counted(heard):
    agent = heard
    limit_pods(agent, POOL, evictionHard={})
    put(agent, "greedy", f"exec {HOLD.format(mib=2 * POOL)}")
    put(agent, "modest", FOREVER)
    agent.start()
    agent.until_status("greedy", "OOMKilled", DEADLINE_S)
    ended = agent.statuses("greedy")["main"]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
    agent.until(lambda: counted(agent, "greedy") == 1, "it is counted", DEADLINE_S)
    agent.until(lambda: counted(agent, "modest") == 0, "others have none", DEADLINE_S)
    mine = [line for line in kills(agent) if line.startswith(f"default/greedy-{NODE}/main: python")]
    assert len(mine) == 1, kills(agent)
    assert "limit of /nodeagent-" in mine[0]
    assert "container OOM kill" in agent.stderr()
    assert [row for row in agent.json("/events")["events"] if row["reason"] == "SystemOOM"] == []
    assert mine[0].partition(",")[0] in agent.verb("explain", "eviction").stdout
    tree = agent.verb("actors", "--tree").stdout
    assert "OomWatcher" in tree


def test_a_killed_child_is_counted_and_the_container_runs_on(heard):
    agent = heard
    limit_pods(agent, POOL, evictionHard={})
    put(agent, "parent", f"{HOLD.format(mib=2 * POOL)}; {HOLD.format(mib=2 * POOL)}; {FOREVER}")
    agent.start()
    agent.until(lambda: counted(agent, "parent") == 2, "both are counted", DEADLINE_S)
    assert agent.row("parent")["status"] == "Running"
    assert agent.row("parent")["restarts"] == 0


def test_without_the_kernels_log_cgroups_are_counted_and_that_is_said(limited):
    agent = limited
    if not shutil.which("unshare"):
        pytest.skip("needs unshare to take the kernel's log away")
    limit_pods(agent, POOL, evictionHard={})
    command = agent.command
    agent.command = lambda *flags, **more: (
        *("unshare", "-m", "sh", "-c", NO_LOG, "sh"),
        *command(*flags, **more),
    )
    wait = f"while ! test -e {agent.folder}/go; do sleep 0.1; done"
    put(agent, "parent", f"{wait}; {HOLD.format(mib=2 * POOL)}; {FOREVER}")
    put(agent, "greedy", f"{wait}; exec {HOLD.format(mib=2 * POOL)}")
    agent.start()
    agent.until(lambda: counted(agent, "parent") == 0, "it is read", DEADLINE_S)
    agent.until(lambda: "/dev/kmsg" in agent.ask("/healthz?verbose")[1].decode(), "it is said", DEADLINE_S)
    (agent.folder / "go").touch()
    agent.until(lambda: counted(agent, "parent") == 1, "it is counted", DEADLINE_S)
    assert agent.row("parent")["status"] == "Running"
    agent.until_status("greedy", "OOMKilled", DEADLINE_S)
    assert agent.stderr().count("kernel log not readable") == 1


def test_a_crossed_threshold_wakes_eviction_before_its_round(limited):
    agent = limited
    hard = {"memory.available": "100Mi"}
    limit_pods(agent, 700, evictionHard=hard, evictionPressureTransitionPeriod="20s")
    agent.start()
    root = Hierarchies().root("memory")
    if root is None or root.v2:
        pytest.skip(
            "needs the memory hierarchy of cgroup version 1: on version 2 the kernel tells of stalls only"
        )
    group = Path(f"{root.folder}/{agent.cgroup_name()}/kubepods")
    agent.until(group.exists, "the pods' cgroup is there")

    def limit_of():
        return int(first_value([group], "memory.limit_in_bytes"))

    agent.until(lambda: limit_of() <= 700 * MI, "it has its limit")
    limit = limit_of()
    assert limit > 200 * MI
    script = f"while ! test -e {agent.folder}/go; do sleep 0.01; done; {HOLD.format(mib=(limit // MI) - 60)}"
    put(agent, "hog", script)
    agent.until_status("hog", "Running")
    agent.until(lambda: "notifies when" in agent.json("/eviction")["kernel"], "the kernel is heard")

    def number():
        status, body = agent.ask("/usage")
        return json.loads(body)["round"] if status == 200 else 0

    # The first rounds follow each other sooner; from right after one of the others the next is a whole period away.
    agent.until(lambda: number() >= 5, "the first rounds are over", DEADLINE_S)
    before = number()
    agent.until(lambda: number() > before, "a round has just been told", 3 * PERIOD_S)
    (agent.folder / "go").touch()
    began = time.monotonic()
    agent.until(lambda: agent.json("/eviction")["victims"], "the hog is chosen", DEADLINE_S)
    took_s = time.monotonic() - began
    told = agent.json("/eviction")
    assert told["victims"][0]["pod"] == f"default/hog-{NODE}"
    assert told["victims"][0]["signal"] == "allocatableMemory.available"
    assert "so far" in told["kernel"], told["kernel"]
    trace = agent.verb("trace", "/node/eviction").stdout
    assert "Heard memory.crossings: MemoryCrossed allocatableMemory.available" in trace
    assert took_s < PERIOD_S - 1.0, f"{took_s:.1f} s\n{trace}"
    agent.until_status("hog", "Evicted", DEADLINE_S)


def test_who_wants_rounds_only_gets_them(limited):
    agent = limited
    agent.configure(evictionHard={"memory.available": "1Mi"}, kernelMemcgNotification=False)
    agent.start()
    agent.until(lambda: agent.ask("/eviction")[0] == 200, "eviction has begun")
    assert agent.json("/eviction")["kernel"] == "no notifications: memory is read every 10 s only"
