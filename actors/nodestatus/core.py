"""NodeStatusManager's decisions: when the Node is created, corrected and its status written; one request at a time.

```text
not registered ── POST ─ 409, 403 ─ GET ─ PATCH what is wrong ──▶ registered
registered     ── every 10 s, and at once when Ready turns true: compose; changed, or 5 min old: PATCH; a failure: GET, compose, PATCH ...
               ── GET says NotFound ──▶ not registered
```

Unlike a kubelet it registers a Node again that was deleted while it runs, once a read from the server has confirmed that.
"""

from collections.abc import Callable
from typing import assert_never

from msgspec.structs import replace

from actors.nodestatus.condition import why_not_ready
from actors.nodestatus.exchange import (
    REGISTER,
    absorb_answer,
    begin_round,
    create,
    is_ready,
    read_node,
    with_node,
)
from actors.nodestatus.state import AskedAt, ImageCache, NodeStatusState, Registration
from actors.rules.nodeevent import NodeEvent, with_node_event
from actors.rules.nodeobject import labels_of, taints_of
from actors.rules.nodewatch import when_to_ask
from actors.rules.retry import Retry
from api import paths
from api.errors import Failure, FailureKind
from api.ids import Instant, OpId, Path, WallNs
from api.kube.objects.node import Node
from api.lifecycle import Action, Decision, Listen, Start, Tell, Watch
from api.messages.eviction import WatchPressure
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.node import NodeHealthSeen, WatchNodeHealth
from api.messages.nodestatus import (
    NodeObjectSeen,
    NodeStatusMessage,
    PlegHealthSeen,
    PressureSeen,
    WatchNodeObject,
)
from api.messages.pleg import WatchPlegHealth
from api.ports.images import ImageListing, ListImages
from api.ports.kube import NODE, ApiNodeListed, WatchChecked

IMAGES_S = 30.0
"""Between two listings of images, as in a kubelet."""
IMAGES_WAIT_S = 0.5
"""How long a status waits for a listing; it is in the next one otherwise."""
IMAGES_DEADLINE_S = 10.0
HURRY_S = 0.5
"""The shortest time between two rounds."""


def begin(
    state: NodeStatusState, now: Instant, wall: WallNs, new_op: Callable[[], OpId]
) -> Decision[NodeStatusState]:
    """Ask for what must be known, and say that the agent has started."""
    first = Registration(is_done=not state.settings.register, retry=Retry().after(now, REGISTER))
    started = NodeEvent(at=wall, type="Normal", reason="Starting", message="Starting kubelet.")
    state = replace(state, registration=first, node_events=with_node_event(state.node_events, started))
    decision = plan(state, now, wall, new_op)
    watches = tuple(Watch(path=path) for path in (paths.NODE, paths.PLEG, paths.EVICTION))
    return replace(decision, actions=(*watches, *decision.actions))


def decide(
    before: NodeStatusState,
    message: NodeStatusMessage | NodeHealthSeen | KernelMessage,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
) -> Decision[NodeStatusState]:
    """Absorb a message and choose the next request."""
    state, actions = absorb(before, message, now, wall, new_op)
    decision = plan(state, now, wall, new_op)
    return replace(decision, actions=(*actions, *decision.actions))


def absorb(  # noqa: C901  # one case per message
    state: NodeStatusState,
    message: NodeStatusMessage | NodeHealthSeen | KernelMessage,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
) -> tuple[NodeStatusState, tuple[Action, ...]]:
    """Return the state after `message`, with the request that follows from an answer at once."""
    match message:
        case WatchNodeObject(asked_by=path):
            others = tuple(one for one in state.subscribers if one != path)
            return replace(state, subscribers=(*others, path), published=None), ()
        case NodeHealthSeen():
            return replace(state, health=message), ()
        case PlegHealthSeen():
            return replace(state, pleg=message), ()
        case PressureSeen(conditions=conditions):
            asked = replace(state.asked, pressure_known=True)
            return replace(state, pressures=conditions, asked=asked), ()
        case Outcome(op=op) if op == state.images.op:
            return replace(state, images=listed(state.images, message)), ()
        case Outcome():
            return absorb_answer(state, message, now, wall, new_op)
        case Heard(item=ApiNodeListed(body=body)):
            return seen(state, body, now, wall), ()
        case Heard(item=WatchChecked(failure=failure)):
            subscription = state.subscription.works() if failure is None else state.subscription
            return replace(state, subscription=subscription), ()
        case StreamEnded(failure=failure):
            return replace(state, subscription=state.subscription.ended(failure, now)), ()
        case Restarted(path=path):
            return replace(state, asked=forgotten(state.asked, path)), ()
        case NodeObjectSeen() | Heard() | Alarm() | ChildDied():
            return state, ()
        case _:
            assert_never(message)


def forgotten(asked: AskedAt, path: Path) -> AskedAt:
    """Return when others were asked, after the restart of one of them: it is asked at once."""
    never = AskedAt()
    match path:
        case paths.NODE:
            return replace(asked, health=never.health)
        case paths.PLEG:
            return replace(asked, pleg=never.pleg)
        case paths.EVICTION:
            return replace(asked, pressure=never.pressure)
        case _:
            return asked


def listed(images: ImageCache, outcome: Outcome) -> ImageCache:
    """Return the images after a listing; none if it failed, as in a kubelet."""
    if isinstance(outcome.result, ImageListing):
        return ImageCache(rows=outcome.result.images, asked_at=images.asked_at)
    why = outcome.failure.message if outcome.failure is not None else "no listing"
    return ImageCache(asked_at=images.asked_at, trouble=f"images cannot be listed: {why}")


def seen(state: NodeStatusState, body: bytes | None, now: Instant, wall: WallNs) -> NodeStatusState:
    """Absorb what the stream says of the Node: older than an answer it says nothing, and an absent one is looked for."""
    if body is None:
        if state.node is None:
            return state
        return replace(state, reporting=replace(state.reporting, due_at=now, looks_first=True))
    node = read_node(body, state.node_name)
    if not isinstance(node, Node):
        return replace(state, failure=Failure(kind=FailureKind.REJECTED, message=node))
    if state.node is not None and is_older(node, state.node):
        return state
    is_another = state.node is not None and state.node.metadata.uid != node.metadata.uid
    if is_another and state.settings.register:
        # Somebody else made it anew: it gets what every Node gets that is there already.
        state = replace(state, registration=Registration(retry=Retry().after(now, REGISTER)))
    if state.node is None:
        state = replace(state, reporting=replace(state.reporting, due_at=now, failed=False))
    return with_node(state, node, wall)


def is_older(node: Node, known: Node) -> bool:
    """Return whether the API server wrote `node` before `known`, as far as its versions say."""
    one, other = node.metadata.resource_version, known.metadata.resource_version
    both = f"{one}{other}"
    if not (one and other and both.isascii() and both.isdigit()):
        return False
    return (len(one.lstrip("0")), one.lstrip("0")) < (len(other.lstrip("0")), other.lstrip("0"))


# ---------------------------------------------------------------- plan


def plan(
    state: NodeStatusState, now: Instant, wall: WallNs, new_op: Callable[[], OpId]
) -> Decision[NodeStatusState]:
    """Choose the next actions from the state alone."""
    actions: list[Action] = []
    state, wakes = follow(state, actions, now)
    state = publish(state, actions)
    health = state.health
    if health is not None and state.exchange is None:
        due_at = due(state, health, now)
        if now >= due_at:
            state = list_images(state, actions, now, new_op)
            due_at = state.images.asked_at + IMAGES_WAIT_S if state.images.op is not None else now
        if now >= due_at:
            start = begin_round if state.registration.is_done else create
            state, requests = start(state, health, now, wall, new_op)
            actions += requests
            due_at = due(state, health, now) if state.exchange is None else float("inf")
            state = publish(state, actions)
        wakes.append(due_at)
    return Decision(state=state, actions=tuple(actions), wake_at=min(wakes, default=None))


def follow(
    state: NodeStatusState, actions: list[Action], now: Instant
) -> tuple[NodeStatusState, list[Instant]]:
    """Ask others for what they know where that is due, open the stream; return when to look again."""
    if state.subscription.is_due(now):
        actions.append(Listen(stream=NODE))
        state = replace(state, subscription=state.subscription.opened(now))
    me, asked = paths.NODESTATUS, state.asked
    is_due, health_at = when_to_ask(asked.health, now, known=state.health is not None)
    if is_due:
        actions.append(Tell(to=paths.NODE, message=WatchNodeHealth(asked_by=me)))
        asked = replace(asked, health=now)
    is_due, pleg_at = when_to_ask(asked.pleg, now, known=state.pleg is not None)
    if is_due:
        actions.append(Tell(to=paths.PLEG, message=WatchPlegHealth(asked_by=me)))
        asked = replace(asked, pleg=now)
    is_due, pressure_at = when_to_ask(asked.pressure, now, known=asked.pressure_known)
    if is_due:
        actions.append(Tell(to=paths.EVICTION, message=WatchPressure(asked_by=me)))
        asked = replace(asked, pressure=now)
    return replace(state, asked=asked), [*state.subscription.wakes(), health_at, pleg_at, pressure_at]


def publish(state: NodeStatusState, actions: list[Action]) -> NodeStatusState:
    """Send the Node to the subscribers when it changed, or when one of them asks."""
    node = state.node
    if node is None:
        # Until it was seen nothing is known of it; once it was, subscribers know that it is gone.
        found = NodeObjectSeen(uid="") if state.published is not None else None
    else:
        found = NodeObjectSeen(
            uid=node.metadata.uid,
            labels=labels_of(node),
            taints=taints_of(node),
            pod_cidrs=node.spec.pod_cidrs or ((node.spec.pod_cidr,) if node.spec.pod_cidr else ()),
            is_being_deleted=node.metadata.deletion_timestamp is not None,
        )
    if found is None or found == state.published:
        return state
    actions += [Tell(to=path, message=found) for path in state.subscribers]
    return replace(state, published=found)


def due(state: NodeStatusState, health: NodeHealthSeen, now: Instant) -> Instant:
    """Return when to register, or to look at the status; at once where that would turn Ready true."""
    if not state.registration.is_done:
        return state.registration.retry.at
    reporting = state.reporting
    if reporting.failed or state.node is None or is_ready(state.node):
        return reporting.due_at
    if why_not_ready(state.node, health, state.pleg, now):
        return reporting.due_at
    return min(reporting.due_at, reporting.began_at + HURRY_S)


def list_images(
    state: NodeStatusState, actions: list[Action], now: Instant, new_op: Callable[[], OpId]
) -> NodeStatusState:
    """List the images before a status is composed, unless that was done lately."""
    if state.images.op is not None or now < state.images.asked_at + IMAGES_S:
        return state
    op = new_op()
    actions.append(Start(op=op, port="images", call=ListImages(), deadline_s=IMAGES_DEADLINE_S))
    return replace(state, images=replace(state.images, op=op, asked_at=now))
