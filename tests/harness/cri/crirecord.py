"""What a personality keeps of a sandbox and a container, and how the CRI shows it."""

import threading
from dataclasses import dataclass, field
from pathlib import Path

from runtime.wire.generated import cri_pb2 as pb
from tests.harness.cri.criprocess import LogFile, Process


@dataclass(frozen=True)
class ImageRefs:
    """How one image is called: in `image_id` (empty: not told), in listings, in a status."""

    id: str
    listed: str
    shown: str


@dataclass
class Sandbox:
    """A sandbox."""

    id: str
    config: pb.PodSandboxConfig
    handler: str
    created_at: int
    address: str
    state: int = pb.SANDBOX_READY

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Return what no two sandboxes may share."""
        meta = self.config.metadata
        return meta.name, meta.namespace, meta.uid, meta.attempt

    def matches(self, wanted: pb.PodSandboxFilter) -> bool:
        """Tell whether a listing that asks for this shows it."""
        return (
            wanted.id in ("", self.id)
            and (not wanted.HasField("state") or wanted.state.state == self.state)
            and wanted.label_selector.items() <= dict(self.config.labels).items()
        )

    def item(self) -> pb.PodSandbox:
        """Return it as a listing shows it."""
        return pb.PodSandbox(
            id=self.id,
            metadata=self.config.metadata,
            state=self.state,
            created_at=self.created_at,
            labels=self.config.labels,
            annotations=self.config.annotations,
            runtime_handler=self.handler,
        )

    def status(self) -> pb.PodSandboxStatus:
        """Return it as an inspection shows it."""
        options = self.config.linux.security_context.namespace_options
        address = self.address if self.state == pb.SANDBOX_READY else ""
        return pb.PodSandboxStatus(
            id=self.id,
            metadata=self.config.metadata,
            state=self.state,
            created_at=self.created_at,
            network=pb.PodSandboxNetworkStatus(ip=address),
            linux=pb.LinuxPodSandboxStatus(namespaces=pb.Namespace(options=options)),
            labels=self.config.labels,
            annotations=self.config.annotations,
            runtime_handler=self.handler,
        )


@dataclass
class Container:
    """A container. `kill_at` is when a stop that goes on without its caller kills it, on the monotonic clock."""

    id: str
    sandbox: Sandbox
    config: pb.ContainerConfig
    created_at: int
    refs: ImageRefs
    state: int = pb.CONTAINER_CREATED
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    process: Process | None = None
    log: LogFile | None = None
    kill_at: float | None = None
    exit_is_lost: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def key(self) -> tuple[str, int]:
        """Return what no two containers of a sandbox may share."""
        return self.config.metadata.name, self.config.metadata.attempt

    @property
    def pid(self) -> int:
        """Return the process id while it runs, else 0."""
        return self.process.pid if self.process is not None and self.state == pb.CONTAINER_RUNNING else 0

    @property
    def log_path(self) -> Path:
        """Return where its log is."""
        return Path(self.sandbox.config.log_directory) / self.config.log_path

    def matches(self, wanted: pb.ContainerFilter) -> bool:
        """Tell whether a listing that asks for this shows it."""
        return (
            wanted.id in ("", self.id)
            and wanted.pod_sandbox_id in ("", self.sandbox.id)
            and (not wanted.HasField("state") or wanted.state.state == self.state)
            and wanted.label_selector.items() <= dict(self.config.labels).items()
        )

    def item(self) -> pb.Container:
        """Return it as a listing shows it."""
        return pb.Container(
            id=self.id,
            pod_sandbox_id=self.sandbox.id,
            metadata=self.config.metadata,
            image=self.config.image,
            image_ref=self.refs.listed,
            state=self.state,
            created_at=self.created_at,
            labels=self.config.labels,
            annotations=self.config.annotations,
            image_id=self.refs.id,
        )

    def status(self) -> pb.ContainerStatus:
        """Return it as an inspection shows it."""
        config = self.config
        return pb.ContainerStatus(
            id=self.id,
            metadata=config.metadata,
            state=self.state,
            created_at=self.created_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
            exit_code=self.exit_code,
            image=pb.ImageSpec(image=config.image.image),
            image_ref=self.refs.shown,
            reason=self.reason,
            message=self.message,
            labels=config.labels,
            annotations=config.annotations,
            mounts=config.mounts,
            log_path=str(self.log_path),
            resources=pb.ContainerResources(linux=config.linux.resources),
            image_id=self.refs.id,
        )
