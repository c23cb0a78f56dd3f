"""What PodSupervisor knows: the desired pods, the actors that own them, and what else the runtime holds."""

from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec

from actors.rules.agenda import Agenda
from actors.rules.desiredsources import DesiredSources
from actors.rules.nodewatch import NEVER_ASKED
from actors.rules.retry import Retry
from api.ids import Instant, OpId, Path, Uid
from api.kube.objects.pod import Pod
from api.lifecycle import Action
from api.messages.admission import Allocated
from api.messages.eviction import ActivePod
from api.messages.pod import KillPod
from api.messages.supervisor import (
    ClearFinished,
    PodAdmitted,
    PodLife,
    PodRefused,
    RuntimePresence,
)
from api.ports.node import NodeFacts

MEMO_SECTION = "pods"
STATUS_SECTION = "status"
"""Ledger sections that PodActors and StatusManager write; the supervisor only asks which UIDs are in them."""
REVISIONS = 1_000_000
"""More updates of one pod than an incarnation of the supervisor sends."""


class SpawnPod(Action, frozen=True, kw_only=True):
    """Start the actor that owns this UID."""

    uid: Uid
    blank_as_of: Instant | None = None
    """Where it was looked, runtime and ledger hold nothing of the pod: since when that is known; None when it is not."""


class StopPod(Action, frozen=True, kw_only=True):
    """Stop the actor of a pod of which nothing is left."""

    uid: Uid


class Desired(msgspec.Struct, frozen=True, kw_only=True):
    """What a source wants of a UID."""

    pod: Pod | None = None
    """What it should be; None when no source wants it (any more)."""
    source: str = ""
    """Who wanted it last; empty for an orphan."""
    order: int = 0
    """When it came: static pods of one name start in this order."""
    revision: int = 0
    """Counts what its actor has to be sent."""
    requested: tuple[Allocated, ...] = ()
    """The amounts that the spec of `pod` requests."""


class Unspawned(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It has no actor (yet)."""


class Spawned(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It has an actor."""

    sent: int = -1
    """Revision that its actor was sent last."""
    sent_at: Instant = float("-inf")
    retry: Retry = Retry()
    """How often an actor of this pod has died past its restart budget."""


class Stopping(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Everything of the pod is removed, and its actor is about to end."""


class Quarantined(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Its actor died past its restart budget, and is started again later."""

    cause: str
    retry: Retry


PodActorState = Unspawned | Spawned | Stopping | Quarantined


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod's actor said last."""

    life: PodLife | None = None
    """None before it said anything."""
    deleted: bool = False
    """It knows that nothing of it is to stay: that answers the kill."""
    kept: bool = False
    """It has ended, and its logs, perhaps its records in the runtime too, are there still."""
    leaving: bool = False
    """It has ended, and what its containers wrote is being removed with their records."""
    confined: int = -1
    """Generation of the last answer of admission whose amounts confine everything of it that runs."""


class KillRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A kill for a pod's actor, which is sent until it is answered."""

    message: KillPod
    tries: int = 0
    """How often its actor was sent it: each repetition waits longer than the one before."""
    sent_at: Instant = float("-inf")


class Preemption(msgspec.Struct, frozen=True, kw_only=True):
    """The kill that makes room for a critical pod; repeated until the pod's actor answers."""

    message: KillPod
    sent_at: Instant = float("-inf")


class NotAsked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It cannot be admitted yet: its name is not free, or too little is known."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Admission was asked to decide on it."""

    settled: bool = False
    """It runs, has ended or must end: it is admitted whatever there is room for."""


class Judged(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It is decided on, and that is being written: its actor may begin to look around."""


class Decided(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Admission has answered, and the ledger holds it."""

    answer: PodAdmitted | PodRefused
    fresh: bool = False
    """It was decided since the supervisor began: nothing of the pod can have ended before."""


AdmissionProgress = NotAsked | Asked | Judged | Decided


class PodEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One UID under supervision: wanted by a source, owned by an actor, or both."""

    uid: Uid
    name: str
    namespace: str
    number: int = 0
    """Which pod of this UID: the same UID may come again when everything of it is removed."""
    desired: Desired = Desired()
    actor: PodActorState = Unspawned()
    reported: Reported = Reported()
    kill: KillRequest | None = None
    """Set: nothing of it is to stay."""
    deletion: KillRequest | None = None
    """Set: its object is being deleted; its source lets go of it when everything has ended."""
    preemption: Preemption | None = None
    admission: AdmissionProgress = NotAsked()
    look_at: Instant | None = None
    """When something is to be done about it though nothing of it changes; None: never."""

    @property
    def full_name(self) -> str:
        """Return ``name_namespace``, which one running static pod at a time may have."""
        return f"{self.name}_{self.namespace}"

    @property
    def is_static(self) -> bool:
        """Return whether its name is serialised: pods of files and URLs."""
        return self.desired.source not in ("", "api")

    @property
    def has_actor(self) -> bool:
        """Return whether an actor of it lives."""
        return isinstance(self.actor, Spawned | Stopping)


class ActiveTold(msgspec.Struct, frozen=True, kw_only=True):
    """The active pods as last sent to subscribers."""

    pods: Mapping[Uid, ActivePod]
    leaving: Mapping[Uid, None]
    whole: bool


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """Which pods each question is about, so that a change of one pod has no one walk over all of them."""

    names: Mapping[str, tuple[Uid, ...]] = {}
    """By full name, as they came."""
    unanswered: Mapping[Uid, None] = {}
    """Pods that wait for the answer of admission."""
    unheard: Mapping[Uid, None] = {}
    """Those whose actor has not said yet whether they have ended."""
    waiting: Mapping[Uid, None] = {}
    """Those whose next step depends on a listing, or on sources that have not spoken."""
    active: Mapping[Uid, ActivePod] = {}
    leaving: Mapping[Uid, None] = {}
    cleanable: Mapping[Uid, None] = {}
    """Pods that have ended and of which something is kept."""


class Listing(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A listing of the container runtime; its maps are made when a pod is first looked up in it."""

    as_of: Instant
    pods: tuple[RuntimePresence, ...]

    @cached_property
    def by_uid(self) -> Mapping[Uid, RuntimePresence]:
        """The pods by UID."""
        return {presence.uid: presence for presence in self.pods}

    @cached_property
    def by_name(self) -> Mapping[tuple[str, str], tuple[RuntimePresence, ...]]:
        """The pods by name and namespace."""
        found: dict[tuple[str, str], tuple[RuntimePresence, ...]] = {}
        for presence in self.pods:
            name = (presence.name, presence.namespace)
            found[name] = (*found.get(name, ()), presence)
        return found


class RuntimeView(msgspec.Struct, frozen=True, kw_only=True):
    """What the container runtime holds, as of its last listing."""

    listed: Listing | None = None
    strays: tuple[RuntimePresence, ...] = ()
    """What of the last listing has no entry."""
    foreign: tuple[RuntimePresence, ...] = ()
    """What another agent made."""
    loose: frozenset[Uid] = frozenset()
    """Pods of which the listing before that one showed containers and no sandbox."""
    ended: Mapping[Uid, Instant] = {}
    """When the last trace of a UID was removed: a listing begun before says nothing about it."""

    def covers(self, uid: Uid) -> bool:
        """Return whether the last listing says something about a UID: it began after the last trace was removed."""
        return self.listed is not None and self.listed.as_of > self.ended.get(uid, float("-inf"))


class GarbageCollection(msgspec.Struct, frozen=True, kw_only=True):
    """The search for what pods that no one owns left in the ledger and on disk."""

    calls: tuple[OpId, ...] = ()
    """Its calls in flight."""
    next_at: Instant = float("-inf")
    found: tuple[Uid, ...] = ()
    failed: bool = False
    """One of its calls failed, or a section of the ledger could not be read."""
    remains: frozenset[Uid] | None = None
    """Of which UIDs the last whole search of this incarnation found something; None before there was one."""


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """Which questions must be answered again because something has changed on which they depend."""

    strays: bool = True
    """What becomes of pods that have no entry."""
    waiting: bool = True
    """What becomes of those who wait for a listing or for sources."""


class AdmissionLink(msgspec.Struct, frozen=True, kw_only=True):
    """How far supervisor and admission know of each other."""

    ready: bool = False
    """Admission has read the ledger and knows all pods."""
    recalled: Mapping[Uid, str] = {}
    """Of which pods the ledger holds a verdict while no one owns them, as ``namespace/name``."""
    whole_due: bool = True
    """All rows must be sent."""
    whole_at: Instant = float("-inf")
    sent_at: Instant = float("-inf")
    """When any were sent last."""
    tries: int = 0
    """How often all were sent since something was to be answered."""


class FollowedNode(msgspec.Struct, frozen=True, kw_only=True):
    """What the node has and is called; not wholly known before it was asked."""

    facts: NodeFacts = NodeFacts()
    known: bool = False
    asked_at: Instant = NEVER_ASKED


class Clearance(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of pods that have ended is being removed."""

    asked: ClearFinished
    sent: tuple[Uid, ...] = ()
    """Whose actors were asked to."""


class Watchers(msgspec.Struct, frozen=True, kw_only=True):
    """Subscribers to the active pods."""

    paths: tuple[Path, ...] = ()
    told: ActiveTold | None = None
    """What they were told last; None: one of them must be told again."""


class SupervisorState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that PodSupervisor knows."""

    sources: DesiredSources = DesiredSources()
    take_over: bool = False
    resync_s: float = 60.0
    epoch: int = 0
    """Incarnation of the supervisor: revisions of a later one are greater than all before."""

    entries: Mapping[Uid, PodEntry] = {}
    index: Index = Index()
    """Of the entries as the last turn left them."""
    touched: Mapping[Uid, PodEntry | None] = {}
    """Which entries changed since that turn, and how it left them (None: they were not there): they are looked at next."""
    agenda: Agenda = Agenda()
    """When entries are due without a change."""
    next_order: int = 0
    due: Due = Due()
    runtime: RuntimeView = RuntimeView()
    garbage: GarbageCollection = GarbageCollection()
    node: FollowedNode = FollowedNode()
    link: AdmissionLink = AdmissionLink()
    clearance: Clearance | None = None
    watchers: Watchers = Watchers()
    wake_at: Instant | None = None
    """When the last turn wanted the next one at the latest."""


def with_entries(state: SupervisorState, changed: Iterable[PodEntry]) -> SupervisorState:
    """Return the state with these entries in place of those that their UIDs had."""
    entries, touched = dict(state.entries), dict(state.touched)
    for entry in changed:
        touched.setdefault(entry.uid, entries.get(entry.uid))
        entries[entry.uid] = entry
    return msgspec.structs.replace(state, entries=entries, touched=touched)


def with_entry(state: SupervisorState, entry: PodEntry) -> SupervisorState:
    """Return the state with this entry in place of the UID's last."""
    return with_entries(state, (entry,))
