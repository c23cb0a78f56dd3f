"""What PodSupervisor knows: the desired pods, the actors that own them, and what else the runtime holds."""

from collections.abc import Iterable, Mapping

import msgspec

from actors.rules.agenda import Agenda
from actors.rules.resources.request import Claim
from actors.supervisor.verdict import Book, Verdict
from api.ids import Instant, OpId, Path, Uid
from api.kube.objects.pod import Pod
from api.lifecycle import Action
from api.messages.eviction import ActivePod
from api.messages.pod import KillPod, Resize
from api.messages.supervisor import ClearFinished, NodePressure, PodLife, RuntimeListed, RuntimePresence
from api.ports.node import NodeFacts

MEMO_SECTION = "pods"
STATUS_SECTION = "status"
"""Ledger sections that PodActors and StatusManager write; the supervisor only asks which UIDs are in them."""


class SpawnPod(Action, frozen=True, kw_only=True):
    """Start the actor that owns this UID."""

    uid: Uid
    blank_as_of: Instant | None = None
    """Where it was looked, runtime and ledger hold nothing of the pod: since when that is known; None when it is not."""


class StopPod(Action, frozen=True, kw_only=True):
    """Stop the actor of a pod of which nothing is left."""

    uid: Uid


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """One UID under supervision: wanted by a source, owned by an actor, or both."""

    uid: Uid
    name: str
    namespace: str
    source: str = ""
    """Who wanted it last; empty for an orphan."""
    pod: Pod | None = None
    """What it should be; None when no source wants it (any more)."""
    order: int = 0
    """When it came: static pods of one name start in this order."""
    spawned: bool = False
    life: PodLife | None = None
    """What its actor last said; None before it said anything."""
    told: int = -1
    """`revision` that its actor was last told."""
    revision: int = 0
    told_at: Instant = float("-inf")
    kill: KillPod | None = None
    """The kill that its actor was told, or is to be told again."""
    kill_told: bool = False
    kill_tries: int = 0
    """How often its actor was told so: each repetition waits longer than the one before."""
    deleted: bool = False
    """Its actor said that nothing of it is to stay: that answers the kill."""
    verdict: Verdict | None = None
    """What admission decided; None while it is open."""
    kept: bool = False
    """The ledger holds the verdict, or would not take it: the actor may be told."""
    fresh: bool = False
    """This incarnation decided: nothing of the pod can have ended before."""
    waits: str = ""
    """What the verdict waits for."""
    scarce_since: Instant | None = None
    """Since when there is no room for it."""
    preemption: KillPod | None = None
    """The kill that makes room for a critical pod; repeated until the actor answers."""
    preempted_at: Instant = float("-inf")
    """When its actor was last told so."""
    resize: Resize | None = None
    """Why it does not have the amounts that it asks for."""
    left: bool = False
    """It has ended, and its logs, perhaps its records in the runtime too, are there still."""
    leaving: bool = False
    """It has ended, and what its containers wrote is being removed with their records."""
    held: Claim | None = None
    """What its containers may still have of an earlier allocation, until its actor says otherwise."""
    stopping: bool = False
    died: str = ""
    """Why its actor is in quarantine, empty when it is not."""
    deaths: int = 0
    retry_at: Instant = 0.0
    look_at: Instant | None = None
    """When something is to be done about it though nothing of it changes; None: never."""

    @property
    def full_name(self) -> str:
        """Return ``name_namespace``, which one running static pod at a time may have."""
        return f"{self.name}_{self.namespace}"

    @property
    def is_static(self) -> bool:
        """Tell whether its name is serialised: pods of files and URLs."""
        return self.source not in ("", "api")


class ActiveTold(msgspec.Struct, frozen=True, kw_only=True):
    """What watchers were told last of the pods that are active."""

    pods: Mapping[Uid, ActivePod]
    leaving: Mapping[Uid, None]
    whole: bool


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """Which pods each question is about, so that a change of one pod has nobody walk over all of them."""

    names: Mapping[str, tuple[Uid, ...]] = {}
    """By full name, as they came."""
    open: Mapping[Uid, None] = {}
    """Those who wait for their verdict."""
    housed: Mapping[Uid, None] = {}
    """Those who take something of the node."""
    resizing: Mapping[Uid, None] = {}
    """Those who ask for other amounts than they have, or did."""
    unkept: Mapping[Uid, None] = {}
    """Those whose verdict the ledger does not hold yet."""
    unheard: Mapping[Uid, None] = {}
    """Those whose actor has not said yet whether they have ended."""
    waiting: Mapping[Uid, None] = {}
    """Those whose next step depends on a listing, or on sources that have not spoken."""
    active: Mapping[Uid, ActivePod] = {}
    leaving: Mapping[Uid, None] = {}
    cleanable: Mapping[Uid, None] = {}
    """Those who have ended and of whom something is kept."""


class SupervisorState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that PodSupervisor knows."""

    expected: tuple[str, ...]
    """Sources that must be seen before anything is cleaned up."""
    take_over: bool = False
    resync_s: float = 60.0

    epoch: int = 0
    """Incarnation of the supervisor: revisions of a later one are greater than all before."""
    charges: Mapping[Uid, Charge] = {}
    index: Index = Index()
    """Of the charges as the last look left them."""
    touched: Mapping[Uid, Charge | None] = {}
    """Which charges changed since that look, and how it left them (None: they were not there): they are looked at next."""
    agenda: Agenda = Agenda()
    """When charges are to be looked at though nothing changes."""
    room_due: bool = True
    """Something has changed on which it depends who is admitted or resized."""
    admit_at: Instant | None = None
    """When who is admitted is to be decided again though nothing changes."""
    strays_due: bool = True
    """Something has changed on which it depends what becomes of pods that nobody is in charge of."""
    strays: tuple[RuntimePresence, ...] = ()
    """What of the last listing nobody is in charge of."""
    waiting_due: bool = True
    """Something has changed on which those who wait for a listing or for sources depend."""
    seen: tuple[str, ...] = ()
    number: int = -1
    """Number of the last message of PodConfig; -1 before the first snapshot."""
    gap: bool = True
    """A snapshot is wanted."""
    asked_at: Instant = float("-inf")
    listed: RuntimeListed | None = None
    loose: frozenset[Uid] = frozenset()
    """Of whom the listing before that one showed containers and no sandbox."""
    foreign: tuple[RuntimePresence, ...] = ()
    ended: Mapping[Uid, Instant] = {}
    """When the last trace of a UID was removed: a listing begun before says nothing about it."""
    next_order: int = 0
    node: NodeFacts = NodeFacts()
    """What the node has and is called; not wholly known before it was asked."""
    book: Book = Book()
    pressure: NodePressure = NodePressure()
    """What the node is short of."""
    clearing: ClearFinished | None = None
    """What is kept of pods that have ended is being removed, as somebody asked."""
    cleared: tuple[Uid, ...] = ()
    """Whose actors were told so."""
    watchers: tuple[Path, ...] = ()
    """Who is told which pods are active."""
    active_told: ActiveTold | None = None
    """What they were told last; None: somebody is to be told again."""
    wake_at: Instant | None = None
    """When the last look wanted the next one at the latest."""
    sweep: tuple[OpId, ...] = ()
    """The look for what pods that nobody owns left on disk: its calls in flight."""
    sweep_at: Instant = float("-inf")
    """When the next one is due."""
    sweep_found: tuple[Uid, ...] = ()
    sweep_failed: bool = False
    """One of its calls failed, or a section of the ledger could not be read."""
    remains: tuple[Uid, ...] | None = None
    """Of which UIDs the last whole look of this incarnation found something; None before there was one."""

    @property
    def all_ready(self) -> bool:
        """Tell whether every source was seen; before, nothing is cleaned up."""
        return self.number >= 0 and all(source in self.seen for source in self.expected)


def with_charges(state: SupervisorState, changed: Iterable[Charge]) -> SupervisorState:
    """Return the state with these charges in place of those that their UIDs had."""
    charges, touched = dict(state.charges), dict(state.touched)
    for charge in changed:
        touched.setdefault(charge.uid, charges.get(charge.uid))
        charges[charge.uid] = charge
    return msgspec.structs.replace(state, charges=charges, touched=touched)


def with_charge(state: SupervisorState, charge: Charge) -> SupervisorState:
    """Return the state with this charge in place of the UID's last."""
    return with_charges(state, (charge,))
