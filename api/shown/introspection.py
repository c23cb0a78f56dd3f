"""What the kernel shows of its actors, in Ray's words where Ray has one."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Protocol

import msgspec

from api.ids import Path
from api.ports.images import ImageFs
from api.ports.runtime import ExecResult
from api.shown.evictionrow import EvictionRow
from api.usage import Usage


class ActorState(StrEnum):
    """State of an actor, literally Ray's."""

    PENDING_CREATION = "PENDING_CREATION"
    ALIVE = "ALIVE"
    RESTARTING = "RESTARTING"
    DEAD = "DEAD"


class OperationRow(msgspec.Struct, frozen=True, kw_only=True):
    """An operation in flight."""

    op: int
    port: str
    call: str
    age_s: float
    deadline_in_s: float


class ActorRow(msgspec.Struct, frozen=True, kw_only=True):
    """One actor as `nodeagent actors` and ``GET /actors`` show it."""

    actor_id: str
    path: Path
    class_name: str
    name: str
    state: ActorState
    num_restarts: int
    death_cause: str = ""
    mailbox_depth: int = 0
    mailbox_high_water: int = 0
    current_message: str = ""
    current_message_age_s: float = 0.0
    oldest_pending_s: float = 0.0
    handled: int = 0
    handling_s: float = 0.0
    conflated: int = 0
    dead_lettered: int = 0
    operations: tuple[OperationRow, ...] = ()
    alarm_in_s: float | None = None
    parent: str = ""
    incarnation: int = 0
    unresponsive: str = ""
    """Why the kernel counts it as stuck, empty when it answers its ping."""


class TraceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery, as the trace keeps it."""

    at: float
    """Monotonic seconds."""
    path: Path
    message: str
    outcome: str
    """What the receiver decided, in one line, or the exception that ended the incarnation."""
    took_s: float


class DeadLetterRow(msgspec.Struct, frozen=True, kw_only=True):
    """A message that nobody handled."""

    at: float
    to: Path
    message: str
    reason: str
    """``no such actor``, ``full``, ``expired``, ``stopping`` or ``fault``."""


class KernelRow(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of the whole actor system."""

    actors: int
    by_state: tuple[tuple[str, int], ...] = ()
    by_class: tuple[tuple[str, int], ...] = ()
    accepted: int = 0
    handled: int = 0
    conflated: int = 0
    dead_lettered: int = 0
    pending: int = 0
    threads: int = 0
    stuck: tuple[str, ...] = ()
    """One sentence for each actor that does not answer: who, on which message, for how long, its stack's last line."""


class Hop(StrEnum):
    """Where time passes on the way of a message."""

    MAILBOX = "mailbox"
    HANDLER = "handler"
    OPERATION = "operation"


class HopRow(msgspec.Struct, frozen=True, kw_only=True):
    """How long one kind of hop took, since the agent began."""

    hop: Hop
    name: str
    """Class of actors, or port."""
    call: str = ""
    """Of an operation."""
    counts: tuple[int, ...]
    """In each bucket of `HOP_BOUNDS_S`, and in one more for the rest."""
    sum_s: float
    endings: tuple[tuple[str, int], ...] = ()
    """Of operations: ``ok`` or the kind of failure. Of handlers: ``restarted``, deaths of incarnations that were followed by another."""


HOP_BOUNDS_S = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
"""Upper bounds of the buckets of a `HopRow`, in seconds."""


class PodRow(msgspec.Struct, frozen=True, kw_only=True):
    """One pod as ``nodeagent pods`` shows it."""

    namespace: str
    name: str
    uid: str
    ready: str
    """Ready containers of all, ``1/2``."""
    status: str
    """What kubectl's STATUS column would say: ``Running``, ``CrashLoopBackOff``, ``Completed``, ``Terminating`` ..."""
    restarts: int
    last_restart_ago_s: float | None = None
    age_s: float | None = None
    ip: str = ""
    source: str = ""
    """``file``, ``http``, ``api``, ``orphan`` or ``foreign``."""
    why: str = ""
    """One short sentence on what the pod waits for, empty when all is well."""
    containers: tuple[str, ...] = ()


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was tried or will be: when (seconds ago, or from now), what, and how it went."""

    in_s: float
    """Negative: that long ago; zero: now; positive: from now."""
    what: str
    result: str = ""


class ProbeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One probe of a running container: what it asks, what counts now, how its last checks went, when it asks again."""

    what: str
    """Kind, container, what is asked and how often, in words."""
    result: str
    """What counts: ``success``, ``failure``, or ``unknown`` while it has not said anything."""
    checked: int = 0
    failures: int = 0
    """Checks in a row that failed."""
    failing_s: float | None = None
    message: str = ""
    """Of the last check, one line; empty when it went well."""
    next_in_s: float | None = None
    """None while it is being asked, waits for another probe, or is done with this instance."""
    waits: str = ""
    """Why it is not asked at a given time, in words."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to ``explain pod``: state, what it waits for and since when, what was tried, what comes next."""

    namespace: str
    name: str
    uid: str
    state: str
    """One sentence."""
    waits_for: str = ""
    since_s: float | None = None
    sync_step: str = ""
    """The step of a sync that the pod is at, empty for one that is being ended."""
    sync_steps: tuple[str, ...] = ()
    """All steps of a sync, in their order."""
    tried: tuple[Step, ...] = ()
    next: tuple[Step, ...] = ()
    kill: str = ""
    """Who asked for the last kill and why, empty when nobody did."""
    containers: tuple[str, ...] = ()
    """One sentence for each container."""
    problems: tuple[str, ...] = ()
    probes: tuple[ProbeRow, ...] = ()


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a pod."""

    at: int
    """Wall clock nanoseconds of the last occurrence."""
    first_at: int = 0
    """Of the first one; 0 when it is not known."""
    namespace: str
    pod: str
    uid: str = ""
    host: str = ""
    """The node that it happened on."""
    type: str
    """``Normal`` or ``Warning``."""
    reason: str
    message: str
    count: int = 1
    field_path: str = ""


class SourceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One input of a source (a file, a URL) and what became of it."""

    source: str
    where: str
    status: str
    """``accepted``, ``broken``, ``duplicate``, ``ignored``, ``waiting`` or ``unreachable``."""
    pod: str = ""
    problems: tuple[str, ...] = ()


class HealthRow(msgspec.Struct, frozen=True, kw_only=True):
    """One health check; `detail` names the culprit when it fails."""

    name: str
    ok: bool
    detail: str = ""


class HeldImage(msgspec.Struct, frozen=True, kw_only=True):
    """One image of the runtime, who needs it and how old it is here."""

    id: str
    names: tuple[str, ...] = ()
    size_bytes: int = 0
    pinned: bool = False
    user: int | None = None
    user_name: str = ""
    containers: tuple[str, ...] = ()
    """Made from it or mounting it, running or not: ``namespace/pod/container``."""
    wanted_by: tuple[str, ...] = ()
    """Pods that are to run and name it: ``namespace/pod``."""
    seen_ago_s: float | None = None
    """Since it was first seen; None while garbage collection has not seen it."""
    used_ago_s: float | None = None
    """Since it was last seen used; None when it was never."""


class ImageDecision(StrEnum):
    """What a collection does with an image."""

    KEEP = "keep"
    REMOVE = "remove"
    """It is to go, and is still there."""
    REMOVED = "removed"
    FAILED = "failed"


class ImageVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One image in a collection of garbage: what became of it or would, and why."""

    id: str
    names: tuple[str, ...] = ()
    size_bytes: int = 0
    decision: ImageDecision
    reason: str


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """One collection of unused images: planned, under way or over."""

    runs: tuple[str, ...] = ()
    """Names under which it was asked for; none when it was due by itself."""
    done: bool = False
    dry_run: bool = False
    everything: bool = False
    """Whatever the usage, all that is unused and old enough; else what is too old, and down to the low threshold."""
    since_s: float = 0.0
    """How long it has taken so far, or took."""
    ended_at: int | None = None
    """Wall clock nanoseconds."""
    doing: str = ""
    """What it is at, in words, while it is not done."""
    images: tuple[ImageVerdict, ...] = ()
    """In the order of their going, then those that stay, by name."""
    before: ImageFs | None = None
    after: ImageFs | None = None
    removed_bytes: int = 0
    """Sum of the sizes of the removed (in a dry run: of those that would be), as the runtime counts: layers that images share count for each."""
    freed_bytes: int | None = None
    """How much more is free than before; None when the file system was not measured."""
    failure: str = ""
    note: str = ""


class ImageGCRow(msgspec.Struct, frozen=True, kw_only=True):
    """Where the collection of unused images stands."""

    under_way: Collection | None = None
    last: Collection | None = None
    next_in_s: float | None = None
    failures: int = 0
    """Rounds in a row that failed."""
    note: str = ""
    """Why the space of images is not looked after, empty when it is."""


class LogTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Where a container's log is."""

    path: str
    """Absolute; under `root`."""
    root: str
    """The pod's own log folder: nothing outside it is opened."""
    running: bool


class LogQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a container's log is asked for, and how it is to look."""

    follow: bool = False
    tail: int | None = None
    """How many lines from the end; None is all of them."""
    since_ns: int | None = None
    """Wall clock nanoseconds: older lines are left out."""
    timestamps: bool = False
    limit_bytes: int | None = None
    """Stop after this many bytes of answer, in the middle of a line if need be."""


class LogStream(Protocol):
    """An opened log: pieces of the answer in order. Whoever opened it closes it."""

    def __iter__(self) -> Iterator[bytes]:
        """Return the pieces; when following, wait for more until the container ended or the asker hung up."""
        ...

    def close(self) -> None:
        """Give back what the log holds open; may be called more than once."""
        ...


class LogReader(Protocol):
    """Opens a container's log for somebody who is not allowed to look anywhere else."""

    def __call__(
        self, target: LogTarget, query: LogQuery, *, running: Callable[[], bool], hangup: int = -1
    ) -> LogStream:
        """Open `target`. `running` is asked again while following; `hangup` is a socket whose closing ends it.

        Raises `NotFoundError` when there is no log, `DeniedError` when the path leads outside or is no regular file.
        """
        ...


class LevelRow(msgspec.Struct, frozen=True, kw_only=True):
    """The log level of one actor and all below it; an empty path is the agent's own."""

    path: str
    level: str
    """``DEBUG``, ``INFO``, ``WARNING`` or ``ERROR``."""


class Levels(Protocol):
    """Log levels that can be changed while the agent runs."""

    def levels(self) -> tuple[LevelRow, ...]:
        """Return what is set, by path."""
        ...

    def set_level(self, path: str, level: str) -> None:
        """Set the level of `path` and below; an empty level takes it back. Raises `RejectedError` for an unknown one."""
        ...


class Window(Protocol):
    """What the admin socket may look at. Reads committed state only: it answers while actors hang.

    A pod is named ``name`` or ``namespace/name``; a name without the node's suffix finds a static pod too. Methods
    raise `NotFoundError` for what is not there and `RejectedError` for a question that has no answer, with the
    reason in words.
    """

    def actors(self) -> tuple[ActorRow, ...]:
        """Return every actor, parents before children."""
        ...

    def kernel(self) -> KernelRow:
        """Return the figures of the actor system."""
        ...

    def metrics(self, *, resource: bool) -> bytes:
        """Return everything that is counted in Prometheus' text format; with `resource` only what pods and node use."""
        ...

    def stats_summary(self, *, short: bool) -> bytes:
        """Return what node and pods use, as a kubelet's ``/stats/summary``; `short`: processor time and memory only.

        Raises `UnavailableError` while nothing was read yet.
        """
        ...

    def usage(self) -> Usage:
        """Return the last round of usage as it was read. Raises `UnavailableError` while nothing was read yet."""
        ...

    def trace(self, path: Path, limit: int) -> tuple[TraceRow, ...]:
        """Return the last deliveries of one actor, oldest first."""
        ...

    def dead_letters(self) -> tuple[DeadLetterRow, ...]:
        """Return the last dead letters, oldest first."""
        ...

    def pods(self) -> tuple[PodRow, ...]:
        """Return every pod, by namespace and name."""
        ...

    def pod_list(self) -> bytes:
        """Return a v1 PodList with status, as JSON; environment values are kept out."""
        ...

    def explain(self, pod: str) -> Explanation:
        """Explain one pod."""
        ...

    def eviction(self) -> EvictionRow:
        """Return thresholds and readings, what eviction would do now, and how each pod stands.

        Raises `UnavailableError` while its actor has not begun.
        """
        ...

    def events(self, pod: str) -> tuple[EventRow, ...]:
        """Return the events of one pod, or of all for an empty name, oldest first."""
        ...

    def event_list(self, pod: str, kind: str) -> bytes:
        """Return the same as a v1 EventList, as JSON; `kind`: only those of this type, all for an empty one."""
        ...

    def sources(self) -> tuple[SourceRow, ...]:
        """Return what became of each file and URL."""
        ...

    def health(self) -> tuple[HealthRow, ...]:
        """Return every health check; alive means all of them."""
        ...

    def ready(self) -> tuple[HealthRow, ...]:
        """Return what must hold before pods can be expected to run: runtime ready, sources seen."""
        ...

    def log_target(self, pod: str, container: str, *, previous: bool) -> LogTarget:
        """Return where a container's log is; an empty `container` means the only one."""
        ...

    def exec(self, pod: str, container: str, command: tuple[str, ...], timeout_s: float) -> ExecResult:
        """Run a command in a running container and wait for it."""
        ...

    def open_exec(
        self,
        pod: str,
        container: str,
        command: tuple[str, ...],
        *,
        tty: bool,
        stdin: bool,
        stdout: bool,
        stderr: bool,
    ) -> str:
        """Prepare a command in a running container and return the URL of its streams, good once and soon."""
        ...

    def images(self) -> tuple[HeldImage, ...]:
        """Return the runtime's images, by id."""
        ...

    def pull_image(self, reference: str) -> HeldImage:
        """Fetch an image and return it; takes as long as it takes."""
        ...

    def remove_image(self, reference: str) -> HeldImage:
        """Remove the image of this id, short id or name, with all its names, and return what it was.

        Raises `ConflictError` for one that a pod uses or wants, naming the pods.
        """
        ...

    def plan_collection(self) -> Collection:
        """Return what collecting everything unused would do now, without doing it."""
        ...

    def start_collection(self) -> str:
        """Ask for a collection of everything unused and return the name of the run."""
        ...

    def collection(self, run: str) -> Collection | None:
        """Return the collection of this run, None while nobody knows it: it was just asked for, or forgotten."""
        ...

    def image_gc(self) -> ImageGCRow:
        """Return where the collection of unused images stands."""
        ...
