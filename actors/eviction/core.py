"""EvictionManager's decisions: from readings to one eviction action at a time.

A pass checks limits of local storage first, then node pressure. Under disk pressure it removes containers and logs of
ended pods first, then unused images, then evicts one pod at a time. The next decision needs a reading that began after
the last action ended.
"""

from typing import assert_never

from msgspec.structs import replace

from actors.eviction.hint import answered, follow_hint, listen, wakes_for_hint, with_stream
from actors.eviction.reading import pressures, with_usage
from actors.eviction.state import (
    Clearing,
    Evictions,
    EvictionState,
    Killing,
    KnownPods,
    Reclaimed,
    Reclaiming,
    SettlingWait,
    Victim,
)
from actors.eviction.verdict import (
    due,
    name_of,
    over_limit,
    ranking,
    reclaims_images,
    usage_rows,
)
from actors.rules.nodeevent import NodeEvent, with_node_event
from actors.rules.resources.ranking import low_on
from api import paths
from api.eviction import KINDS, Observation, Pressure, Signal, Threshold
from api.ids import Instant, Path, Uid, WallNs
from api.lifecycle import Action, Decision, Tell
from api.messages.admission import NodePressure
from api.messages.events import EventSeen
from api.messages.eviction import (
    ActivePod,
    ActivePods,
    EvictionMessage,
    FinishedCleared,
    ImagesCollected,
    PodKilled,
    WatchPressure,
)
from api.messages.imagegc import CollectImages
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.nodestatus import PressureSeen
from api.messages.pod import KillCause, KillPod
from api.messages.supervisor import ClearFinished, WatchPods
from api.messages.usage import ReadUsageNow, UsageRead, WatchUsage

KILL_WAIT_S = 30.0
"""Timeout of an eviction; then the next reading decides."""
CLEAR_WAIT_S = 30.0
"""Timeout of the removal of containers and logs of ended pods."""
RECLAIM_WAIT_S = 120.0
RECLAIM_AGAIN_S = 60.0
"""Minimum time between two removals of unused objects for a signal for which no pod can be evicted."""
SILENCE_S = 35.0
"""Without usage for this long, subscribe again."""
PODS_AGAIN_S = 60.0
HARD_GRACE_S = 1
KEPT_VICTIMS = 20
EVICTED = "Evicted"
LATE = "Container runtime did not kill the pod within specified grace period."


class WatchOthers(Action, frozen=True, kw_only=True):
    """Watch restarts of the actors that receive commands."""


def begin(state: EvictionState, now: Instant, wall: WallNs) -> Decision[EvictionState]:
    """Subscribe to pods and usage. Pods that an earlier incarnation evicted may still terminate."""
    state = replace(state, settling=SettlingWait(until=now + KILL_WAIT_S), action_at=now)
    decision = plan(state, now, wall)
    return replace(decision, actions=(WatchOthers(), *decision.actions))


def decide(
    before: EvictionState, message: EvictionMessage | KernelMessage, now: Instant, wall: WallNs
) -> Decision[EvictionState]:
    """Absorb a message and choose the next actions."""
    state, actions = absorb(before, message, now)
    decision = plan(state, now, wall)
    return replace(decision, actions=(*actions, *decision.actions))


# ---------------------------------------------------------------- absorb


def absorb(  # noqa: C901  # one case per message
    state: EvictionState, message: EvictionMessage | KernelMessage, now: Instant
) -> tuple[EvictionState, tuple[Action, ...]]:
    """Return the state after `message`, and a request for a reading when an action ended."""
    match message:
        case UsageRead(usage=usage):
            return answered(with_usage(state, usage, now), usage), ()
        case ActivePods(pods=pods, leaving=leaving, whole=whole):
            active = {one.uid for one in pods}
            asked = {uid: at for uid, at in state.evicted.asked.items() if uid in active}
            listed = KnownPods(active=pods, leaving=leaving, whole=whole)
            return when_gone(replace(state, pods=listed, evicted=replace(state.evicted, asked=asked)), now)
        case WatchPressure(asked_by=path):
            others = tuple(one for one in state.pressure.subscribers if one != path)
            pressure = replace(state.pressure, subscribers=(*others, path))
            return unpublished(replace(state, pressure=pressure)), ()
        case PodKilled(uid=uid):
            if isinstance(state.doing, Killing) and state.doing.victim.uid == uid:
                return when_gone(replace(state, doing=replace(state.doing, stopped=True)), now)
            return state, ()
        case FinishedCleared(run=run):
            if isinstance(state.doing, Clearing) and state.doing.run == run:
                return replace(state, doing=replace(state.doing, done=True)), ()
            return state, ()
        case ImagesCollected(run=run):
            if isinstance(state.doing, Reclaiming) and state.doing.run == run:
                return over(state, now, "")
            return state, ()
        case Restarted(path=path):
            return restarted(state, path, now)
        case Heard() | StreamEnded():
            return with_stream(state, message, now), ()
        case Alarm() | ChildDied() | Outcome():
            return state, ()
        case _:
            assert_never(message)


def when_gone(state: EvictionState, now: Instant) -> tuple[EvictionState, tuple[Action, ...]]:
    """End the wait for a pod that is gone: its containers have stopped, its volumes are removed."""
    if not isinstance(state.doing, Killing):
        return state, ()
    leaving = state.pods.leaving if state.pods is not None else ()
    if state.doing.victim.uid in (*leaving, *(one.uid for one in state.active)):
        return state, ()
    return over(state, now, "removed")


def restarted(state: EvictionState, path: Path, now: Instant) -> tuple[EvictionState, tuple[Action, ...]]:
    """Absorb the restart of an actor: subscribe again, and do not wait for results that it lost."""
    if path == paths.PODS:
        if isinstance(state.doing, Clearing):
            state = replace(state, doing=replace(state.doing, done=True))
        asked = replace(state.asked, pods_at=float("-inf"))
        return replace(state, settling=SettlingWait(until=now + KILL_WAIT_S), asked=asked), ()
    if path == paths.ADMISSION:
        return unpublished(state), ()
    if path == paths.USAGE:
        return replace(state, asked=replace(state.asked, usage_at=float("-inf"))), ()
    if path == paths.IMAGEGC and isinstance(state.doing, Reclaiming):
        return over(state, now, "")
    return state, ()


def unpublished(state: EvictionState) -> EvictionState:
    """Return the state in which admission is to be told of the node's pressure again."""
    return replace(state, pressure=replace(state.pressure, published=None))


def over(state: EvictionState, now: Instant, outcome: str) -> tuple[EvictionState, tuple[Action, ...]]:
    """End the action under way and request a reading of its effect."""
    match state.doing:
        case Killing(victim=victim):
            ended = replace(victim, outcome=outcome)
            victims = tuple(ended if one == victim else one for one in state.evicted.victims)
            state = replace(state, evicted=replace(state.evicted, victims=victims), reclaimed=None)
        case Clearing(signal=signal) | Reclaiming(signal=signal):
            state = replace(state, reclaimed=Reclaimed(signal=signal, at=now))
        case None:
            return state, ()
        case _:
            assert_never(state.doing)
    again = Tell(to=paths.USAGE, message=ReadUsageNow(asked_by=paths.EVICTION))
    return replace(state, doing=None, action_at=now), (again,)


# ---------------------------------------------------------------- plan


def plan(state: EvictionState, now: Instant, wall: WallNs) -> Decision[EvictionState]:
    """Choose the next actions from the state alone."""
    actions: list[Action] = []
    state = go_on(give_up(state, actions, now, wall), actions, now)
    state = watch(state, actions, now)
    state = listen(state, actions, now)
    state = follow_hint(state, actions, now)
    state = publish_pressure(state, actions, now)
    state = settle(state, actions, now)
    if state.doing is None and state.usage is not None and state.settling.done:
        state = act(state, actions, now, wall)
    return Decision(state=state, actions=tuple(actions), wake_at=wake_at(state, now))


def settle(state: EvictionState, actions: list[Action], now: Instant) -> EvictionState:
    """Delay decisions until all pods are known and those evicted earlier are gone, with a timeout."""
    if state.doing is not None:
        return state
    settling = state.settling
    late = now >= settling.until
    if state.pods is None or not (late or is_quiet(state.pods)):
        return replace(state, action_at=now, settling=replace(settling, done=False))
    if settling.done or late:
        return replace(state, settling=replace(settling, done=True))
    actions.append(Tell(to=paths.USAGE, message=ReadUsageNow(asked_by=paths.EVICTION)))
    return replace(state, action_at=now, settling=replace(settling, done=True))


def is_quiet(pods: KnownPods) -> bool:
    """Return whether all pods are known and none terminates."""
    return pods.whole and not pods.leaving and not any(one.ending for one in pods.active)


def give_up(state: EvictionState, actions: list[Action], now: Instant, wall: WallNs) -> EvictionState:
    """End an action that takes too long; the next reading shows its effect."""
    doing = state.doing
    if doing is None or isinstance(doing, Clearing) or now < doing.until:
        return state
    if isinstance(doing, Killing):
        actions.append(event(doing.victim, wall, "ExceededGracePeriod", LATE))
    state, asked = over(state, now, f"not terminated after {KILL_WAIT_S:.0f} s")
    actions += asked
    return state


def go_on(state: EvictionState, actions: list[Action], now: Instant) -> EvictionState:
    """Go on to unused images when containers and logs of ended pods are removed, or after the timeout."""
    doing = state.doing
    if not isinstance(doing, Clearing) or not (doing.done or now >= doing.until):
        return state
    if reclaims_images(state, doing.signal):
        return reclaim(state, actions, doing, now)
    state, asked = over(state, now, "")
    actions += asked
    return state


def watch(state: EvictionState, actions: list[Action], now: Instant) -> EvictionState:
    """Subscribe to pods and usage, again when none arrives."""
    if now >= state.asked.usage_at + SILENCE_S:
        actions.append(Tell(to=paths.USAGE, message=WatchUsage(asked_by=paths.EVICTION)))
        state = replace(state, asked=replace(state.asked, usage_at=now))
    if now >= state.asked.pods_at + PODS_AGAIN_S:
        actions.append(Tell(to=paths.PODS, message=WatchPods(asked_by=paths.EVICTION)))
        # The pressure sent before may be lost as well.
        state = unpublished(replace(state, asked=replace(state.asked, pods_at=now)))
    return state


def publish_pressure(state: EvictionState, actions: list[Action], now: Instant) -> EvictionState:
    """Send the node's pressure to admission and to who asked for it, when it changed."""
    conditions = pressures(state, now)
    pressure = replace(state.pressure, conditions=conditions)
    if state.usage is not None and conditions != pressure.published:
        message = NodePressure(conditions=conditions, spares_static=state.policy.spares_static)
        actions.append(Tell(to=paths.ADMISSION, message=message))
        seen = PressureSeen(conditions=conditions)
        actions += [Tell(to=path, message=seen) for path in pressure.subscribers]
        pressure = replace(pressure, published=conditions)
    return replace(state, pressure=pressure)


def act(state: EvictionState, actions: list[Action], now: Instant, wall: WallNs) -> EvictionState:
    """Start the next action, if any."""
    for one, excess in over_limit(state, now):
        victim = victim_of(one, excess.limit, excess.message, HARD_GRACE_S, now)
        return kill(state, actions, victim, wall, own_fault=True)
    found = due(state, now)
    state = replace(state, decided={**state.decided, **{one.signal: one.as_of for one in state.observations}})
    if not found:
        return state if state.pressure.ripe else replace(state, note="", reclaimed=None)
    threshold, seen = found[0]
    signal = threshold.signal
    state = happened(state, wall, "EvictionThresholdMet", f"Attempting to reclaim {KINDS[signal].resource}")
    if KINDS[signal].pressure is Pressure.DISK and is_reclaim_due(state, signal, now):
        return clear(state, actions, signal, now)
    return evict(state, actions, threshold, seen, now, wall)


def is_reclaim_due(state: EvictionState, signal: Signal, now: Instant) -> bool:
    """Return whether to remove unused objects before evicting a pod."""
    last = state.reclaimed
    return last is None or last.signal is not signal or now >= last.at + RECLAIM_AGAIN_S


def clear(state: EvictionState, actions: list[Action], signal: Signal, now: Instant) -> EvictionState:
    """Request the removal of containers and logs of ended pods."""
    run = f"eviction-{state.epoch}-{state.reclaims + 1}"
    actions.append(Tell(to=paths.PODS, message=ClearFinished(run=run, asked_by=paths.EVICTION)))
    doing = Clearing(signal=signal, run=run, until=now + CLEAR_WAIT_S)
    return replace(state, doing=doing, reclaims=state.reclaims + 1, note="")


def reclaim(state: EvictionState, actions: list[Action], cleared: Clearing, now: Instant) -> EvictionState:
    """Request the removal of all unused images."""
    actions.append(Tell(to=paths.IMAGEGC, message=CollectImages(run=cleared.run, asked_by=paths.EVICTION)))
    doing = Reclaiming(signal=cleared.signal, run=cleared.run, until=now + RECLAIM_WAIT_S)
    return replace(state, doing=doing)


def evict(
    state: EvictionState,
    actions: list[Action],
    threshold: Threshold,
    seen: Observation,
    now: Instant,
    wall: WallNs,
) -> EvictionState:
    """Evict the first pod of the ranking that may be evicted."""
    chosen = next((one for one in ranking(state, threshold.signal, now) if not one.kept), None)
    if chosen is None:
        resource = KINDS[threshold.signal].resource
        return replace(state, note=f"the node is short of {resource}, and no pod may be evicted for it")
    one = next(one for one in state.active if one.uid == chosen.rating.uid)
    message = low_on(threshold.signal, threshold, seen, one.pod, usage_rows(state).get(one.uid))
    victim = victim_of(one, threshold.signal.value, message, grace_of(state, threshold, one), now)
    return kill(state, actions, victim, wall, own_fault=False)


def grace_of(state: EvictionState, threshold: Threshold, one: ActivePod) -> int:
    """Return the grace period of an eviction: 1 s for a hard threshold, at most the configured maximum for a soft one."""
    if threshold.is_hard:
        return HARD_GRACE_S
    own = one.pod.spec.termination_grace_period_seconds
    most = state.policy.max_pod_grace_s
    return max(HARD_GRACE_S, most if own is None else min(own, most))


def victim_of(one: ActivePod, signal: str, message: str, grace_s: int, now: Instant) -> Victim:
    """Return a pod as a victim."""
    return Victim(
        uid=one.uid, name=name_of(one), signal=signal, message=message, asked_at=now, grace_s=grace_s
    )


def kill(
    state: EvictionState, actions: list[Action], victim: Victim, wall: WallNs, *, own_fault: bool
) -> EvictionState:
    """Request the end of a pod and wait for it."""
    ask = KillPod(
        uid=victim.uid,
        cause=KillCause.EVICTED,
        grace_s=victim.grace_s,
        evict=True,
        own_fault=own_fault,
        reason=EVICTED,
        message=victim.message,
        asked_by=paths.EVICTION,
    )
    actions += [event(victim, wall, EVICTED, victim.message), Tell(to=paths.PODS, message=ask)]
    evicted = state.evicted
    return replace(
        state,
        doing=Killing(victim=victim, until=victim.asked_at + max(KILL_WAIT_S, 1.5 * victim.grace_s)),
        evicted=Evictions(
            asked={**evicted.asked, victim.uid: victim.asked_at},
            victims=(*evicted.victims, victim)[-KEPT_VICTIMS:],
            counts={**evicted.counts, victim.signal: evicted.counts.get(victim.signal, 0) + 1},
        ),
        note="",
    )


def event(victim: Victim, wall: WallNs, reason: str, message: str) -> Action:
    """Return the event of a pod's eviction."""
    namespace, _, name = victim.name.partition("/")
    seen = EventSeen(
        uid=Uid(victim.uid),
        namespace=namespace,
        pod=name,
        at=wall,
        kind="Warning",
        reason=reason,
        message=message,
    )
    return Tell(to=paths.EVENTS, message=seen)


def happened(state: EvictionState, wall: WallNs, reason: str, message: str) -> EvictionState:
    """Add an event of the node; an equal one counts up."""
    fact = NodeEvent(at=wall, reason=reason, message=message)
    return replace(state, node_events=with_node_event(state.node_events, fact))


def wake_at(state: EvictionState, now: Instant) -> Instant:
    """Return the latest time of the next decision."""
    due_at = [state.asked.usage_at + SILENCE_S, state.asked.pods_at + PODS_AGAIN_S, *wakes_for_hint(state)]
    if state.doing is not None:
        due_at.append(state.doing.until)
    elif not state.settling.done and state.pods is not None:
        due_at.append(state.settling.until)
    ends = (at + state.policy.transition_s for at in state.pressure.last_seen.values())
    due_at += [end for end in ends if end > now]
    return min(due_at)
