"""What UsageManager knows: the last believed reading of each part, what is asked for now, and who wants to be told.

```text
period --> listing --> pods (cgroups, /proc) --> folders (those due) -.
       '-> node, disks, image file system, runtime's stats -----------+--> all in, or PUBLISH_S over --> Usage --> watchers
```

Each part is an operation of its own with its own deadline. One that hangs is left out: its rows stay as old as they are,
and it is asked again when its outcome is in.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from actors.rules.nodewatch import NEVER_ASKED
from api.ids import Instant, OpId, Path, Uid
from api.ports.images import ImageFs
from api.ports.runtime import RuntimePod
from api.ports.usage import ContainerStat, DiskReading, NodeRead, PodFoldersReading, PodReading
from api.usage import Usage

USAGE, RUNTIME, IMAGES = "usage", "runtime", "images"


class Part(StrEnum):
    """What is read in a round, each by a call of its own."""

    LISTING = "listing of pods"
    NODE = "machine"
    PODS = "pods"
    DISKS = "file systems"
    FOLDERS = "folders"
    IMAGES = "image file system"
    STATS = "runtime's stats"
    LOOK = "look at one pod"
    """For the process of a container, which a listing may leave out; one call for each pod."""


class UsagePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often what is read, and where things are."""

    node_name: str = ""
    root_dir: str = "/var/lib/nodeagent"
    log_root: str = "/var/log/pods"
    take_over: bool = False
    """Whether other agents' pods are ours too."""
    memory_bytes: int = 0
    """What the machine was found to have before anything was read; 0 when nobody knows."""
    period_s: float = 10.0
    folder_period_s: float = 20.0
    """Between walks of one pod's folders; longer for those whose walks take long."""
    stats_period_s: float = 30.0
    """Between looks at what the runtime counts: writable layers, images, and containers that no cgroup in sight counts.

    How full the file system of images is, is measured in each round all the same, once it is known where it is.
    """


class PendingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call in flight."""

    part: Part
    round: int
    since: Instant
    uids: tuple[Uid, ...] = ()


class PodKept(msgspec.Struct, frozen=True, kw_only=True):
    """The last believed reading of one pod's cgroups."""

    reading: PodReading
    as_of: Instant | None = None
    """None while there was none."""
    refused: tuple[str, ...] = ()
    """What was not believed at the last try, or why there was nothing to believe."""


class FoldersKept(msgspec.Struct, frozen=True, kw_only=True):
    """The last believed walk of one pod's folders."""

    reading: PodFoldersReading | None = None
    as_of: Instant | None = None
    due_at: Instant = float("-inf")
    refused: tuple[str, ...] = ()


class NodeKept(msgspec.Struct, frozen=True, kw_only=True):
    """The last believed reading of the machine."""

    reading: NodeRead
    as_of: Instant


class DiskKept(msgspec.Struct, frozen=True, kw_only=True):
    """The last believed reading of one file system."""

    reading: DiskReading
    as_of: Instant | None = None
    """None while there was none to believe."""


class ImagesKept(msgspec.Struct, frozen=True, kw_only=True):
    """The last believed reading of the file system of images."""

    reading: ImageFs
    as_of: Instant


class StatsKept(msgspec.Struct, frozen=True, kw_only=True):
    """What the runtime counted last."""

    rows: Mapping[str, ContainerStat]
    """By container id."""
    as_of: Instant


class InspectedProcesses(msgspec.Struct, frozen=True, kw_only=True):
    """Processes of containers that a listing leaves out."""

    pids: Mapping[str, int] = {}
    """By container id: a process that an inspection showed."""
    looked_at: Mapping[Uid, Instant] = {}
    """When a pod was last inspected for that."""


class PartProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a part."""

    failed: str = ""
    """Why it could not be read at the last try."""
    refused: tuple[str, ...] = ()
    """What was not believed of it, beside pods."""
    unoffered: bool = False
    """This runtime does not have it; it is not asked for again."""


class Rounds(msgspec.Struct, frozen=True, kw_only=True):
    """The round under way, and how the last ones went."""

    number: int = 0
    since: Instant = float("-inf")
    next_at: Instant = float("-inf")
    stats_due_at: Instant = float("-inf")
    everything: bool = False
    """The next round reads all folders and stats, due or not."""
    published: int = 0
    """The last round that was told."""
    took_s: float = 0.0
    """How long the last round took until it was told."""
    late: int = 0
    """Rounds that were told without all of their parts."""


class UsageState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that UsageManager knows."""

    policy: UsagePolicy = UsagePolicy()
    pods_group: str = "/kubepods"
    """The cgroup of all pods: as configured, and once the node's facts are there as the runtime makes it."""
    described: bool = False
    """The node's facts are there."""
    node_asked_at: Instant = NEVER_ASKED
    watchers: tuple[Path, ...] = ()
    """In the order in which they came."""
    asked: Mapping[OpId, PendingCall] = {}
    rounds: Rounds = Rounds()

    listed: tuple[RuntimePod, ...] = ()
    processes: InspectedProcesses = InspectedProcesses()
    node: NodeKept | None = None
    pods: Mapping[Uid, PodKept] = {}
    disks: Mapping[str, DiskKept] = {}
    images: ImagesKept | None = None
    folders: Mapping[Uid, FoldersKept] = {}
    stats: StatsKept | None = None
    problems: Mapping[Part, PartProblem] = {}
    """Parts with which something is wrong."""

    usage: Usage | None = None
    """What was told last."""

    @property
    def machine(self) -> NodeRead | None:
        """Return the last believed reading of the machine."""
        return self.node.reading if self.node is not None else None

    @property
    def failed(self) -> dict[Part, str]:
        """Return why parts could not be read at the last try."""
        return {part: one.failed for part, one in self.problems.items() if one.failed}

    @property
    def refused(self) -> dict[Part, tuple[str, ...]]:
        """Return what was not believed of parts, beside pods."""
        return {part: one.refused for part, one in self.problems.items() if one.refused}


NO_PROBLEM = PartProblem()


def with_problem(state: UsageState, part: Part, problem: PartProblem) -> UsageState:
    """Return the state with what is wrong with a part; nothing is no entry."""
    rest = {other: one for other, one in state.problems.items() if other is not part}
    return replace(state, problems=rest if problem == NO_PROBLEM else {**rest, part: problem})
