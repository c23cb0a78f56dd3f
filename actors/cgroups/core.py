"""CgroupManager's decisions: which cgroups there must be above the pods, with which values, and the node events about them.

```text
WatchNode --> NodeChanged --> EnsureNodeCgroups --> again when the node or the pods' requests change, and once a minute
```

Level-triggered: each call carries everything, and what has its value already is not written again.
"""

from collections.abc import Callable
from typing import assert_never

from msgspec.structs import replace

from actors.cgroups.state import CgroupsState, PodCpuRequest
from actors.cgroups.tree import groups_of
from actors.rules.nodeevent import NodeEvent, with_node_event
from actors.rules.nodewatch import NEVER_ASKED, follow_node
from actors.rules.resources.cgrouppath import PODS, pods_path, reserved_path
from actors.rules.retry import RetryPolicy
from api import paths
from api.ids import Instant, OpId, WallNs
from api.lifecycle import Decision, Start
from api.messages.cgroups import CgroupsMessage, PodCpuAsked
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.node import NodeChanged
from api.ports.cgroups import EnsureNodeCgroups, NodeCgroupsMade
from api.ports.node import NodeFacts

DEADLINE_S = 30.0
FIRST_RETRY_S = 1.0
GATHER_S = 0.5
"""How long changes of pods' requests are gathered: a hundred pods that start together are one write."""
CONSEQUENCE = "pods are not limited as a whole"


def decide(
    before: CgroupsState,
    message: CgroupsMessage | KernelMessage | None,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
) -> Decision[CgroupsState]:
    """Absorb a message (None: begin) and choose what to do."""
    return plan(absorb(before, message, now, wall), now, new_op)


# ---------------------------------------------------------------- absorb


def absorb(
    state: CgroupsState, message: CgroupsMessage | KernelMessage | None, now: Instant, wall: WallNs
) -> CgroupsState:
    """Return what is known after `message`; decides nothing."""
    match message:
        case PodCpuAsked(uid=uid, milli=milli):
            others = {other: asked for other, asked in state.asked.items() if other != uid}
            return replace(
                state, asked={**others, uid: PodCpuRequest(milli=milli, at=now)} if milli else others
            )
        case Outcome(op=op) if op == state.op:
            return absorb_outcome(replace(state, op=None, sent=()), state, message, now, wall)
        case NodeChanged(facts=facts):
            # A failed call is made again at once: its arguments may differ now.
            return state if facts == state.node else replace(state, node=facts, failures=0, next_at=now)
        case Restarted(path=path) if path == paths.NODE:
            return replace(state, node_asked_at=NEVER_ASKED)
        case Outcome() | Alarm() | Restarted() | ChildDied() | Heard() | StreamEnded() | None:
            return state
        case _:
            assert_never(message)


def absorb_outcome(
    state: CgroupsState, before: CgroupsState, outcome: Outcome, now: Instant, wall: WallNs
) -> CgroupsState:
    """Absorb the outcome of the one call."""
    match outcome.result:
        case NodeCgroupsMade() as made:
            state = replace(state, applied=before.sent, failures=0, next_at=now + state.period_s)
            return with_result(state, made, wall)
        case _:
            failures = state.failures + 1
            policy = RetryPolicy(base_s=FIRST_RETRY_S, limit_s=state.period_s)
            return replace(state, failures=failures, next_at=now + policy.wait_s(failures))


def with_result(state: CgroupsState, made: NodeCgroupsMade, wall: WallNs) -> CgroupsState:
    """Absorb what the kernel applied and refused; a lack of cgroups is a node event once."""
    notice = notice_of(made)
    if notice and not state.notice:
        state = happened(state, wall, "Warning", "CgroupsNotEnforced", notice)
    state = replace(state, notice=notice)
    node = state.node
    if made.refused or node is None:
        return state
    state = with_allocatable_event(state, node, made, wall)
    for title, cgroup in (
        ("system", node.reserved.system_cgroup),
        ("kube", node.reserved.kube_cgroup),
    ):
        forms = (f"{title}-reserved", f"{title}-reserved-compressible")
        if cgroup and any(form in node.reserved.enforced for form in forms):
            state = with_reserved_event(state, title, cgroup, node, made, wall)
    below = pods_path(node)
    for group, text in made.unapplied:
        if group.startswith(f"{below}/"):
            state = happened(state, wall, "Warning", "CgroupsNotEnforced", text)
    return state


def notice_of(made: NodeCgroupsMade) -> str:
    """Return in one sentence why pods are not limited as a whole, empty where they are."""
    if made.refused:
        return f"{CONSEQUENCE}: {made.refused[0]}"
    if made.missing:
        return f"{CONSEQUENCE} by {' and '.join(made.missing)}: no mounted hierarchy has that controller"
    return ""


def with_allocatable_event(
    state: CgroupsState, node: NodeFacts, made: NodeCgroupsMade, wall: WallNs
) -> CgroupsState:
    """Return the state with an event: once that the limit of all pods is enforced, each time that it is not."""
    if "pods" not in node.reserved.enforced:
        return state
    path = pods_path(node)
    failed = [text for group, text in made.unapplied if group == path]
    if failed:
        text = f'Failed to update Node Allocatable Limits ["{PODS}"]: {failed[0]}'
        return happened(state, wall, "Warning", "FailedNodeAllocatableEnforcement", text)
    text = "Updated Node Allocatable limit across pods"
    return happened(state, wall, "Normal", "NodeAllocatableEnforced", text, once=True)


def with_reserved_event(
    state: CgroupsState, title: str, cgroup: str, node: NodeFacts, made: NodeCgroupsMade, wall: WallNs
) -> CgroupsState:
    """Return the state with an event: once that a reservation is enforced, each time that it is not."""
    path = reserved_path(cgroup, node.cgroup_driver)
    failed = [text for group, text in made.unapplied if group == path]
    if failed:
        text = f'Failed to enforce {title.capitalize()} Reserved Cgroup Limits on "{cgroup}": {failed[0]}'
        return happened(state, wall, "Warning", "FailedNodeAllocatableEnforcement", text)
    text = f"Updated limits on {title} reserved cgroup {cgroup}"
    return happened(state, wall, "Normal", "NodeAllocatableEnforced", text, once=True)


def happened(
    state: CgroupsState, wall: WallNs, kind: str, reason: str, message: str, *, once: bool = False
) -> CgroupsState:
    """Add a node event; an equal one counts up, or with `once` changes nothing."""
    if once and any((one.reason, one.message) == (reason, message) for one in state.node_events):
        return state
    fact = NodeEvent(at=wall, type=kind, reason=reason, message=message)
    return replace(state, node_events=with_node_event(state.node_events, fact))


# ---------------------------------------------------------------- plan


def plan(state: CgroupsState, now: Instant, new_op: Callable[[], OpId]) -> Decision[CgroupsState]:
    """Subscribe to the node's facts and apply its cgroups; sees no message."""
    known = state.node is not None
    asked_at, asking, again_at = follow_node(paths.CGROUPS, state.node_asked_at, now, known=known)
    keeping = keep(replace(state, node_asked_at=asked_at), now, new_op)
    wake_at = again_at if keeping.wake_at is None else min(again_at, keeping.wake_at)
    return replace(keeping, actions=(*asking, *keeping.actions), wake_at=wake_at)


def keep(state: CgroupsState, now: Instant, new_op: Callable[[], OpId]) -> Decision[CgroupsState]:
    """Apply the node's cgroups when they changed or the period is over, once the node is known."""
    node = state.node
    if state.op is not None or node is None:
        return Decision(state=state)
    state = replace(
        state, asked={uid: one for uid, one in state.asked.items() if now < one.at + state.forget_s}
    )
    groups = groups_of(node, sum(one.milli for one in state.asked.values()))
    if not groups:
        return Decision(state=state)
    if groups != state.applied and not state.failures:
        # The next call comes sooner, after `GATHER_S`: pods often start together.
        state = replace(state, next_at=min(state.next_at, now + (GATHER_S if state.applied else 0.0)))
    if now < state.next_at:
        return Decision(state=state, wake_at=state.next_at)
    op = new_op()
    call = EnsureNodeCgroups(groups=groups, driver=node.cgroup_driver)
    action = Start(op=op, port="cgroups", call=call, deadline_s=DEADLINE_S)
    return Decision(state=replace(state, op=op, sent=groups), actions=(action,))
