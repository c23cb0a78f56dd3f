"""Pleg's decisions: when to list and inspect the runtime, and which facts to send.

Events are hints, listings are truth: an event only makes Pleg inspect that pod at once, and the periodic listing repairs
what was missed. Each fact carries the start of the listing or inspection that saw it. An inspection has its own
deadline and delays no other.
"""

from collections.abc import Callable
from typing import assert_never

from msgspec.structs import replace

from actors.pleg.state import STREAM, PlegState, PodInspection
from actors.rules.container.instance import is_alive
from actors.rules.resources.request import SOURCE
from actors.rules.retry import RetryPolicy
from api import paths
from api.ids import Instant, OpId, Uid
from api.lifecycle import Action, Decision, Listen, Start, Tell
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.nodestatus import PlegHealthSeen
from api.messages.pleg import PlegMessage, UnwatchPod, WatchPlegHealth, WatchPod
from api.messages.pod import PodObserved
from api.messages.supervisor import RuntimeListed, RuntimePresence
from api.paths import pod_path
from api.ports.runtime import InspectPod, ListPods, PodListing, RuntimeChanged, RuntimePod

DEAF_RELIST_S = 1.0
"""Between listings while no events flow, as a kubelet does."""
PODS_A_PERIOD = 50
"""With more pods listings are rarer: they repair what events missed, and cost what there is to list."""
LONGEST_PERIOD_S = 12.0
REPEAT_S = 60.0
"""How often an unchanged pod is sent again, so that a lost message is repaired."""
LISTEN_RETRY = RetryPolicy(base_s=DEAF_RELIST_S, limit_s=DEAF_RELIST_S)
RETRY = RetryPolicy(base_s=DEAF_RELIST_S, limit_s=10.0)
"""Of a listing."""
SILENT_S = 30.0
"""A listing that takes longer is logged; its deadline is that of any call."""
UNHEALTHY_AFTER_S = 180.0
WORTH_SAYING_S = 15.0
"""A view of the runtime that is older is reported with the health, though it is not unhealthy yet."""


def decide(
    before: PlegState, message: PlegMessage | KernelMessage | None, now: Instant, new_op: Callable[[], OpId]
) -> Decision[PlegState]:
    """Absorb a message (None: begin) and choose what to do."""
    state, facts = absorb(before, message, now)
    decision = plan(state, now, new_op)
    return replace(decision, actions=(*facts, *decision.actions))


def absorb(
    state: PlegState, message: PlegMessage | KernelMessage | None, now: Instant
) -> tuple[PlegState, tuple[Action, ...]]:
    """Return the state after `message`, and the facts to send."""
    match message:
        case Outcome():
            return absorb_outcome(state, message, now)
        case StreamEnded(failure=failure):
            subscription = state.subscription.ended(failure, now, LISTEN_RETRY)
            state = replace(state, subscription=subscription)
            return replace(state, next_listing_at=min(state.next_listing_at, now + DEAF_RELIST_S)), ()
        case WatchPod(uid=uid):
            seen = state.seen
            if uid in seen:
                seen = {other: pod for other, pod in seen.items() if other != uid}
            return replace(state, watched=state.watched | {uid}, seen=seen), ()
        case UnwatchPod(uid=uid):
            return replace(state, watched=state.watched - {uid}), ()
        case WatchPlegHealth(asked_by=path):
            others = tuple(one for one in state.health_subscribers if one != path)
            return replace(state, health_subscribers=(*others, path), healthy=None), ()
        case Heard(item=RuntimeChanged(uid=uid)):
            return replace(state, due=(*state.due, uid)), ()
        case Heard() | Alarm() | Restarted() | ChildDied() | None:
            return state, ()
        case _:
            assert_never(message)


def absorb_outcome(state: PlegState, outcome: Outcome, now: Instant) -> tuple[PlegState, tuple[Action, ...]]:
    """Absorb the outcome of a listing or an inspection."""
    inspection = state.inspections.get(outcome.op)
    if inspection is not None:
        inspections = {op: other for op, other in state.inspections.items() if op != outcome.op}
        # It changed during the inspection, which may have seen too little.
        state = replace(
            state,
            inspections=inspections,
            due=(*state.due, inspection.uid) if inspection.again else state.due,
        )
        if not isinstance(outcome.result, RuntimePod):
            # The listing will see it again; a pod that cannot be inspected must not delay the others.
            return replace(state, next_listing_at=min(state.next_listing_at, now + DEAF_RELIST_S)), ()
        return send_pod(state, outcome.result, outcome.started_at, now)
    if outcome.op != state.listing:
        return state, ()
    state = replace(state, listing=None)
    if not isinstance(outcome.result, PodListing):
        failures = state.failures + 1
        why = outcome.failure.message if outcome.failure else "no listing"
        next_at = now + RETRY.wait_s(failures)
        return replace(state, failures=failures, failure=why, next_listing_at=next_at), ()
    return absorb_listing(state, outcome.result, outcome.started_at, now)


def absorb_listing(
    state: PlegState, listing: PodListing, as_of: Instant, now: Instant
) -> tuple[PlegState, tuple[Action, ...]]:
    """Absorb a complete listing: send it to the supervisor, and to each pod that changed or is due a repetition."""
    state = replace(
        state,
        listed_at=as_of,
        failures=0,
        failure="",
        relists=state.relists + 1,
        next_listing_at=now + period_s(state, len(listing.pods)),
    )
    actions: list[Action] = []
    present = {pod.uid: pod for pod in listing.pods}
    gone = [
        RuntimePod(uid=uid, name=p.name, namespace=p.namespace)
        for uid, p in state.seen.items()
        if uid not in present
    ]
    for pod in (*listing.pods, *gone):
        if not is_due(state, pod, now, complete=listing.complete):
            continue
        if listing.complete or pod.uid not in present:
            state, facts = send_pod(state, pod, as_of, now)
            actions += facts
        elif pod.uid in state.watched and is_same(state.seen.get(pod.uid), pod):
            # Ids and states are those of the last inspection, so all that it saw holds as of this listing too.
            state, facts = send_pod(state, state.seen[pod.uid], as_of, now)
            actions += facts
        elif pod.uid in state.watched:
            # An incomplete listing lacks exit codes: an actor would consider them lost.
            state = replace(state, due=(*state.due, pod.uid))
    presence = tuple(
        RuntimePresence(
            uid=p.uid,
            name=p.name,
            namespace=p.namespace,
            ours=p.ours,
            alive=is_alive(p),
            loose=not p.sandboxes,
            source=source_of(p),
        )
        for p in listing.pods
    )
    actions.append(Tell(to=paths.PODS, message=RuntimeListed(pods=presence, as_of=as_of)))
    return state, tuple(actions)


def source_of(pod: RuntimePod) -> str:
    """Return which source a pod came from, as the annotations of its newest sandbox say; empty without any."""
    return dict(pod.sandboxes[0].annotations).get(SOURCE, "") if pod.sandboxes else ""


def period_s(state: PlegState, pods: int) -> float:
    """Return how long until the next listing: while events flow, the longer the more there is to list."""
    if not state.subscription.is_open:
        return DEAF_RELIST_S
    return max(state.relist_s, min(state.relist_s * pods / PODS_A_PERIOD, LONGEST_PERIOD_S))


def is_due(state: PlegState, pod: RuntimePod, now: Instant, *, complete: bool) -> bool:
    """Return whether to send a pod: it changed, or was not sent for `REPEAT_S`."""
    seen = state.seen.get(pod.uid)
    if seen is None or now >= state.sent_at.get(pod.uid, float("-inf")) + REPEAT_S:
        return True
    return seen != pod if complete else not is_same(seen, pod)


def is_same(seen: RuntimePod | None, pod: RuntimePod) -> bool:
    """Return whether two views of a pod agree in what even an incomplete listing shows."""
    return seen is not None and shape(seen) == shape(pod)


def shape(pod: RuntimePod) -> tuple[tuple[str, str], ...]:
    """Return what even an incomplete listing shows correctly: ids and states."""
    sandboxes = [(sandbox.id, sandbox.state.value) for sandbox in pod.sandboxes]
    return tuple(sorted(sandboxes + [(container.id, container.state.value) for container in pod.containers]))


def send_pod(
    state: PlegState, pod: RuntimePod, as_of: Instant, now: Instant
) -> tuple[PlegState, tuple[Action, ...]]:
    """Send a pod's actor what the runtime shows of it; forget a pod that has neither sandbox nor container."""
    seen = {**state.seen, pod.uid: pod}
    sent_at = {**state.sent_at, pod.uid: now}
    if not pod.sandboxes and not pod.containers:
        del seen[pod.uid], sent_at[pod.uid]
    fact = Tell(to=pod_path(pod.uid), message=PodObserved(uid=pod.uid, pod=pod, as_of=as_of))
    facts = (fact,) if pod.uid in state.watched else ()
    return replace(state, seen=seen, sent_at=sent_at), facts


def plan(state: PlegState, now: Instant, new_op: Callable[[], OpId]) -> Decision[PlegState]:
    """Subscribe, list and inspect when it is time."""
    actions: list[Action] = []
    if state.subscription.is_due(now):
        actions.append(Listen(stream=STREAM))
        state = replace(state, subscription=state.subscription.opened(now))
    for uid in state.due:
        state = inspect(state, uid, now, new_op, actions)
    state = replace(state, due=())
    if state.listing is None and now >= state.next_listing_at:
        op = new_op()
        actions.append(Start(op=op, port="runtime", call=ListPods(), deadline_s=state.deadline_s))
        state = replace(state, listing=op, listing_since=now)
    if state.listing is not None and not state.failure and now >= state.listing_since + SILENT_S:
        state = replace(state, failure=f"ListPods has not answered for {SILENT_S:.0f} s")
    state = publish_health(state, now, actions)
    wakes = [*state.subscription.wakes()]
    if state.healthy and state.health_subscribers and state.listed_at is not None:
        wakes.append(state.listed_at + UNHEALTHY_AFTER_S)
    if state.listing is None:
        wakes.append(state.next_listing_at)
    if state.listing is not None and not state.failure:
        wakes.append(state.listing_since + SILENT_S)
    return Decision(state=state, actions=tuple(actions), wake_at=min(wakes, default=None))


def publish_health(state: PlegState, now: Instant, actions: list[Action]) -> PlegState:
    """Tell the subscribers whether the runtime is listed in time, when that changed or one of them asks.

    As in a kubelet, one that was never listed is not healthy.
    """
    healthy = state.listed_at is not None and now < state.listed_at + UNHEALTHY_AFTER_S
    if healthy == state.healthy:
        return state
    message = PlegHealthSeen(is_healthy=healthy, listed_at=state.listed_at)
    actions += [Tell(to=path, message=message) for path in state.health_subscribers]
    return replace(state, healthy=healthy)


def inspect(
    state: PlegState, uid: Uid, now: Instant, new_op: Callable[[], OpId], actions: list[Action]
) -> PlegState:
    """Inspect a pod now, or once more after the inspection in flight, which may have seen too little."""
    for op, inspection in state.inspections.items():
        if inspection.uid == uid:
            return replace(state, inspections={**state.inspections, op: replace(inspection, again=True)})
    op = new_op()
    actions.append(Start(op=op, port="runtime", call=InspectPod(uid=uid), deadline_s=state.deadline_s))
    return replace(state, inspections={**state.inspections, op: PodInspection(uid=uid, since=now)})


def health(state: PlegState, now: Instant) -> tuple[bool, str]:
    """Return whether the view of the runtime is fresh enough, and what it waits for, with the call's name.

    Like a kubelet it is unhealthy only after three minutes: a restart of the agent repairs no runtime.
    """
    last = state.listed_at if state.listed_at is not None else state.started_at
    overdue_s = now - last
    if overdue_s <= WORTH_SAYING_S:
        return True, ""
    if state.listing is not None:
        doing = f"ListPods has not answered for {now - state.listing_since:.0f} s"
    else:
        doing = state.failure or "ListPods is due"
    seen = f"the runtime was last listed {overdue_s:.0f} s ago"
    if state.listed_at is None:
        seen = f"the runtime has not been listed in {overdue_s:.0f} s"
    return overdue_s <= UNHEALTHY_AFTER_S, f"{seen}; {doing}"
