"""The lease: made once the Node is known, renewed with a time that only grows, and owned by the Node there is now."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.lease.core import ATTEMPTS, begin, decide
from actors.lease.report import report
from actors.lease.state import LeaseSettings, LeaseState
from api import paths
from api.errors import Failure, FailureKind
from api.lifecycle import Start, Tell, Watch
from api.messages.kernel import Alarm, Outcome, Restarted
from api.messages.nodestatus import NodeObjectSeen
from api.ports.kube import CreateObject, GetObject, KubeObject, ReplaceObject
from api.wallclock import wall_ns

WALL = 1_700_000_000 * 10**9


def failed(kind, message="no"):
    return Failure(kind=kind, message=message)


DOWN = failed(FailureKind.UNAVAILABLE, "connection refused")


class Hand:
    """Requests wait until the test has the server of one lease answer them."""

    def __init__(self, uid="uid-1", lease=None, duration_s=40):
        self.now, self.wall, self.ops = 100.0, WALL, itertools.count(1)
        self.lease, self.version, self.renewals = lease, 0, []
        self.open, self.asked, self.sent, self.lines = {}, [], [], []
        self.state = LeaseState(settings=LeaseSettings(node_name="n1", duration_s=duration_s))
        self.take(begin(self.state, self.now, self.wall, lambda: next(self.ops)))
        if uid is not None:
            self.node(uid)

    def take(self, decision):
        self.lines += [line.text for line in report(self.state, decision.state)]
        self.state, self.wake_at = decision.state, decision.wake_at
        for action in decision.actions:
            match action:
                case Start(op=op, port="kube", call=call):
                    assert call.heartbeat
                    assert not self.open, "two requests at once"
                    assert call.path.namespace == "kube-node-lease"
                    self.open[op] = call
                    self.asked.append(call)
                    if not isinstance(call, GetObject):
                        self.renewals.append(wall_ns(json.loads(call.body)["spec"]["renewTime"]))
                case Tell(to=to, message=message):
                    self.sent.append((to, type(message).__name__))
                case Watch(path=paths.NODESTATUS):
                    pass
                case _:
                    raise AssertionError(action)

    def give(self, message):
        self.take(decide(self.state, message, self.now, self.wall, lambda: next(self.ops)))

    def node(self, uid):
        self.give(NodeObjectSeen(uid=uid))

    def serve(self, call):
        match call:
            case GetObject() if self.lease is None:
                return failed(FailureKind.NOT_FOUND)
            case CreateObject() if self.lease is not None:
                return failed(FailureKind.ALREADY_EXISTS)
            case CreateObject():
                self.lease = json.loads(call.body)
            case ReplaceObject():
                if self.lease is None:
                    return failed(FailureKind.NOT_FOUND)
                new = json.loads(call.body)
                if new["metadata"].get("resourceVersion") != self.lease["metadata"].get("resourceVersion"):
                    return failed(FailureKind.CONFLICT)
                self.lease = new
        if not isinstance(call, GetObject):
            self.version += 1
            self.lease["metadata"]["resourceVersion"] = str(self.version)
        return KubeObject(body=json.dumps(self.lease).encode())

    def answer(self, answer=None):
        ((op, call),) = self.open.items()
        del self.open[op]
        answer = answer or self.serve(call)
        is_failure = isinstance(answer, Failure)
        self.give(
            Outcome(
                op=op,
                call=type(call).__name__,
                result=None if is_failure else answer,
                failure=answer if is_failure else None,
                started_at=self.now,
                ended_at=self.now,
            )
        )

    def wake(self):
        took = max(0.0, self.wake_at - self.now)
        self.now += took
        self.wall += round(took * 10**9)
        self.give(Alarm(at=self.now))

    def settle(self):
        while self.open:
            self.answer()

    def run(self, seconds):
        until = self.now + seconds
        self.settle()
        while self.wake_at <= until:
            self.wake()
            self.settle()

    def kinds(self):
        asked, self.asked = self.asked, []
        return [type(call).__name__ for call in asked]

    def owners(self):
        return [(one["kind"], one["uid"]) for one in self.lease["metadata"]["ownerReferences"]]


def renewing(**more):
    hand = Hand(**more)
    hand.settle()
    assert hand.lease is not None
    hand.kinds()
    return hand


def test_nothing_is_written_before_the_uid_of_the_node_is_known():
    hand = Hand(uid=None)
    for _ in range(5):
        hand.wake()
    assert hand.asked == []
    assert set(hand.sent) == {(paths.NODESTATUS, "WatchNodeObject")}
    assert len(hand.sent) == 6
    hand.node("")
    hand.wake()
    assert hand.asked == [], "the server has no such Node"
    hand.node("uid-1")
    assert hand.kinds() == ["GetObject"]


def test_a_lease_that_is_not_there_is_created_whole():
    hand = Hand()
    hand.settle()
    assert hand.kinds() == ["GetObject", "CreateObject"]
    assert hand.lease == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "n1",
            "namespace": "kube-node-lease",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-1"}],
            "resourceVersion": "1",
        },
        "spec": {
            "holderIdentity": "n1",
            "leaseDurationSeconds": 40,
            "renewTime": "2023-11-14T22:13:20.000000Z",
        },
    }
    assert hand.lines == ["node lease is renewed"]


@pytest.mark.parametrize(("duration_s", "period_s"), [(40, 10), (100, 25)])
def test_it_is_renewed_every_quarter_of_its_duration_not_to_the_second(duration_s, period_s):
    hand, at = renewing(duration_s=duration_s), []
    while len(at) < 6:
        hand.wake()
        if hand.open:
            at.append(hand.now)
            hand.settle()
    gaps = [b - a for a, b in itertools.pairwise(at)]
    assert all(period_s <= gap <= period_s * 1.04 for gap in gaps)
    assert len(set(gaps)) > 1
    assert set(hand.kinds()) == {"ReplaceObject"}


def test_a_lease_that_is_there_is_renewed_at_once_and_keeps_what_is_others():
    spec = {"holderIdentity": "another", "leaseTransitions": 3, "renewTime": "2023-01-01T00:00:00.000000Z"}
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "n1", "namespace": "kube-node-lease", "labels": {"a": "b"}},
        "spec": spec,
    }
    hand = Hand(lease=lease)
    hand.settle()
    assert hand.kinds() == ["GetObject", "ReplaceObject"]
    assert hand.lease["metadata"]["labels"] == {"a": "b"}
    assert hand.lease["spec"]["holderIdentity"] == "another"
    assert hand.lease["spec"]["leaseTransitions"] == 3
    assert hand.owners() == [("Node", "uid-1")]


def test_a_clock_that_goes_back_leaves_the_renewals_growing():
    hand = renewing()
    hand.wall -= 3600 * 10**9
    hand.run(60.0)
    assert len(hand.renewals) > 4
    assert hand.renewals == sorted(set(hand.renewals))


def test_a_renewal_is_later_than_the_one_that_is_read():
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "n1", "namespace": "kube-node-lease"},
        "spec": {"renewTime": "2030-01-01T00:00:00.123457Z"},
    }
    hand = Hand(lease=lease)
    hand.settle()
    assert "2030-01-01T00:00:00.123457Z" < hand.lease["spec"]["renewTime"] < "2030-01-01T00:00:00.123460Z"


@pytest.mark.parametrize(
    "text", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "nonsense", "2023-01-01T00:00:00"]
)
def test_an_absurd_renewal_is_no_trouble(text):
    lease = {"kind": "Lease", "metadata": {"name": "n1"}, "spec": {"renewTime": text}}
    hand = Hand(lease=lease)
    hand.settle()
    assert hand.lease["spec"]["renewTime"] == "2023-11-14T22:13:20.000000Z"


def test_a_node_that_was_made_anew_owns_the_lease_at_once():
    hand = renewing()
    hand.node("uid-2")
    hand.settle()
    assert hand.owners() == [("Node", "uid-2")]


def test_a_node_that_is_gone_is_not_renewed_for():
    hand = renewing()
    hand.node("")
    hand.run(60.0)
    assert hand.kinds() == []


@pytest.mark.parametrize("kind", [FailureKind.CONFLICT, FailureKind.NOT_FOUND])
def test_after_a_conflict_or_a_loss_it_is_read_again(kind):
    hand = renewing()
    if kind is FailureKind.NOT_FOUND:
        hand.lease = None
    while not hand.open:
        hand.wake()
    hand.answer(failed(kind))
    hand.settle()
    last = "CreateObject" if kind is FailureKind.NOT_FOUND else "ReplaceObject"
    assert hand.kinds() == ["ReplaceObject", "GetObject", last]


def test_a_renewal_that_fails_is_tried_five_times_and_then_at_the_next_one():
    hand = renewing()
    while not hand.open:
        hand.wake()
    for _ in range(ATTEMPTS):
        hand.answer(DOWN)
    assert hand.kinds() == ["ReplaceObject"] * ATTEMPTS
    assert hand.renewals == sorted(set(hand.renewals)), "also those at the same time differ"
    assert not hand.open
    at = hand.now
    while not hand.open:
        hand.wake()
    assert 10 <= hand.now - at <= 10.4
    hand.settle()
    assert hand.lines[-2:] == ["request about the node's lease failed", "node lease is renewed again"]


def test_reading_is_tried_again_with_back_off():
    hand, at = Hand(), []
    for _ in range(8):
        while not hand.open:
            hand.wake()
        at.append(hand.now)
        hand.answer(DOWN)
    assert [b - a for a, b in itertools.pairwise(at)] == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 7])
    assert hand.lines == ["request about the node's lease failed"]


def test_a_create_that_comes_too_late_is_followed_by_a_read():
    hand = Hand()
    hand.answer()
    hand.lease = {"kind": "Lease", "metadata": {"name": "n1"}}
    hand.answer()
    hand.run(1.0)
    assert hand.kinds() == ["GetObject", "CreateObject", "GetObject", "ReplaceObject"]


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[" * 100_000, b"\xff", b'{"kind": "Pod"}', b'{"kind": "Lease", "metadata": {"name": "x"}}'],
)
def test_whatever_a_server_sends_is_a_failure_and_no_more(text):
    hand = Hand()
    hand.answer(KubeObject(body=text))
    assert hand.state.failure is not None
    assert hand.state.lease is None
    assert not hand.open


def test_the_node_is_asked_for_again_when_its_manager_has_restarted():
    hand = renewing()
    hand.sent = []
    hand.give(Restarted(path=paths.NODESTATUS, incarnation=1, cause="bug"))
    assert hand.sent == [(paths.NODESTATUS, "WatchNodeObject")]


KINDS = [
    FailureKind.UNAVAILABLE, FailureKind.TIMED_OUT, FailureKind.DENIED, FailureKind.NOT_FOUND, FailureKind.CONFLICT,
]  # fmt: skip
STEPS = st.one_of(
    st.tuples(st.just("answer"), st.none()),
    st.tuples(st.just("fail"), st.sampled_from(KINDS)),
    st.tuples(st.just("lose"), st.none()),
    st.tuples(st.just("wake"), st.none()),
    st.tuples(st.just("clock"), st.integers(-(10**12), 10**12)),
    st.tuples(st.just("node"), st.sampled_from(["", "uid-1", "uid-2"])),
    st.tuples(st.just("delete"), st.none()),
)


@given(st.lists(STEPS, max_size=40))
def test_whatever_happens_renewals_grow_and_the_lease_comes_back_with_the_right_owner(steps):
    hand = Hand()
    for step, value in steps:
        match step:
            case "answer" if hand.open:
                hand.answer()
            case "fail" if hand.open:
                hand.answer(failed(value))
            case "lose" if hand.open:
                hand.serve(next(iter(hand.open.values())))
                hand.answer(failed(FailureKind.TIMED_OUT))
            case "wake":
                hand.wake()
            case "clock":
                hand.wall += value
            case "node":
                hand.node(value)
            case "delete":
                hand.lease = None
            case _:
                continue
    assert all(a < b for a, b in itertools.pairwise(hand.renewals))
    hand.node("uid-3")
    hand.run(30.0)
    assert hand.owners() == [("Node", "uid-3")]
