"""Messages to a PodActor, the owner of one UID.

Sent by: PodSupervisor (`UpdatePod`, `KillPod`, `ClearPod`), Pleg (`PodObserved`), ImagePuller (`ImageReport`), Prober
(`ProbeChanged`). Order: per sender. Delivery: all are levels, the newest wins; each `KillPod` is kept that says something
else than those before it. A lost
`UpdatePod` or `KillPod` is repaired by the supervisor's housekeeping, a lost `ClearPod` when the node is short of disk
the next time, a lost `PodObserved` by the next relist, a lost `ImageReport` or `ProbeChanged` by asking again.
"""

from enum import StrEnum

import msgspec

from api.ids import Instant, Path, Uid
from api.kube.objects.pod import Pod
from api.messages import Message
from api.messages.probes import ProbeKind
from api.ports.node import NodeFacts
from api.ports.runtime import RuntimePod


class KillCause(StrEnum):
    """Why a pod is stopped: every kill has a cause. The ledger holds the value."""

    REMOVED = "removed from its source"
    DELETED = "deleted through the API"
    COMPLETED = "ran to its end"
    ORPHAN = "no source wants it"
    REPLACED = "replaced by a newer pod of the same name"
    EVICTED = "evicted"
    PREEMPTED = "pre-empted"
    SHUTDOWN = "node shutdown"
    DEADLINE = "active deadline exceeded"
    REJECTED = "not admitted to this node"


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why this node does not run a pod: decided once per UID."""

    reason: str
    """As published: ``OutOfcpu``, ``NodeAffinity``, ``SysctlForbidden`` ..."""
    message: str
    advice: tuple[str, ...] = ()
    """Sentences for users: what is short, and which pods have it."""


class Resize(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pod does not have the amounts that its source asks for."""

    reason: str
    """``Deferred``: it waits for room; ``Infeasible``: this node will never have enough."""
    message: str
    advice: tuple[str, ...] = ()
    """Sentences for users: which pods have what is short, and what to do."""


class UpdatePod(Message, frozen=True, kw_only=True):
    """What this pod should be now: the whole truth, newest wins."""

    pod: Pod
    source: str
    generation: int
    """The merge's number: an update with a smaller one is stale."""
    refusal: Refusal | None = None
    """Set: it must not run here, only its status is published."""
    node: NodeFacts
    """What the node is: a change of it is a new generation."""
    resize: Resize | None = None
    """Set: the source asks for other amounts than `pod`, which has what is allocated."""

    def brief(self) -> str:
        """Return one line for traces."""
        refused = f" refused={self.refusal.reason}" if self.refusal is not None else ""
        name = f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"
        return f"UpdatePod {name} generation={self.generation}{refused}"

    def conflation_key(self) -> str | None:
        """Keep the newest."""
        return "update"


class KillPod(Message, frozen=True, kw_only=True):
    """Stop the pod for good. Grace may only shrink; the first cause is kept to the end."""

    uid: Uid
    cause: KillCause
    grace_s: int | None = None
    """Overrides the pod's own grace when smaller, of a deletion through the API also when greater; None is the pod's own."""
    deleted: bool = False
    """Remove everything of it once it is stopped."""
    evict: bool = False
    own_fault: bool = False
    """The pod went over a limit of its own: then an eviction is no disruption (condition ``DisruptionTarget``)."""
    reason: str = ""
    """Status reason to publish (``Evicted``), empty for none."""
    message: str = ""
    asked_by: Path
    """Gets `PodKilled` when its containers are proven stopped, except the supervisor, which follows `PodMoved`."""

    def brief(self) -> str:
        """Return one line for traces."""
        grace = "own" if self.grace_s is None else f"{self.grace_s}s"
        return f"KillPod {self.uid} cause={self.cause.name} grace={grace} asked_by={self.asked_by}"

    def conflation_key(self) -> str | None:
        """Keep one of those that say the same: a repetition must not outrun its handling."""
        return f"kill:{msgspec.json.encode(self).decode()}"


class ClearPod(Message, frozen=True, kw_only=True):
    """Remove what is kept of a pod that has ended: its records in the runtime, its folders and logs. Its status stays."""

    uid: Uid

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ClearPod {self.uid}"

    def conflation_key(self) -> str | None:
        """Once is enough."""
        return "clear"


class PodObserved(Message, frozen=True, kw_only=True):
    """What the runtime shows of the pod, as of the start of the listing or inspection that saw it."""

    uid: Uid
    pod: RuntimePod
    as_of: Instant

    def brief(self) -> str:
        """Return one line for traces."""
        containers = " ".join(f"{c.name}#{c.attempt}={c.state}" for c in self.pod.containers)
        return f"PodObserved as_of={self.as_of:.3f} sandboxes={len(self.pod.sandboxes)} {containers}"

    def conflation_key(self) -> str | None:
        """Keep the newest."""
        return "observed"


class ImageProgress(StrEnum):
    """How far a wanted image is."""

    PULLING = "pulling"
    READY = "ready"
    WAITING = "waiting"


class ImageReport(Message, frozen=True, kw_only=True):
    """To a PodActor: how far the image of a container's next instance is. A level, per container."""

    uid: Uid
    container: str
    attempt: int
    again: int = 0
    """Of the want that this answers."""
    image: str
    progress: ImageProgress
    since: Instant | None = None
    """PULLING: when the fetching began, None while it is queued."""
    ref: str = ""
    """READY: the reference to make the container from."""
    user: int | None = None
    """READY: numeric user that the image runs as."""
    user_name: str = ""
    pulled: bool = False
    """READY: it was fetched for this want, not found."""
    took_s: float = 0.0
    """READY and pulled: how long the fetching took; `waited_s` of it in the queue."""
    waited_s: float = 0.0
    size_bytes: int = 0
    reason: str = ""
    """WAITING: ErrImagePull, ImagePullBackOff, ErrImageNeverPull, InvalidImageName, ImageInspectError ..."""
    message: str = ""
    retry_at: Instant | None = None
    """WAITING: when it is tried again, None when only a new want changes anything."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ImageReport {self.container}#{self.attempt} {self.progress} {self.reason}"

    def conflation_key(self) -> str | None:
        """Keep the newest of each container."""
        return f"image:{self.container}"


class ProbeResult(StrEnum):
    """What a probe says of an instance: what counts, after thresholds."""

    UNKNOWN = "unknown"
    """It has not said anything yet."""
    SUCCESS = "success"
    FAILURE = "failure"


class ProbeTrouble(StrEnum):
    """What was wrong with a probe's last check."""

    NONE = ""
    FAILED = "failed"
    ERRORED = "errored"
    """It could not be made: counts neither way."""
    WARNED = "warning"


class ProbeChanged(Message, frozen=True, kw_only=True):
    """To a PodActor: the result of a probe of an instance, sent when it changes and with each failed check.

    A level, per instance and kind of probe.
    """

    uid: Uid
    container: str
    container_id: str
    kind: ProbeKind
    result: ProbeResult
    trouble: ProbeTrouble = ProbeTrouble.NONE
    message: str = ""
    """Of the last check, bounded."""
    failures: int = 0
    """Checks in a row that failed."""
    failing_since: Instant | None = None
    checked: int = 0
    """How many checks have ended: a repetition has the same number."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ProbeChanged {self.container} {self.kind} {self.result} {self.trouble}".rstrip()

    def conflation_key(self) -> str | None:
        """Keep the newest of each probe."""
        return f"probe:{self.container}:{self.kind}"


PodMessage = UpdatePod | KillPod | ClearPod | PodObserved | ImageReport | ProbeChanged
