r"""What a PodActor knows: one frozen state.

`life` is one-way and its members hold only what is legal in them:

```text
Recalling -> Syncing -> Terminating -> Terminated -> Finished -> Gone
     \________________________^____________^  (the ledger may say how far it was)
```
"""

from collections.abc import Mapping

import msgspec

from actors.pod.container.mark import HookRun, Marks
from actors.pod.volume.spec import SubPath
from actors.rules.container.backoff import Backoff
from actors.rules.container.instance import instances_of
from api.ids import Instant, OpId, Path, Uid, WallNs
from api.kube.objects.pod import Pod, PodStatus
from api.messages.images import ImageWant
from api.messages.pod import ImageReport, KillCause, ProbeChanged, Refusal, Resize
from api.messages.probes import ProbeTarget
from api.messages.supervisor import PodLife
from api.ports.cgroups import CgroupLimits
from api.ports.confinement import Resources
from api.ports.node import NodeFacts, NodeFiles
from api.ports.runtime import RuntimePod
from api.ports.volumes import VolumePlan

MEMO_SECTION = "pods"
"""Ledger section of `PodMemo`, owned by PodActors; keys are UIDs."""

STATUS_SECTION = "status"
"""Ledger section of `PodStatus`, owned by StatusManager; PodActors only recall it as the base of theirs."""

PRUNING = "(pruning)"
"""Key of the hold on removing outdated instances, which keeps nothing else waiting. No container can have this name."""

RESIZING = "(resizing)"
"""Key of the hold on in-place resizes, which keeps nothing else waiting."""

LIMITING = "(limits)"
"""Key of the hold on limits of the pod's cgroup that the kernel did not take, which keeps nothing else waiting."""

BESIDE = (PRUNING, RESIZING, LIMITING)
"""Keys of holds that hold up nothing but themselves."""

EVENT_LIMIT = 64
TRIED_LIMIT = 16


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """Why the pod is stopped for good, and with how much grace. The first cause stays; grace only shrinks."""

    cause: KillCause
    grace_s: int
    asked_at: WallNs
    stop_by: WallNs
    """When the grace is used up: the earliest that any of the kills asked for."""
    own: bool = False
    """The grace is the pod's own: one that comes before the pod is known learns it with the pod."""
    asked_by: Path
    deleted: bool = False
    evict: bool = False
    disruption: bool = False
    """The node ends the pod for its own sake: its status says so."""
    reason: str = ""
    message: str = ""


class PodMemo(msgspec.Struct, frozen=True, kw_only=True):
    """What neither the sources nor the runtime know: the ledger's page of one pod."""

    name: str = ""
    namespace: str = ""
    log_directory: str = ""
    kill: Kill | None = None
    terminated: bool = False
    """Every container was proven stopped and its exit code published: nothing of it runs again."""
    cgroup_parent: str = ""
    """The pod's own cgroup, which is to be removed with it; empty: none was asked for."""
    backoffs: tuple[Backoff, ...] = ()
    restarting: bool = False
    """All containers are being restarted in place: none starts before every instance is removed."""
    used: tuple[tuple[str, int], ...] = ()
    """Container, and the highest number of its instances whose records were removed before a newer one was made."""
    hooks: Marks = ()
    volumes: bool = False
    """It had volumes, which are to be removed with it."""
    renewed: tuple[str, ...] = ()
    """Ids of the instances that are stopped to be restarted, however they end."""
    outdated: str = ""
    """When an earlier life under the same UID began whose status was still there: that status is not of this one."""

    def backoff(self, container: str) -> Backoff | None:
        """Return the back-off of a container."""
        return next((b for b in self.backoffs if b.container == container), None)

    def with_backoff(self, entry: Backoff) -> "PodMemo":
        """Return a copy that remembers `entry`."""
        others = [b for b in self.backoffs if b.container != entry.container]
        return msgspec.structs.replace(
            self, backoffs=tuple(sorted((*others, entry), key=lambda b: b.container))
        )


class Recalling(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Asking the ledger and the runtime what they know of the pod; nothing else is done before."""

    kill: Kill | None = None
    """A kill that came meanwhile."""
    failures: int = 0
    """Reads of the ledger that failed."""


class Syncing(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Converging towards the desired pod."""


class Terminating(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Stopping everything."""

    kill: Kill
    proven_at: Instant | None = None
    """When an inspection begun after the last stop showed nothing alive."""


class Terminated(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Nothing runs; that is being made durable and cleaned up after."""

    kill: Kill
    unmounted: bool = False
    """The pod's volumes were removed."""


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All done; what remains stays until the pod is deleted."""

    kill: Kill
    unmounted: bool = False
    """The pod's volumes were removed."""
    ungrouped: bool = False
    """The pod's cgroup was removed."""
    cleaned: bool = False
    """The pod's folders and logs were removed: of what it had on disk only its page in the ledger is left."""
    clear: bool = False
    """What is kept of it is to be removed: the node is short of disk."""


class Gone(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Nothing is left of the pod."""

    kill: Kill


Life = Recalling | Syncing | Terminating | Terminated | Finished | Gone

LIFE_WORD: dict[type[Life], PodLife] = {
    Recalling: PodLife.RECALLING,
    Syncing: PodLife.SYNCING,
    Terminating: PodLife.TERMINATING,
    Terminated: PodLife.TERMINATED,
    Finished: PodLife.FINISHED,
    Gone: PodLife.GONE,
}


class PortCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a stage: which port, what, how long at most, and for which container if for one."""

    port: str
    call: msgspec.Struct
    deadline_s: float
    container: str = ""
    event: str = ""
    """What the ``Killing`` event of a stop says, where that is not the usual."""


class Flight(msgspec.Struct, frozen=True, kw_only=True):
    """A call in flight."""

    op: OpId
    what: PortCall
    since: Instant
    cancelled: bool = False


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """What waits after failed tries: a container, with an empty name the whole pod, or `PRUNING`."""

    container: str
    call: str
    """Class name of the call that failed last."""
    since: Instant
    """When the first of these tries in a row failed."""
    until: Instant
    failures: int
    reason: str
    """Waiting reason to publish."""
    message: str
    instance: str = ""
    """Id of the instance that could not be started; it is removed before the next try."""


class Repeat(msgspec.Struct, frozen=True, kw_only=True):
    """Equal calls that were answered one after the other, well or not."""

    call: msgspec.Struct
    """The call, without what may differ between equal ones."""
    times: int
    at: Instant
    """When the last one was answered."""
    until: Instant
    """Before this no equal one is made."""


class ReadyVolume(msgspec.Struct, frozen=True, kw_only=True):
    """A volume that can be mounted, as it was asked for."""

    name: str
    plan: VolumePlan
    host_path: str


class BoundPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a volume that is bound for one mount of an instance that was not made yet."""

    attempt: int
    part: SubPath


class ContainerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one container of the pod beside its instances."""

    hold: Hold | None = None
    """What it waits for after failed tries."""
    image: ImageReport | None = None
    """What the ImagePuller says of the image that its next instance needs."""
    image_tries: int = 0
    """How often its image was gone when it was to be made."""
    prepared: int | None = None
    """The attempt whose files were written and which was not made yet."""
    bound: tuple[BoundPart, ...] = ()


class InstanceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one instance beside what the runtime shows of it; goes with it."""

    linked: bool = False
    """Its log is linked, or cannot be."""
    termination_message: str | None = None
    """What it left; None before it was read."""
    taken: Resources | None = None
    """The amounts that the runtime took for it since it was made."""
    probes: tuple[ProbeChanged, ...] = ()
    """What its probes say."""


class PodEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something worth telling an operator; equal ones in a row are counted."""

    at: WallNs
    type: str
    reason: str
    message: str
    container: str = ""
    count: int = 1


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A call that ended, for `explain`."""

    at: Instant
    what: str
    result: str


class PodSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What of the agent's settings concerns a pod."""

    log_root: str
    """Absolute folder under which pods' log folders are."""
    node_ip: str = ""
    restart_limit_s: float = 300.0
    call_deadline_s: float = 120.0
    allow_host_image: bool = False
    """Whether plain processes on the host may come from sources other than files."""


class WantedPod(msgspec.Struct, frozen=True, kw_only=True):
    """The last update of the supervisor."""

    pod: Pod | None = None
    source: str = ""
    generation: int = 0
    refusal: Refusal | None = None
    """Why it is not to run here."""
    resize: Resize | None = None
    """Why it does not have the amounts that its source asks for."""


class ObservedView(msgspec.Struct, frozen=True, kw_only=True):
    """What the runtime shows of the pod, and how far that can be relied on."""

    observed: RuntimePod | None = None
    as_of: Instant = float("-inf")
    settled_at: Instant = float("-inf")
    """End of the last call on this pod: an observation begun before it is stale."""
    look: bool = False
    """The last stage's outcome is not wholly known: inspect before deciding anything."""
    stopped: tuple[str, ...] = ()
    """Ids of the sandboxes that are shown and that this incarnation had stopped: they hold no address and no port."""


class NodeSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What this incarnation made for the pod on the node, and read of it."""

    files: NodeFiles | None = None
    """The node's files, read for what is being made; None when they are to be read anew."""
    folders: bool = False
    grouped: str = ""
    """The pod's cgroup, once it was made sure of."""
    granted: CgroupLimits | None = None
    """What the cgroup was given last."""
    granted_to: Pod | None = None
    """The desired pod that it was given just that for."""
    volumes: tuple[ReadyVolume, ...] = ()


class PodCalls(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked of ports, and lately."""

    inflight: tuple[Flight, ...] = ()
    inherited: tuple[OpId, ...] = ()
    """Calls that an earlier incarnation started and that are still in flight: nothing is started beside them."""
    to_cancel: tuple[OpId, ...] = ()
    """Calls of hooks that nobody waits for any more."""
    asked: tuple[str, ...] = ()
    """Ids of the containers that the stage in flight stops, or has stopped: what may join it are others."""
    repeats: tuple[Repeat, ...] = ()
    """What was asked for in the last minutes."""
    tried: tuple[Tried, ...] = ()
    """The last calls that ended, oldest first."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """Levels as others were told them last."""

    wants: tuple[ImageWant, ...] | None = None
    """Images that the next containers need; None before anything was told."""
    wants_told_at: Instant = float("-inf")
    probed: tuple[ProbeTarget, ...] | None = None
    """What is to be probed; None before anything was."""
    confined: int = -1
    """Generation of the last update whose amounts confine everything that runs."""


class PodState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the PodActor of one UID knows."""

    uid: Uid
    settings: PodSettings
    node: NodeFacts = NodeFacts()
    """As its supervisor sent it last; before that, as it was when the actor was made."""

    wanted: WantedPod = WantedPod()
    life: Life = Recalling()
    life_since: Instant = 0.0
    memo: PodMemo = PodMemo()
    remembered: PodMemo | None = None
    """What the ledger holds durably enough; None before the recall."""
    rewrite_at: Instant | None = None
    """When to write `remembered` again, which the ledger did not take."""
    base: PodStatus = PodStatus()
    """The last status composed, or recalled: what the next one is built on."""
    view: ObservedView = ObservedView()
    containers: Mapping[str, ContainerRecord] = {}
    instances: Mapping[str, InstanceRecord] = {}
    setup: NodeSetup = NodeSetup()
    holds: tuple[Hold, ...] = ()
    """What waits after failed tries of the pod as a whole, and `BESIDE` it."""
    calls: PodCalls = PodCalls()
    hooks: tuple[HookRun, ...] = ()
    """Hooks under way: they change nothing of the pod in the runtime, so stages go on beside them."""
    told: Told = Told()
    askers: tuple[Path, ...] = ()
    """Who waits for `PodKilled`."""
    events: tuple[PodEvent, ...] = ()

    @property
    def desired(self) -> Pod | None:
        """Return what the pod should be; None when no source wants it."""
        return self.wanted.pod

    @property
    def unmounted(self) -> bool:
        """Return whether the pod's volumes were removed."""
        return isinstance(self.life, Terminated | Finished) and self.life.unmounted

    @property
    def cleaned(self) -> bool:
        """Return whether the pod's folders and logs were removed."""
        return isinstance(self.life, Finished) and self.life.cleaned

    @property
    def observed(self) -> RuntimePod | None:
        """Return what the runtime shows of it; None before it was looked at."""
        return self.view.observed

    @property
    def facts(self) -> NodeFacts:
        """Return what of the node shapes the pod's containers."""
        return msgspec.structs.replace(self.node, log_root=self.settings.log_root)

    @property
    def effective(self) -> Pod | None:
        """Return the desired pod, in which containers that are to be restarted however they ended say so."""
        pod = self.desired
        if pod is None or not self.memo.renewed:
            return pod
        containers = tuple(
            msgspec.structs.replace(container, restart_policy="Always", restart_policy_rules=())
            if any(one.id in self.memo.renewed for one in instances_of(self.observed, container.name))
            else container
            for container in pod.spec.containers
        )
        return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, containers=containers))

    @property
    def killed(self) -> Kill | None:
        """Return the kill that ends this pod, None while it is to run."""
        match self.life:
            case Recalling(kill=kill):
                return kill
            case Syncing():
                return None
            case Terminating(kill=kill) | Terminated(kill=kill) | Finished(kill=kill) | Gone(kill=kill):
                return kill

    def hold(self, container: str) -> Hold | None:
        """Return the hold on a container, on the pod for an empty name, or one of `BESIDE`."""
        record = self.containers.get(container)
        if record is not None:
            return record.hold
        return next((h for h in self.holds if h.container == container), None)

    def container(self, name: str) -> ContainerRecord:
        """Return what is known of a container."""
        return self.containers.get(name, NO_CONTAINER)

    def instance(self, container_id: str) -> InstanceRecord:
        """Return what is known of an instance."""
        return self.instances.get(container_id, NO_INSTANCE)


NO_CONTAINER = ContainerRecord()
NO_INSTANCE = InstanceRecord()


def with_container(state: PodState, name: str, record: ContainerRecord) -> PodState:
    """Return the state with this record of a container; one that says nothing is none."""
    if state.container(name) == record:
        return state
    others = {key: one for key, one in state.containers.items() if key != name}
    kept = others if record == NO_CONTAINER else {**others, name: record}
    return msgspec.structs.replace(state, containers=kept)


def with_instance(state: PodState, container_id: str, record: InstanceRecord) -> PodState:
    """Return the state with this record of an instance; one that says nothing is none."""
    if state.instance(container_id) == record:
        return state
    others = {key: one for key, one in state.instances.items() if key != container_id}
    kept = others if record == NO_INSTANCE else {**others, container_id: record}
    return msgspec.structs.replace(state, instances=kept)


def with_hold(state: PodState, hold: Hold) -> PodState:
    """Return the state with this hold in place of the last one on the same."""
    name = hold.container
    if name and name not in BESIDE:
        return with_container(state, name, msgspec.structs.replace(state.container(name), hold=hold))
    others = [h for h in state.holds if h.container != name]
    return msgspec.structs.replace(state, holds=tuple(sorted((*others, hold), key=lambda h: h.container)))


def without_hold(state: PodState, container: str) -> PodState:
    """Return the state in which a container waits no more; the pod for an empty name, or one of `BESIDE`."""
    if state.hold(container) is None:
        return state
    if container in state.containers:
        return with_container(
            state, container, msgspec.structs.replace(state.container(container), hold=None)
        )
    return msgspec.structs.replace(state, holds=tuple(h for h in state.holds if h.container != container))


def without_holds(state: PodState) -> PodState:
    """Return the state in which nothing waits after failed tries."""
    for name in state.containers:
        state = without_hold(state, name)
    return msgspec.structs.replace(state, holds=()) if state.holds else state


def change_view(state: PodState, **changes: object) -> PodState:
    """Return the state with these changes of what is known of the runtime's view; without records of what is gone."""
    view = msgspec.structs.replace(state.view, **changes)
    shown = {one.id for one in view.observed.containers} if view.observed is not None else set()
    instances = state.instances
    if any(one not in shown for one in instances):
        instances = {key: one for key, one in instances.items() if key in shown}
    return msgspec.structs.replace(state, view=view, instances=instances)


def change_setup(state: PodState, **changes: object) -> PodState:
    """Return the state with these changes of what was made for the pod on the node."""
    return msgspec.structs.replace(state, setup=msgspec.structs.replace(state.setup, **changes))


def change_calls(state: PodState, **changes: object) -> PodState:
    """Return the state with these changes of what was asked of ports."""
    return msgspec.structs.replace(state, calls=msgspec.structs.replace(state.calls, **changes))


def change_told(state: PodState, **changes: object) -> PodState:
    """Return the state with these changes of what others were told."""
    return msgspec.structs.replace(state, told=msgspec.structs.replace(state.told, **changes))
