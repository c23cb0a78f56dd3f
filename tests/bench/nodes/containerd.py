"""What a node on containerd costs: the real agent and the bare CRI calls on one private containerd, in one run.

What the agent did is read afterwards from the runtime itself (when each container was started, wall clock), and its CPU
and memory from /proc, so that watching does not become part of the cost. The agent is every process of ours: on
containerd that is one.
"""

import json
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from threading import Event

from runtime.wire.generated import cri_pb2 as cri
from tests.harness.agent import USUAL_INTERVALS, pod
from tests.harness.barecri import BareCri, p50_ms
from tests.harness.budget import Row, show
from tests.harness.containerd import Containerd
from tests.harness.image import BUSYBOX_NAME
from tests.harness.node import Node
from tests.harness.usage import cpu_s, resident_bytes
from tests.harness.wait import until

RUN = "exec sleep 6000"
PATIENCE_S = 180.0
LOOK_S = 0.2
CLOSE_LOOK_S = 0.003
IDLE_S = 20.0
SETTLE_S = 5.0
MB = 1_000_000
NS = 1_000_000_000
THREADS = (4, 8, 16)

CPU_BUDGET_S = {40: 1.5, 110: 4.4}
IDLE_BUDGET = {40: 1.0, 110: 1.5, 250: 3.0}
RESIDENT_BUDGET = {40: 75.0, 110: 85.0, 250: 105.0}
KUBELET = {
    40: ("3.2 / 7.2 s", "1.1 s", "2.2 %", "87 MB", "3.5 s"),
    110: ("7.1 / 14.1 s", "4.4 s", "5.4 %", "108 MB", "8.2 s"),
    250: ("16.6 / 40.7 s", "17.3 s", "17.1 %", "152 MB", "22.8 s"),
}
UNKNOWN = ("", "", "", "", "")


class Bed:
    """A private containerd, the bare calls on it, and an agent."""

    def __init__(self, folder: Path, pods: int) -> None:
        self.containerd = Containerd(folder / "c")
        self.containerd.start()
        self.bare = BareCri(
            self.containerd.socket, folder / "bare", self.containerd.cgroup_root, self.manifest
        )
        self.agent = Node(folder / "a", self.containerd, maxPods=pods + 10, **USUAL_INTERVALS)

    @staticmethod
    def manifest(name: str) -> dict:
        """Return the pod that everything is measured with: one container that sleeps."""
        return pod(name, RUN, grace=1, image=BUSYBOX_NAME, pull="IfNotPresent")

    def running(self) -> list[object]:
        """Return the containers that run, as the runtime lists them."""
        return [c for c in self.bare.containers() if c.state == cri.CONTAINER_RUNNING]

    def put(self, name: str) -> int:
        """Write a manifest and return when, wall clock."""
        self.agent.write(f"{name}.yaml", json.dumps(self.manifest(name)))
        return time.time_ns()


def one_by_one(bed: Bed, count: int) -> list[Row]:
    """Return how long single pods take to start, to be replaced and to go, beside the bare calls."""
    bare_starts, bare_containers = bed.bare.single_starts(count), bed.bare.single_containers(count)
    bed.agent.start()
    starts, successors, ends = [], [], []
    for number in range(count):
        name = f"single-{number}"
        written = bed.put(name)
        (first,) = until(bed.running, "a single pod starts", PATIENCE_S, every_s=LOOK_S / 4)
        starts.append((bed.bare.started_ns(first.id) - written) / NS)
        pid = bed.bare.pid(first.id)
        Event().wait(LOOK_S)  # so that what the start still causes is not part of the next figure
        killed = time.time_ns()
        os.kill(pid, 9)
        (second,) = until(
            lambda gone=first.id: [c for c in bed.running() if c.id != gone],
            "its successor starts",
            PATIENCE_S,
            every_s=LOOK_S / 4,
        )
        successors.append((bed.bare.started_ns(second.id) - killed) / NS)
        removed = time.monotonic()
        bed.agent.drop(name)
        until(lambda: not bed.running(), "it goes", PATIENCE_S, every_s=CLOSE_LOOK_S)
        ends.append(time.monotonic() - removed)
        until(lambda: not bed.bare.sandboxes(), "its sandbox goes", PATIENCE_S, every_s=LOOK_S / 4)
    bare, again = p50_ms(bare_starts), p50_ms(bare_containers)
    return [
        Row(
            what="manifest written -> started, p50",
            ours=p50_ms(starts),
            unit="ms",
            other=bare,
            ratio=p50_ms(starts) / bare,
            ratio_at_most=1.15,
            detail=f"of {count}; kubelet 172 ms beside 150 bare",
        ),
        Row(
            what="manifest written -> started, max",
            ours=max(starts) * 1000,
            unit="ms",
            other=max(bare_starts) * 1000,
            ratio=max(starts) / max(bare_starts),
            ratio_at_most=1.6,
            detail="kubelet 607 ms beside 175 bare",
        ),
        Row(
            what="killed -> successor started, p50",
            ours=p50_ms(successors),
            unit="ms",
            other=again,
            at_most=again + 100.0,
            detail=f"max {max(successors) * 1000:,.0f} ms; kubelet 710 / 970 ms",
        ),
        Row(
            what="manifest removed -> gone, p50",
            ours=statistics.median(ends),
            unit="s",
            at_most=1.2,
            detail=f"grace 1 s; max {max(ends):.2f} s; kubelet 2.07 s",
        ),
    ]


def burst(bed: Bed, count: int) -> list[Row]:
    """Return what so many pods at once take, and what they cost afterwards, beside the bare calls."""
    kubelet = KUBELET.get(count, UNKNOWN)
    bare = {threads: bed.bare.burst(count, threads) for threads in THREADS}
    best = min(bare.values())
    bed.agent.start()
    names = [f"burst-{number}" for number in range(count)]
    agent = bed.agent.process.pid
    Event().wait(SETTLE_S)
    cpu, began = cpu_s(agent), time.time_ns()
    for name in names:
        bed.put(name)
    found = until(
        lambda: len(there := bed.running()) == count and there, "all pods start", PATIENCE_S, every_s=LOOK_S
    )
    starts = sorted((bed.bare.started_ns(c.id) - began) / NS for c in found)
    Event().wait(SETTLE_S)
    burst_cpu = cpu_s(agent) - cpu
    idle_from, from_ = cpu_s(agent), time.monotonic()
    Event().wait(IDLE_S)
    idle = 100 * (cpu_s(agent) - idle_from) / (time.monotonic() - from_)
    resident = resident_bytes(agent) / MB
    figures = ", ".join(f"{threads} threads {took:.2f} s" for threads, took in bare.items())
    rows = [
        Row(
            what=f"{count} pods at once, last started",
            ours=starts[-1],
            unit="s",
            other=best,
            ratio=starts[-1] / best,
            ratio_at_most=1.2 if count in CPU_BUDGET_S else None,
            detail=f"p50 {starts[count // 2]:.2f} s; bare: {figures}; kubelet {kubelet[0]}",
        ),
        Row(
            what="  agent's CPU for that",
            ours=burst_cpu,
            unit="s",
            at_most=CPU_BUDGET_S.get(count),
            detail=f"kubelet {kubelet[1]}",
        ),
        Row(
            what="  idle with them, of a core",
            ours=idle,
            unit="%",
            at_most=IDLE_BUDGET.get(count),
            detail=f"over {IDLE_S:.0f} s; kubelet {kubelet[2]}",
        ),
        Row(
            what="  resident with them",
            ours=resident,
            unit="MB",
            at_most=RESIDENT_BUDGET.get(count),
            detail=f"kubelet {kubelet[3]}",
        ),
    ]
    removed = time.monotonic()
    for name in names:
        bed.agent.drop(name)
    until(lambda: not bed.running(), "all pods go", PATIENCE_S, every_s=LOOK_S / 4)
    gone = time.monotonic() - removed
    until(lambda: not bed.bare.sandboxes(), "their sandboxes go", PATIENCE_S, every_s=LOOK_S)
    rows.append(
        Row(
            what=f"{count} pods removed at once, gone",
            ours=gone,
            unit="s",
            detail=f"grace 1 s; kubelet {kubelet[4]}",
        )
    )
    return rows


def measure(count: int, singles: int) -> int:
    """Measure, print the table and return how the process is to exit."""
    folder = Path(tempfile.mkdtemp(prefix="nab-"))
    bed = Bed(folder, count)
    left = ""
    try:
        rows = one_by_one(bed, singles)
        bed.agent.stop()
        rows += burst(bed, count)
        bed.agent.stop()
    finally:
        bed.bare.close()
        try:
            bed.agent.clean_up()
            bed.containerd.clean_up()
        except AssertionError as error:
            left = str(error)
        shutil.rmtree(folder, ignore_errors=True)
    rows.append(Row(what="left behind", ours=float(bool(left)), unit="", at_most=0.0, detail=left[:200]))
    print(show(rows, beside="BARE"))
    return 0 if all(row.met for row in rows) else 1
