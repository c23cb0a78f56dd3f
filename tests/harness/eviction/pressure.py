"""What the tests of real pressure share: pods that hold memory, what the kernel counts of them, what evictions say.

The node's pods are confined for the test through the agent's own configuration: all but `PODS_MIB` of the machine's
memory is reserved, so that the machine itself is never short of anything.
"""

import re
from pathlib import Path

import pytest

from runtime.drivers.host.cgroups.cgroupfile import mounted_hierarchies
from tests.harness.agent.agent import NODE
from tests.harness.agent.reading import agree, groups_of, metrics, pod_named, value, working_set
from tests.harness.part import need

MIB = 1 << 20
PODS_MIB = 300
"""What all pods may use together."""
LEAST_MIB = 100
"""What of it must stay available."""
LOW_ON = re.compile(
    r"The node was low on resource: (\S+)\. Threshold quantity: (\S+), available: (\S+)\. "
    r"(?:Container main was using (\S+), request is (\S+), has larger consumption of (\S+)\. )?"
)
DEADLINE_S = 120.0


def need_memory_cgroups():
    """Skip the test where the memory of cgroups cannot be limited and read as these tests do."""
    need("root")
    if not any("memory" in one.controllers and not one.unified for one in mounted_hierarchies()):
        pytest.skip("needs the memory controller in a hierarchy of version 1")


def confined(**more):
    """Return the configuration of an agent whose pods may use `PODS_MIB` together, of which `LEAST_MIB` stay free."""
    total_kib = value(Path("/proc/meminfo"), "MemTotal:")
    return {
        "enforceNodeAllocatable": ["pods"],
        "systemReserved": {"memory": f"{total_kib - PODS_MIB * 1024}Ki"},
        "evictionHard": {"memory.available": f"{LEAST_MIB}Mi"},
        **more,
    }


def amount(text):
    """Return an amount as messages write it in bytes."""
    units = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
    return int(text[:-2]) * units[text[-2:]] if text[-2:] in units else int(text)


def low_on(message):
    """Return the parts of an eviction's message: resource, threshold, available, used, request, resource again."""
    found = LOW_ON.fullmatch(message)
    assert found, message
    resource, least, available, used, request, again = found.groups()
    used = None if used is None else amount(used)
    return resource, amount(least), amount(available), used, request, again


class Kernel:
    """What the kernel counts of a container and of all pods, read again and again by `read` while it is there."""

    def __init__(self):
        self.readings = []

    def read(self, agent, name):
        """Read the working sets of a pod's only container and of all pods; nothing while it does not run."""
        for pid, _ in agent.mains(name).values():
            try:
                own = groups_of(pid)["memory"]
                pods = next(at for at in own.parents if at.name == "kubepods")
                limit = value(pods / "memory.limit_in_bytes")
                assert limit == PODS_MIB * MIB, "all pods together are limited"
                self.readings.append((limit - working_set(pods), working_set(own)))
            except (OSError, KeyError, StopIteration):
                return

    def has(self, available, used):
        """Tell whether the kernel said these two: at one reading, or in between of two while what is used grew."""
        before = (PODS_MIB * MIB, 0)
        for reading in self.readings:
            least, most = sorted((before[0], reading[0]))
            if is_between(available, least, most) and is_between(used, before[1], reading[1]):
                return True
            before = reading
        return False


def is_between(value, least, most):
    """Tell whether a figure is between two others, or differs from one of them by two per cent at most."""
    return least <= value <= most or agree(value, least) or agree(value, most)


def is_as_the_kernel_says(agent, name):
    """Tell whether summary and metrics agree with the kernel on a pod's memory and on that of all pods together."""
    kernel = Kernel()
    kernel.read(agent, name)
    summary = agent.json("/stats/summary")
    page = metrics(agent.ask("/metrics")[1])
    [pods] = [one for one in summary["node"]["systemContainers"] if one["name"] == "pods"]
    found = pod_named(summary, f"{name}-{NODE}")["containers"][0]["memory"]["workingSetBytes"]
    labels = (("container", "main"), ("namespace", "default"), ("pod", f"{name}-{NODE}"))
    [(available, used)] = kernel.readings
    return (
        agree(pods["memory"]["workingSetBytes"], PODS_MIB * MIB - available)
        and agree(pods["memory"]["availableBytes"], available)
        and agree(found, used)
        and agree(page["container_memory_working_set_bytes"][labels], used)
    )


def status_of(agent, name):
    """Return the whole status of a pod."""
    items = agent.json("/pods")["items"]
    return next((p["status"] for p in items if p["metadata"]["name"].startswith(f"{name}-")), {})


def disruption(status):
    """Return the conditions that say that a pod was disrupted."""
    return [c for c in status.get("conditions", ()) if c["type"] == "DisruptionTarget"]


def until_evicted(agent, name, beside=lambda: None):
    """Wait until a pod is evicted, doing something `beside`; return its status."""

    def is_evicted():
        beside()
        return status_of(agent, name).get("reason") == "Evicted"

    agent.until(is_evicted, f"{name} is evicted", DEADLINE_S)
    status = status_of(agent, name)
    assert status["phase"] == "Failed"
    return status


def evicted(agent):
    """Return the names and messages of the pods that were evicted, in this order."""
    rows = agent.json("/events")["events"]
    return [(row["pod"].rpartition("-")[0], row["message"]) for row in rows if row["reason"] == "Evicted"]


def node_events(agent, *reasons):
    """Return (reason, message) of the node's events of these reasons."""
    rows = agent.json("/events")["events"]
    return [(row["reason"], row["message"]) for row in rows if row["reason"] in reasons]


def explained(agent, *words):
    """Return what ``explain eviction`` prints."""
    done = agent.verb("explain", "eviction", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def first_to_go(agent, signal):
    """Return the names of the pods as they would go for a signal, the first first, with their verdicts."""
    told = agent.json("/eviction")
    rows = next(r["pods"] for r in (*told["short_of"], *told["if_short"]) if r["signal"] == signal)
    return [(row["pod"].removeprefix("default/").rpartition("-")[0], row["verdict"]) for row in rows]
