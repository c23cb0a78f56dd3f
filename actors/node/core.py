"""NodeManager's decisions: when machine and runtime are asked, and who is told of a change.

Both are asked at once and every ten seconds; after a failure sooner, with back-off. What was known stands meanwhile.
"""

from collections.abc import Callable
from typing import assert_never

import msgspec
from msgspec.structs import replace

from actors.node.state import NODE, RUNTIME, NodeState, Poll, facts_of
from actors.rules.retry import RetryPolicy
from api.ids import Instant, OpId
from api.lifecycle import Action, Decision, Start, Tell
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.node import NodeChanged, NodeMessage, WatchNode
from api.ports.node import DescribeNode, NodeDescribed
from api.ports.runtime import RuntimeInfo, RuntimeStatus

PERIOD_S = 10.0
DEADLINE_S = 10.0
RETRY = RetryPolicy(base_s=1.0, limit_s=5.0)
"""A runtime that comes back is found soon: pods wait for it."""


def decide(
    before: NodeState, message: NodeMessage | KernelMessage | None, now: Instant, new_op: Callable[[], OpId]
) -> Decision[NodeState]:
    """Take in a message (None: begin) and choose whom to ask and whom to tell."""
    state = absorb(before, message)
    actions = news(before, state)
    describing, first = ask(state.describing, NODE, DescribeNode(), now, new_op)
    asking, second = ask(state.asking, RUNTIME, RuntimeStatus(), now, new_op)
    wakes = [poll.due_at for poll in (describing, asking) if poll.op is None]
    return Decision(
        state=replace(state, describing=describing, asking=asking),
        actions=(*actions, *first, *second),
        wake_at=min(wakes, default=None),
    )


def absorb(state: NodeState, message: NodeMessage | KernelMessage | None) -> NodeState:
    """Return what is known after `message`; decides nothing."""
    match message:
        case WatchNode(asked_by=path):
            others = tuple(one for one in state.subscribers if one != path)
            return replace(state, subscribers=(*others, path))
        case Outcome(op=op) if op == state.describing.op:
            result = message.result
            machine = result.facts if isinstance(result, NodeDescribed) else state.machine
            return settled(replace(state, machine=machine, describing=answered(state.describing, message)))
        case Outcome(op=op) if op == state.asking.op:
            result = message.result
            runtime = result if isinstance(result, RuntimeInfo) else state.runtime
            return settled(replace(state, runtime=runtime, asking=answered(state.asking, message)))
        case NodeChanged() | Outcome() | Alarm() | Restarted() | ChildDied() | Heard() | StreamEnded() | None:
            return state
        case _:
            assert_never(message)


def settled(state: NodeState) -> NodeState:
    """Return the state with the facts that follow from what is known; equal ones stay the object that they were."""
    if state.runtime is None:
        return state
    facts = facts_of(state.machine, state.runtime)
    return state if facts == state.facts else replace(state, facts=facts)


def answered(poll: Poll, outcome: Outcome) -> Poll:
    """Return when to ask again after an answer, a good one or a failure."""
    if outcome.failure is None:
        # Counted from the start, so that both questions stay one wake-up.
        return Poll(due_at=outcome.started_at + PERIOD_S)
    failures = poll.failures + 1
    return Poll(due_at=outcome.ended_at + RETRY.wait_s(failures), failures=failures, failure=outcome.failure)


def news(before: NodeState, after: NodeState) -> tuple[Action, ...]:
    """Return who is told the facts: everyone when they changed, a subscriber that asks at once."""
    if after.facts is None:
        return ()
    # A subscriber that asks again comes last anew, so that it is always the last that differs.
    fresh = after.subscribers[-1:] if after.subscribers is not before.subscribers else ()
    told = after.subscribers if after.facts is not before.facts else fresh
    return tuple(Tell(to=path, message=NodeChanged(facts=after.facts)) for path in told)


def ask(
    poll: Poll, port: str, call: msgspec.Struct, now: Instant, new_op: Callable[[], OpId]
) -> tuple[Poll, tuple[Action, ...]]:
    """Ask where it is due and no answer is awaited."""
    if poll.op is not None or now < poll.due_at:
        return poll, ()
    op = new_op()
    return replace(poll, op=op), (Start(op=op, port=port, call=call, deadline_s=DEADLINE_S),)
