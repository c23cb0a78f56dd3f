"""What a container runtime shows and accepts, in our words.

The port that takes these calls is named ``runtime``. Three drivers implement it (CRI, embedded, memory) and one
conformance suite holds them to this page. No driver ever sees a v1 Pod. What a pod asks to be confined by is in
`api.ports.confinement`, what containers use is in `api.ports.usage`; images and commands with
streams are ports of their own (`api.ports.images`, `api.ports.streams`).

Rules of the port:

- Every call that changes a pod returns `RuntimePod`: what the runtime shows of that pod *after* the effect.
- Unknown id: inspect, start and exec fail with NotFound; stop and remove succeed.
- A call that fails with TimedOut may have happened: `InspectPod` first.
- `CreateContainer` and `RunSandbox` are idempotent on (uid, attempt) and (sandbox, name, attempt): an identical object
  is returned, a different one under the same key fails with AlreadyExists.
- Times are wall clock nanoseconds; `created_at` strictly increases within a pod.
- A driver may have the calls of `QUEUED` wait for others, for `QUEUE_S` at most: their deadlines leave room for it.
"""

from enum import StrEnum

import msgspec

from api.ids import Uid, WallNs
from api.messages import Message
from api.ports.confinement import (
    Device,
    Dns,
    Mount,
    Namespaces,
    Pairs,
    PortMapping,
    ProfileKind,
    Resources,
    Security,
    SecurityProfile,
)
from api.ports.runtimecall import Call
from api.ports.usage import ReadContainerStats

LABEL_POD_NAME = "io.kubernetes.pod.name"
LABEL_POD_NAMESPACE = "io.kubernetes.pod.namespace"
LABEL_POD_UID = "io.kubernetes.pod.uid"
LABEL_CONTAINER_NAME = "io.kubernetes.container.name"
ANNOTATION_HASH = "io.kubernetes.container.hash"
ANNOTATION_RESTART_COUNT = "io.kubernetes.container.restartCount"
ANNOTATION_TERMINATION_PATH = "io.kubernetes.container.terminationMessagePath"
ANNOTATION_TERMINATION_POLICY = "io.kubernetes.container.terminationMessagePolicy"
ANNOTATION_POD_GRACE = "io.kubernetes.pod.terminationGracePeriod"
ANNOTATION_DELETION_GRACE = "io.kubernetes.pod.deletionGracePeriod"
ANNOTATION_PRE_STOP = "io.kubernetes.container.preStopHandler"
ANNOTATION_PORTS = "io.kubernetes.container.ports"
ANNOTATION_OWNER = "nodeagent.local/owner"
"""On our sandboxes, value ``nodeagent``: what makes an orphan ours to kill."""

SANDBOX_TIMES = 2
"""How many times what another call may take `RunSandbox` may, as a kubelet has it."""
QUEUE_S = 30.0
"""The longest that a driver has a call wait before it begins it."""

HOST_IMAGE = "nodeagent.local/host"
"""The embedded runtime's built-in image: plain processes on the host's own files."""


class SandboxState(StrEnum):
    """State of a pod sandbox."""

    READY = "ready"
    NOT_READY = "not-ready"


class RuntimeContainerState(StrEnum):
    """State of a container."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


class EnvironmentVariable(msgspec.Struct, frozen=True):
    """One environment variable; its value never shows in a text made of it."""

    name: str
    value: str

    def __repr__(self) -> str:
        return f"EnvVar({self.name!r}, <hidden>)"


class SandboxSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The specification of a pod sandbox."""

    uid: Uid
    name: str
    namespace: str
    attempt: int
    labels: Pairs = ()
    annotations: Pairs = ()
    hostname: str = ""
    log_directory: str
    """Absolute folder of the pod's logs, made by the driver when missing (mode 0755)."""
    host_network: bool = False
    grace_s: int = 30
    """The pod's own grace period: what the runtime itself uses when it must stop the pod by itself."""
    runtime_handler: str = ""
    """The runtime handler of the pod; empty for the default."""
    dns: Dns = Dns()
    ports: tuple[PortMapping, ...] = ()
    cgroup_parent: str = ""
    """The pod's cgroup as a full path below the cgroup root, also for the systemd driver; empty: the runtime's choice."""
    sysctls: Pairs = ()
    namespaces: Namespaces = Namespaces()
    security: Security = Security(seccomp=SecurityProfile(kind=ProfileKind.RUNTIME_DEFAULT))
    """Of the process that holds the sandbox; `privileged` when any container of the pod is."""
    user: int | None = None
    group: int | None = None
    resources: Resources | None = None
    """Sum over the pod, informative: for runtimes that size a virtual machine by it."""
    overhead: Resources | None = None


class ContainerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The specification of a container. `command` and `args` are already expanded, `env` complete and in order."""

    name: str
    attempt: int
    image: str
    """What the runtime runs: the reference that pulling or looking up the image gave, normally its id."""
    image_asked: str = ""
    """The image as the pod names it; empty when `image` is that."""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvironmentVariable, ...] = ()
    labels: Pairs = ()
    annotations: Pairs = ()
    log_path: str
    """Relative to the sandbox's log directory: ``<container>/<attempt>.log``."""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    user: int | None = None
    """Numeric user id to run as; None is `user_name`, or the runtime's own choice when that is empty too."""
    user_name: str = ""
    group: int | None = None
    host_network: bool = False
    """The same as its sandbox's."""
    namespaces: Namespaces = Namespaces()
    security: Security = Security()
    resources: Resources | None = None
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    stop_signal: str = ""
    """Name of the signal that asks it to end, ``SIGTERM``; empty for the image's own."""


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """A pod sandbox as the runtime shows it."""

    id: str
    uid: Uid
    name: str
    namespace: str
    attempt: int
    state: SandboxState
    created_at: WallNs
    host_network: bool = False
    ips: tuple[str, ...] = ()
    network_known: bool = True
    """False when the runtime says nothing of its network: then no addresses means unknown, not none."""
    runtime_handler: str = ""
    labels: Pairs = ()
    annotations: Pairs = ()


class ContainerIds(msgspec.Struct, frozen=True, kw_only=True):
    """Numeric ids that the first process of a container began with."""

    user: int
    group: int
    groups: tuple[int, ...] = ()
    """Supplementary ones."""


class RuntimeContainer(msgspec.Struct, frozen=True, kw_only=True):
    """A container as the runtime shows it. `finished_at`, `exit_code`, `signal`, `reason`: only when exited."""

    id: str
    """With the runtime's scheme: ``embedded://<hex>``, ``containerd://<hex>``."""
    sandbox_id: str
    name: str
    attempt: int
    image: str
    image_id: str = ""
    image_ref: str = ""
    state: RuntimeContainerState
    created_at: WallNs
    started_at: WallNs | None = None
    finished_at: WallNs | None = None
    exit_code: int | None = None
    """0..255; a death by signal n is 128 + n; -1 is never shown (255 when the runtime does not know)."""
    signal: int = 0
    """The signal that ended it, 0 for none."""
    reason: str = ""
    """``Completed``, ``Error``, ``OOMKilled``, ``StartError`` (then exit_code is 128), ``ContainerStatusUnknown``."""
    message: str = ""
    pid: int = 0
    """Process id on the host while running, 0 when unknown."""
    labels: Pairs = ()
    annotations: Pairs = ()
    log_path: str = ""
    """Absolute."""
    termination_log: str = ""
    """Absolute path on the host of what is mounted at its termination message path, empty when nothing is."""
    image_mounts: tuple[str, ...] = ()
    """Images that are mounted into it as volumes."""
    ids: ContainerIds | None = None
    """User and groups of its process; None when the runtime does not report them."""
    resources: Resources | None = None
    """CPU and memory limits in effect; None where the runtime does not report them."""


class RuntimePod(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All that a runtime knows of one pod: sandboxes newest attempt first, containers newest first."""

    uid: Uid
    name: str
    namespace: str
    sandboxes: tuple[Sandbox, ...] = ()
    containers: tuple[RuntimeContainer, ...] = ()
    ours: bool = True
    """False for a pod that another agent made (no owner annotation on any sandbox)."""


class RunSandbox(Call, frozen=True, kw_only=True):
    """Make and start a pod sandbox -> RuntimePod."""

    spec: SandboxSpec

    def brief(self) -> str:
        """Return one line for traces."""
        return f"RunSandbox {self.spec.namespace}/{self.spec.name} attempt={self.spec.attempt}"


class StopSandbox(Call, frozen=True, kw_only=True):
    """Stop a sandbox and what still runs in it -> RuntimePod. The record stays, not ready.

    One that is not ready already gives back what it still holds: its addresses, its host ports.
    """

    uid: Uid
    sandbox_id: str

    def brief(self) -> str:
        """Return one line for traces."""
        return f"StopSandbox {self.sandbox_id}"


class RemoveSandbox(Call, frozen=True, kw_only=True):
    """Stop a sandbox, then remove it with all its containers and records -> RuntimePod. Log files stay."""

    uid: Uid
    sandbox_id: str

    def brief(self) -> str:
        """Return one line for traces."""
        return f"RemoveSandbox {self.sandbox_id}"


class CreateContainer(Call, frozen=True, kw_only=True):
    """Make a container in a ready sandbox -> RuntimePod.

    Fails with Rejected (and the reason to be published) for an image that this runtime does not run, naming what would.
    """

    uid: Uid
    sandbox_id: str
    sandbox: SandboxSpec
    """What the sandbox would be if it were made now: runtimes are told it again, also of one that another agent made."""
    spec: ContainerSpec

    def brief(self) -> str:
        """Return one line for traces."""
        return f"CreateContainer {self.spec.name} attempt={self.spec.attempt} image={self.spec.image}"


class StartContainer(Call, frozen=True, kw_only=True):
    """Start a created container -> RuntimePod. A command that cannot be run leaves it exited: 128, StartError, message."""

    uid: Uid
    container_id: str

    def brief(self) -> str:
        """Return one line for traces."""
        return f"StartContainer {self.container_id}"


QUEUED = (RunSandbox, CreateContainer, StartContainer)
"""Calls that a driver may have wait for others."""


class StopContainer(Call, frozen=True, kw_only=True):
    """SIGTERM, wait `grace_s`, SIGKILL to the whole process tree -> RuntimePod, after the exit was recorded.

    A second call with a shorter grace wins; a longer one never extends. Cancelling the call does not take back the
    signal. `grace_s` 0 kills at once.
    """

    uid: Uid
    container_id: str
    grace_s: float

    def brief(self) -> str:
        """Return one line for traces."""
        return f"StopContainer {self.container_id} grace={self.grace_s:g}s"


class UpdateContainer(Call, frozen=True, kw_only=True):
    """Confine a created or running container by other amounts -> RuntimePod. What is 0 or empty stays as it is.

    Fails with Conflict for one that has ended, with Rejected on a runtime that confines nothing or for amounts that
    the container uses more than already.
    """

    uid: Uid
    container_id: str
    resources: Resources

    def brief(self) -> str:
        """Return one line for traces."""
        asked = self.resources
        return (
            f"UpdateContainer {self.container_id} shares={asked.cpu_shares} quota={asked.cpu_quota_us}us"
            f" memory={asked.memory_limit_bytes}"
        )


class RemoveContainer(Call, frozen=True, kw_only=True):
    """Remove a container that does not run, and its record -> RuntimePod. Its log file stays."""

    uid: Uid
    container_id: str

    def brief(self) -> str:
        """Return one line for traces."""
        return f"RemoveContainer {self.container_id}"


class ListPods(Call, frozen=True, kw_only=True):
    """List everything that the runtime holds -> PodListing."""


class InspectPod(Call, frozen=True, kw_only=True):
    """Show one pod -> RuntimePod, empty when the runtime holds nothing of it."""

    uid: Uid

    def brief(self) -> str:
        """Return one line for traces."""
        return f"InspectPod {self.uid}"


class ExecInContainer(Call, frozen=True, kw_only=True):
    """Run a command in a running container and wait -> ExecResult. Output over `limit_bytes` per stream is cut."""

    uid: Uid
    container_id: str
    command: tuple[str, ...]
    timeout_s: float
    limit_bytes: int = 1 << 20

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ExecInContainer {self.container_id} {self.command[0] if self.command else ''}"


class ReopenContainerLog(Call, frozen=True, kw_only=True):
    """Close a running container's log file and open its path again, after a rotation -> RuntimePod."""

    uid: Uid
    container_id: str

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ReopenContainerLog {self.container_id}"


class RuntimeStatus(Call, frozen=True, kw_only=True):
    """Ask for its version and whether it is ready -> RuntimeInfo. Cheap."""


class SetPodCidr(Call, frozen=True, kw_only=True):
    """Say which addresses the node's pods have -> Done. A runtime whose network takes no part in that does nothing."""

    pod_cidr: str
    """One range, or one of each family with a comma between."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"SetPodCidr {self.pod_cidr}"


RuntimeCall = (
    RunSandbox
    | StopSandbox
    | RemoveSandbox
    | CreateContainer
    | StartContainer
    | StopContainer
    | UpdateContainer
    | RemoveContainer
    | ListPods
    | InspectPod
    | ExecInContainer
    | ReopenContainerLog
    | ReadContainerStats
    | RuntimeStatus
    | SetPodCidr
)


class PodListing(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Every pod of the runtime, by UID ascending.

    Containers may lack what only an inspection shows (exit codes, annotations) when `complete` is False; states and
    ids are always true.
    """

    pods: tuple[RuntimePod, ...] = ()
    complete: bool = False


class ExecResult(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How a command in a container ended."""

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False


class RuntimeHandler(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which the runtime can run a pod, and what it offers."""

    name: str
    recursive_read_only_mounts: bool = False
    user_namespaces: bool = False


class RuntimeInfo(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What the runtime says of itself."""

    name: str
    version: str
    ready: bool = True
    network_ready: bool = True
    detail: str = ""
    """Why not ready, or which of its powers the machine does not allow (cgroups, namespaces)."""
    ready_condition: str = ""
    """While not ready: the runtime's condition as a node's status repeats it; empty when it has none, and `detail` says why."""
    network_condition: str = ""
    """The same of its network."""
    cgroup_driver: str = ""
    """``cgroupfs`` or ``systemd``; empty when the runtime does not say."""
    handlers: tuple[RuntimeHandler, ...] = ()
    supplemental_groups_policy: bool = False
    stop_signals: bool = False
    """Whether a container's own stop signal is honoured; no runtime says so itself, its version does."""


class RuntimeChanged(Message, frozen=True, kw_only=True):
    """An item of the stream ``runtime.events``: something of this pod changed; a hint, never the truth.

    Whatever changes by itself brings one; of what a call changes, its result tells the caller.
    """

    uid: Uid

    def brief(self) -> str:
        """Return one line for traces."""
        return f"RuntimeChanged {self.uid}"

    def conflation_key(self) -> str | None:
        """Keep one hint per pod."""
        return f"changed:{self.uid}"
