"""The story of a memory hog, told on whatever runtime: `put(agent, name, mib, requests=..., limits=...)` writes a pod."""

from tests.harness.agent.reading import agree
from tests.harness.eviction.pressure import (
    LEAST_MIB,
    MIB,
    PODS_MIB,
    Kernel,
    confined,
    disruption,
    evicted,
    explained,
    first_to_go,
    is_as_the_kernel_says,
    low_on,
    node_events,
    until_evicted,
)

SIGNAL = "allocatableMemory.available"
OTHERS = ("sure", "modest", "small")
HOG_MIB = 160
TRANSITION_S = 15


def put_others(agent, put):
    """Start an agent with a pod of each class of service where there are limits, each within what it asked for."""
    agent.configure(**confined(evictionPressureTransitionPeriod=f"{TRANSITION_S}s"))
    asked = {"memory": "48Mi", "cpu": "500m"}
    put(agent, "sure", 20, requests=asked, limits=asked)
    put(agent, "modest", 25, requests={"memory": "64Mi"})
    put(agent, "small", 4)
    agent.start()
    for name in OTHERS:
        agent.until_status(name, "Running")


def hog_goes_and_pressure_returns(agent, put):
    """See that only the hog goes, with the kernel's numbers; that newcomers wait outside; that all is well again."""
    put_others(agent, put)
    agent.until(lambda: dict(first_to_go(agent, SIGNAL)).get("small") == "next", "all are read", 30.0)
    agent.until(
        lambda: is_as_the_kernel_says(agent, "modest"), "all pods together, and one, are what they are", 30.0
    )
    assert "nothing: no threshold is met" in explained(agent)

    kernel = Kernel()
    put(agent, "hog", HOG_MIB, requests={"memory": "16Mi"})
    status = until_evicted(agent, "hog", lambda: kernel.read(agent, "hog"))
    put(agent, "early", 1)
    put(agent, "decent", 1, requests={"memory": "16Mi"})
    refused = until_evicted(agent, "early")
    assert refused["message"] == "Pod was rejected: The node had condition: [MemoryPressure]. "
    agent.until_status("decent", "Running")
    text = explained(agent)
    assert "MemoryPressure" in text
    assert f"default/hog-n1 for {SIGNAL}" in text

    resource, least, available, used, request, again = low_on(status["message"])
    assert (resource, least, request, again) == ("memory", LEAST_MIB * MIB, "16Mi", "memory")
    assert 0 < available < least
    assert used > 16 * MIB
    assert kernel.has(available, used), (available, used, kernel.readings[-5:])
    assert [c["reason"] for c in disruption(status)] == ["TerminationByKubelet"]
    assert status["containerStatuses"][0]["state"]["terminated"]["reason"] != "OOMKilled"
    assert node_events(agent, "EvictionThresholdMet") == [
        ("EvictionThresholdMet", "Attempting to reclaim memory")
    ]

    agent.until(lambda: not agent.json("/eviction")["conditions"], "the pressure is over", 90.0)
    put(agent, "late", 1)
    agent.until_status("late", "Running")
    for name in OTHERS:
        assert (agent.row(name)["status"], agent.row(name)["restarts"]) == ("Running", 0)
    assert [name for name, _ in evicted(agent)] == ["hog", "early"]
    text = explained(agent, "--dry-run")
    assert "nothing: no threshold is met" in text
    assert f"order of eviction if memory.available or {SIGNAL} were short:" in text
    [row] = [one for one in agent.json("/eviction")["thresholds"] if one["signal"] == SIGNAL]
    assert (row["least"], row["met_s"]) == (LEAST_MIB * MIB, None)
    assert agree(row["capacity"], PODS_MIB * MIB)


def reasons(agent, name):
    """Return the reasons of a pod's events."""
    return {row["reason"] for row in agent.json(f"/events?pod={name}")["events"]}


def hog_outlives_the_agent(agent, put):
    """Kill the agent while its victim is ending; see that the next one takes nobody else for it."""
    put_others(agent, put)
    put(agent, "hog", HOG_MIB, requests={"memory": "16Mi"})
    agent.until_status("hog", "Running")
    # Its kill is durable once it is being carried out.
    agent.until(lambda: "Killing" in reasons(agent, "hog"), "it goes", 60.0)
    agent.kill9()
    agent.start()
    until_evicted(agent, "hog")
    agent.until(
        lambda: (
            agent.json("/eviction")["doing"] == "nothing: no threshold is met"
            and not agent.json("/eviction")["conditions"]
        ),
        "the pressure is over",
        90.0,
    )
    for name in OTHERS:
        assert (agent.row(name)["status"], agent.row(name)["restarts"]) == ("Running", 0)
    # Nobody else, and not the same one twice. What the first agent told of its victim may have been lost with it.
    assert agent.json("/eviction")["victims"] == []
    assert {name for name, _ in evicted(agent)} <= {"hog"}
