"""Events of a pod: bounded, equal ones counted.

Reasons and texts are the kubelet's where it has them (reference ``pod-lifecycle`` sections 6.7 and 15). ``Exited`` is ours:
it has the exit code of the container.
"""

from msgspec.structs import replace

from actors.pod.state import EVENT_LIMIT, PodEvent, PodState
from actors.pod.status.history import status_named
from actors.rules.container.instance import running
from actors.rules.container.role import names_of
from api.ids import WallNs
from api.kube.objects.podstatus import ContainerStatus, PodStatus
from api.messages.events import EventSeen
from api.ports.runtime import RuntimeContainerState


def with_changes(state: PodState, status: PodStatus, wall: WallNs, *, stopped: bool) -> PodState:
    """Return the state with the events that follow from a new status: container exits, new crash-loop back-offs."""
    kinds = (status.init_container_statuses, status.container_statuses, status.ephemeral_container_statuses)
    for after in (one for kind in kinds for one in kind):
        before = status_named(state.base, after.name)
        if before is None:
            continue
        known = {
            ended.container_id for ended in (before.state.terminated, before.last_state.terminated) if ended
        }
        ended = after.state.terminated or after.last_state.terminated
        if ended and ended.container_id not in known and ended.reason != "StartError":
            kind = "Normal" if ended.exit_code == 0 or stopped else "Warning"
            left = f": {ended.message}" if ended.message else ""
            text = f"Container {after.name} exited with code {ended.exit_code} ({ended.reason}){left}"
            state = with_event(state, wall, kind, "Exited", text, after.name)
        if backs_off(after) and not backs_off(before) and state.desired is not None:
            meta = state.desired.metadata
            pod = f"{meta.name}_{meta.namespace}({meta.uid})"
            text = f"Back-off restarting failed container {after.name} in pod {pod}"
            state = with_event(state, wall, "Warning", "BackOff", text, after.name)
    return state


def with_ends(before: PodState, after: PodState, wall: WallNs) -> PodState:
    """Return the state with an event for each ended container without a status.

    Of a pod without a spec that is every container, of another those that are no longer in its spec.
    """
    if after.observed is before.observed or after.observed is None:
        return after
    ran = {one.id for one in running(before.observed)}
    shown = names_of(after.desired.spec) if after.desired is not None else ()
    for one in after.observed.containers:
        if one.id in ran and one.state is RuntimeContainerState.EXITED and one.name not in shown:
            left = f": {one.message}" if one.message else ""
            reason = one.reason or ("Completed" if one.exit_code == 0 else "Error")
            text = f"Container {one.name} exited with code {one.exit_code} ({reason}){left}"
            after = with_event(after, wall, "Normal", "Exited", text, one.name)
    return after


def new_events(before: PodState, after: PodState) -> tuple[EventSeen, ...]:
    """Return the events between two states of a pod, with how often each was added."""
    if before.events is after.events:
        return ()
    counts = {event_key(event): event.count for event in before.events}
    namespace, name = namespace_and_name(after)
    return tuple(
        EventSeen(
            uid=after.uid,
            namespace=namespace,
            pod=name,
            at=event.at,
            kind=event.type,
            reason=event.reason,
            message=event.message,
            field_path=field_path(after, event.container),
            times=event.count - counts.get(event_key(event), 0),
        )
        for event in after.events
        if event.count > counts.get(event_key(event), 0)
    )


def event_key(event: PodEvent) -> tuple[str, str, str, str]:
    """Return the key of an event: equal ones are counted."""
    return (event.type, event.reason, event.message, event.container)


def field_path(state: PodState, container: str) -> str:
    """Return the field path of a container, empty for the pod; a container of an orphan counts as a regular one."""
    groups = state.desired.spec.container_groups() if state.desired is not None else ()
    found = (group for group, containers in groups if any(one.name == container for one in containers))
    return f"spec.{next(found, 'containers')}{{{container}}}" if container else ""


def namespace_and_name(state: PodState) -> tuple[str, str]:
    """Return namespace and name of a pod, from its spec, the runtime or the memo."""
    if state.desired is not None:
        return state.desired.metadata.namespace, state.desired.metadata.name
    if state.observed is not None and state.observed.name:
        return state.observed.namespace, state.observed.name
    return state.memo.namespace, state.memo.name or str(state.uid)


def backs_off(status: ContainerStatus) -> bool:
    """Return whether a container waits for its crash-loop back-off."""
    return status.state.waiting is not None and status.state.waiting.reason == "CrashLoopBackOff"


def with_event(
    state: PodState, wall: WallNs, kind: str, reason: str, message: str, container: str = ""
) -> PodState:
    """Return the state with one more event; an equal one is counted instead."""
    for index, event in reversed(tuple(enumerate(state.events))):
        if event_key(event) == (kind, reason, message, container):
            rest = (*state.events[:index], *state.events[index + 1 :])
            again = replace(event, at=wall, count=event.count + 1)
            return replace(state, events=(*rest, again))
    event = PodEvent(at=wall, type=kind, reason=reason, message=message, container=container)
    return replace(state, events=(*state.events, event)[-EVENT_LIMIT:])
