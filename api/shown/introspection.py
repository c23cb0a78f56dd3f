"""Rows for users and programs. Actor fields have Ray's names where Ray has one."""

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
    """State of an actor, as in Ray."""

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
    """Why the kernel counts it as stuck; empty when it answers its ping."""


class TraceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery in the trace of an actor."""

    at: float
    """Monotonic seconds."""
    path: Path
    message: str
    outcome: str
    """What the receiver decided, in one line, or the exception that ended the incarnation."""
    took_s: float


class DeadLetterRow(msgspec.Struct, frozen=True, kw_only=True):
    """A message that no actor handled."""

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
    """One sentence for each actor that does not answer: its path, the message, for how long, the last line of its stack."""


class Hop(StrEnum):
    """A part of the path of a message that takes time."""

    MAILBOX = "mailbox"
    HANDLER = "handler"
    OPERATION = "operation"


class HopRow(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies of one kind of hop since the start of the agent."""

    hop: Hop
    name: str
    """Class of actors, or port."""
    call: str = ""
    """Of an operation."""
    counts: tuple[int, ...]
    """In each bucket of `HOP_BOUNDS_S`, and in one more for the rest."""
    sum_s: float
    endings: tuple[tuple[str, int], ...] = ()
    """Of operations: ``ok`` or the kind of failure. Of handlers: ``restarted``, incarnations that failed and were replaced."""


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
    """As kubectl's STATUS column: ``Running``, ``CrashLoopBackOff``, ``Completed``, ``Terminating`` ..."""
    restarts: int
    last_restart_ago_s: float | None = None
    age_s: float | None = None
    ip: str = ""
    source: str = ""
    """``file``, ``http``, ``api``, ``orphan`` or ``foreign``."""
    why: str = ""
    """What the pod waits for, one short sentence; empty when it waits for nothing."""
    containers: tuple[str, ...] = ()


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One past or future attempt: when (seconds ago, or from now), what, and its result."""

    in_s: float
    """Negative: that long ago; zero: now; positive: from now."""
    what: str
    result: str = ""


class ProbeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One probe of a running container: its check, its result, its last failures, its next check."""

    what: str
    """Kind, container, check and period, in words."""
    result: str
    """``success``, ``failure``, or ``unknown`` before the first result."""
    checked: int = 0
    failures: int = 0
    """Consecutive failures."""
    failing_s: float | None = None
    message: str = ""
    """Of the last check, one line; empty after a success."""
    next_in_s: float | None = None
    """None while a check runs, waits for another probe, or no check follows for this instance."""
    waits: str = ""
    """Why no check is scheduled, in words."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to ``explain POD``: state, what it waits for and since when, past attempts, next steps."""

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
    """Why the pod was last stopped, empty when it was not."""
    containers: tuple[str, ...] = ()
    """One sentence for each container."""
    problems: tuple[str, ...] = ()
    probes: tuple[ProbeRow, ...] = ()


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a pod."""

    at: int
    """Wall clock nanoseconds of the last occurrence."""
    first_at: int = 0
    """Of the first one; 0: unknown."""
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
    """One input of a source (a file, a URL) and its state."""

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
    """One image of the runtime, its users and its age on this node."""

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
    """Since image garbage collection first saw it; None: not seen yet."""
    used_ago_s: float | None = None
    """Since it was last seen in use; None: never."""


class ImageDecision(StrEnum):
    """What a collection does with an image."""

    KEEP = "keep"
    REMOVE = "remove"
    """To be removed, still present."""
    REMOVED = "removed"
    FAILED = "failed"


class ImageVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One image in a garbage collection: the decision and its reason."""

    id: str
    names: tuple[str, ...] = ()
    size_bytes: int = 0
    decision: ImageDecision
    reason: str


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """One garbage collection of images: planned, running or done."""

    runs: tuple[str, ...] = ()
    """Names of the requests for it; empty for a periodic one."""
    done: bool = False
    dry_run: bool = False
    everything: bool = False
    """True: remove all unused images that are old enough; False: images that are too old, and down to the low threshold."""
    since_s: float = 0.0
    """How long it has taken so far, or took."""
    ended_at: int | None = None
    """Wall clock nanoseconds."""
    doing: str = ""
    """Its current step, in words, while it is not done."""
    images: tuple[ImageVerdict, ...] = ()
    """Removed images in order of removal, then kept ones by name."""
    before: ImageFs | None = None
    after: ImageFs | None = None
    removed_bytes: int = 0
    """Sum of the sizes of removed images (dry run: of those to remove) as the runtime counts: shared layers count for each image."""
    freed_bytes: int | None = None
    """Increase of free space; None when the file system was not measured."""
    failure: str = ""
    note: str = ""


class ImageGCRow(msgspec.Struct, frozen=True, kw_only=True):
    """State of image garbage collection."""

    under_way: Collection | None = None
    last: Collection | None = None
    next_in_s: float | None = None
    failures: int = 0
    """Consecutive failed rounds."""
    note: str = ""
    """Why image space is not managed, empty when it is."""


class LogTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Where a container's log is."""

    path: str
    """Absolute; under `root`."""
    root: str
    """The pod's own log folder: nothing outside it is opened."""
    running: bool


class LogQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a container's log to return, and in which format."""

    follow: bool = False
    tail: int | None = None
    """How many lines from the end; None is all of them."""
    since_ns: int | None = None
    """Wall clock nanoseconds: older lines are left out."""
    timestamps: bool = False
    limit_bytes: int | None = None
    """Stop after this many bytes of answer, in the middle of a line if need be."""


class LogStream(Protocol):
    """An open log: the answer in chunks. The caller closes it."""

    def __iter__(self) -> Iterator[bytes]:
        """Return the chunks; when following, wait for more until the container ends or the client disconnects."""
        ...

    def close(self) -> None:
        """Close the log; may be called more than once."""
        ...


class LogReader(Protocol):
    """Opens a container's log, and no file outside the pod's log folder."""

    def __call__(
        self, target: LogTarget, query: LogQuery, *, running: Callable[[], bool], hangup: int = -1
    ) -> LogStream:
        """Open `target`. `running` is called while following; `hangup` is a socket whose end of file stops it.

        Raises `NotFoundError` when there is no log, `DeniedError` when the path leads outside or is not a regular file.
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
    """The data behind the admin socket. Reads committed state only: it answers while actors hang.

    A pod is named ``name`` or ``namespace/name``; a static pod also by its name without the node's suffix. Methods
    raise `NotFoundError` for an unknown object and `RejectedError`, with the reason, for an invalid request.
    """

    def actors(self) -> tuple[ActorRow, ...]:
        """Return every actor, parents before children."""
        ...

    def kernel(self) -> KernelRow:
        """Return the figures of the actor system."""
        ...

    def metrics(self, *, resource: bool) -> bytes:
        """Return all metrics in Prometheus' text format; `resource`: only usage of node, pods and containers."""
        ...

    def stats_summary(self, *, short: bool) -> bytes:
        """Return the usage of node and pods as a kubelet's ``/stats/summary``; `short`: CPU and memory only.

        Raises `UnavailableError` before the first reading.
        """
        ...

    def usage(self) -> Usage:
        """Return the last reading of usage. Raises `UnavailableError` before the first reading."""
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
        """Return a v1 PodList with status, as JSON; without environment values."""
        ...

    def explain(self, pod: str) -> Explanation:
        """Explain one pod."""
        ...

    def eviction(self) -> EvictionRow:
        """Return thresholds and readings, the next eviction action and the rank of each pod.

        Raises `UnavailableError` before its actor has started.
        """
        ...

    def events(self, pod: str) -> tuple[EventRow, ...]:
        """Return the events of one pod, or of all for an empty name, oldest first."""
        ...

    def event_list(self, pod: str, kind: str) -> bytes:
        """Return the same as a v1 EventList, as JSON; `kind`: only those of this type, all for an empty one."""
        ...

    def sources(self) -> tuple[SourceRow, ...]:
        """Return the state of each file and URL."""
        ...

    def health(self) -> tuple[HealthRow, ...]:
        """Return every health check; the agent is alive when all pass."""
        ...

    def ready(self) -> tuple[HealthRow, ...]:
        """Return the readiness checks: runtime ready, sources seen."""
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
        """Prepare a command in a running container and return the URL of its streams, valid once and for a short time."""
        ...

    def images(self) -> tuple[HeldImage, ...]:
        """Return the runtime's images, by id."""
        ...

    def pull_image(self, reference: str) -> HeldImage:
        """Pull an image and return it; no time limit."""
        ...

    def remove_image(self, reference: str) -> HeldImage:
        """Remove the image of this id, short id or name, with all its names, and return what it was.

        Raises `ConflictError` for one that a pod uses or wants, naming the pods.
        """
        ...

    def plan_collection(self) -> Collection:
        """Return the plan of a garbage collection of all unused images, without running it."""
        ...

    def start_collection(self) -> str:
        """Start a garbage collection of all unused images and return the name of the run."""
        ...

    def collection(self, run: str) -> Collection | None:
        """Return the collection of this run, None when it is not known yet, or not any more."""
        ...

    def image_gc(self) -> ImageGCRow:
        """Return the state of image garbage collection."""
        ...
