"""How containers are stopped: preStop hooks first, sidecars last, all within the one grace (reference sections 6.8 and 8).

```text
record the hooks (written) -> hooks run side by side -> each container is stopped as soon as its own hook has ended
the pod or its sandbox ends: a sidecar has its hook at once with all others, its stop when every regular container and every
later sidecar has ended; one that is stopped to be restarted waits for no other
the grace is over: hooks time out, and what still runs is stopped with the minimum grace
```

Every stop of a running container goes through here: at the end of a pod, for a new sandbox, of one container that
changed or whose postStart hook failed. `joining` lets a stop begin beside those in flight.
"""

import math

import msgspec
from msgspec.structs import replace

from actors.pod.container.hook import hook_grace_left_s, hooks_text
from actors.pod.container.hookcall import handler_of
from actors.pod.hookrecord import HookKind, HookRecord, hook_record_of, with_hook_record
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
    """The stop of one container."""

    instance: Instance
    grace_s: int
    """The grace of the stop in seconds, or what is left of that of the pod."""
    why: str
    """The message of the stop's event."""


def container_stop(instance: Instance, grace_s: int, why: str = "") -> ContainerStop:
    """Return the stop of one container; `why` replaces the usual message of its event."""
    return ContainerStop(instance=instance, grace_s=grace_s, why=why or f"Stopping container {instance.name}")


# ---------------------------------------------------------------- hooks before the stop


def with_pre_stop_records(
    state: PodState, memo: PodMemo, leave: tuple[ContainerStop, ...], wall: WallNs
) -> PodMemo:
    """Return the memo with records of the preStop hooks that begin now: of running containers without a record."""
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
    """Return the names of the containers whose preStop hooks must wait for the write of the memo."""
    written = state.remembered.hooks if state.remembered is not None else ()
    return tuple(
        record.container
        for record in memo.hooks
        if record.kind is HookKind.PRE_STOP and not record.ended and record not in written
    )


def pre_stop_record(state: PodState, instance: Instance) -> HookRecord | None:
    """Return the record of an instance's preStop hook, None without one."""
    if not state.memo.hooks:
        return None
    return hook_record_of(state.memo.hooks, HookKind.PRE_STOP, instance.name, instance.attempt)


def stop_grace_left_s(state: PodState, one: ContainerStop, wall: WallNs) -> int:
    """Return what its hook left of the grace of one container, in seconds."""
    record = pre_stop_record(state, one.instance)
    if record is None or state.killed is not None:
        # The grace of a kill already counts from the kill.
        return one.grace_s
    return min(one.grace_s, math.ceil(hook_grace_left_s(state, record, wall)))


# ---------------------------------------------------------------- order


def sidecar_names(state: PodState) -> tuple[str, ...]:
    """Return the names of the pod's sidecars, in spec order."""
    return tuple(c.name for c in sidecars(state.desired.spec)) if state.desired is not None else ()


def stops_after(state: PodState, instance: Instance) -> tuple[str, ...]:
    """Return the names of running containers that must exit before this one is stopped."""
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
    """Return the stage that stops these containers as far as hooks and their order allow, or the wait for that.

    `sidecars_last`: the pod ends and there is grace left. None: there is nothing to stop.
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
        # Progress of hooks is written beside the stops: only a later life of the agent needs it.
        write = remember(state, memo, why)
        return replace(write, calls=(*calls, *write.calls))
    return Stage(calls=tuple(calls), why=why)


def stop_order_text(instance: Instance, before: tuple[str, ...]) -> str:
    """Return in words after which containers a sidecar is stopped."""
    return f"container {instance.name}, after {containers_text(before)}"


def waiting_stops(state: PodState, wall: WallNs) -> tuple[str, ...]:
    """Return in words which sidecars of a terminating pod wait for other containers to exit."""
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
    """Return whether the stop of a container waits for its preStop hook."""
    record = pre_stop_record(state, instance)
    return record is not None and not record.ended and instance.state is RuntimeContainerState.RUNNING


def containers_text(names: tuple[str, ...]) -> str:
    """Return names of containers in words: ``containers a, b``."""
    return f"{'containers' if len(names) > 1 else 'container'} {', '.join(names)}"


def stop_messages(state: PodState, calls: tuple[PortCall, ...], memo: PodMemo) -> tuple[tuple[str, str], ...]:
    """Return container and message of the ``Killing`` events of these calls: with a preStop hook, when the hook begins."""
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


# ---------------------------------------------------------------- beside stops in flight


def is_stopping(state: PodState) -> bool:
    """Return whether all calls in flight are stops and writes beside them."""
    calls = [flight.what.call for flight in state.calls.inflight]
    return any(isinstance(c, StopContainer) for c in calls) and all(
        isinstance(c, StopContainer | Remember) for c in calls
    )


def joining(state: PodState, stage: Stage) -> tuple[PortCall, ...]:
    """Return the calls of `stage`, chosen as if nothing were in flight, that may begin beside the stops in flight.

    A container that uses its whole grace delays no other stop. None is stopped twice in one stage: the answer to one
    stop may show another container as it was before it ended.
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
