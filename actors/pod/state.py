r"""What a PodActor knows: one frozen state.

`life` is one-way and its members hold only what is legal in them:

```text
Recalling -> Syncing -> Terminating -> Terminated -> Finished -> Gone
     \________________________^____________^  (the ledger may say how far it was)
```
"""

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


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All done; what remains stays until the pod is deleted."""

    kill: Kill


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
    """A part of a volume that is bound for one mount of a container that was not made yet."""

    container: str
    attempt: int
    part: SubPath


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


class PodState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the PodActor of one UID knows."""

    uid: Uid
    log_root: str
    """Absolute folder under which pods' log folders are."""
    node_ip: str = ""
    restart_limit_s: float = 300.0
    call_deadline_s: float = 120.0
    allow_host_image: bool = False
    """Whether plain processes on the host may come from sources other than files."""
    node: NodeFacts = NodeFacts()
    """As its supervisor told it last; before that, as it was when the actor was made."""
    files: NodeFiles | None = None
    """The node's files, read for what is being made; None when they are to be read anew."""

    desired: Pod | None = None
    source: str = ""
    generation: int = 0
    refusal: Refusal | None = None
    """Why it is not to run here."""
    life: Life = Recalling()
    memo: PodMemo = PodMemo()
    remembered: PodMemo | None = None
    """What the ledger holds durably enough; None before the recall."""
    base: PodStatus = PodStatus()
    """The last status composed, or recalled: what the next one is built on."""
    rewrite_at: Instant | None = None
    """When to write `remembered` again, which the ledger did not take."""
    observed: RuntimePod | None = None
    observed_as_of: Instant = float("-inf")
    settled_at: Instant = float("-inf")
    """End of the last call on this pod: an observation begun before it is stale."""
    look: bool = False
    """The last stage's outcome is not wholly known: inspect before deciding anything."""
    folders: bool = False
    """The pod's folders were made by this incarnation."""
    grouped: str = ""
    """The pod's cgroup, once this incarnation made sure of it."""
    granted: CgroupLimits | None = None
    """What it was given last."""
    granted_to: Pod | None = None
    """The desired pod that it was given just that for."""
    stopped: tuple[str, ...] = ()
    """Ids of the sandboxes that are shown and that this incarnation had stopped: they hold no address and no port."""
    linked: tuple[str, ...] = ()
    """Ids of the containers that run and whose logs are linked."""
    volumes: tuple[ReadyVolume, ...] = ()
    """The volumes that this incarnation prepared."""
    bound: tuple[BoundPart, ...] = ()
    unmounted: bool = False
    """The pod's volumes were removed."""
    ungrouped: bool = False
    """The pod's cgroup was removed."""
    cleaned: bool = False
    """The pod's folders and logs were removed: of what it had on disk only its page in the ledger is left."""
    clear: bool = False
    """What is kept of it once it has ended is to be removed: the node is short of disk."""
    inflight: tuple[Flight, ...] = ()
    hooks: tuple[HookRun, ...] = ()
    """Hooks under way: they change nothing of the pod in the runtime, so stages go on beside them."""
    dropped: tuple[OpId, ...] = ()
    """Calls of hooks that nobody waits for any more: to be cancelled."""
    asked: tuple[str, ...] = ()
    """Ids of the containers that the stage in flight stops, or has stopped: what may join it are others."""
    inherited: tuple[OpId, ...] = ()
    """Calls that an earlier incarnation started and that are still in flight: nothing is started beside them."""
    holds: tuple[Hold, ...] = ()
    repeats: tuple[Repeat, ...] = ()
    """What was asked for in the last minutes."""
    wants: tuple[ImageWant, ...] | None = None
    """Images that the next containers need, as they were told; None before they were told once."""
    wants_told_at: Instant = float("-inf")
    images: tuple[ImageReport, ...] = ()
    """What the ImagePuller says of them."""
    image_tries: tuple[tuple[str, int], ...] = ()
    """Container, and how often its image was gone when it was to be made."""
    probed: tuple[ProbeTarget, ...] | None = None
    """What is to be probed, as it was told; None before anything was."""
    probes: tuple[ProbeChanged, ...] = ()
    """What probes say of the instances that run."""
    prepared: tuple[tuple[str, int], ...] = ()
    """Container and attempt whose files were written and which was not made yet."""
    resize: Resize | None = None
    """Why the pod does not have the amounts that its source asks for."""
    confined: int = -1
    """Generation of the last update whose amounts confine everything that runs."""
    resized: tuple[tuple[str, Resources], ...] = ()
    """Container id, and the amounts that the runtime took for it since it was made."""
    endings: tuple[tuple[str, str], ...] = ()
    """Container id, and the last words that it left."""
    askers: tuple[Path, ...] = ()
    """Who waits for `PodKilled`."""
    events: tuple[PodEvent, ...] = ()
    tried: tuple[Tried, ...] = ()
    life_since: Instant = 0.0
    recall_failures: int = 0

    @property
    def facts(self) -> NodeFacts:
        """Return what of the node shapes the pod's containers."""
        return msgspec.structs.replace(self.node, log_root=self.log_root)

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
        """Return the hold on a container, on the pod for an empty name, or on `PRUNING`."""
        return next((h for h in self.holds if h.container == container), None)
