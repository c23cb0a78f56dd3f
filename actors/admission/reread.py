"""The Node, read from the API server once more before a pod is refused for its labels or taints.

The scheduler may have seen a label a moment before this node does (`GetCachedNode` of a kubelet has the same reason). A read
that fails changes nothing: the pod is refused for what is known.
"""

from collections.abc import Callable

from msgspec.structs import replace

from actors.admission.judge import LABELS, TAINTS, Refused
from actors.admission.state import AdmissionEntry, AdmissionState, NodeReading
from actors.admission.work import AdmissionWork
from actors.rules.nodeobject import labels_of, taints_of
from api.decoding import UndecodableError, from_json
from api.ids import OpId
from api.kube.objects.node import Node
from api.lifecycle import Start
from api.messages.kernel import Outcome
from api.ports.kube import GetObject, KubeObject, ObjectPath

DEADLINE_S = 10.0


def must_read(state: AdmissionState, entry: AdmissionEntry, refused: Refused) -> bool:
    """Return whether the Node must be read before this refusal counts."""
    if state.node.standalone or refused.refusal.reason not in (LABELS, TAINTS):
        return False
    return entry.misplaced_since is None or state.reading.read_at < entry.misplaced_since


def read_node(state: AdmissionState, work: AdmissionWork, new_op: Callable[[], OpId]) -> NodeReading:
    """Begin the read that pods wait for."""
    if not work.must_read or state.reading.op is not None:
        return state.reading
    op = new_op()
    call = GetObject(path=ObjectPath(plural="nodes", name=state.node.name))
    work.actions.append(Start(op=op, port="kube", call=call, deadline_s=DEADLINE_S))
    return replace(state.reading, op=op)


def absorb_read(state: AdmissionState, work: AdmissionWork, outcome: Outcome) -> AdmissionState:
    """Take in labels and taints as the server has them."""
    work.room_due = True
    state = replace(state, reading=NodeReading(read_at=outcome.started_at))
    if not isinstance(outcome.result, KubeObject):
        return state
    try:
        node = from_json(outcome.result.body, Node)
    except UndecodableError:
        return state
    return replace(state, node=replace(state.node, labels=labels_of(node), taints=taints_of(node)))
