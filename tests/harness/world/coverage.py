"""What seeds reached: every transition, cause, stage, outcome and fault, and which of them must be reached."""

from __future__ import annotations

from collections import Counter

from api.errors import FailureKind
from api.eviction import Pressure, Signal
from tests.harness.check.pace import ENDING
from tests.harness.world.clusterseed import CALLS as KUBE_CALLS
from tests.harness.world.fault import GROUP_OPERATIONS, OPERATIONS, VOLUME_OPERATIONS
from tests.harness.world.kind import Kind

CALLS = (*OPERATIONS, *GROUP_OPERATIONS, *VOLUME_OPERATIONS)
ENOUGH_SEEDS = 50
"""From so many seeds on, a point that none of them reached is a failure."""

LIVES = (
    "start -> Recalling",
    "Recalling -> Syncing",
    "Recalling -> Terminating",
    "Recalling -> Finished",
    "Syncing -> Terminating",
    "Terminating -> Terminated",
    "Terminated -> Finished",
    "Finished -> Gone",
)


class Coverage:
    """Counts points by kind and name."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def note(self, kind: str, name: str) -> None:
        """Count one point."""
        self.counts[kind, name] += 1

    def missing(self, kind: Kind = Kind.PLAIN) -> tuple[tuple[str, str], ...]:
        """Return the points that seeds of a kind must reach and did not."""
        required = {Kind.PLAIN: REQUIRED, Kind.EVICTION: EVICTION_REQUIRED, Kind.CLUSTER: CLUSTER_REQUIRED}
        return tuple(point for point in required[kind] if point not in self.counts)

    def table(self) -> tuple[str, ...]:
        """Return the counts as lines, by kind."""
        lines: list[str] = []
        kinds = sorted({kind for kind, _ in self.counts})
        for kind in kinds:
            lines.append(f"{kind}:")
            rows = sorted((name, n) for (found, name), n in self.counts.items() if found == kind)
            lines += [f"  {n:>9,}  {name}" for name, n in rows]
        return tuple(lines)


CAUSES = ("COMPLETED", "DEADLINE", "ORPHAN", "PREEMPTED", "REJECTED", "REMOVED", "REPLACED")
STAGES = (
    "CreateContainer",
    "EnsurePodCgroup",
    "Forget",
    "InspectPod",
    "InspectPod+Recall",
    "LinkContainerLog",
    "MakePodFolders+ReadNodeFiles",
    "MakePodFolders+ReadNodeFiles+Remember",
    "PrepareContainer",
    "PrepareSubPath",
    "PrepareVolume",
    "ReadNodeFiles",
    "Remember",
    "RemoveContainer+RemoveContainerLogs",
    "RemovePodCgroup",
    "RemovePodFolders",
    "RemoveSandbox",
    "RemoveVolumes",
    "RunSandbox",
    "StartContainer",
    "StopContainer",
    "StopSandbox",
    "UpdateContainer",
)
HOOKS = tuple(f"{kind} {what}" for kind in ("postStart", "preStop") for what in ("exec", "get", "pause"))
KILLS = ("SIGKILL", "SIGTERM", "at a call", "power")
FAULTS = (
    "CrashActor",
    "CutStream",
    "DelayMessage",
    "DelayOperation",
    "DropItem",
    "DropMessage",
    "DuplicateMessage",
    "FailOperation after",
    "FailOperation before",
    "HangOperation after",
    "HangOperation before",
    "JumpWallClock",
    "KillProcess after",
    "KillProcess before",
)
CLUSTER_ACTS = (
    "booted in an outage",
    "clock jumped",
    "compaction",
    "condition of others",
    "ended in an outage: itself",
    "ended in an outage: world",
    "ephemeral container",
    "finalizer",
    "identity expired",
    "image changed",
    "killed in an outage",
    "last delete",
    "made again",
    "mirror deleted",
    "node changed",
    "node deleted",
    "outage",
    "ran again in an outage",
    "resize",
    "started in an outage",
    "watch hangs",
)
POINTS = tuple(f"{port} {call} {when}" for port, call, _ in CALLS for when in ("before", "after"))

REQUIRED: tuple[tuple[str, str], ...] = (
    *(("life", name) for name in LIVES),
    *(("cause", name) for name in CAUSES),
    *(("stage", name) for name in STAGES),
    *(("hook", name) for name in HOOKS),
    *(("kill", name) for name in KILLS),
    *(("fault", name) for name in FAULTS),
    *(("point", name) for name in POINTS),
    *(("outcome", f"{call} ok") for _, call, _ in CALLS),
    *(("failed", f"{port} {call}") for port, call, _ in CALLS),
    *(("failure", kind.value) for kind in FailureKind),
    *(("without effect", kind.__name__) for kind in ENDING),
    ("failed", "runtime RuntimeStatus"),
    ("kernel", "told of memory"),
    ("kernel", "counted a kill"),
    ("grace", "of what no source describes"),
    ("end", "everything removed"),
)
"""What twenty seeds must reach: the transitions, causes, stages, kills, faults, calls, failures."""

EVICTION_REQUIRED: tuple[tuple[str, str], ...] = (
    *(("evicted for", signal.value) for signal in Signal),
    *(("images for", signal.value) for signal in Signal if signal.value.startswith(("nodefs", "imagefs"))),
    *(("pressure", pressure.value) for pressure in Pressure),
    ("victim", "gone"),
    ("victim", "awaited in vain"),
    *(
        ("newcomer", f"{what} under {pressure.value}")
        for what in ("refused", "let in")
        for pressure in Pressure
    ),
    ("world", "image removed"),
    ("cause", "EVICTED"),
    *(("kill", name) for name in KILLS),
    ("end", "everything removed"),
)
"""What sixty seeds of a node that runs short must reach."""

CLUSTER_REQUIRED: tuple[tuple[str, str], ...] = (
    *(("point", f"kube {call} {when}") for call, _ in KUBE_CALLS for when in ("before", "after")),
    *(("failed", f"kube {call}") for call, _ in KUBE_CALLS),
    *(("cluster kill", name) for name in ("COMPLETED", "DELETED", "REMOVED")),
    *(("cluster phase", name) for name in ("Failed", "Succeeded")),
    *(("cluster", f"deleted: {way}") for way in ("own", "short", "twice", "force")),
    *(("cluster", name) for name in CLUSTER_ACTS),
    *(("api", f"answer {kind}") for kind in ("409", "429", "500", "503", "504", "late", "no answer", "slow")),
    *(("api", name) for name in ("refused: away", "refused: unknown identity")),
    *(("kill", name) for name in (*KILLS, "between messages")),
    ("end", "everything removed"),
    ("end", "deleted in its grace"),
)
"""What fifty seeds of a node of a cluster must reach."""
