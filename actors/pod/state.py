r"""What a PodActor knows: one frozen state.

`life` is one-way and its members hold only what is legal in them:

```text
Recalling -> Syncing -> Terminating -> Terminated -> Finished -> Gone
     \________________________^____________^  (the ledger may say how far it was)
```
"""

from collections.abc import Mapping

import msgspec

from actors.pod.hookrecord import HookRecords, HookRun
from actors.pod.spec.lookup import Lookups
from actors.pod.spec.mount import SubPath
from actors.rules.container.backoff import Backoff
from actors.rules.container.instance import instances_of
from actors.rules.retry import Retry, RetryPolicy
from api.ids import Instant, OpId, Path, Uid, WallNs
from api.kube.objects.pod import Pod, PodStatus
from api.messages.images import ImageWant
from api.messages.pod import ImageReport, KillCause, ProbeChanged, Refusal, Resize
from api.messages.probes import ProbeTarget
from api.messages.supervisor import PodLife
from api.ports.cgroups import CgroupLimits
from api.ports.confinement import Resources
from api.ports.kube import ClusterService
from api.ports.node import NodeFacts, NodeFiles
from api.ports.runtime import RuntimePod
from api.ports.volumes import VolumePlan

MEMO_SECTION = "pods"
"""Ledger section of `PodMemo`, owned by PodActors; keys are UIDs."""

STATUS_SECTION = "status"
"""Ledger section of `PodStatus`, owned by StatusManager; PodActors only recall it as the base of theirs."""

PRUNING = "(pruning)"
"""Key of the back-off of removing old instances, which delays nothing else. No container can have this name."""

RESIZING = "(resizing)"
"""Key of the back-off of in-place resizes, which delays nothing else."""

LIMITING = "(limits)"
"""Key of the back-off of cgroup limits that the kernel refused, which delays nothing else."""

NON_BLOCKING = (PRUNING, RESIZING, LIMITING)
"""Keys of back-offs that delay nothing but themselves."""

EVENT_LIMIT = 64
TRIED_LIMIT = 16


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """Why the pod is stopped for good, and with how much grace. The first cause stays; grace only shrinks."""

    cause: KillCause
    grace_s: int
    asked_at: WallNs
    stop_by: WallNs
    """When the grace is over: the earliest of all kills."""
    own: bool = False
    """The grace is the pod's own; where the pod is not known yet it is set once it is."""
    asked_by: Path
    deleted: bool = False
    evict: bool = False
    disruption: bool = False
    """The status gets the condition DisruptionTarget."""
    reason: str = ""
    message: str = ""


class PodMemo(msgspec.Struct, frozen=True, kw_only=True):
    """What neither sources nor runtime know: the ledger's record of one pod."""

    name: str = ""
    namespace: str = ""
    log_directory: str = ""
    kill: Kill | None = None
    terminated: bool = False
    """Every container was proven stopped and its exit code published: none runs again."""
    cgroup_parent: str = ""
    """The pod's own cgroup, removed with it; empty: it has none."""
    backoffs: tuple[Backoff, ...] = ()
    restarting: bool = False
    """All containers are being restarted in place: none starts before every instance is removed."""
    used: tuple[tuple[str, int], ...] = ()
    """Container, and the highest number of its instances whose records were removed before a newer one was made."""
    hooks: HookRecords = ()
    volumes: bool = False
    """It had volumes, which must be removed with it."""
    renewed: tuple[str, ...] = ()
    """Ids of the instances that are restarted whatever their exit code."""
    outdated: str = ""
    """When an earlier life under the same UID began whose status was still there: that status is not of this one."""

    def backoff(self, container: str) -> Backoff | None:
        """Return the back-off of a container."""
        return next((b for b in self.backoffs if b.container == container), None)

    def with_backoff(self, entry: Backoff) -> "PodMemo":
        """Return a copy with `entry`."""
        others = [b for b in self.backoffs if b.container != entry.container]
        return msgspec.structs.replace(
            self, backoffs=tuple(sorted((*others, entry), key=lambda b: b.container))
        )


class Recalling(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Reading ledger and runtime, before anything else is done."""

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
    """Start of an inspection, after the last stop, that showed nothing alive."""


class Terminated(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Nothing runs; that is being recorded, and volumes removed."""

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
    """The pod's folders and logs were removed; its ledger record is still there."""
    clear: bool = False
    """Remove what is kept of it: the node is under disk pressure."""


class Gone(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Everything of the pod is removed."""

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


RETRY = RetryPolicy(base_s=1.0, limit_s=30.0)
"""Of a failed call, unless its kind has another."""


class CallBackoff(msgspec.Struct, frozen=True, kw_only=True):
    """Back-off after failed calls of a container, of the whole pod (empty name), or of one of `NON_BLOCKING`."""

    container: str
    call: str
    """Class name of the call that failed last."""
    since: Instant
    """When the first of these calls in a row failed."""
    retry: Retry
    reason: str
    """Waiting reason to publish."""
    message: str
    instance: str = ""
    """Id of the instance that could not be started; it is removed before the retry."""


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
    """A volume that can be mounted, with its plan."""

    name: str
    plan: VolumePlan
    host_path: str


class BoundPart(msgspec.Struct, frozen=True, kw_only=True):
    """A subPath that is prepared for one mount of an instance that is not created yet."""

    attempt: int
    part: SubPath


class ContainerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one container, apart from its instances."""

    call_backoff: CallBackoff | None = None
    """Back-off after failed calls."""
    image: ImageReport | None = None
    """What the ImagePuller says of the image that its next instance needs."""
    image_tries: int = 0
    """How often its image was missing when it was created."""
    prepared: int | None = None
    """The attempt whose files were written and that was not created yet."""
    bound: tuple[BoundPart, ...] = ()


class InstanceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one instance beyond what the runtime shows; dropped with it."""

    linked: bool = False
    """Its log is linked, or cannot be."""
    termination_message: str | None = None
    """Its termination message; None before it was read."""
    taken: Resources | None = None
    """The resources that the runtime accepted for it since it was created."""
    probes: tuple[ProbeChanged, ...] = ()
    """The results of its probes."""


class PodEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of the pod; equal ones are counted."""

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
    """Why it was not admitted."""
    resize: Resize | None = None
    """Why its resize is pending."""


class ObservedView(msgspec.Struct, frozen=True, kw_only=True):
    """What the runtime shows of the pod, and how far that can be relied on."""

    observed: RuntimePod | None = None
    as_of: Instant = float("-inf")
    settled_at: Instant = float("-inf")
    """End of the last call on this pod: an observation begun before it is stale."""
    must_inspect: bool = False
    """The outcome of the last stage is uncertain: inspect before deciding anything."""
    stopped: tuple[str, ...] = ()
    """Ids of the shown sandboxes that this incarnation stopped: they have no address and no host port."""


class NodeSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What this incarnation made for the pod on the node, and read of it."""

    files: NodeFiles | None = None
    """The node's files as last read; None when they must be read again."""
    services: tuple[ClusterService, ...] | None = None
    """Of the cluster, as last read; None when they must be read again."""
    handler: str | None = None
    """Of the pod's RuntimeClass, as last read."""
    folders: bool = False
    grouped: str = ""
    """The pod's cgroup, once it exists."""
    granted: CgroupLimits | None = None
    """The last limits of the cgroup."""
    granted_to: Pod | None = None
    """The desired pod that these limits are for."""
    volumes: tuple[ReadyVolume, ...] = ()

    @property
    def lookups(self) -> Lookups:
        """Return what was read of the cluster."""
        return Lookups(services=self.services or (), handler=self.handler)


class PodCalls(msgspec.Struct, frozen=True, kw_only=True):
    """Calls on ports: in flight, and recently answered."""

    inflight: tuple[Flight, ...] = ()
    inherited: tuple[OpId, ...] = ()
    """Calls of an earlier incarnation that are still in flight: none is started beside them."""
    to_cancel: tuple[OpId, ...] = ()
    """Calls of abandoned hooks."""
    asked: tuple[str, ...] = ()
    """Ids of the containers that the stage in flight stops or has stopped; only others may join it."""
    repeats: tuple[Repeat, ...] = ()
    """Calls that were answered in the last minutes."""
    tried: tuple[Tried, ...] = ()
    """The last calls that ended, oldest first."""


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """Levels as they were last sent to other actors."""

    wants: tuple[ImageWant, ...] | None = None
    """Images that the next containers need; None before the first message."""
    wants_sent_at: Instant = float("-inf")
    probed: tuple[ProbeTarget, ...] | None = None
    """Probe targets; None before the first message."""
    confined: int = -1
    """Generation of the last update whose resources confine every running container."""


class PodState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the PodActor of one UID knows."""

    uid: Uid
    settings: PodSettings
    node: NodeFacts = NodeFacts()
    """As its supervisor last sent them; before that, as they were when the actor was created."""

    wanted: WantedPod = WantedPod()
    life: Life = Recalling()
    life_since: Instant = 0.0
    memo: PodMemo = PodMemo()
    remembered: PodMemo | None = None
    """The memo in the ledger; None before the recall."""
    rewrite_at: Instant | None = None
    """When to retry writing `remembered` after the ledger failed."""
    base: PodStatus = PodStatus()
    """The last status composed, or recalled: what the next one is built on."""
    view: ObservedView = ObservedView()
    containers: Mapping[str, ContainerRecord] = {}
    instances: Mapping[str, InstanceRecord] = {}
    setup: NodeSetup = NodeSetup()
    call_backoffs: tuple[CallBackoff, ...] = ()
    """Back-offs of the pod as a whole, and `NON_BLOCKING` ones."""
    calls: PodCalls = PodCalls()
    hooks: tuple[HookRun, ...] = ()
    """Running hooks: they change nothing in the runtime, so stages go on beside them."""
    sent: Sent = Sent()
    askers: tuple[Path, ...] = ()
    """Who waits for `PodKilled`."""
    events: tuple[PodEvent, ...] = ()

    @property
    def desired(self) -> Pod | None:
        """Return the desired pod; None when it is in no source."""
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
        """Return what the runtime shows; None before the first inspection."""
        return self.view.observed

    @property
    def facts(self) -> NodeFacts:
        """Return the node facts for the pod's containers."""
        return msgspec.structs.replace(self.node, log_root=self.settings.log_root)

    @property
    def effective(self) -> Pod | None:
        """Return the desired pod, with restart policy Always for containers that are restarted whatever their exit code."""
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
        """Return the kill that ends this pod, None while it should run."""
        match self.life:
            case Recalling(kill=kill):
                return kill
            case Syncing():
                return None
            case Terminating(kill=kill) | Terminated(kill=kill) | Finished(kill=kill) | Gone(kill=kill):
                return kill

    def call_backoff(self, container: str) -> CallBackoff | None:
        """Return the back-off of a container, of the pod (empty name), or one of `NON_BLOCKING`."""
        record = self.containers.get(container)
        if record is not None:
            return record.call_backoff
        return next((h for h in self.call_backoffs if h.container == container), None)

    def container(self, name: str) -> ContainerRecord:
        """Return what is known of a container."""
        return self.containers.get(name, NO_CONTAINER)

    def instance(self, container_id: str) -> InstanceRecord:
        """Return what is known of an instance."""
        return self.instances.get(container_id, NO_INSTANCE)


NO_CONTAINER = ContainerRecord()
NO_INSTANCE = InstanceRecord()


def with_container(state: PodState, name: str, record: ContainerRecord) -> PodState:
    """Return the state with this record of a container; an empty record is dropped."""
    if state.container(name) == record:
        return state
    others = {key: one for key, one in state.containers.items() if key != name}
    kept = others if record == NO_CONTAINER else {**others, name: record}
    return msgspec.structs.replace(state, containers=kept)


def with_instance(state: PodState, container_id: str, record: InstanceRecord) -> PodState:
    """Return the state with this record of an instance; an empty record is dropped."""
    if state.instance(container_id) == record:
        return state
    others = {key: one for key, one in state.instances.items() if key != container_id}
    kept = others if record == NO_INSTANCE else {**others, container_id: record}
    return msgspec.structs.replace(state, instances=kept)


def with_call_backoff(state: PodState, backoff: CallBackoff) -> PodState:
    """Return the state with this back-off in place of the one with the same key."""
    name = backoff.container
    if name and name not in NON_BLOCKING:
        return with_container(
            state, name, msgspec.structs.replace(state.container(name), call_backoff=backoff)
        )
    others = [h for h in state.call_backoffs if h.container != name]
    return msgspec.structs.replace(
        state, call_backoffs=tuple(sorted((*others, backoff), key=lambda h: h.container))
    )


def without_call_backoff(state: PodState, container: str) -> PodState:
    """Return the state without the back-off of a container, of the pod (empty name), or one of `NON_BLOCKING`."""
    if state.call_backoff(container) is None:
        return state
    if container in state.containers:
        return with_container(
            state, container, msgspec.structs.replace(state.container(container), call_backoff=None)
        )
    return msgspec.structs.replace(
        state, call_backoffs=tuple(h for h in state.call_backoffs if h.container != container)
    )


def without_call_backoffs(state: PodState) -> PodState:
    """Return the state without back-offs after failed calls."""
    for name in state.containers:
        state = without_call_backoff(state, name)
    return msgspec.structs.replace(state, call_backoffs=()) if state.call_backoffs else state


def change_view(state: PodState, **changes: object) -> PodState:
    """Return the state with these changes of its view, without records of instances that are not shown."""
    view = msgspec.structs.replace(state.view, **changes)
    shown = {one.id for one in view.observed.containers} if view.observed is not None else set()
    instances = state.instances
    if any(one not in shown for one in instances):
        instances = {key: one for key, one in instances.items() if key in shown}
    return msgspec.structs.replace(state, view=view, instances=instances)


def change_setup(state: PodState, **changes: object) -> PodState:
    """Return the state with these changes of its setup."""
    return msgspec.structs.replace(state, setup=msgspec.structs.replace(state.setup, **changes))


def change_calls(state: PodState, **changes: object) -> PodState:
    """Return the state with these changes of its calls."""
    return msgspec.structs.replace(state, calls=msgspec.structs.replace(state.calls, **changes))


def change_sent(state: PodState, **changes: object) -> PodState:
    """Return the state with these changes of what was sent."""
    return msgspec.structs.replace(state, sent=msgspec.structs.replace(state.sent, **changes))
