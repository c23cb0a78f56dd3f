"""Events on the API server: created once, counted by patches, never in the way of others, and never for ever."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from actors.apievents.core import (
    ATTEMPTS,
    OBJECT_BURST,
    OBJECT_REFILL_S,
    RETRY,
    WAITING_LIMIT,
    decide,
)
from actors.apievents.report import families, report
from actors.apievents.state import ApiEventSettings, ApiEventState
from actors.rules.eventobject import COMBINED, event_name
from api.errors import Failure, FailureKind
from api.lifecycle import Start
from api.messages.apievents import EventRecorded
from api.messages.kernel import Alarm, Outcome
from api.ports.kube import CreateObject, KubeObject, PatchObject
from api.shown.introspection import EventRow

NS = 10**9
FIRST = 1_700_000_000 * NS
POD = EventRow(
    at=FIRST, first_at=FIRST, namespace="default", pod="web", uid="uid-1", host="n1", type="Normal", reason="Started",
    message="Started container main", field_path="spec.containers{main}",
)  # fmt: skip
NODE = EventRow(
    at=FIRST, namespace="", pod="node/n1", host="n1", type="Normal", reason="Starting", message="Starting kubelet."
)  # fmt: skip


def failed(kind, reason=""):
    return Failure(kind=kind, message="no", reason=reason)


DOWN = failed(FailureKind.UNAVAILABLE)


class Desk:
    """The writer with a server that answers when the test says so."""

    def __init__(self, **settings):
        self.now, self.ops = 50.0, itertools.count(1)
        self.state = ApiEventState(settings=ApiEventSettings(**settings))
        self.open, self.calls, self.lines, self.wake_at = {}, [], [], None

    def take(self, message):
        decision = decide(self.state, message, self.now, lambda: next(self.ops))
        self.lines += [line.text for line in report(self.state, decision.state)]
        self.state, self.wake_at = decision.state, decision.wake_at
        for action in decision.actions:
            assert isinstance(action, Start)
            assert not self.open, "two requests at once"
            assert action.call.own_rate
            self.open[action.op] = action.call
            self.calls.append(action.call)

    def record(self, event, **changes):
        self.take(EventRecorded(event=replace(event, **changes)))

    def answer(self, failure=None):
        (op,) = self.open
        del self.open[op]
        self.end(op, failure)

    def end(self, op, failure=None):
        result = None if failure else KubeObject(body=b"{}")
        self.take(
            Outcome(op=op, call="", result=result, failure=failure, started_at=self.now, ended_at=self.now)
        )

    def answer_all(self):
        while self.open:
            self.answer()

    def sleep(self, seconds):
        self.now += seconds
        self.take(Alarm(at=self.now))

    def metric(self, name):
        (family,) = (one for one in families(self.state) if one.name.endswith(name))
        return {dict(one.labels).get("cause", ""): one.value for one in family.samples}


def body(call):
    return json.loads(call.body)


def test_an_event_is_created_as_a_kubelet_writes_it():
    desk = Desk()
    desk.record(POD)
    (call,) = desk.calls
    assert isinstance(call, CreateObject)
    assert call.path.url() == "/api/v1/namespaces/default/events"
    made = body(call)
    assert made["metadata"]["name"] == event_name(POD)
    assert made["involvedObject"] == {
        "apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "web", "uid": "uid-1",
        "fieldPath": "spec.containers{main}",
    }  # fmt: skip
    assert made["source"] == {"component": "kubelet", "host": "n1"}
    assert (made["type"], made["reason"], made["message"], made["count"]) == (
        "Normal", "Started", "Started container main", 1
    )  # fmt: skip
    assert made["firstTimestamp"] == made["lastTimestamp"] == "2023-11-14T22:13:20Z"


def test_an_event_of_the_node_is_in_the_namespace_of_what_has_none():
    desk = Desk()
    desk.record(NODE)
    (call,) = desk.calls
    assert call.path.namespace == body(call)["metadata"]["namespace"] == "default"
    assert body(call)["involvedObject"] == {"kind": "Node", "name": "n1", "uid": "n1"}
    assert body(call)["metadata"]["name"].startswith("n1.")


def test_it_is_counted_by_a_patch_of_the_same_object():
    desk = Desk()
    desk.record(POD)
    desk.answer()
    desk.record(POD, at=FIRST + 5 * NS, count=3)
    patch = desk.calls[-1]
    assert isinstance(patch, PatchObject)
    assert patch.path.name == event_name(POD)
    assert body(patch) == {
        "count": 3,
        "lastTimestamp": "2023-11-14T22:13:25Z",
        "message": "Started container main",
    }
    desk.answer()
    assert not desk.state.waiting
    assert desk.metric("written_total") == {"": 2}


def test_an_event_that_is_counted_while_it_is_written_is_written_again():
    desk = Desk()
    desk.record(POD)
    desk.record(POD, count=2)
    desk.record(POD, count=3)
    desk.answer()
    assert body(desk.calls[-1])["count"] == 3
    desk.answer()
    assert len(desk.calls) == 2


def test_an_object_that_is_there_already_is_patched_and_one_that_expired_is_created():
    desk = Desk()
    desk.record(POD, count=7)
    desk.answer(failed(FailureKind.ALREADY_EXISTS))
    assert isinstance(desk.calls[-1], PatchObject)
    desk.answer(failed(FailureKind.NOT_FOUND))
    assert isinstance(desk.calls[-1], CreateObject)
    assert body(desk.calls[-1])["count"] == 7
    desk.answer()
    assert not desk.state.waiting
    assert desk.lines == []


def test_combined_events_are_one_object_whatever_their_message():
    one, other = (replace(POD, message=COMBINED + word) for word in ("a", "b"))
    assert event_name(one) == event_name(other)
    desk = Desk()
    desk.record(one)
    desk.answer()
    desk.record(other, count=2)
    assert body(desk.calls[-1])["message"] == f"{COMBINED}b"


@pytest.mark.parametrize(
    "changes",
    [{"reason": "Other"}, {"type": "Warning"}, {"message": "Other"}, {"field_path": ""}, {"uid": "2"}],
)
def test_events_of_one_moment_have_names_of_their_own(changes):
    assert event_name(POD) != event_name(replace(POD, **changes))


@given(pod=st.text("ab-.", min_size=1, max_size=300), at=st.integers(0, 2**63 - 10**7))
def test_a_name_is_never_too_long(pod, at):
    assert len(event_name(replace(POD, pod=pod, first_at=at))) <= 253


@pytest.mark.parametrize(
    ("failure", "lost"),
    [
        (failed(FailureKind.DENIED, "Forbidden"), "refused"),
        (failed(FailureKind.NOT_FOUND, "NotFound"), "refused"),
        (failed(FailureKind.REJECTED, "Invalid"), "refused"),
    ],
)
def test_what_the_server_refuses_is_dropped_and_does_not_hold_up_the_next(failure, lost):
    desk = Desk()
    desk.record(POD)
    desk.record(NODE)
    desk.answer(failure)
    assert body(desk.calls[-1])["reason"] == "Starting"
    assert desk.metric("dropped_total")[lost] == 1
    assert desk.lines == ["event not written to the API server", "events dropped"]
    desk.answer()
    assert desk.lines[-1] == "events are written to the API server again"


@pytest.mark.parametrize(
    "failure",
    [
        DOWN,
        failed(FailureKind.REJECTED),
        failed(FailureKind.NOT_FOUND),
        failed(FailureKind.DENIED, "Unauthorized"),
        failed(FailureKind.UNAVAILABLE, "TooManyRequests"),
    ],
)
def test_while_the_server_cannot_be_reached_the_newest_counts_wait_however_long(failure):
    desk = Desk()
    desk.record(POD)
    for count in range(2, 3 * ATTEMPTS):
        desk.answer(failure)
        if count <= OBJECT_BURST:
            desk.record(POD, count=count)
        assert not desk.open
        assert desk.wake_at == desk.now + RETRY.base_s
        desk.sleep(RETRY.base_s)
    assert body(desk.calls[-1])["count"] == OBJECT_BURST
    desk.answer()
    assert not desk.state.waiting
    assert desk.metric("dropped_total")["refused"] == 0


@pytest.mark.parametrize(
    "failure", [failed(FailureKind.TIMED_OUT), failed(FailureKind.UNAVAILABLE, "InternalError")]
)
def test_an_event_that_the_server_fails_at_is_tried_twelve_times_and_then_others_have_their_turn(failure):
    desk = Desk()
    desk.record(POD)
    desk.record(NODE)
    for _ in range(ATTEMPTS):
        assert body(desk.calls[-1])["reason"] == "Started"
        desk.answer(failure)
        desk.sleep(RETRY.base_s)
    assert desk.metric("dropped_total")["refused"] == 1
    assert body(desk.calls[-1])["reason"] == "Starting"
    desk.answer()
    assert not desk.state.waiting


def test_an_object_that_says_too_much_is_held_back_and_the_others_are_not():
    desk = Desk()
    for number in range(OBJECT_BURST + 10):
        desk.record(POD, count=number + 1)
        desk.answer_all()
    assert [body(call)["count"] for call in desk.calls] == list(range(1, OBJECT_BURST + 1))
    assert desk.metric("dropped_total")["spam"] == 10
    desk.record(POD, type="Warning", reason="BackOff")
    desk.answer_all()
    desk.record(POD, uid="uid-2")
    desk.answer_all()
    assert len(desk.calls) == OBJECT_BURST + 2
    desk.now += OBJECT_REFILL_S
    desk.record(POD, count=99)
    desk.answer_all()
    assert body(desk.calls[-1])["count"] == 99
    desk.record(POD, count=100)
    assert len(desk.calls) == OBJECT_BURST + 3
    assert desk.lines == []


def test_all_events_together_keep_the_configured_rate():
    desk = Desk(qps=2, burst=3)
    for number in range(5):
        desk.record(POD, uid=f"uid-{number}")
    desk.answer_all()
    assert len(desk.calls) == 3
    assert desk.wake_at == desk.now + 0.5
    desk.sleep(0.25)
    assert len(desk.calls) == 3
    desk.sleep(0.25)
    desk.answer_all()
    assert len(desk.calls) == 4


def test_a_rate_of_zero_is_no_limit():
    desk = Desk(qps=0, burst=1)
    for number in range(300):
        desk.record(POD, uid=f"uid-{number}")
    desk.answer_all()
    assert len(desk.calls) == 300


def test_more_than_can_wait_is_dropped_and_said_each_time_it_doubled():
    desk = Desk()
    for number in range(WAITING_LIMIT + 5):
        desk.record(POD, uid=f"uid-{number}")
    assert desk.metric("waiting") == {"": WAITING_LIMIT}
    assert desk.metric("dropped_total")["overflow"] == 5
    assert desk.lines == ["events dropped"] * 3
    desk.record(POD, uid="uid-7", count=2)
    assert desk.metric("dropped_total")["overflow"] == 5


def test_a_new_incarnation_waits_for_the_request_of_the_one_before():
    desk = Desk()
    desk.state = replace(desk.state, inherited=(77,))
    desk.record(POD)
    assert not desk.calls
    desk.end(77)
    assert len(desk.calls) == 1
