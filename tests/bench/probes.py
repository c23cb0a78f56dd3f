"""What probes cost: ``bin/bench probes [--probes N] [--period S]`` on the embedded runtime.

The real agent with N readiness probes over HTTP, all answered by a server in this process, watched through /proc; then
how long it takes from an answer that changes something to the status that says so, as ``/pods`` shows it.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from threading import Event

from tests.harness.agent.agent import USUAL_INTERVALS, Agent, pod, until
from tests.harness.agent.usage import cpu_s, resident_bytes
from tests.harness.budget import Row, show
from tests.harness.netpeer import HttpPeer, saying

PER_POD = 10
WATCH_S = 20.0
PATIENCE_S = 120.0
FLIPS = 15


def put(agent: Agent, name: str, containers: int, peer: HttpPeer, period_s: int) -> None:
    """Write a pod whose containers are all asked whether they are ready."""
    document = pod(name, "exec sleep 100000", folder=agent.folder, grace=1)
    (one,) = document["spec"]["containers"]
    get = {"host": "127.0.0.1", "port": peer.port, "path": "/ready"}
    one["readinessProbe"] = {"httpGet": get, "periodSeconds": period_s, "failureThreshold": 1}
    document["spec"]["containers"] = [one | {"name": f"c{number}"} for number in range(containers)]
    agent.write(f"{name}.yaml", json.dumps(document))


def ready(agent: Agent) -> int:
    """Return how many containers are ready, as the agent says."""
    return sum(
        status.get("ready", False)
        for found in agent.json("/pods")["items"]
        for status in found["status"].get("containerStatuses", ())
    )


def many(agent: Agent, probes: int, period_s: int) -> list[Row]:
    """Return what so many probes cost."""
    peer = HttpPeer(saying(200))
    try:
        names = [f"many-{number}" for number in range(probes // PER_POD)]
        for name in names:
            put(agent, name, PER_POD, peer, period_s)
        until(lambda: ready(agent) == len(names) * PER_POD, "all are ready", PATIENCE_S)
        Event().wait(period_s)
        asked, cpu, began = peer.connections, cpu_s(agent.process.pid), time.monotonic()
        Event().wait(WATCH_S)
        took_s = time.monotonic() - began
        share = 100 * (cpu_s(agent.process.pid) - cpu) / took_s
        rate = (peer.connections - asked) / took_s
        budget = 5.0 * probes / 500 * 10 / period_s
        detail = f"{rate:.0f} checks a second, {10_000 * share / rate:,.0f} us of CPU each, all else included"
        size = resident_bytes(agent.process.pid) / 1_000_000
        what = f"{len(names) * PER_POD} probes every {period_s} s: the agent, of a core"
        for name in names:
            agent.drop(name)
        until(lambda: not agent.json("/pods")["items"], "all are gone", PATIENCE_S)
        return [
            Row(what=what, ours=share, unit="%", at_most=max(2.0, budget), detail=detail),
            Row(what="  agent resident", ours=size, unit="MB"),
        ]
    finally:
        peer.close()


def flips(agent: Agent) -> list[Row]:
    """Return how long an answer takes to the status."""
    peer = HttpPeer(saying(200))
    try:
        put(agent, "flip", 1, peer, 1)
        until(lambda: ready(agent) == 1, "it is ready", PATIENCE_S)
        took = []
        for number in range(FLIPS):
            expected = number % 2
            peer.answer = saying(200 if expected else 500)
            asked = len(peer.answered_at)
            until(lambda at=asked: len(peer.answered_at) > at, "it is asked", PATIENCE_S, every_s=0.001)
            until(lambda want=expected: ready(agent) == want, "it shows", PATIENCE_S, every_s=0.001)
            took.append(time.monotonic() - peer.answered_at[asked])
        agent.drop("flip")
        until(lambda: not agent.json("/pods")["items"], "it is gone", PATIENCE_S)
        p50, most = statistics.median(took) * 1000, max(took) * 1000
        return [
            Row(
                what="answer -> readiness in /pods",
                ours=p50,
                unit="ms",
                at_most=50.0,
                detail=f"p50 of {FLIPS}, max {most:,.0f} ms",
            )
        ]
    finally:
        peer.close()


def main(words: list[str]) -> int:
    """Measure, print the table and return how the process is to exit."""
    parser = argparse.ArgumentParser(prog="bin/bench probes")
    parser.add_argument("--probes", type=int, default=500, metavar="N", help="how many (500)")
    parser.add_argument("--period", type=int, default=10, metavar="S", help="how often each is made (10)")
    args = parser.parse_args(words)
    folder = Path(tempfile.mkdtemp(prefix="nodeagent-bench-"))
    agent = Agent(folder, **USUAL_INTERVALS)
    try:
        agent.start()
        rows = flips(agent) + many(agent, args.probes, args.period)
        agent.stop()
    finally:
        agent.clean_up()
        shutil.rmtree(folder, ignore_errors=True)
    print(show(rows, beside=""))
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
