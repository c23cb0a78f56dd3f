"""Events of a pod: what is worth telling an operator, bounded, equal ones counted.

Reasons and texts are the kubelet's where it has them (reference ``pod-lifecycle`` sections 6.7 and 15). ``ContainerDied``
is ours: the exit code belongs into the event of the death itself.
"""

from msgspec.structs import replace

from actors.pod.state import EVENT_LIMIT, PodEvent, PodState
from api.containers import Container, ContainerState, RuntimePod
from api.ids import WallNs
from api.objects.podstatus import ContainerStatus, PodStatus


def with_exits(state: PodState, view: RuntimePod, wall: WallNs) -> PodState:
    """Return the state with an event for each container that `view` is the first to show exited."""
    known = (
        {c.id for c in state.observed.containers if c.state is ContainerState.EXITED}
        if state.observed
        else None
    )
    for container in reversed(view.containers):
        if container.state is not ContainerState.EXITED:
            continue
        # Before the first look only what the last status called running is news.
        is_news = container.id not in known if known is not None else was_running(state.base, container.id)
        if is_news:
            well = container.exit_code == 0
            kind = "Normal" if well else "Warning"
            state = with_event(state, wall, kind, "ContainerDied", death_text(container), container.name)
    return state


def death_text(container: Container) -> str:
    """Return how a container ended."""
    by = f", killed by signal {container.signal}" if container.signal else ""
    why = f" ({container.reason})" if container.reason else ""
    return f"Container {container.name} ended with exit code {container.exit_code}{by}{why}"


def was_running(base: PodStatus, container_id: str) -> bool:
    """Tell whether the last status called this instance running."""
    return any(s.state.running and s.container_id == container_id for s in base.container_statuses)


def with_backoffs(state: PodState, before: PodStatus, wall: WallNs) -> PodState:
    """Return the state with an event for each container that began to back off."""
    pod = state.desired
    if pod is None:
        return state
    was = {s.name for s in before.container_statuses if backs_off(s)}
    for status in state.base.container_statuses:
        if backs_off(status) and status.name not in was:
            meta = pod.metadata
            text = f"Back-off restarting failed container {status.name} in pod {meta.name}_{meta.namespace}({meta.uid})"
            state = with_event(state, wall, "Warning", "BackOff", text, status.name)
    return state


def backs_off(status: ContainerStatus) -> bool:
    """Tell whether a container waits for its crash-loop back-off."""
    return status.state.waiting is not None and status.state.waiting.reason == "CrashLoopBackOff"


def with_event(
    state: PodState, wall: WallNs, kind: str, reason: str, message: str, container: str = ""
) -> PodState:
    """Return the state with one more event; one that repeats the last of its reason is counted instead."""
    for index, event in reversed(tuple(enumerate(state.events))):
        same = (event.type, event.reason, event.message, event.container) == (
            kind,
            reason,
            message,
            container,
        )
        if same:
            rest = (*state.events[:index], *state.events[index + 1 :])
            again = replace(event, at=wall, count=event.count + 1)
            return replace(state, events=(*rest, again))
    event = PodEvent(at=wall, type=kind, reason=reason, message=message, container=container)
    return replace(state, events=(*state.events, event)[-EVENT_LIMIT:])
