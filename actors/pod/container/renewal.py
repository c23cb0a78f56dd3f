"""Containers that are restarted whatever their exit code: after a failed probe, or for a resize that needs a restart.

A stopped container may exit with 0, after which ``OnFailure`` would not restart it. So the memo has the ids of these
instances, and where the policy alone would not restart them it is written before the stop: an agent that dies between
the two still restarts the container.
"""

from msgspec.structs import replace

from actors.pod.container.probe import probed
from actors.pod.container.situation import Situation
from actors.pod.life.stage import Stage, remember
from actors.pod.state import PodState, PortCall, Recalling
from actors.rules.container.instance import instances_of
from api.ports.runtime import RuntimeContainer as Instance
from api.ports.runtime import RuntimeContainerState, StopContainer


def restarts_to_record(situation: Situation) -> Stage | None:
    """Return the stage that records these instances, None where that is done or their policy restarts them anyway."""
    state = situation.state
    pod, written = state.desired, state.remembered.renewed if state.remembered is not None else ()
    if pod is None:
        return None
    policies = {one.name: one.restart_policy or pod.spec.restart_policy for one in probed(pod)}
    fresh = tuple(
        one.id for one in situation.restarts if policies[one.name] == "OnFailure" and one.id not in written
    )
    if not fresh:
        return None
    kept = tuple(one for one in state.memo.renewed if one not in fresh)
    memo = replace(state.memo, kill=None, renewed=(*kept, *fresh))
    return remember(
        state, memo, "recording which containers are restarted whatever their exit code", durable=True
    )


def with_renewed(state: PodState, calls: tuple[PortCall, ...], restarts: tuple[Instance, ...]) -> PodState:
    """Return the state with the instances that these calls stop and that are restarted whatever their exit code."""
    stopped = {what.call.container_id for what in calls if isinstance(what.call, StopContainer)}
    if not stopped:
        return state
    fresh = tuple(one.id for one in restarts if one.id in stopped)
    if not fresh:
        return state
    kept = tuple(one for one in state.memo.renewed if one not in fresh)
    return replace(state, memo=replace(state.memo, renewed=(*kept, *fresh)))


def without_renewed(situation: Situation) -> PodState:
    """Return the state without instances whose successor has run, that need no stop after all, or whose pod terminates."""
    state = situation.state
    told = state.desired is not None or state.killed is not None
    if not state.memo.renewed or not told or state.observed is None or isinstance(state.life, Recalling):
        return state
    coming = {one.id for one in situation.restarts}
    kept: list[str] = []
    for container in probed(state.desired) if state.desired is not None and state.killed is None else ():
        newest, *before = instances_of(state.observed, container.name) or (None,)
        if newest is None:
            continue
        waits = () if newest.state is not RuntimeContainerState.CREATED else before[:1]
        undone = (
            newest.state is RuntimeContainerState.RUNNING
            and not state.calls.inflight
            and newest.id not in coming
        )
        counted = waits if undone else (newest, *waits)
        kept += [one.id for one in counted if one.id in state.memo.renewed]
    if tuple(kept) == state.memo.renewed:
        return state
    return replace(state, memo=replace(state.memo, renewed=tuple(kept)))
