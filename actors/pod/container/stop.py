"""How containers are stopped: preStop hooks first, sidecars last, all within the one grace (reference sections 6.8 and 8).

```text
mark the hooks (written) -> hooks run side by side -> each container is stopped as soon as its own hook is over
the pod or its sandbox ends: a sidecar has its hook at once with all others, its stop when every regular container and every
later sidecar has ended; one that is stopped to be started again waits for nobody
the grace is used up: hooks are given up, and whatever is left is stopped with the floor of a stop
```

Every stop of a container that runs goes through here: of a pod that ends, of a sandbox that is renewed, of one container
that changed or whose postStart hook failed. A stop begins no sooner than it may, and `joining` lets it begin beside those
that are under way.
"""

import math

import msgspec
from msgspec.structs import replace

from actors.pod.container.hook import hook_grace_left_s, hooks_text
from actors.pod.container.hookcall import handler_of
from actors.pod.container.mark import HookKind, HookRecord, hook_record_of, with_hook_record
from actors.pod.life.stage import Stage, remember, stop
from actors.pod.state import PodMemo, PodState, PortCall, Terminating
from actors.rules.container.instance import running
from actors.rules.container.role import sidecars
from api.ids import Instant, WallNs
from api.ports.ledger import Remember
from api.ports.runtime import RuntimeContainer as Instance
from api.ports.runtime import RuntimeContainerState, StopContainer

NS = 1_000_000_000


class ContainerStop(msgspec.Struct, frozen=True, kw_only=True):
    """One container that is to be stopped."""

    instance: Instance
    grace_s: int
    """What its stop was given, or what is left of the grace of the whole pod."""
    why: str
    """The message of the stop's event."""


def container_stop(instance: Instance, grace_s: int, why: str = "") -> ContainerStop:
    """Return one container that is to be stopped; `why` for another message than a kubelet's usual one."""
    return ContainerStop(instance=instance, grace_s=grace_s, why=why or f"Stopping container {instance.name}")


# ---------------------------------------------------------------- hooks before the stop


def with_pre_stop_records(
    state: PodState, memo: PodMemo, leave: tuple[ContainerStop, ...], wall: WallNs
) -> PodMemo:
    """Return the memo that says which preStop hooks begin now: those of containers that run and were not marked before."""
    for one in leave:
        instance = one.instance
        known = hook_record_of(memo.hooks, HookKind.PRE_STOP, instance.name, instance.attempt)
        if known is not None or instance.state is not RuntimeContainerState.RUNNING or one.grace_s < 1:
            continue
        handler = handler_of(state, instance, HookKind.PRE_STOP)
        if handler is None:
            continue
        record = HookRecord(
            kind=HookKind.PRE_STOP,
            container=instance.name,
            attempt=instance.attempt,
            begun_at=wall,
            grace_s=one.grace_s,
            why=one.why,
            pause=handler.sleep is not None,
        )
        memo = replace(memo, hooks=with_hook_record(memo.hooks, record))
    return memo


def unwritten_hooks(state: PodState, memo: PodMemo) -> tuple[str, ...]:
    """Return the names of the containers whose hooks may not begin before the page was written."""
    written = state.remembered.hooks if state.remembered is not None else ()
    return tuple(
        record.container
        for record in memo.hooks
        if record.kind is HookKind.PRE_STOP and not record.ended and record not in written
    )


def pre_stop_record(state: PodState, instance: Instance) -> HookRecord | None:
    """Return the mark of an instance's preStop hook, None when it has none."""
    if not state.memo.hooks:
        return None
    return hook_record_of(state.memo.hooks, HookKind.PRE_STOP, instance.name, instance.attempt)


def stop_grace_left_s(state: PodState, one: ContainerStop, wall: WallNs) -> int:
    """Return what is left of the grace of one container: whole seconds that its hook took are taken off."""
    record = pre_stop_record(state, one.instance)
    if record is None or state.killed is not None:
        # The grace of a pod's end counts from the kill already.
        return one.grace_s
    return min(one.grace_s, math.ceil(hook_grace_left_s(state, record, wall)))


# ---------------------------------------------------------------- order


def sidecar_names(state: PodState) -> tuple[str, ...]:
    """Return the names of the pod's sidecars, in spec order."""
    return tuple(c.name for c in sidecars(state.desired.spec)) if state.desired is not None else ()


def stops_after(state: PodState, instance: Instance) -> tuple[str, ...]:
    """Return the running containers that have to end before this one is stopped."""
    names = sidecar_names(state)
    if instance.name not in names or state.desired is None:
        return ()
    later = names[names.index(instance.name) + 1 :]
    regular = tuple(c.name for c in state.desired.spec.containers)
    first = {*regular, *later}
    return tuple(sorted({c.name for c in running(state.observed) if c.name in first}))


# ---------------------------------------------------------------- the stage


def stops(
    state: PodState,
    leave: tuple[ContainerStop, ...],
    now: Instant,
    wall: WallNs,
    *,
    why: str,
    sidecars_last: bool = True,
) -> Stage | None:
    """Return the stage that stops these containers as far as hooks and turns let it, or the wait for that.

    `sidecars_last`: all of the pod ends, and there is grace left: sidecars go last. None: there is nothing to stop.
    """
    if not leave:
        return None
    memo = with_pre_stop_records(state, state.memo, leave, wall)
    late = unwritten_hooks(state, memo)
    if late:
        return remember(
            state, memo, f"recording the start of the preStop hook of {containers_text(late)}", durable=True
        )
    calls: list[PortCall] = []
    hooked: list[str] = []
    waiting: list[str] = []
    for one in leave:
        if is_hooked(state, one.instance):
            hooked.append(one.instance.name)
        elif sidecars_last and (before := stops_after(state, one.instance)):
            waiting.append(stop_order_text(one.instance, before))
        else:
            call = stop(state, one.instance, stop_grace_left_s(state, one, wall))
            calls.append(replace(call, event=one.why))
    if not calls:
        hooks = hooks_text(state, now, tuple(hooked)) or (
            f"the preStop hook of {containers_text(tuple(hooked))}" if hooked else ""
        )
        return Stage(why=f"waiting for {', '.join(text for text in (hooks, *waiting) if text)}")
    if state.remembered is not None and memo.hooks != state.remembered.hooks:
        # How far hooks are is written beside the stops: it only matters to a later life of the agent.
        page = remember(state, memo, why)
        return replace(page, calls=(*calls, *page.calls))
    return Stage(calls=tuple(calls), why=why)


def stop_order_text(instance: Instance, before: tuple[str, ...]) -> str:
    """Return in words after whom it is a sidecar's turn to be stopped."""
    return f"container {instance.name}, after {containers_text(before)}"


def waiting_stops(state: PodState, wall: WallNs) -> tuple[str, ...]:
    """Return in words which sidecars of a pod that ends wait for their turn, beside what is being stopped."""
    kill = state.killed
    if kill is None or not isinstance(state.life, Terminating) or wall >= kill.stop_by:
        return ()
    return tuple(
        stop_order_text(one, before)
        for one in running(state.observed)
        if one.id not in state.calls.asked
        and not is_hooked(state, one)
        and (before := stops_after(state, one))
    )


def is_hooked(state: PodState, instance: Instance) -> bool:
    """Return whether a container that is to be stopped waits for its preStop hook."""
    record = pre_stop_record(state, instance)
    return record is not None and not record.ended and instance.state is RuntimeContainerState.RUNNING


def containers_text(names: tuple[str, ...]) -> str:
    """Return names of containers in words."""
    return f"{'containers' if len(names) > 1 else 'container'} {', '.join(names)}"


def stop_messages(state: PodState, calls: tuple[PortCall, ...], memo: PodMemo) -> tuple[tuple[str, str], ...]:
    """Return container and message for each stop that begins with these calls: where there is a hook, with the hook."""
    known = state.memo.hooks
    found = [
        (record.container, record.why)
        for record in memo.hooks
        if record.kind is HookKind.PRE_STOP
        and hook_record_of(known, record.kind, record.container, record.attempt) is None
    ]
    instances = {c.id: c for c in (state.observed.containers if state.observed is not None else ())}
    for what in calls:
        if isinstance(what.call, StopContainer):
            instance = instances.get(what.call.container_id)
            if instance is None or pre_stop_record(state, instance) is None:
                found.append((what.container, what.event or f"Stopping container {what.container}"))
    return tuple(found)


# ---------------------------------------------------------------- beside stops that are under way


def is_stopping(state: PodState) -> bool:
    """Return whether all that is under way are stops, and what is written beside them."""
    calls = [flight.what.call for flight in state.calls.inflight]
    return any(isinstance(c, StopContainer) for c in calls) and all(
        isinstance(c, StopContainer | Remember) for c in calls
    )


def joining(state: PodState, stage: Stage) -> tuple[PortCall, ...]:
    """Return the calls of `stage`, chosen as if nothing were under way, that may begin beside the stops that are.

    Each container goes at its own pace: one that takes its whole grace keeps no other from being stopped. None is
    stopped twice in one stage: the answer to one stop may show another container as it was before it ended.
    """
    writing = any(isinstance(flight.what.call, Remember) for flight in state.calls.inflight)
    if not all(isinstance(what.call, StopContainer | Remember) for what in stage.calls):
        return ()
    return tuple(
        what
        for what in stage.calls
        if (isinstance(what.call, StopContainer) and what.call.container_id not in state.calls.asked)
        or (isinstance(what.call, Remember) and not writing)
    )
