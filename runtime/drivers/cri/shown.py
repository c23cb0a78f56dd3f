"""From the runtime's words to ours: what it shows of sandboxes, containers and images."""

import posixpath
import re
from typing import Any

import msgspec
from msgspec.structs import replace

from api.decoding import ready
from api.errors import UnavailableError
from api.ids import Uid, WallNs
from api.ports.confinement import Resources
from api.ports.images import ImageRow
from api.ports.runtime import (
    ANNOTATION_TERMINATION_PATH,
    ContainerIds,
    RuntimeContainer,
    RuntimeContainerState,
    RuntimeHandler,
    RuntimeInfo,
    Sandbox,
    SandboxState,
)
from runtime.drivers.cri import annotation
from runtime.wire.generated import cri_pb2 as pb

STATES = {
    pb.CONTAINER_CREATED: RuntimeContainerState.CREATED,
    pb.CONTAINER_RUNNING: RuntimeContainerState.RUNNING,
    pb.CONTAINER_EXITED: RuntimeContainerState.EXITED,
    pb.CONTAINER_UNKNOWN: RuntimeContainerState.UNKNOWN,
}
UNKNOWN_EXIT = 255
START_FAILED = 128
DRIVERS = {pb.SYSTEMD: "systemd", pb.CGROUPFS: "cgroupfs"}
_ID = re.compile(r"(sha256:)?[0-9a-f]{64}")


class _Info(msgspec.Struct):
    """What is read of a verbose answer. The rest holds the environment, and is not even decoded."""

    pid: int = 0


_INFO = msgspec.json.Decoder(ready(_Info))

FIRST_WITH_STOP_SIGNALS = {"containerd": (2, 3), "cri-o": (1, 34)}
"""Older ones take the field and do nothing with it."""


def pid_of(info: Any) -> int:
    """Return the process id of a verbose answer, 0 for none."""
    try:
        return _INFO.decode(info["info"]).pid if "info" in info else 0
    except msgspec.MsgspecError:
        return 0


def sandbox(row: pb.PodSandbox) -> Sandbox:
    """Return what a listing shows of a sandbox; its network is not in it."""
    meta = row.metadata
    return Sandbox(
        id=row.id,
        uid=Uid(meta.uid),
        name=meta.name,
        namespace=meta.namespace,
        attempt=meta.attempt,
        state=SandboxState.READY if row.state == pb.SANDBOX_READY else SandboxState.NOT_READY,
        created_at=row.created_at,
        network_known=False,
        runtime_handler=row.runtime_handler,
        labels=annotation.without_added(row.labels, row.annotations),
        annotations=annotation.without_own(row.annotations),
    )


def with_network(known: Sandbox, status: pb.PodSandboxStatus) -> Sandbox:
    """Return a sandbox with the state and network of its status."""
    ready = status.state == pb.SANDBOX_READY
    host = status.linux.namespaces.options.network == pb.NODE
    has_network = status.HasField("network") and ready
    ips: tuple[str, ...] = ()
    if has_network and not host:
        ips = tuple(
            ip for ip in (status.network.ip, *(one.ip for one in status.network.additional_ips)) if ip
        )
    return replace(
        known,
        state=SandboxState.READY if ready else SandboxState.NOT_READY,
        host_network=host,
        ips=ips,
        network_known=has_network or (host and ready),
    )


def container(row: pb.Container, scheme: str) -> RuntimeContainer:
    """Return what a listing shows of a container; times, exit code and log path are not in it."""
    return RuntimeContainer(
        id=f"{scheme}://{row.id}",
        sandbox_id=row.pod_sandbox_id,
        name=row.metadata.name,
        attempt=row.metadata.attempt,
        image=row.image.user_specified_image or row.image.image,
        image_id=row.image_id or row.image_ref,
        state=STATES.get(row.state, RuntimeContainerState.UNKNOWN),
        created_at=row.created_at,
        labels=annotation.without_added(row.labels, row.annotations),
        annotations=annotation.without_own(row.annotations),
        resources=annotation.made_with(row.annotations),
    )


def row_of_sandbox(status: pb.PodSandboxStatus) -> pb.PodSandbox:
    """Return the row that a listing would show of a sandbox that was inspected."""
    return pb.PodSandbox(
        id=status.id,
        metadata=status.metadata,
        state=status.state,
        created_at=status.created_at,
        labels=status.labels,
        annotations=status.annotations,
        runtime_handler=status.runtime_handler,
    )


def row_of_made(asked: pb.CreateContainerRequest, identity: str, at: WallNs) -> pb.Container | None:
    """Return the row that a listing would show of a container that was just made as `asked`.

    A listing names the image as it was asked for and by its id: None where that was not its id.
    """
    config = asked.config
    if not _ID.fullmatch(config.image.image):
        return None
    return pb.Container(
        id=identity,
        pod_sandbox_id=asked.pod_sandbox_id,
        metadata=config.metadata,
        image=config.image,
        image_ref=config.image.image,
        state=pb.CONTAINER_CREATED,
        created_at=at,
        labels=config.labels,
        annotations=config.annotations,
    )


def status_of_made(asked: pb.CreateContainerRequest, identity: str) -> pb.ContainerStatus:
    """Return what an inspection would tell of a container that was just made as `asked`."""
    config = asked.config
    return pb.ContainerStatus(
        id=identity,
        metadata=config.metadata,
        state=pb.CONTAINER_CREATED,
        image=config.image,
        image_ref=config.image.image,
        labels=config.labels,
        annotations=config.annotations,
        mounts=config.mounts,
        log_path=posixpath.join(asked.sandbox_config.log_directory, config.log_path),
    )


def _ids(status: pb.ContainerStatus) -> ContainerIds | None:
    """Return as whom it runs; runtimes before CRI of Kubernetes 1.31 do not say."""
    if not (status.HasField("user") and status.user.HasField("linux")):
        return None
    user = status.user.linux
    return ContainerIds(user=user.uid, group=user.gid, groups=tuple(user.supplemental_groups))


def with_details(known: RuntimeContainer, status: pb.ContainerStatus, pid: int) -> RuntimeContainer:
    """Return a container as an inspection shows it.

    An exit that the runtime has not recorded to its end yet is shown as running still: its code would be a guess.
    """
    state = STATES.get(status.state, RuntimeContainerState.UNKNOWN)
    unfinished = state is RuntimeContainerState.EXITED and status.finished_at <= 0
    shown = replace(
        known,
        state=RuntimeContainerState.RUNNING if unfinished else state,
        created_at=status.created_at or known.created_at,
        image=status.image.image or known.image if _ID.fullmatch(known.image) else known.image,
        image_id=status.image_id or known.image_id,
        image_ref=status.image_ref,
        started_at=status.started_at if status.started_at > 0 else None,
        pid=pid if state is RuntimeContainerState.RUNNING else 0,
        log_path=status.log_path,
        termination_log=_termination_log(known, status),
        image_mounts=tuple(m.image.image for m in status.mounts if m.HasField("image") and m.image.image),
        ids=_ids(status),
        resources=_resources(status) or known.resources,
    )
    if shown.state is not RuntimeContainerState.EXITED:
        return shown
    if 0 < status.started_at <= status.created_at:
        # CRI-O says of one that could not be started that it began and ended when it was created.
        return replace(
            shown,
            started_at=None,
            finished_at=status.finished_at,
            exit_code=START_FAILED,
            reason="StartError",
            message=status.message,
        )
    # CRI-O says -1 where it does not know, containerd 255.
    code = status.exit_code & 0xFF if status.exit_code >= 0 else UNKNOWN_EXIT
    return replace(
        shown,
        # containerd records the start when it receives the event, which may be after the end.
        started_at=None if shown.started_at is None else min(shown.started_at, status.finished_at),
        finished_at=status.finished_at,
        exit_code=code,
        reason=status.reason or ("Error" if code else "Completed"),
        message=status.message,
    )


def _resources(status: pb.ContainerStatus) -> Resources | None:
    """Return what confines a container by CPU and memory; None where the runtime does not report it (containerd 1.6)."""
    if not status.HasField("resources") or not status.resources.HasField("linux"):
        return None
    linux = status.resources.linux
    return Resources(
        cpu_period_us=linux.cpu_period,
        cpu_quota_us=linux.cpu_quota,
        cpu_shares=linux.cpu_shares,
        memory_limit_bytes=linux.memory_limit_in_bytes,
    )


def _termination_log(known: RuntimeContainer, status: pb.ContainerStatus) -> str:
    """Return the host's path of the file mounted at the container's termination message path."""
    path = dict(known.annotations).get(ANNOTATION_TERMINATION_PATH, "")
    if not path:
        return ""
    target = posixpath.normpath(f"/{path.lstrip('/')}")
    return next((m.host_path for m in status.mounts if m.container_path == target), "")


def image(row: pb.Image) -> ImageRow:
    """Return an image."""
    return ImageRow(
        id=row.id,
        names=(*row.repo_tags, *row.repo_digests),
        size_bytes=row.size,
        pinned=row.pinned,
        user=row.uid.value if row.HasField("uid") else None,
        user_name=row.username,
    )


def runtime_info(version: pb.VersionResponse, status: pb.StatusResponse, driver: str) -> RuntimeInfo:
    """Return what the runtime says of itself. Only two of its conditions matter."""
    conditions = {one.type: one for one in status.status.conditions}
    troubles = []
    for kind in ("RuntimeReady", "NetworkReady"):
        one = conditions.get(kind)
        if one is None:
            troubles.append(f"{kind} is not reported")
        elif not one.status:
            troubles.append(": ".join(part for part in (kind, "false", one.reason, one.message) if part))
    handlers = (
        RuntimeHandler(
            name=one.name,
            recursive_read_only_mounts=one.features.recursive_read_only_mounts,
            user_namespaces=one.features.user_namespaces,
        )
        for one in status.runtime_handlers
    )
    return RuntimeInfo(
        name=version.runtime_name,
        version=version.runtime_version,
        ready="RuntimeReady" in conditions and conditions["RuntimeReady"].status,
        network_ready="NetworkReady" in conditions and conditions["NetworkReady"].status,
        detail="; ".join(troubles),
        ready_condition=condition_text(conditions.get("RuntimeReady")),
        network_condition=condition_text(conditions.get("NetworkReady")),
        cgroup_driver=driver,
        handlers=tuple(sorted(handlers, key=lambda one: one.name)),
        supplemental_groups_policy=status.features.supplemental_groups_policy,
        stop_signals=honours_stop_signals(version.runtime_name, version.runtime_version),
    )


def condition_text(condition: pb.RuntimeCondition | None) -> str:
    """Return a condition that is not true as a kubelet writes it in a node's status, empty for one that is true."""
    if condition is None:
        return "<nil>"
    if condition.status:
        return ""
    return f"{condition.type}=false reason:{condition.reason} message:{condition.message}"


def honours_stop_signals(name: str, version: str) -> bool:
    """Return whether a runtime of this name and version honours a container's own stop signal (reference section 20)."""
    first = FIRST_WITH_STOP_SIGNALS.get(name)
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    if first is None or numbers is None:
        return False
    return (int(numbers[1]), int(numbers[2])) >= first


def check_version(version: pb.VersionResponse, where: str) -> None:
    """Raise UnavailableError for an answer that no container runtime gives."""
    fields = (version.version, version.runtime_name, version.runtime_version, version.runtime_api_version)
    if not all(fields) or version.version != "0.1.0":
        raise UnavailableError(
            f"the server on {where} says it is {version.runtime_name or 'nothing'} "
            f"{version.runtime_version} with an interface {version.version or 'unnamed'}: not a container runtime "
            "that is known here; name the socket of containerd or CRI-O"
        )
