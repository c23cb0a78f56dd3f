"""Phase of a pod, from its container statuses (reference ``pod-lifecycle`` section 10.2)."""

import msgspec

from actors.pod.status.initstatus import RESTARTING
from actors.rules.container.restart import is_success, restarts_after
from api.kube.objects.container import Container
from api.kube.objects.pod import Pod, PodSpec
from api.kube.objects.podstatus import ContainerStatus

TERMINAL = frozenset({"Succeeded", "Failed"})


def is_static(pod: Pod) -> bool:
    """Return whether the pod comes from a file or URL: its phase is never forced to a terminal one."""
    return pod.metadata.annotations.get("kubernetes.io/config.source", "api") != "api"


def phase_of(
    spec: PodSpec,
    statuses: tuple[ContainerStatus, ...],
    *,
    terminal: bool,
    static: bool,
    inits: tuple[ContainerStatus, ...] = (),
    initialised: bool = True,
    restarting: bool = False,
) -> str:
    """Return the phase. `terminal`: the pod's containers are proven stopped for good.

    `initialised`: a regular container was created in the newest sandbox, so no sidecar can keep the pod Pending.
    `restarting`: all containers are being restarted, whatever their exit codes.
    """
    count = counted(spec, statuses, inits)
    if count.init_failed and not restarting:
        return "Failed"
    if count.init_pending or count.waiting or (count.sidecar_pending and not initialised):
        return "Pending"
    if count.running and not count.unknown:
        return "Running"
    if not count.stopped or count.unknown:
        return "Pending"
    again = restarting or count.restarting or any(restarts_after(spec, *ended) for ended in count.stopped)
    if again and not (terminal and not static):
        return "Running"
    return "Succeeded" if all(code == 0 for _, code in count.stopped) else "Failed"


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of containers by what counts for the phase."""

    init_failed: int = 0
    init_pending: int = 0
    sidecar_pending: int = 0
    waiting: int = 0
    running: int = 0
    unknown: int = 0
    restarting: int = 0
    """Regular containers that were removed by a restart of all."""
    stopped: tuple[tuple[Container, int], ...] = ()
    """Regular containers that ended, with their exit codes."""


def counted(
    spec: PodSpec, statuses: tuple[ContainerStatus, ...], inits: tuple[ContainerStatus, ...]
) -> Count:
    """Count containers; ended sidecars and init containers that succeeded do not count."""
    by_name = {status.name: status for status in (*inits, *statuses)}
    kinds: list[str] = []
    stopped: list[tuple[Container, int]] = []
    for container in spec.init_containers:
        sidecar = container.restart_policy == "Always"
        status = by_name.get(container.name)
        kinds += kinds_of_sidecar(status) if sidecar else kinds_of_init(spec, container, status)
    for container in spec.containers:
        status = by_name.get(container.name)
        ended = last_exit(status) if status else None
        if ended is not None:
            stopped.append((container, ended))
            kinds += ["restarting"] if is_removed(status) else []
        elif status is None:
            kinds.append("unknown")
        else:
            kinds.append("running" if status.state.running else "waiting")
    return Count(**{kind: kinds.count(kind) for kind in set(kinds)}, stopped=tuple(stopped))


def kinds_of_init(spec: PodSpec, container: Container, status: ContainerStatus | None) -> tuple[str, ...]:
    """Return what a plain init container counts as."""
    if status is None or status.state.running:
        return ("init_pending",)
    ended = status.state.terminated or status.last_state.terminated
    if ended is None:
        return ("init_pending",)
    if is_success(ended.exit_code, ended.reason) or is_removed(status):
        return ()
    return () if restarts_after(spec, container, ended.exit_code, failed=True) else ("init_failed",)


def kinds_of_sidecar(status: ContainerStatus | None) -> tuple[str, ...]:
    """Return what a sidecar counts as."""
    if status is None:
        return ("sidecar_pending", "unknown")
    if status.state.running:
        return ("running",) if status.started else ("running", "sidecar_pending")
    if last_exit(status) is not None:
        return ()
    return ("sidecar_pending", "waiting")


def is_removed(status: ContainerStatus | None) -> bool:
    """Return whether a container was removed by a restart of all and not started again yet."""
    ended = status.last_state.terminated if status is not None and not status.state.terminated else None
    return ended is not None and ended.reason == RESTARTING


def last_exit(status: ContainerStatus) -> int | None:
    """Return the exit code that counts for the phase: of an ended container, or of one that waits for its restart."""
    if status.state.terminated:
        return status.state.terminated.exit_code
    if status.state.running:
        return None
    return status.last_state.terminated.exit_code if status.last_state.terminated else None
