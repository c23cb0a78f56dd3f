"""What a node costs: ``bin/bench node --embedded [--pods N]`` runs the real agent on folders of its own and watches it.

First pods one by one on an otherwise empty node: written until started, killed until the successor runs, removed until
gone. "Started" is when the agent's ``/pods`` says so. Then N manifests at once (one `sleep` each), the CPU that took, what
it costs to have them, and their removal. Everything is ended and removed again; what had to be helped counts as a miss.

The agent's own figures exclude keepers and containers. During the burst it is watched through /proc only, so that asking
does not become part of the cost.
"""

import argparse
import os
import statistics
import sys
import time
from threading import Event

from tests.harness.agentprocess import AgentProcess, started_at, wait_for
from tests.harness.budget import Row, show

SINGLES = 15
IDLE_S = 10.0
SETTLE_S = 3.0
MB = 1_000_000


def boot_now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def one_by_one(agent: AgentProcess) -> list[Row]:
    """Return how long single pods take to start, to be replaced and to go."""
    starts, successors, ends = [], [], []
    for number in range(SINGLES):
        name = f"single-{number}"
        began = time.monotonic()
        agent.write([name])
        wait_for("a single pod starts", lambda: agent.running() == 1)
        starts.append(time.monotonic() - began)
        (pid,) = wait_for("its process shows", agent.containers)
        began = time.monotonic()
        os.kill(pid, 9)
        wait_for("its successor starts", lambda: agent.running(restarts=1) == 1)
        successors.append(time.monotonic() - began)
        began = time.monotonic()
        agent.withdraw([name])
        wait_for("it goes", lambda: agent.pods() == [])
        ends.append(time.monotonic() - began)
    return [
        spans("manifest written -> started", starts, "kubelet on containerd 172 / 607"),
        spans("container killed -> successor", successors, "kubelet 710 / 970"),
        spans("manifest removed -> gone", ends, "grace 1 s; kubelet 2,070"),
    ]


def spans(what: str, seconds: list[float], detail: str) -> Row:
    p50, most = statistics.median(seconds) * 1000, max(seconds) * 1000
    return Row(what=what, ours=p50, unit="ms", detail=f"p50 of {len(seconds)}, max {most:,.0f} ms; {detail}")


def burst(agent: AgentProcess, count: int) -> list[Row]:
    """Return what so many pods at once take, and what they cost afterwards."""
    names = [f"burst-{number}" for number in range(count)]
    cpu, began = agent.cpu_s(), boot_now()
    agent.write(names)
    pids = wait_for(
        "all pods start", lambda: len(found := agent.containers()) == count and found, every_s=0.1
    )
    wait_for("the agent says so", lambda: agent.running() == count, every_s=0.05)
    all_s = boot_now() - began
    starts = sorted(started_at(pid) - began for pid in pids)
    Event().wait(SETTLE_S)
    burst_cpu, idle_from, from_ = agent.cpu_s() - cpu, agent.cpu_s(), time.monotonic()
    Event().wait(IDLE_S)
    idle = 100 * (agent.cpu_s() - idle_from) / (time.monotonic() - from_)
    rss, private = agent.resident_bytes() / MB, agent.keepers_private_bytes() / MB
    share = max(1.0, count / 100)
    rows = [
        Row(
            what=f"{count} pods at once, all started",
            ours=all_s,
            unit="s",
            at_most=15.0 * share,
            detail=f"processes: p50 {starts[count // 2]:.2f} s, last {starts[-1]:.2f} s; kubelet, 110: 7.1 / 14.1 s",
        ),
        Row(what="  agent's CPU for that", ours=burst_cpu, unit="s", detail="kubelet, 110: 4.4 s"),
        Row(
            what="  idle with them, of a core",
            ours=idle,
            unit="%",
            at_most=2.0,
            detail=f"over {IDLE_S:.0f} s; kubelet, 110: 5.4 %",
        ),
        Row(what="  agent resident", ours=rss, unit="MB", at_most=70.0, detail="kubelet, 110: 108 MB"),
        Row(
            what="  keepers, private",
            ours=private,
            unit="MB",
            at_most=200.0 * share,
            detail=f"{private / count:.2f} MB each",
        ),
    ]
    began = boot_now()
    agent.withdraw(names)
    wait_for("all pods go", lambda: not agent.containers() and agent.pods() == [], every_s=0.1)
    gone_s = boot_now() - began
    rows.append(
        Row(
            what=f"{count} pods removed at once, gone",
            ours=gone_s,
            unit="s",
            detail="grace 1 s; kubelet, 110: 8.2 s",
        )
    )
    return rows


def main(words: list[str]) -> int:
    """Print the table; return how the process is to exit."""
    parser = argparse.ArgumentParser(prog="bin/bench node")
    parser.add_argument("--embedded", action="store_true", required=True, help="on the embedded runtime")
    parser.add_argument("--pods", type=int, default=100, help="how many at once (100)")
    args = parser.parse_args(words)
    agent = AgentProcess()
    try:
        wait_for("the agent answers", lambda: agent.pods() is not None)
        rows = one_by_one(agent) + burst(agent, args.pods)
    finally:
        left = agent.close()
    rows.append(
        Row(what="left behind", ours=len(left), unit="things", at_most=0.0, detail=", ".join(left[:5]))
    )
    print(show(rows, beside=False))
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
