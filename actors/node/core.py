"""NodeManager's decisions: when machine and runtime are asked, and who is told of a change.

Both are asked at once and every ten seconds; after a failure sooner, with back-off, and a runtime that is not ready once a second.
What was known stands meanwhile.
"""

from collections.abc import Callable
from typing import assert_never

import msgspec
from msgspec.structs import replace

from actors.node.state import (
    NEVER_ASKED,
    NODE,
    RUNTIME,
    NodeState,
    PodRange,
    Poll,
    facts_of,
    health_of,
    pod_cidr_of,
    with_object,
)
from actors.rules.nodewatch import when_to_ask
from actors.rules.retry import RetryPolicy
from api import paths
from api.errors import Failure
from api.ids import Instant, OpId
from api.lifecycle import Action, Decision, Start, Tell, Watch
from api.messages import Message
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.node import NodeChanged, NodeHealthSeen, NodeMessage, WatchNode, WatchNodeHealth
from api.messages.nodestatus import NodeObjectSeen, WatchNodeObject
from api.ports.node import DescribeNode, NodeDescribed
from api.ports.runtime import RuntimeInfo, RuntimeStatus, SetPodCidr

PERIOD_S = 10.0
DEADLINE_S = 10.0
RETRY = RetryPolicy(base_s=1.0, limit_s=5.0)
"""A runtime that comes back is found soon: pods wait for it."""
RANGE_RETRY = RetryPolicy(base_s=1.0, limit_s=10.0)
NOT_READY_S = 1.0
"""Between questions to a runtime that answers that it, or its network, is not ready: pods and the node's readiness wait for it."""


def decide(
    before: NodeState, message: NodeMessage | KernelMessage | None, now: Instant, new_op: Callable[[], OpId]
) -> Decision[NodeState]:
    """Take in a message (None: begin) and choose whom to ask and whom to tell."""
    state = absorb(before, message)
    actions = (*news(before, state), *health_news(before, state))
    asked, object_at = follow_object(state, message, now)
    state = replace(state, object_asked_at=now if asked else state.object_asked_at)
    describing, first = ask(state.describing, NODE, DescribeNode(), now, new_op)
    asking, second = ask(state.asking, RUNTIME, RuntimeStatus(), now, new_op)
    pod_range, third, range_at = give_range(state, now, new_op)
    wakes = [poll.due_at for poll in (describing, asking) if poll.op is None]
    wakes += [at for at in (object_at, range_at) if at is not None]
    return Decision(
        state=replace(state, describing=describing, asking=asking, pod_range=pod_range),
        actions=(*actions, *asked, *first, *second, *third),
        wake_at=min(wakes, default=None),
    )


def absorb(state: NodeState, message: NodeMessage | KernelMessage | None) -> NodeState:
    """Return what is known after `message`; decides nothing."""
    match message:
        case WatchNode(asked_by=path):
            others = tuple(one for one in state.subscribers if one != path)
            return replace(state, subscribers=(*others, path))
        case WatchNodeHealth(asked_by=path):
            others = tuple(one for one in state.health_subscribers if one != path)
            return replace(state, health_subscribers=(*others, path), object_asked_at=NEVER_ASKED)
        case NodeObjectSeen() if state.in_cluster:
            # A Node that is gone comes back as it was, or as somebody else makes it: until then nothing is known to have changed.
            return settled(replace(state, object=message)) if message.uid else state
        case Restarted(path=paths.NODESTATUS):
            return replace(state, object_asked_at=NEVER_ASKED)
        case Outcome(op=op) if op == state.describing.op:
            result = message.result
            machine = result.facts if isinstance(result, NodeDescribed) else state.machine
            return settled(replace(state, machine=machine, describing=answered(state.describing, message)))
        case Outcome(op=op) if op == state.asking.op:
            result = message.result
            runtime = result if isinstance(result, RuntimeInfo) else state.runtime
            ready_at = message.started_at if is_ready(result) else state.ready_at
            asking = answered(state.asking, message)
            return settled(replace(state, runtime=runtime, asking=asking, ready_at=ready_at))
        case Outcome(op=op, failure=failure) if op == state.pod_range.op:
            return replace(state, pod_range=range_answered(state.pod_range, failure, message.ended_at))
        case NodeObjectSeen() | NodeChanged() | NodeHealthSeen() | Outcome():
            return state
        case Alarm() | Restarted() | ChildDied() | Heard() | StreamEnded() | None:
            return state
        case _:
            assert_never(message)


def settled(state: NodeState) -> NodeState:
    """Return the state with health and facts that follow from what is known; equal ones stay the objects that they were."""
    health = health_of(state)
    if health != state.health:
        state = replace(state, health=health)
    if state.runtime is None:
        return state
    facts = with_object(facts_of(state.machine, state.runtime), state.object)
    return state if facts == state.facts else replace(state, facts=facts)


def answered(poll: Poll, outcome: Outcome) -> Poll:
    """Return when to ask again after an answer, a good one or a failure."""
    if outcome.failure is None:
        # Counted from the start, so that both questions stay one wake-up.
        result = outcome.result
        is_waited_for = isinstance(result, RuntimeInfo) and not (result.ready and result.network_ready)
        return Poll(due_at=outcome.started_at + (NOT_READY_S if is_waited_for else PERIOD_S))
    failures = poll.failures + 1
    return Poll(due_at=outcome.ended_at + RETRY.wait_s(failures), failures=failures, failure=outcome.failure)


def is_ready(result: msgspec.Struct | None) -> bool:
    """Return whether this is the answer of a runtime that is ready."""
    return isinstance(result, RuntimeInfo) and result.ready


def news(before: NodeState, after: NodeState) -> tuple[Action, ...]:
    """Return who is told the facts: everyone when they changed, a subscriber that asks at once."""
    if after.facts is None:
        return ()
    # A subscriber that asks again comes last anew, so that it is always the last that differs.
    fresh = after.subscribers[-1:] if after.subscribers is not before.subscribers else ()
    told = after.subscribers if after.facts is not before.facts else fresh
    return tuple(Tell(to=path, message=NodeChanged(facts=after.facts)) for path in told)


def health_news(before: NodeState, after: NodeState) -> tuple[Action, ...]:
    """Return who gets to know how machine and runtime are, by the same rule."""
    if after.health is None:
        return ()
    fresh = after.health_subscribers[-1:] if after.health_subscribers is not before.health_subscribers else ()
    told = after.health_subscribers if after.health is not before.health else fresh
    return tuple(Tell(to=path, message=after.health) for path in told)


def follow_object(
    state: NodeState, message: Message | None, now: Instant
) -> tuple[tuple[Action, ...], Instant | None]:
    """Return the question for the API server's Node, if it is due, and when it is asked for again; None: not yet.

    NodeStatusManager begins later: that it asks how the node is shows that it is there.
    """
    if not state.in_cluster:
        return (), None
    actions: tuple[Action, ...] = (Watch(path=paths.NODESTATUS),) if message is None else ()
    if not state.health_subscribers:
        return actions, None
    is_due, again_at = when_to_ask(state.object_asked_at, now, known=state.object is not None)
    if is_due:
        actions += (Tell(to=paths.NODESTATUS, message=WatchNodeObject(asked_by=paths.NODE)),)
    return actions, again_at


def range_answered(pod_range: PodRange, failure: Failure | None, at: Instant) -> PodRange:
    """Return what the runtime knows after an answer."""
    if failure is not None:
        return replace(pod_range, op=None, failure=failure, retry=pod_range.retry.after(at, RANGE_RETRY))
    return PodRange(given=pod_range.asked)


def give_range(
    state: NodeState, now: Instant, new_op: Callable[[], OpId]
) -> tuple[PodRange, tuple[Action, ...], Instant | None]:
    """Hand the addresses of the node's pods to a runtime that answers, and return when to try again."""
    known, wanted = state.pod_range, pod_cidr_of(state)
    if known.op is not None or not wanted or wanted == known.given or state.runtime is None:
        return known, (), None
    if now < known.retry.at:
        return known, (), known.retry.at
    op = new_op()
    call = SetPodCidr(pod_cidr=wanted)
    start = Start(op=op, port=RUNTIME, call=call, deadline_s=DEADLINE_S)
    return replace(known, op=op, asked=wanted), (start,), None


def ask(
    poll: Poll, port: str, call: msgspec.Struct, now: Instant, new_op: Callable[[], OpId]
) -> tuple[Poll, tuple[Action, ...]]:
    """Ask where it is due and no answer is awaited."""
    if poll.op is not None or now < poll.due_at:
        return poll, ()
    op = new_op()
    return replace(poll, op=op), (Start(op=op, port=port, call=call, deadline_s=DEADLINE_S),)
