"""Events of a pod: what is worth telling an operator, bounded, equal ones counted.

Reasons and texts are the kubelet's where it has them (reference ``pod-lifecycle`` sections 6.7 and 15). ``Exited`` is ours:
the exit code belongs into the event of the death itself.
"""

from msgspec.structs import replace

from actors.pod.state import EVENT_LIMIT, PodEvent, PodState
from actors.pod.status import status_named
from api.ids import WallNs
from api.objects.podstatus import ContainerStatus, PodStatus


def with_changes(state: PodState, status: PodStatus, wall: WallNs) -> PodState:
    """Return the state with the events that follow from a new status: who died how, who begins to back off."""
    for after in status.container_statuses:
        before = status_named(state.base, after.name)
        if before is None:
            continue
        known = {
            ended.container_id for ended in (before.state.terminated, before.last_state.terminated) if ended
        }
        ended = after.state.terminated or after.last_state.terminated
        if ended and ended.container_id not in known and ended.reason != "StartError":
            kind = "Normal" if ended.exit_code == 0 or state.killed is not None else "Warning"
            told = f": {ended.message}" if ended.message else ""
            text = f"Container {after.name} exited with code {ended.exit_code} ({ended.reason}){told}"
            state = with_event(state, wall, kind, "Exited", text, after.name)
        if backs_off(after) and not backs_off(before) and state.desired is not None:
            meta = state.desired.metadata
            pod = f"{meta.name}_{meta.namespace}({meta.uid})"
            text = f"Back-off restarting failed container {after.name} in pod {pod}"
            state = with_event(state, wall, "Warning", "BackOff", text, after.name)
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
