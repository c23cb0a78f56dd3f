"""Messages to PodSupervisor, the keeper of the desired set and parent of all pod actors.

Sent by: PodConfig (`PodsChanged`, `PodsSnapshot`), Pleg (`RuntimeListed`), PodActors (`PodMoved`),
EvictionManager (`WatchPods`, `ClearFinished`), NodeManager (`NodeChanged`),
AdmissionManager (`PodsJudged`, `PodsDecided`, `VerdictsRecalled`, `PreemptPods`), and every sender of a kill (`KillPod`, forwarded to its actor). Order: `PodsChanged` is numbered; a gap makes the
supervisor ask for a snapshot. Delivery: `RuntimeListed` and `PodMoved` are levels. A lost `PodMoved` is repaired by the
PodActor's next one, and comes again with each `UpdatePod`. Whoever sent a `ClearFinished` waits only so long.
"""

from enum import StrEnum

import msgspec

from api.ids import Instant, Path, Uid
from api.kube.objects.pod import Pod
from api.messages import Message
from api.messages.admission import Allocated
from api.messages.node import NodeChanged
from api.messages.pod import KillPod, Refusal, Resize


class PodOp(StrEnum):
    """Kind of change, in the order in which one list's changes are sent."""

    REMOVE = "REMOVE"
    ADD = "ADD"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    RECONCILE = "RECONCILE"
    RESTORE = "RESTORE"


class PodsChanged(Message, frozen=True, kw_only=True):
    """One kind of change of one source. An empty ADD says no more than that the source was seen."""

    number: int
    """One more than the last message to this subscriber."""
    source: str
    op: PodOp
    pods: tuple[Pod, ...] = ()

    def brief(self) -> str:
        """Return one line for traces."""
        return f"PodsChanged #{self.number} {self.source} {self.op} pods={len(self.pods)}"


class SourcedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A desired pod and the source that wants it."""

    source: str
    pod: Pod


class PodsSnapshot(Message, frozen=True, kw_only=True):
    """Every desired pod of every source. Pods of a source that is not in `seen` are unknown, not absent."""

    number: int
    seen: tuple[str, ...]
    """Sources that delivered at least one list of their own."""
    pods: tuple[SourcedPod, ...] = ()

    def brief(self) -> str:
        """Return one line for traces."""
        return f"PodsSnapshot #{self.number} seen={','.join(self.seen)} pods={len(self.pods)}"


class RuntimePresence(msgspec.Struct, frozen=True, kw_only=True):
    """That the runtime holds something of a pod."""

    uid: Uid
    name: str
    namespace: str
    ours: bool
    alive: bool
    """A ready sandbox or a running container."""
    loose: bool = False
    """Containers only: no sandbox was listed that says whose they are."""
    source: str = ""
    """Which source the pod came from, as its sandbox says; empty where it does not."""


class RuntimeListed(Message, frozen=True, kw_only=True):
    """A complete listing of the runtime, as of its start."""

    pods: tuple[RuntimePresence, ...]
    as_of: Instant

    def brief(self) -> str:
        """Return one line for traces."""
        return f"RuntimeListed pods={len(self.pods)} as_of={self.as_of:.3f}"

    def conflation_key(self) -> str | None:
        """Keep the newest."""
        return "listed"


class PodLife(StrEnum):
    """Where a pod is in its one-way life on this node."""

    RECALLING = "recalling"
    """Reading what the ledger knows."""
    SYNCING = "syncing"
    TERMINATING = "terminating"
    TERMINATED = "terminated"
    """Every container is proven stopped, exit codes are read."""
    FINISHED = "finished"
    """Nothing is left to do; records and logs stay while it is desired."""
    GONE = "gone"
    """Nothing of it is left; its actor can be stopped."""


class PodMoved(Message, frozen=True, kw_only=True):
    """A pod's life went on; sent by its actor, the newest wins."""

    uid: Uid
    name: str
    namespace: str
    life: PodLife
    confined: int = -1
    """Generation of the last update whose amounts confine everything of it that runs."""
    kept: bool = False
    """FINISHED: its logs, perhaps its records in the runtime too, are there still."""
    leaving: bool = False
    """FINISHED: it was evicted, and its records, with what its containers wrote, are being removed."""
    deleted: bool = False
    """It is being stopped, and everything of it will be removed: the answer to a kill with `deleted`."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"PodMoved {self.uid} {self.life}{' kept' if self.kept else ''}{' leaving' if self.leaving else ''}"

    def conflation_key(self) -> str | None:
        """Keep the newest of each pod."""
        return f"moved:{self.uid}"


class WatchPods(Message, frozen=True, kw_only=True):
    """From now on send `asked_by` which pods are active: at once, and whenever that changes."""

    asked_by: Path

    def brief(self) -> str:
        """Return one line for traces."""
        return f"WatchPods {self.asked_by}"


class PodAdmitted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A pod may run, with so much."""

    uid: Uid
    number: int
    """Which pod of this UID, as it was asked for."""
    generation: int
    """Counts answers: of two about one pod the greater one holds."""
    fresh: bool = False
    """It was decided now, on a pod that nothing was known of: nothing of it can have ended before."""
    allocated: tuple[Allocated, ...] = ()
    asked: tuple[Allocated, ...] = ()
    """What it asks for, as of this answer."""
    resize: Resize | None = None
    """Why it does not have that."""
    holds: bool = False
    """What it had before is free only when `PodToAdmit.confined` says so."""


class PodRefused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A pod never runs here."""

    uid: Uid
    number: int
    generation: int
    fresh: bool = False
    refusal: Refusal


class PodsDecided(Message, frozen=True, kw_only=True):
    """What became of pods that were to be admitted or asked for other amounts; the ledger holds it, or takes nothing."""

    decisions: tuple[PodAdmitted | PodRefused, ...]

    def brief(self) -> str:
        """Return one line for traces."""
        refused = sum(isinstance(one, PodRefused) for one in self.decisions)
        return f"PodsDecided admitted={len(self.decisions) - refused} refused={refused}"


class PodsJudged(Message, frozen=True, kw_only=True):
    """Verdicts on these pods are being written: their actors may begin to recall and inspect."""

    pods: tuple[tuple[Uid, int], ...]
    """UID and number."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"PodsJudged pods={len(self.pods)}"


class VerdictsRecalled(Message, frozen=True, kw_only=True):
    """Of which pods the ledger holds a verdict while no one owns them: the answer to each whole `PodsToAdmit`."""

    epoch: int
    """Of the supervisor that asked."""
    pods: tuple[tuple[Uid, str], ...] = ()
    """UID and ``namespace/name``."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"VerdictsRecalled epoch={self.epoch} pods={len(self.pods)}"

    def conflation_key(self) -> str | None:
        """Keep the newest."""
        return "recalled"


class PreemptPods(Message, frozen=True, kw_only=True):
    """Stop these pods to make room for a critical one; repeated until `PodToAdmit.preempted` says that it is known."""

    uids: tuple[Uid, ...]

    def brief(self) -> str:
        """Return one line for traces."""
        return f"PreemptPods {' '.join(self.uids)}"

    def conflation_key(self) -> str | None:
        """Keep the newest."""
        return f"preempt:{' '.join(self.uids)}"


class ClearFinished(Message, frozen=True, kw_only=True):
    """Have what is kept of pods that have ended removed: the node is short of disk."""

    run: str
    """Comes back in `FinishedCleared`."""
    asked_by: Path

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ClearFinished {self.run} {self.asked_by}"


SupervisorMessage = (
    PodsChanged
    | PodsSnapshot
    | RuntimeListed
    | PodMoved
    | KillPod
    | WatchPods
    | ClearFinished
    | NodeChanged
    | PodsDecided
    | PodsJudged
    | VerdictsRecalled
    | PreemptPods
)
