"""Requests about the Node, and what follows from their answers."""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from actors.nodestatus.compose import composed
from actors.nodestatus.condition import READY, TRUE, condition_of, status_event
from actors.nodestatus.patch import patch_between, raw_of
from actors.nodestatus.register import initial, reconciled
from actors.nodestatus.state import (
    Composed,
    NodeExchange,
    NodeStatusState,
    NodeStep,
    Registration,
    Reporting,
    StatusEvent,
)
from actors.rules.nodeevent import NodeEvent, with_node_event
from actors.rules.retry import Retry, RetryPolicy
from actors.rules.share import share
from api.decoding import UndecodableError, from_json
from api.errors import Failure, FailureKind
from api.ids import Instant, OpId, WallNs
from api.kube.objects.node import Node
from api.lifecycle import Action, Start
from api.messages.kernel import Outcome
from api.messages.node import NodeHealthSeen
from api.ports.kube import CreateObject, GetObject, KubeCall, KubeObject, ObjectPath, PatchObject

REGISTER = RetryPolicy(base_s=0.1, limit_s=7.0)
ATTEMPTS = 5
"""Of one round."""
DEADLINE_S = 10.0
JITTER = 0.04
EXISTS = (FailureKind.CONFLICT, FailureKind.ALREADY_EXISTS, FailureKind.DENIED)
"""Failures to create a Node after which it may be there all the same."""

Next = tuple[NodeStatusState, tuple[Action, ...]]


# ---------------------------------------------------------------- requests


def create(
    state: NodeStatusState,
    health: NodeHealthSeen,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
) -> Next:
    """Create the Node."""
    made = initial(state, health, now, wall)
    call = CreateObject(
        path=ObjectPath(plural="nodes"), heartbeat=True, body=msgspec.json.encode(raw_of(made.node))
    )
    return request(state, NodeStep.CREATE, call, new_op, made)


def look(state: NodeStatusState, step: NodeStep, new_op: Callable[[], OpId]) -> Next:
    """Read the Node."""
    path = ObjectPath(plural="nodes", name=state.node_name)
    return request(state, step, GetObject(path=path, heartbeat=True), new_op)


def write(state: NodeStatusState, step: NodeStep, made: Composed, new_op: Callable[[], OpId]) -> Next:
    """Write what differs from the Node that it was composed from."""
    path = ObjectPath(plural="nodes", name=state.node_name, subresource="status")
    body = msgspec.json.encode(patch_between(made.original, made.node))
    return request(state, step, PatchObject(path=path, heartbeat=True, body=body), new_op, made)


def request(
    state: NodeStatusState,
    step: NodeStep,
    call: KubeCall,
    new_op: Callable[[], OpId],
    made: Composed | None = None,
) -> Next:
    """Start a request; there is none in flight."""
    assert state.exchange is None
    op = new_op()
    exchange = NodeExchange(op=op, step=step, composed=made)
    start = Start(op=op, port="kube", call=call, deadline_s=DEADLINE_S)
    return replace(state, exchange=exchange), (start,)


def begin_round(
    state: NodeStatusState,
    health: NodeHealthSeen,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
) -> Next:
    """Begin to look at the status: from the Node as it was last seen, from the server where it was not."""
    reporting = state.reporting
    rounds = reporting.rounds + 1
    pause_s = state.settings.update_s * (1 + JITTER * share(state.node_name, "round", rounds))
    begun = replace(
        reporting, began_at=now, due_at=now + pause_s, attempts=0, rounds=rounds, looks_first=False
    )
    state = replace(state, reporting=begun)
    if state.node is None or reporting.looks_first:
        return look(state, NodeStep.LOOK, new_op)
    return report(state, health, state.node, now, wall, new_op)


def report(
    state: NodeStatusState,
    health: NodeHealthSeen,
    original: Node,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
) -> Next:
    """Write the status if it has changed, or was not reported for long; else the round is over."""
    made = composed(state, health, original, now, wall)
    state = replace(state, troubles=made.troubles)
    reporting = state.reporting
    reported_at = reporting.reported_at
    is_late = reported_at is None or now >= reported_at + state.settings.report_s + reporting.delay_s
    if not made.is_changed and not is_late:
        return replace(state, reporting=replace(reporting, attempts=0, failed=False), failure=None), ()
    delay_s = 0.0
    if made.is_changed or reported_at is None:
        delay_s = state.settings.report_s * (share(state.node_name, "report", reporting.rounds) - 0.5)
    return write(replace(state, reporting=replace(reporting, delay_s=delay_s)), NodeStep.WRITE, made, new_op)


# ---------------------------------------------------------------- answers


def absorb_answer(
    state: NodeStatusState, outcome: Outcome, now: Instant, wall: WallNs, new_op: Callable[[], OpId]
) -> Next:
    """Absorb the answer to the request in flight, and start the one that follows at once."""
    exchange = state.exchange
    if exchange is None or exchange.op != outcome.op:
        return state, ()
    state = replace(state, exchange=None)
    node, failure = answer_of(outcome, state.node_name)
    if node is not None:
        state = with_node(replace(state, failure=None), node, wall)
    match exchange.step:
        case NodeStep.CREATE | NodeStep.READ | NodeStep.RECONCILE:
            return registering(state, exchange, node, failure, now, wall, new_op)
        case NodeStep.LOOK | NodeStep.WRITE:
            return reporting_on(state, exchange, node, failure, now, wall, new_op)


def registering(
    state: NodeStatusState,
    exchange: NodeExchange,
    node: Node | None,
    failure: Failure | None,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
) -> Next:
    """Go on with the registration."""
    if node is None:
        if exchange.step is NodeStep.CREATE and failure is not None and may_exist(failure):
            # A Node that is there already is what registration finds with each start but the first.
            known = None if failure.kind is FailureKind.ALREADY_EXISTS else failure
            return look(replace(state, failure=known), NodeStep.READ, new_op)
        retry = state.registration.retry.after(now, REGISTER)
        return replace(state, registration=Registration(retry=retry), failure=failure), ()
    if exchange.step is NodeStep.READ and state.health is not None:
        new = initial(state, state.health, now, wall).node
        corrected = reconciled(node, new)
        if patch_between(node, corrected):
            return write(state, NodeStep.RECONCILE, Composed(original=node, node=corrected), new_op)
    state = replace(state, registration=Registration(is_done=True))
    if exchange.step is NodeStep.CREATE and exchange.composed is not None:
        return reported(state, exchange.composed, now, wall), ()
    # Its status is written at once.
    return replace(state, reporting=Reporting(rounds=state.reporting.rounds)), ()


def may_exist(failure: Failure) -> bool:
    """Return whether the Node may be there although it was not created; a refusal of the server, not of our own, has a reason."""
    return failure.kind in EXISTS and (failure.kind is not FailureKind.DENIED or bool(failure.reason))


def reporting_on(
    state: NodeStatusState,
    exchange: NodeExchange,
    node: Node | None,
    failure: Failure | None,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
) -> Next:
    """Go on with a round."""
    if node is not None:
        if exchange.composed is not None:
            return reported(state, exchange.composed, now, wall), ()
        assert state.health is not None
        return report(state, state.health, node, now, wall, new_op)
    attempts = state.reporting.attempts + 1
    state = replace(state, failure=failure, reporting=replace(state.reporting, attempts=attempts))
    if exchange.step is NodeStep.LOOK and failure is not None and failure.kind is FailureKind.NOT_FOUND:
        return gone(state, now), ()
    if attempts < ATTEMPTS:
        return look(state, NodeStep.LOOK, new_op)
    return replace(state, reporting=replace(state.reporting, attempts=0, failed=True)), ()


def gone(state: NodeStatusState, now: Instant) -> NodeStatusState:
    """Return the state in which the server has no such Node: it is registered again, if this agent does that."""
    reporting = replace(state.reporting, attempts=0, failed=True, reported_at=None)
    state = replace(state, node=None, reporting=reporting)
    if not state.settings.register:
        return state
    return replace(state, registration=Registration(retry=Retry().after(now, REGISTER)))


def reported(state: NodeStatusState, made: Composed, now: Instant, wall: WallNs) -> NodeStatusState:
    """Return the state after a status was written, with the events that it brought."""
    is_rebooted = any(one.reason == "Rebooted" for one in made.status_events)
    state = replace(state, is_reboot_reported=state.is_reboot_reported or is_rebooted)
    for one in made.status_events:
        state = recorded(state, one, wall)
    reporting = replace(state.reporting, attempts=0, failed=False, reported_at=now)
    if not reporting.rounds:
        reporting = replace(reporting, began_at=now, due_at=now + state.settings.update_s)
    return replace(state, reporting=reporting, troubles=made.troubles)


def with_node(state: NodeStatusState, node: Node, wall: WallNs) -> NodeStatusState:
    """Return the state with the Node as it was just seen, and the event of a change of who may be scheduled there."""
    if node.spec.unschedulable != state.unschedulable:
        reason = "NodeNotSchedulable" if node.spec.unschedulable else "NodeSchedulable"
        state = recorded(state, status_event(state.node_name, reason), wall)
    return replace(state, node=node, unschedulable=node.spec.unschedulable)


def recorded(state: NodeStatusState, one: StatusEvent, wall: WallNs) -> NodeStatusState:
    """Return the state with one more event."""
    event = NodeEvent(at=wall, type=one.type, reason=one.reason, message=one.message)
    return replace(state, node_events=with_node_event(state.node_events, event))


def answer_of(outcome: Outcome, node_name: str) -> tuple[Node | None, Failure | None]:
    """Return the Node that an answer carries, or why there is none."""
    if not isinstance(outcome.result, KubeObject):
        unknown = Failure(kind=FailureKind.REJECTED, message="the answer carries no object")
        return None, outcome.failure or unknown
    node = read_node(outcome.result.body, node_name)
    if isinstance(node, Node):
        return node, None
    return None, Failure(kind=FailureKind.REJECTED, message=node)


def read_node(body: bytes, node_name: str) -> Node | str:
    """Return the Node of this name, or why this is none."""
    try:
        node = from_json(body, Node)
    except UndecodableError as error:
        return f"what the API server sent as Node {node_name} cannot be read: {error}"
    if node.kind != "Node" or node.metadata.name != node_name:
        return f"the API server sent another object than Node {node_name}"
    return node


def is_ready(node: Node) -> bool:
    """Return whether the API server has the Node as ready."""
    condition = condition_of(node, READY)
    return condition is not None and condition.status == TRUE
