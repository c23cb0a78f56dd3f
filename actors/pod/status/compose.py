"""Compose a pod's status (reference ``pod-lifecycle`` section 10): the only place where it is composed.

From the desired pod, what the runtime shows, and the last status, which keeps what the runtime forgot: restart counts,
last terminations, start time, addresses.
"""

from collections.abc import Mapping

import msgspec

from actors.pod.spec.ending import cut_message, termination_message
from actors.pod.status.address import pod_addresses
from actors.pod.status.condition import conditions
from actors.pod.status.containerfield import mounts_of, pod_amounts, pod_resources, resources_of, user_of
from actors.pod.status.history import UNSEEN, ended_for_good, ever_ran, status_named
from actors.pod.status.initstatus import (
    CREATING,
    INITIALIZING,
    RESTARTING,
    UNSEEN_EXIT_CODE,
    UNSEEN_SUCCESS,
    attempted,
    had_initialised,
    idle,
    is_done,
    removed_for_restart,
)
from actors.pod.status.phase import TERMINAL, is_static, phase_of
from actors.rules.container.instance import instances_of
from actors.rules.container.progress import active_id, began, is_past
from actors.rules.container.restart import should_start
from actors.rules.container.role import is_init, is_plain_init
from actors.rules.container.sandbox import judge
from actors.rules.resources.qos import qos_class
from api.ids import WallNs
from api.kube.objects.container import Container, EphemeralContainer
from api.kube.objects.pod import Pod, PodSpec
from api.kube.objects.podstatus import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    HostIP,
    PodCondition,
    PodIP,
    PodStatus,
)
from api.ports.node import NodeFacts
from api.ports.runtime import RuntimeContainer as Instance
from api.ports.runtime import RuntimeContainerState as Runs
from api.ports.runtime import RuntimePod, SandboxState
from api.wallclock import rfc3339


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a status."""

    pod: Pod
    observed: RuntimePod | None
    base: PodStatus
    waiting: tuple[tuple[str, str, str], ...] = ()
    """Container, reason, message: why it is not started now."""
    terminal: bool = False
    """Every container is proven stopped for good."""
    terminating: bool = False
    reason: str = ""
    message: str = ""
    failed: bool = False
    """The kill sets the phase Failed."""
    disruption: str | None = None
    """Message of the condition DisruptionTarget, None without one."""
    completed: bool = False
    """The pod completed by itself: no container runs again, also of a static pod."""
    restarting: bool = False
    """All containers are being restarted in place."""
    resizes: tuple[PodCondition, ...] = ()
    """Conditions of a resize."""
    refused: bool = False
    """The pod was not admitted."""
    messages: Mapping[str, str | None] = {}
    """Termination message by container id."""
    started: tuple[str, ...] = ()
    """Containers that count as started."""
    ready: tuple[str, ...] = ()
    """Containers that count as ready."""
    node: NodeFacts = NodeFacts()

    @property
    def containers(self) -> int:
        """Return how many containers share the limit of termination messages."""
        spec = self.pod.spec
        return len(spec.init_containers) + len(spec.containers) + len(spec.ephemeral_containers)


def compose(facts: Facts, wall: WallNs) -> PodStatus:
    """Compose the whole status; `wall` is when what is new in it became true."""
    pod, base = facts.pod, facts.base
    waiting = {
        name: ContainerStateWaiting(reason=reason, message=text) for name, reason, text in facts.waiting
    }
    statuses = tuple(
        container_status(facts, container, waiting.get(container.name))
        for container in sorted(pod.spec.containers, key=lambda c: c.name)
    )
    inits = tuple(
        container_status(facts, container, waiting.get(container.name))
        for container in pod.spec.init_containers
    )
    static = is_static(pod) and not facts.completed
    if facts.terminal and (not static or any(ever_ran(status) for status in (*inits, *statuses))):
        inits, statuses = final_statuses(pod.spec, inits, statuses)
    phase = phase_of(
        pod.spec,
        statuses,
        terminal=facts.terminal,
        static=static,
        inits=inits,
        initialised=has_begun(facts),
        restarting=facts.restarting and not facts.terminating,
    )
    phase = guarded_phase(facts, phase, static)
    reason, message = facts.reason, facts.message
    if not reason and phase == base.phase and phase in TERMINAL:
        reason, message = base.reason, base.message
    ips = pod_addresses(pod, facts.observed, base, facts.node.ips)
    # A pod that is refused is not on this node.
    hosts = () if facts.refused else facts.node.ips
    needs_sandbox = facts.observed is None or judge(facts.observed, host_network=pod.spec.host_network).needed
    return PodStatus(
        phase=phase,
        conditions=conditions(
            pod,
            phase,
            statuses,
            base.conditions,
            wall,
            sandbox_ready=not needs_sandbox,
            disruption=facts.disruption if facts.terminal else None,
            inits=inits,
            restarting=facts.restarting and not facts.terminating,
            resizes=facts.resizes,
        ),
        container_statuses=statuses,
        init_container_statuses=inits,
        reason=reason,
        message=message,
        host_ip=hosts[0] if hosts else "",
        host_ips=tuple(HostIP(ip=ip) for ip in hosts),
        pod_ip=ips[0] if ips else "",
        pod_ips=tuple(PodIP(ip=ip) for ip in ips),
        qos_class=qos_class(pod.spec),
        start_time=base.start_time or pod.status.start_time or rfc3339(wall),
        observed_generation=max(pod.metadata.generation, base.observed_generation),
        allocated_resources=pod_amounts(pod.spec, "requests"),
        resources=pod_resources(pod.spec),
    )


def guarded_phase(facts: Facts, phase: str, static: bool) -> str:
    """Return the phase to publish for the one that follows from the containers' statuses.

    A terminal phase is final once published, here or in the pod of the source; it is not published before everything of
    the pod is proven stopped.
    """
    if facts.base.phase in TERMINAL:
        return facts.base.phase
    if facts.pod.status.phase in TERMINAL:
        return facts.pod.status.phase
    if facts.terminal:
        return "Failed" if facts.failed or (not static and phase not in TERMINAL) else phase
    if phase in TERMINAL:
        begun = has_begun(facts) or not facts.pod.spec.init_containers
        return facts.base.phase or ("Running" if begun else "Pending")
    return phase


def container_status(
    facts: Facts, container: Container, waiting: ContainerStateWaiting | None
) -> ContainerStatus:
    """Compose one container's status from its newest instance, the one before, and the last status."""
    old = status_named(facts.base, container.name)
    instances = instances_of(facts.observed, container.name)
    if not instances:
        status = without_instance(facts, container, old)
    elif old is not None and is_removed_since(instances[0], old):
        status = old
    else:
        told = tuple(with_termination_message(facts, one) for one in instances)
        status = with_instances(facts.pod.spec, container, old, told)
    newest = instances[0] if instances else None
    if facts.restarting and not facts.terminating and newest is None:
        return msgspec.structs.replace(status, ready=False, started=False)
    if waiting is None and old is not None and not facts.terminating:
        waiting = waits_still(old, newest)
    plain = bool(facts.pod.spec.init_containers) and is_plain_init(facts.pod.spec, container)
    passed = plain and not instances and is_passed(facts, container)
    if waiting and not passed and not facts.terminal and not status.state.running:
        status = with_waiting(facts.pod.spec, container, status, newest, waiting)
    running = status.state.running is not None
    if passed and status.state.waiting:
        status = msgspec.structs.replace(status, state=UNSEEN_SUCCESS)
    return msgspec.structs.replace(
        status,
        ready=is_done(status) if plain else running and container.name in facts.ready,
        started=running and (plain or container.name in facts.started),
        volume_mounts=mounts_of(facts.pod, container, facts.node),
    )


def is_removed_since(newest: Instance, old: ContainerStatus) -> bool:
    """Return whether every instance that the runtime shows ended before the published end.

    Then a later instance was removed by another client: its published status stays.
    """
    later = old.state.terminated is not None and old.restart_count > newest.attempt
    return later and newest.state is Runs.EXITED and old.container_id not in ("", newest.id)


def waits_still(old: ContainerStatus, newest: Instance | None) -> ContainerStateWaiting | None:
    """Return the last waiting reason of the container, unless another instance was created since.

    Between the end of a wait and the next start the published reason stays, as a kubelet's does.
    """
    waiting = old.state.waiting
    if waiting is None or waiting in (CREATING.waiting, INITIALIZING.waiting) or waiting.reason == RESTARTING:
        return None
    return waiting if newest is None or newest.id == old.container_id else None


def without_instance(facts: Facts, container: Container, old: ContainerStatus | None) -> ContainerStatus:
    """Compose the status of a container that the runtime does not show."""
    if old is None:
        return ContainerStatus(name=container.name, image=container.image, state=idle(facts.pod.spec))
    if facts.restarting and not facts.terminating:
        return removed_for_restart(old)
    if old.state.terminated:
        return old
    if old.state.running:
        gone = lost(
            "The container could not be located when the pod was deleted.  The container used to be Running"
        )
        return msgspec.structs.replace(
            old,
            image=container.image,
            state=idle(facts.pod.spec),
            last_state=ContainerState(terminated=gone),
            container_id="",
            restart_count=old.restart_count + (0 if facts.terminating else 1),
        )
    return msgspec.structs.replace(old, image=container.image, state=idle(facts.pod.spec))


def with_instances(
    spec: PodSpec,
    container: Container | EphemeralContainer,
    old: ContainerStatus | None,
    instances: tuple[Instance, ...],
) -> ContainerStatus:
    """Compose the status of a container from its instances, newest first."""
    newest = instances[0]
    before = next((i for i in instances[1:] if i.state is Runs.EXITED), None)
    last = ContainerState()
    if before is not None:
        last = ContainerState(terminated=terminated(before))
    elif old is not None:
        last = last_before(old, newest)
    state = state_of(spec, newest, old)
    return ContainerStatus(
        name=container.name,
        image=newest.image or container.image,
        image_id=newest.image_ref or newest.image_id,
        container_id=newest.id,
        restart_count=max(newest.attempt, old.restart_count if old else 0),
        state=state,
        last_state=last,
        allocated_resources=container.resources.requests,
        resources=resources_of(container, newest),
        user=user_of(newest),
    )


def with_termination_message(facts: Facts, instance: Instance) -> Instance:
    """Return an ended instance with its termination message, cut to its share of the pod's limit."""
    if instance.state is not Runs.EXITED:
        return instance
    left = facts.messages.get(instance.id) or ""
    message = cut_message(termination_message(instance.message, left), facts.containers)
    return instance if message == instance.message else msgspec.structs.replace(instance, message=message)


def last_before(old: ContainerStatus, newest: Instance) -> ContainerState:
    """Return the last state before `newest` from the last status: the runtime forgot it."""
    ended = old.state.terminated
    if ended is not None and ended.container_id not in ("", newest.id):
        return ContainerState(terminated=ended)
    # A terminated state without an id was a guess about the instance that is still the newest.
    before = old.last_state.terminated
    return (
        ContainerState(terminated=before)
        if before is not None and before.container_id != newest.id
        else ContainerState()
    )


def state_of(spec: PodSpec, newest: Instance, old: ContainerStatus | None) -> ContainerState:
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
            return idle(spec)


def was_running(instance: Instance, old: ContainerStatus) -> bool:
    """Return whether the last status showed this instance running, or lost since."""
    ends = (old.state.terminated, old.last_state.terminated)
    return old.state.running is not None or any(
        end is not None and end.reason == UNSEEN and end.container_id == instance.id for end in ends
    )


def with_waiting(
    spec: PodSpec,
    container: Container,
    status: ContainerStatus,
    newest: Instance | None,
    waiting: ContainerStateWaiting,
) -> ContainerStatus:
    """Return the status of a container that is started later: waiting, with its end as last state."""
    known = newest is not None or is_init(spec, container.name)
    done = not should_start(spec, container, newest) if known else ended_for_good(spec, container, status)
    if done:
        return status
    last = (
        ContainerState(terminated=status.state.terminated) if status.state.terminated else status.last_state
    )
    image = container.image if newest is None else status.image
    return msgspec.structs.replace(
        status, image=image, state=ContainerState(waiting=waiting), last_state=last
    )


def has_begun(facts: Facts) -> bool:
    """Return whether a regular container was created in the pod's newest sandbox."""
    observed = facts.observed
    return observed is not None and began(facts.pod.spec, observed, active_id(observed))


def is_passed(facts: Facts, container: Container) -> bool:
    """Return whether a container after this init container was created in the pod's sandbox, which is still ready."""
    observed = facts.observed
    if observed is None or not observed.sandboxes or observed.sandboxes[0].state is not SandboxState.READY:
        return False
    return is_past(facts.pod.spec, observed, active_id(observed), container.name)


def final_statuses(
    spec: PodSpec, inits: tuple[ContainerStatus, ...], statuses: tuple[ContainerStatus, ...]
) -> tuple[tuple[ContainerStatus, ...], tuple[ContainerStatus, ...]]:
    """Return the final statuses of a terminated pod: containers that were never tried stay waiting (reference 11.3)."""
    tried = attempted(inits)
    if had_initialised(spec, inits, statuses):
        statuses = tuple(final_status(status) for status in statuses)
    return (*(final_status(status) for status in inits[:tried]), *inits[tried:]), statuses


def final_status(status: ContainerStatus) -> ContainerStatus:
    """Return the final status of a container of a terminated pod: its last known end, else a guess."""
    if status.state.terminated:
        return status
    last = status.last_state.terminated
    if last and not status.state.running:
        # The next instance was created and never ran: the end is that of the one before it.
        return msgspec.structs.replace(
            status,
            state=ContainerState(terminated=last),
            container_id=last.container_id or status.container_id,
        )
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
    """Return the terminated state of a container whose exit was not seen."""
    return ContainerStateTerminated(
        container_id=container_id, exit_code=UNSEEN_EXIT_CODE, reason=UNSEEN, message=message
    )


def moment(at: WallNs | None) -> str | None:
    """Return an instant in the API's format."""
    return None if at is None else rfc3339(at)
