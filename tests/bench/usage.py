"""What reading usage costs: one round of the real actor and driver over 110 pods with real cgroups, folders and processes.

Only the listing is a stand-in: it gives the same pods each time. A round on demand reads everything, folders of all pods
included, which otherwise are walked every second round.
"""

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from actors.usage.actor import UsageManager
from actors.usage.state import UsagePolicy, UsageState
from actors.views.summary import summary
from actors.views.usage import UsageView
from api import paths
from api.errors import RejectedError
from api.ids import Path as ActorPath
from api.ids import Uid
from api.messages.usage import ReadUsageNow
from api.ports.runtime import (
    ListPods,
    PodListing,
    RuntimeContainer,
    RuntimeContainerState,
    RuntimePod,
    Sandbox,
    SandboxState,
)
from runtime.drivers.embedded.image import EmbeddedImages
from runtime.drivers.host.usage.usage import UsageReader
from runtime.kernel.pooled import PooledSystem
from tests.harness.budget import Row, show
from tests.harness.eviction.group import Groups
from tests.harness.wait import until

ROUNDS = 20
FILES = 10
BUDGET_MS = 60.0


class Listed:
    """A runtime that always lists the same pods and counts nothing itself."""

    name = "runtime"

    def __init__(self, pods: tuple[RuntimePod, ...]) -> None:
        self.pods = pods

    def perform(self, call: object, deadline_s: float) -> PodListing:
        if not isinstance(call, ListPods):
            raise RejectedError("only pods are listed")
        return PodListing(pods=self.pods, complete=True)


def make_pod(number: int, groups: Groups, root: Path) -> RuntimePod:
    """Make one pod with a process in cgroups, a log and a volume."""
    uid = Uid(f"{number:08x}-aaaa-4bbb-8ccc-1234567890ab")
    identity = f"{number:064x}"
    pid = groups.run(f"kubepods/besteffort/pod{uid}/{identity}", "sleep", "600")
    name = f"pod-{number}"
    volume = root / f"pods/{uid}/volumes/kubernetes.io~empty-dir/cache"
    logs = root / f"logs/default_{name}_{uid}/main"
    volume.mkdir(parents=True)
    logs.mkdir(parents=True)
    (logs / "0.log").write_bytes(b"x" * 5000)
    for file in range(FILES):
        (volume / f"{file}").write_bytes(b"x" * 1000)
    sandbox = Sandbox(
        id=f"box-{number}", uid=uid, name=name, namespace="default", attempt=0,
        state=SandboxState.READY, created_at=1,
    )  # fmt: skip
    container = RuntimeContainer(
        id=f"bench://{identity}", sandbox_id=sandbox.id, name="main", attempt=0, image="x",
        state=RuntimeContainerState.RUNNING, created_at=2, started_at=2, pid=pid,
    )  # fmt: skip
    return RuntimePod(uid=uid, name=name, namespace="default", sandboxes=(sandbox,), containers=(container,))


def measure(pods: int) -> list[Row]:
    """Return what a round over so many pods costs."""
    with Groups("nodeagent-bench") as groups, tempfile.TemporaryDirectory() as folder:
        if why := groups.why_not():
            raise SystemExit(f"bench: {why}")
        root = Path(folder)
        listed = Listed(tuple(make_pod(number, groups, root) for number in range(pods)))
        system = PooledSystem()
        policy = UsagePolicy(node_name="bench", root_dir=folder, log_root=f"{folder}/logs")
        ports = {"runtime": listed, "images": EmbeddedImages(), "usage": UsageReader()}
        system.spawn(
            UsageManager.options(name="usage").bind(UsageState(policy=policy, described=True), ports)
        )

        def state() -> UsageState:
            found = system.committed(paths.USAGE)
            return found if isinstance(found, UsageState) else UsageState()

        until(lambda: state().rounds.published >= 4, "it has warmed up", 60.0)
        costs, spans = [], []
        for _ in range(ROUNDS):
            number = state().rounds.number
            cpu, began = time.process_time(), time.monotonic()
            system.route(paths.USAGE, ReadUsageNow(asked_by=ActorPath("/bench")))
            until(lambda number=number: state().rounds.published > number, "a round", 60.0, every_s=0.005)
            costs.append((time.process_time() - cpu) * 1000)
            spans.append((time.monotonic() - began) * 1000)
        usage = state().usage
        assert usage is not None
        assert len(usage.pods) == pods
        assert not usage.troubles, usage.troubles[:5]
        assert all(pod.memory and pod.volumes for pod in usage.pods)
        view = UsageView(system, time.monotonic)
        page, page_ms = timed(lambda: view.metrics(resource=False))
        shown, shown_ms = timed(lambda: summary(usage, short=False))
        system.shutdown(5.0)
    p50 = statistics.median(costs)
    return [
        Row(
            what=f"round over {pods} pods, everything read: CPU",
            ours=p50,
            unit="ms",
            at_most=BUDGET_MS * max(1.0, pods / 110),
            detail=f"p50 of {ROUNDS}, {min(costs):.0f} to {max(costs):.0f} ms; took {statistics.median(spans):.0f} ms",
        ),
        Row(what="  of one core, each 10 s", ours=p50 / 100, unit="%"),
        Row(what="GET /metrics", ours=page_ms, unit="ms", detail=f"{len(page):,} bytes"),
        Row(what="GET /stats/summary", ours=shown_ms, unit="ms", detail=f"{len(shown):,} bytes"),
        Row(
            what="resident",
            ours=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
            unit="MB",
            detail=f"pid {os.getpid()}, at most",
        ),
    ]


def timed(make):
    """Return what a function makes and the CPU of it in ms, the median of five."""
    costs = []
    for _ in range(5):
        began = time.process_time()
        made = make()
        costs.append((time.process_time() - began) * 1000)
    return made, statistics.median(costs)


def main(words: list[str]) -> int:
    """Print the table; return how the process is to exit."""
    parser = argparse.ArgumentParser(prog="bin/bench usage")
    parser.add_argument("--pods", type=int, default=110, metavar="N", help="how many (110)")
    rows = measure(parser.parse_args(words).pods)
    print(show(rows, beside=""), end="")
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
