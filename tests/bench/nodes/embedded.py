"""What a node on the embedded runtime costs: the real agent on folders of its own, watched.

First pods one by one on an otherwise empty node: written until started, killed until the successor runs, removed until
gone. "Started" is when the agent's ``/pods`` says so. Then N manifests at once (one `sleep` each), the CPU that took, what
it costs to have them, and their removal. Everything is ended and removed again; what had to be helped counts as a miss.

The agent's own figures exclude keepers and containers. During the burst it is watched through /proc only, so that asking
does not become part of the cost.
"""

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from threading import Event

from runtime.drivers.embedded.keeper.process import all_pids
from tests.harness.agent.agent import USUAL_INTERVALS, Agent, until
from tests.harness.agent.usage import cpu_s, parent, private_bytes, read, resident_bytes, started_at
from tests.harness.budget import Row, show

IDLE_S = 10.0
SETTLE_S = 3.0
MB = 1_000_000
RUN = "exec sleep 600"


PATIENCE_S = 60.0
LOOK_S = 0.002


def running(agent: Agent, restarts: int = 0) -> int:
    """Return how many pods have their container running after so many restarts, as the agent says."""
    return sum(
        "running" in status.get("state", {}) and status.get("restartCount", 0) >= restarts
        for pod in agent.json("/pods")["items"]
        for status in pod["status"].get("containerStatuses", ())
    )


def containers(agent: Agent) -> list[int]:
    """Return the first process of each container: what a keeper has started, and what runs its command already."""
    keepers = set(agent.keepers())
    return [
        pid
        for pid in all_pids()
        if pid not in keepers
        and parent(pid) in keepers
        and read(f"/proc/{pid}/cmdline").startswith(b"sleep\0")
    ]


def boot_now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def one_by_one(agent: Agent, singles: int) -> list[Row]:
    """Return how long single pods take to start, to be replaced and to go."""
    starts, successors, ends = [], [], []
    for number in range(singles):
        name = f"single-{number}"
        began = time.monotonic()
        agent.put(name, RUN, grace=1)
        until(lambda: running(agent) == 1, "a single pod starts", PATIENCE_S, every_s=LOOK_S)
        starts.append(time.monotonic() - began)
        (pid,) = until(lambda: containers(agent), "its process shows", PATIENCE_S, every_s=LOOK_S)
        began = time.monotonic()
        os.kill(pid, 9)
        until(lambda: running(agent, restarts=1) == 1, "its successor starts", PATIENCE_S, every_s=LOOK_S)
        successors.append(time.monotonic() - began)
        began = time.monotonic()
        agent.drop(name)
        until(lambda: not agent.json("/pods")["items"], "it goes", PATIENCE_S, every_s=LOOK_S)
        ends.append(time.monotonic() - began)
    return [
        spans("manifest written -> started", starts, "kubelet on containerd 172 / 607"),
        spans("container killed -> successor", successors, "kubelet 710 / 970"),
        spans("manifest removed -> gone", ends, "grace 1 s; kubelet 2,070"),
    ]


def spans(what: str, seconds: list[float], detail: str) -> Row:
    p50, most = statistics.median(seconds) * 1000, max(seconds) * 1000
    return Row(what=what, ours=p50, unit="ms", detail=f"p50 of {len(seconds)}, max {most:,.0f} ms; {detail}")


def burst(agent: Agent, count: int) -> list[Row]:
    """Return what so many pods at once take, and what they cost afterwards."""
    names = [f"burst-{number}" for number in range(count)]
    cpu, began = cpu_s(agent.process.pid), boot_now()
    for name in names:
        agent.put(name, RUN, grace=1)
    pids = until(lambda: len(found := containers(agent)) == count and found, "all pods start", PATIENCE_S)
    until(lambda: running(agent) == count, "the agent says so", PATIENCE_S)
    all_s = boot_now() - began
    starts = sorted(started_at(pid) - began for pid in pids)
    Event().wait(SETTLE_S)
    burst_cpu, idle_from, from_ = cpu_s(agent.process.pid) - cpu, cpu_s(agent.process.pid), time.monotonic()
    Event().wait(IDLE_S)
    idle = 100 * (cpu_s(agent.process.pid) - idle_from) / (time.monotonic() - from_)
    rss, private = resident_bytes(agent.process.pid) / MB, private_bytes(agent.keepers()) / MB
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
    for name in names:
        agent.drop(name)
    until(lambda: not containers(agent) and not agent.json("/pods")["items"], "all pods go", PATIENCE_S)
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


def measure(count: int, singles: int) -> int:
    """Measure, print the table and return how the process is to exit."""
    folder = Path(tempfile.mkdtemp(prefix="nodeagent-bench-"))
    agent = Agent(folder, **USUAL_INTERVALS)
    left = ""
    try:
        agent.start()
        rows = one_by_one(agent, singles) + burst(agent, count)
        agent.stop()
        until(lambda: not agent.keepers(), "keeper server and keepers end", PATIENCE_S)
    finally:
        try:
            agent.clean_up()
        except AssertionError as error:
            left = str(error)
        shutil.rmtree(folder, ignore_errors=True)
    rows.append(Row(what="left behind", ours=float(bool(left)), unit="", at_most=0.0, detail=left[:200]))
    print(show(rows, beside=""))
    return 0 if all(row.met for row in rows) else 1
