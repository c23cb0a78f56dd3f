"""A hundred pods: how fast they start, what they cost, and that nothing of them stays."""

import threading
import time

import pytest

from tests.harness.agent.usage import cpu_s, private_bytes, resident_bytes

PODS = 100
START_LIMIT_S = 15.0
AGENT_LIMIT_BYTES = 70_000_000
IDLE_S = 10.0
IDLE_LIMIT = 0.06
"""Of a core: what a busy loop would be. The budget itself is asserted by `bin/bench node`."""
KEEPERS_LIMIT_BYTES = 220_000_000
"""Of a hundred keepers and their servers: 198 to 212 MB on one machine, by how its heap falls."""
RUN = "exec sleep 600"


def running(agent):
    """Return how many pods run wholly."""
    return sum(row["status"] == "Running" and row["ready"] == "1/1" for row in agent.rows().values())


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_hundred_pods_start_fast_cost_little_and_leave_nothing(agent, capsys):
    for number in range(PODS):
        agent.put(f"p{number}", RUN)
    begun = time.monotonic()
    agent.start(ready=False)
    agent.until(lambda: running(agent) == PODS, "all pods run", 60)
    started_s = time.monotonic() - begun
    pid = agent.process.pid

    # The measurement itself: what the agent uses while nothing happens.
    agent.until(
        lambda: not any(row["operations"] for row in agent.json("/actors?detail=true")["actors"]),
        "it is idle",
    )
    before, since = cpu_s(pid), time.monotonic()
    threading.Event().wait(IDLE_S)
    idle = (cpu_s(pid) - before) / (time.monotonic() - since)
    resident = resident_bytes(pid)
    keepers = agent.keepers()
    assert len(agent.pod_keepers()) == PODS
    private = private_bytes(keepers)

    begun = time.monotonic()
    for number in range(PODS):
        agent.drop(f"p{number}")
    agent.until(lambda: not agent.rows(), "all pods are gone", 60)
    removed_s = time.monotonic() - begun
    with capsys.disabled():
        print(  # noqa: T201 - the figures are what this test is for
            f"\n{PODS} pods: started in {started_s:.1f} s; agent {resident / 1e6:.1f} MB resident;"
            f" idle {100 * idle:.2f} % of a core; {len(keepers)} keepers {private / 1e6:.0f} MB private;"
            f" removed in {removed_s:.1f} s"
        )
    assert started_s < START_LIMIT_S
    assert resident < AGENT_LIMIT_BYTES
    assert idle < IDLE_LIMIT
    assert private < KEEPERS_LIMIT_BYTES

    sections = {path.name: path for path in (agent.root / "ledger").iterdir()}
    # What happened to a pod stays to be asked for, for an hour after its end.
    pages = sections.pop("events")
    agent.until(lambda: len(list(pages.iterdir())) == PODS, "the events of each pod are written down")
    for folder in (agent.logs, agent.root / "pods", agent.root / "run" / "sandboxes", *sections.values()):
        agent.until(lambda folder=folder: not list(folder.iterdir()), f"{folder} is empty")
    # Only the keeper server is left; it goes with the agent, and the fixture proves that.
    agent.until(lambda: not agent.pod_keepers(), "no keeper is left")
    for names in agent.corners().values():
        [corner] = names
        assert corner.startswith("nursery-")
    agent.stop()


def test_thirty_pods_start_at_once(agent):
    for number in range(30):
        agent.put(f"p{number}", RUN)
    begun = time.monotonic()
    agent.start()
    agent.until(lambda: running(agent) == 30, "all pods run")
    assert time.monotonic() - begun < START_LIMIT_S
