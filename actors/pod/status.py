"""Compose a pod's status: what is true of it, in Kubernetes' words (reference ``pod-lifecycle`` section 10).

The only composer of this fact. Built from the desired pod, what the runtime shows, and the last status, which keeps
what the runtime forgot: restart counts, last terminations, start time, addresses.
"""

import msgspec

from actors.pod.config.ending import cut_message, ended_message
from actors.pod.phase import TERMINAL, conditions, is_static, phase_of
from actors.rules.instance import instances_of, ready_sandboxes
from actors.rules.qos import qos_class
from actors.rules.restart import should_start
from actors.rules.sandbox import judge
from api.containers import Container as Instance
from api.containers import ContainerState as Runs
from api.containers import RuntimePod
from api.ids import WallNs
from api.objects.container import Container
from api.objects.pod import Pod, PodSpec
from api.objects.podstatus import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    HostIP,
    PodIP,
    PodStatus,
)
from api.wallclock import rfc3339

CREATING = ContainerState(waiting=ContainerStateWaiting(reason="ContainerCreating"))
LOST = 137
"""Exit code published for a container that nobody saw end."""

UNSEEN = "ContainerStatusUnknown"
"""Reason published with it."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All that a status is composed of."""

    pod: Pod
    observed: RuntimePod | None
    base: PodStatus
    waiting: tuple[tuple[str, str, str], ...] = ()
    """Container, reason, message: why it is not being started right now."""
    terminal: bool = False
    """Every container is proven stopped for good."""
    terminating: bool = False
    reason: str = ""
    message: str = ""
    failed: bool = False
    """The kill decides the phase: Failed."""
    endings: tuple[tuple[str, str], ...] = ()
    """Container id, and the last words that it left."""
    node_ip: str = ""
    wall: WallNs


def compose(facts: Facts) -> PodStatus:
    """Compose the whole status."""
    pod, base = facts.pod, facts.base
    waiting = {
        name: ContainerStateWaiting(reason=reason, message=text) for name, reason, text in facts.waiting
    }
    statuses = tuple(
        container_status(facts, container, waiting.get(container.name))
        for container in sorted(pod.spec.containers, key=lambda c: c.name)
    )
    static = is_static(pod)
    if facts.terminal and (not static or any(ever_ran(status) for status in statuses)):
        statuses = tuple(located_no_more(status) for status in statuses)
    phase = guarded_phase(facts, phase_of(pod.spec, statuses, terminal=facts.terminal, static=static), static)
    reason, message = facts.reason, facts.message
    if not reason and phase == base.phase and phase in TERMINAL:
        reason, message = base.reason, base.message
    ready = ready_sandboxes(facts.observed)
    ips = ready[0].ips if ready and ready[0].ips else tuple(ip.ip for ip in base.pod_ips)
    if pod.spec.host_network and ready and not ips and facts.node_ip:
        ips = (facts.node_ip,)
    needs_sandbox = facts.observed is None or judge(facts.observed, host_network=pod.spec.host_network).needed
    return PodStatus(
        phase=phase,
        conditions=conditions(
            pod, phase, statuses, base.conditions, facts.wall, sandbox_ready=not needs_sandbox
        ),
        container_statuses=statuses,
        reason=reason,
        message=message,
        host_ip=facts.node_ip,
        host_ips=(HostIP(ip=facts.node_ip),) if facts.node_ip else (),
        pod_ip=ips[0] if ips else "",
        pod_ips=tuple(PodIP(ip=ip) for ip in ips),
        qos_class=qos_class(pod.spec),
        start_time=base.start_time or rfc3339(facts.wall),
        observed_generation=max(pod.metadata.generation, base.observed_generation),
    )


def guarded_phase(facts: Facts, phase: str, static: bool) -> str:
    """Return the phase to publish for the one that the containers' statuses give.

    A terminal one is final once published, and is held back until everything of the pod is proven stopped.
    """
    if facts.base.phase in TERMINAL:
        return facts.base.phase
    if facts.terminal:
        return "Failed" if facts.failed or (not static and phase not in TERMINAL) else phase
    if phase in TERMINAL:
        return facts.base.phase or "Running"
    return phase


def container_status(
    facts: Facts, container: Container, waiting: ContainerStateWaiting | None
) -> ContainerStatus:
    """Compose one container's status: newest instance, the one before, and what the last status remembers."""
    old = status_named(facts.base, container.name)
    instances = instances_of(facts.observed, container.name)
    if not instances:
        status = without_instance(facts, container, old)
    else:
        status = with_instances(container, old, tuple(with_last_words(facts, one) for one in instances))
    newest = instances[0] if instances else None
    if waiting is None and old is not None and not facts.terminating:
        waiting = waits_still(old, newest)
    if waiting and not facts.terminal and not status.state.running:
        status = put_off(facts.pod.spec, container, status, newest, waiting)
    running = status.state.running is not None
    return msgspec.structs.replace(status, ready=running, started=running)


def waits_still(old: ContainerStatus, newest: Instance | None) -> ContainerStateWaiting | None:
    """Return why the container waited when that was last looked at, unless another instance was made since.

    Between the end of a wait and the next start the published reason stays, as a kubelet's does.
    """
    waiting = old.state.waiting
    if waiting is None or waiting == CREATING.waiting:
        return None
    return waiting if newest is None or newest.id == old.container_id else None


def without_instance(facts: Facts, container: Container, old: ContainerStatus | None) -> ContainerStatus:
    """Compose the status of a container of which the runtime holds nothing."""
    if old is None:
        return ContainerStatus(name=container.name, image=container.image, state=CREATING)
    if old.state.terminated:
        return old
    if old.state.running:
        gone = lost(
            "The container could not be located when the pod was deleted.  The container used to be Running"
        )
        return msgspec.structs.replace(
            old,
            state=CREATING,
            last_state=ContainerState(terminated=gone),
            container_id="",
            restart_count=old.restart_count + (0 if facts.terminating else 1),
        )
    return msgspec.structs.replace(old, image=container.image, state=CREATING)


def with_instances(
    container: Container, old: ContainerStatus | None, instances: tuple[Instance, ...]
) -> ContainerStatus:
    """Compose the status of a container from its instances, newest first."""
    newest = instances[0]
    before = next((i for i in instances[1:] if i.state is Runs.EXITED), None)
    last = ContainerState()
    if before is not None:
        last = ContainerState(terminated=terminated(before))
    elif old is not None:
        last = last_before(old, newest)
    state = state_of(newest, old)
    return ContainerStatus(
        name=container.name,
        image=newest.image or container.image,
        image_id=newest.image_ref or newest.image_id,
        container_id=newest.id,
        restart_count=max(newest.attempt, old.restart_count if old else 0),
        state=state,
        last_state=last,
        allocated_resources=container.resources.requests if container.resources else {},
    )


def with_last_words(facts: Facts, instance: Instance) -> Instance:
    """Return an ended instance with what it left as its message; all of a pod's messages share one room."""
    if instance.state is not Runs.EXITED:
        return instance
    left = next((message for identity, message in facts.endings if identity == instance.id), "")
    message = cut_message(ended_message(instance.message, left), len(facts.pod.spec.containers))
    return instance if message == instance.message else msgspec.structs.replace(instance, message=message)


def last_before(old: ContainerStatus, newest: Instance) -> ContainerState:
    """Return how the attempt before `newest` ended, from the last status: the runtime forgot it."""
    for ended in (old.state.terminated, old.last_state.terminated):
        if ended is not None and ended.container_id != newest.id:
            return ContainerState(terminated=ended)
    return ContainerState()


def state_of(newest: Instance, old: ContainerStatus | None) -> ContainerState:
    """Return the API state of an instance (reference section 10.1 step 3)."""
    match newest.state:
        case Runs.RUNNING:
            return ContainerState(running=ContainerStateRunning(started_at=moment(newest.started_at)))
        case Runs.EXITED:
            return ContainerState(terminated=terminated(newest))
        case Runs.UNKNOWN if old is not None and was_running(newest, old):
            gone = lost("The container could not be located when the pod was terminated", newest.id)
            return ContainerState(terminated=gone)
        case Runs.UNKNOWN | Runs.CREATED:
            return CREATING


def was_running(instance: Instance, old: ContainerStatus) -> bool:
    """Tell whether the last status showed this instance running, or lost since."""
    ends = (old.state.terminated, old.last_state.terminated)
    return old.state.running is not None or any(
        end is not None and end.reason == UNSEEN and end.container_id == instance.id for end in ends
    )


def put_off(
    spec: PodSpec,
    container: Container,
    status: ContainerStatus,
    newest: Instance | None,
    waiting: ContainerStateWaiting,
) -> ContainerStatus:
    """Show a container that will be started, but not now, as waiting; its end moves to the last state."""
    if not should_start(spec, container, newest):
        return status
    last = (
        ContainerState(terminated=status.state.terminated) if status.state.terminated else status.last_state
    )
    return msgspec.structs.replace(status, state=ContainerState(waiting=waiting), last_state=last)


def ever_ran(status: ContainerStatus) -> bool:
    """Tell whether the container ever had an instance."""
    return bool(status.container_id or status.last_state.terminated or status.restart_count)


def located_no_more(status: ContainerStatus) -> ContainerStatus:
    """Close the books on a container of a terminated pod: its last known end counts, never a guess over it."""
    if status.state.terminated:
        return status
    if status.last_state.terminated and not status.state.running:
        return msgspec.structs.replace(status, state=ContainerState(terminated=status.last_state.terminated))
    gone = lost("The container could not be located when the pod was terminated")
    return msgspec.structs.replace(status, state=ContainerState(terminated=gone))


def terminated(instance: Instance) -> ContainerStateTerminated:
    """Return how an exited instance ended; a runtime that gave no reason gets the usual one."""
    code = instance.exit_code if instance.exit_code is not None else 255
    return ContainerStateTerminated(
        container_id=instance.id,
        exit_code=code,
        signal=instance.signal,
        reason=instance.reason or ("Completed" if code == 0 else "Error"),
        message=instance.message,
        started_at=moment(instance.started_at),
        finished_at=moment(instance.finished_at),
    )


def lost(message: str, container_id: str = "") -> ContainerStateTerminated:
    """Return the end of a container that nobody saw end."""
    return ContainerStateTerminated(container_id=container_id, exit_code=LOST, reason=UNSEEN, message=message)


def moment(at: WallNs | None) -> str | None:
    """Return an instant as the API shows it."""
    return None if at is None else rfc3339(at)


def status_named(status: PodStatus, name: str) -> ContainerStatus | None:
    """Return the status of a container by name."""
    return next((s for s in status.container_statuses if s.name == name), None)


def next_attempt(newest: Instance | None, old: ContainerStatus | None) -> int:
    """Return the number of the next instance: never one that was used before."""
    if newest is not None:
        return max(newest.attempt, old.restart_count if old else 0) + 1
    if old is None or not ever_ran(old):
        return 0
    # One that waits for its back-off shows its end as the last one; one that was made and never ran shows none.
    last = old.last_state.terminated
    used = old.state.terminated or (last is not None and last.container_id == old.container_id != "")
    return old.restart_count + (1 if used else 0)
