"""A pod is refused for the Node's labels and taints only after these were read from the API server once more."""

import pytest
from msgspec.structs import replace

from actors.admission.core import decide
from actors.admission.state import AdmissionState
from api.errors import Failure, FailureKind
from api.ids import Uid
from api.kube.objects.meta import ObjectMeta
from api.kube.objects.node import Node, NodeSpec, Taint
from api.kube.scheme import SCHEME
from api.lifecycle import Start
from api.messages.admission import PodsToAdmit, PodToAdmit
from api.messages.kernel import Alarm, Outcome
from api.messages.node import NodeChanged
from api.ports.kube import GetObject, KubeObject
from api.ports.ledger import Recalled
from api.ports.node import NodeFacts, NodeTaint
from tests.unit.actors.pods import wanted

BUSY = NodeTaint(key="busy", effect="NoExecute")
FACTS = NodeFacts(
    name="n1", cpu_milli=4000, memory_bytes=8 << 30, allocatable_cpu_milli=4000, allocatable_memory_bytes=8 << 30,
    max_pods=10, standalone=False, labels=(("zone", "b"),),
)  # fmt: skip


class Office:
    """An admission core in a cluster, whose Node is read when the test says so."""

    def __init__(self, **facts):
        self.state, self.ops, self.now, self.reads = AdmissionState(), 0, 100.0, {}
        self.give(None)
        self.give(NodeChanged(facts=replace(FACTS, **facts)))

    def give(self, message):
        decision = decide(self.state, message, self.now, self.new_op)
        self.state = decision.state
        for one in decision.actions:
            if isinstance(one, Start) and isinstance(one.call, GetObject):
                assert (one.port, one.call.path.url()) == ("kube", "/api/v1/nodes/n1")
                self.reads[one.op] = self.now
            elif isinstance(one, Start):
                self.end(one.op, Recalled())

    def new_op(self):
        self.ops += 1
        return self.ops

    def end(self, op, result=None, failure=None, started_at=None):
        at = self.now if started_at is None else started_at
        self.give(Outcome(op=op, call="x", result=result, failure=failure, started_at=at, ended_at=self.now))

    def admit(self, **spec):
        pod = wanted("a", source="api", **spec)
        row = PodToAdmit(uid=Uid("a"), number=1, name="default/a", order=1, pod=pod, open=True)
        self.give(PodsToAdmit(epoch=0, pods=(row,), whole=True))

    def read(self, labels=(), taints=(), failure=None):
        (op,) = self.reads
        began = self.reads.pop(op)
        self.now += 0.1
        node = Node(
            metadata=ObjectMeta(name="n1", labels=dict(labels)),
            spec=NodeSpec(taints=tuple(Taint(key=key, effect="NoExecute") for key in taints)),
        )
        found = None if failure else KubeObject(body=SCHEME.encode(node))
        self.end(op, found, failure, began)

    @property
    def refusal(self):
        verdict = self.state.pods["a"].verdict
        return verdict.refusal.reason if verdict is not None and verdict.refusal is not None else None


ZONE_A = {"node_selector": {"zone": "a"}}


def test_a_label_that_came_a_moment_ago_admits_the_pod():
    office = Office()
    office.admit(**ZONE_A)
    assert office.state.pods["a"].verdict is None
    assert "read again" in office.state.pods["a"].waits
    office.read({"zone": "a"})
    assert office.state.pods["a"].verdict.refusal is None
    assert not office.reads


@pytest.mark.parametrize("failure", [None, Failure(kind=FailureKind.UNAVAILABLE, message="refused")])
def test_what_the_node_is_short_of_for_good_refuses_the_pod_after_one_read(failure):
    office = Office()
    office.admit(**ZONE_A)
    office.read({"zone": "c"}, failure=failure)
    assert office.refusal == "NodeAffinity"
    assert not office.reads


def test_a_taint_that_went_a_moment_ago_admits_the_pod():
    office = Office(taints=(BUSY,))
    office.admit()
    office.read({"zone": "b"})
    assert office.state.pods["a"].verdict.refusal is None


def test_a_taint_that_stays_refuses_it():
    office = Office(taints=(BUSY,))
    office.admit()
    office.read({"zone": "b"}, ["busy"])
    assert office.refusal == "TaintToleration"


def test_the_node_s_own_news_in_the_meantime_admits_it_too_and_a_read_that_began_before_does_not_count():
    office = Office()
    office.admit(**ZONE_A)
    office.give(NodeChanged(facts=replace(FACTS, labels=(("zone", "a"),))))
    assert office.state.pods["a"].verdict.refusal is None
    (op,) = office.reads
    office.reads.clear()
    office.now += 1
    row = office.state.pods["a"].row
    again = replace(row, uid=Uid("b"), number=2, pod=wanted("a", source="api", node_selector={"zone": "x"}))
    office.give(PodsToAdmit(epoch=0, pods=(again,)))
    assert not office.reads, "one read at a time"
    office.end(op, KubeObject(body=SCHEME.encode(Node(metadata=ObjectMeta(name="n1")))), None, office.now - 1)
    assert office.state.pods["b"].verdict is None
    office.read({"zone": "x"})
    assert office.state.pods["b"].verdict.refusal is None


def test_an_agent_on_its_own_has_nobody_to_ask():
    office = Office(standalone=True)
    office.admit(**ZONE_A)
    assert office.refusal == "NodeAffinity"
    office.give(Alarm(at=office.now))
    assert not office.reads
