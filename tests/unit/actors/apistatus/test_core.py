"""The writer of statuses: newest wins, one call of a pod at a time, and a deleted pod is ended when it has ended."""

import itertools
import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from actors.apistatus.core import CALLS_AT_ONCE, REWRITE_S, STALE_S, decide
from actors.apistatus.report import families, report
from actors.apistatus.state import ApiStatusState
from api.errors import Failure, FailureKind
from api.ids import OpId, Uid
from api.kube.objects.podstatus import (
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    HostIP,
    PodCondition,
    PodStatus,
)
from api.lifecycle import Start
from api.messages.apistatus import ApiPodsSeen
from api.messages.kernel import Alarm
from api.messages.status import ForgetPodStatus, PodStatusComposed
from api.ports.kube import DeleteObject, KubeObject, PatchObject
from tests.unit.actors.apistatus.fakeapi import FakeApi, outcome

MIRROR = "kubernetes.io/config.mirror"
GATE = {"type": "example.com/gate", "status": "True"}
DOWN = Failure(kind=FailureKind.UNAVAILABLE, message="connection refused")


class Office:
    """The core, a server, and the calls in flight. A call reaches the server when it ends."""

    def __init__(self, api=None, state=None):
        self.api = api or FakeApi()
        self.state, self.now, self.ops, self.open = state or ApiStatusState(), 0.0, itertools.count(1), {}
        self.wake_at, self.lines = None, []

    def give(self, message):
        decision = decide(self.state, message, self.now, lambda: OpId(next(self.ops)))
        self.lines += report(self.state, decision.state, message)
        self.state, self.wake_at = decision.state, decision.wake_at
        calls = [one.call for one in decision.actions if isinstance(one, Start)]
        self.open |= {one.op: one.call for one in decision.actions if isinstance(one, Start)}
        assert all(one.port == "kube" for one in decision.actions)
        return calls

    def level(self):
        pods = self.api.pods()
        mirrors = tuple(one for one in pods if MIRROR in one.metadata.annotations)
        return self.give(ApiPodsSeen(pods=tuple(one for one in pods if one not in mirrors), mirrors=mirrors))

    def compose(self, uid, status="Running", *, name="a", finished=False):
        status = PodStatus(phase=status) if isinstance(status, str) else status
        return self.give(
            PodStatusComposed(uid=Uid(uid), namespace="d", name=name, status=status, finished=finished)
        )

    def end(self, op=None, failure=None):
        op = op or next(iter(self.open))
        call = self.open.pop(op)
        return self.give(outcome(op, call, failure or self.api.perform(call), self.now))

    def settle(self):
        while self.open:
            self.end()

    def ring(self):
        self.now = self.wake_at
        return self.give(Alarm(at=self.now))

    def later(self, seconds):
        self.now += seconds
        return self.give(Alarm(at=self.now))


def phases(calls):
    return [json.loads(call.body)["status"].get("phase") for call in calls]


def test_a_status_is_written_once_the_server_shows_the_pod_and_at_once_after_that():
    office = Office()
    assert office.compose("uid-1", "Pending") == []
    uid = office.api.put()
    assert office.level() == [], "the server has that it is pending"
    [call] = office.compose(uid, "Running")
    assert (call.path.brief(), json.loads(call.body)["metadata"]) == ("d/pods/a/status", {"uid": uid})
    office.settle()
    assert office.api.status()["phase"] == "Running"
    assert office.level() == []
    assert office.compose(uid, "Running") == []


def test_the_newest_wins_and_one_write_of_a_pod_is_in_flight():
    office = Office()
    uid = office.api.put()
    office.level()
    assert phases(office.compose(uid, "Running")) == ["Running"]
    for reason in ("one", "two"):
        assert office.compose(uid, PodStatus(phase="Running", reason=reason)) == []
    [call] = office.end()
    assert json.loads(call.body)["status"] == {"reason": "two"}
    assert office.end() == []


def test_several_pods_are_written_at_once_up_to_a_limit():
    office = Office()
    uids = [office.api.put(name=f"p{number}") for number in range(40)]
    office.level()
    for number, uid in enumerate(uids):
        office.compose(uid, "Running", name=f"p{number}")
    seen = []
    while office.open:
        seen.append(len(office.open))
        office.end()
    assert max(seen) == CALLS_AT_ONCE
    assert [office.api.status(f"p{number}")["phase"] for number in range(40)] == ["Running"] * 40


@pytest.mark.parametrize(
    ("failure", "waits"),
    [
        (DOWN, [1, 2, 4, 8, 16, 30, 30]),
        (
            Failure(kind=FailureKind.DENIED, message="no relationship found between node and this object"),
            [0.25, 0.5, 1, 2, 4, 8, 16],
        ),
        (Failure(kind=FailureKind.REJECTED, message="status.phase: Invalid value"), [1, 2, 4, 8, 16, 30, 30]),
        (Failure(kind=FailureKind.TIMED_OUT, message="no answer"), [1, 2, 4, 8, 16, 30, 30]),
    ],
)
def test_failures_back_off_and_are_logged_once(failure, waits):
    office = Office()
    uid = office.api.put()
    office.level()
    office.compose(uid, "Running")
    seen = []
    for number in range(7):
        assert office.end(failure=failure) == []
        seen.append(office.wake_at - office.now)
        assert office.compose(uid, PodStatus(phase="Running", reason=f"r{number}")) == []
        assert len(office.ring()) == 1
    assert seen == waits
    office.settle()
    assert office.api.status()["reason"] == "r6"
    assert [(line.text, line.facts["why"]) for line in office.lines] == [
        ("status of pod not written to the API server", failure.message)
    ]
    assert office.state.summary.failures == 7


def test_nothing_is_written_to_another_pod_of_the_same_name():
    office = Office()
    uid = office.api.put()
    office.level()
    office.compose(uid, "Running")
    new = office.api.put()
    assert office.end() == [], "the server refused: the UID is another"
    assert office.api.status()["phase"] == "Pending"
    office.now += 60
    assert office.level() == []
    assert len(office.compose(new, "Running")) == 1


def test_a_pod_that_is_gone_is_written_no_more():
    office = Office()
    uid = office.api.put()
    office.level()
    office.compose(uid, "Running")
    del office.api.objects["d", "a"]
    assert office.end() == []
    office.later(60)
    assert office.open == {}
    office.level()
    office.give(ForgetPodStatus(uid=Uid(uid)))
    assert office.state.pods == {}


@pytest.mark.parametrize("kind", [FailureKind.NOT_FOUND, FailureKind.CONFLICT])
def test_a_pod_that_the_next_level_shows_all_the_same_is_written_again(kind):
    office = Office()
    uid = office.api.put()
    office.level()
    office.compose(uid, "Running")
    office.end(failure=Failure(kind=kind, message="not that one"))
    office.later(30)
    assert office.open == {}
    assert len(office.level()) == 1


def test_what_others_overwrite_is_written_again_but_not_more_often_than_every_ten_seconds():
    office = Office()
    uid = office.api.put()
    office.level()
    office.compose(uid, "Running")
    office.settle()
    office.now += 1
    office.api.set_status(phase="Pending")
    assert office.level() == []
    assert office.wake_at == REWRITE_S
    office.api.set_status(phase="Unknown")
    assert office.level() == []
    assert phases(office.ring()) == ["Running"]
    office.settle()
    assert office.api.status()["phase"] == "Running"
    office.api.set_status(phase="Pending")
    assert office.level() == []
    [call] = office.compose(uid, PodStatus(phase="Running", reason="new"))
    assert json.loads(call.body)["status"]["reason"] == "new", "a new version waits for nothing"


def test_conditions_of_others_survive():
    office = Office()
    gate = {"type": "example.com/gate", "status": "True"}
    uid = office.api.put(status={"phase": "Pending", "conditions": [gate]})
    office.level()
    mine = PodCondition(type="Ready", status="True", last_transition_time="2024-01-01T00:00:00Z")
    office.compose(uid, PodStatus(phase="Running", conditions=(mine,)))
    office.api.set_status(conditions=[{**gate, "status": "False"}])
    office.settle()
    office.level()
    office.settle()
    assert {one["type"]: one["status"] for one in office.api.status()["conditions"]} == {
        "example.com/gate": "False",
        "Ready": "True",
    }


def test_fields_that_an_old_server_drops_are_not_sent_for_ever():
    office = Office(FakeApi(drops=("hostIPs", "observedGeneration")))
    uid = office.api.put()
    office.level()
    status = PodStatus(phase="Running", host_ips=(HostIP(ip="h"),), observed_generation=1)
    office.compose(uid, status)
    office.settle()
    for _ in range(3):
        office.later(REWRITE_S)
        office.api.set_status(extra="x")
        assert office.level() == []
    assert len(office.api.writes) == 1
    office.compose(uid, replace(status, reason="new"))
    office.settle()
    assert office.api.writes[-1][1] == {"reason": "new"}


def test_a_level_that_is_older_than_an_answer_is_not_believed_for_a_while():
    office = Office()
    uid = office.api.put()
    office.level()
    stale = office.api.pods()
    office.compose(uid, "Running")
    office.settle()
    (old,) = stale
    copies = [replace(old, kind="Pod"), replace(old, kind="Pod")]
    assert office.give(ApiPodsSeen(pods=(copies[0],))) == []
    assert office.wake_at is None
    office.now += STALE_S
    assert len(office.give(ApiPodsSeen(pods=(copies[1],)))) == 1, "the server may have been set back"


def test_a_level_that_came_before_an_answer_counts_where_it_is_newer():
    office = Office()
    uid = office.api.put()
    office.level()
    office.compose(uid, "Running")
    [op] = office.open
    call = office.open.pop(op)
    answer = office.api.perform(call)
    office.api.set_status(phase="Unknown")
    office.level()
    office.give(outcome(op, call, answer, office.now))
    assert phases(office.ring()) == ["Running"], "what others overwrote meanwhile is written again"
    office.settle()
    assert office.api.status()["phase"] == "Running"


@pytest.mark.parametrize("result", ["{", '{"kind":"Status"}', '{"apiVersion":"v1","kind":"Pod"}', "[" * 5000])
def test_an_answer_that_is_no_pod_ends_nothing(result):
    office = Office()
    uid = office.api.put()
    office.level()
    office.compose(uid, "Running")
    [op] = office.open
    assert office.give(outcome(op, office.open.pop(op), KubeObject(body=result.encode()), 0.0)) == []
    assert office.level() == []
    assert len(office.compose(uid, "Failed", finished=True)) == 1


def test_a_status_that_says_nothing_yet_is_not_written():
    office = Office()
    uid = office.api.put()
    office.level()
    assert office.compose(uid, PodStatus()) == []


# ---------------------------------------------------------------- static pods


def test_the_status_of_a_static_pod_goes_to_its_mirror():
    office = Office()
    assert office.compose("static-1", "Running", name="s-n") == []
    uid = office.api.put(name="s-n", annotations={MIRROR: "static-1"})
    office.api.put(name="other-n", annotations={MIRROR: "static-2"})
    [call] = office.level()
    assert (call.path.name, json.loads(call.body)["metadata"]["uid"]) == ("s-n", uid)
    office.settle()
    again = office.api.put(name="s-n", annotations={MIRROR: "static-1"})
    [call] = office.level()
    assert json.loads(call.body)["metadata"]["uid"] == again, "a new mirror gets everything"
    office.settle()
    office.api.ask_to_delete("s-n")
    office.level()
    office.compose("static-1", "Succeeded", name="s-n", finished=True)
    office.settle()
    assert ("d", "s-n") in office.api.objects, "a mirror is never ended from here"


@pytest.mark.parametrize(("name", "named"), [("s-n", "static-2"), ("t-n", "static-1")])
def test_a_mirror_of_another_version_or_name_gets_nothing(name, named):
    office = Office()
    office.api.put(name=name, annotations={MIRROR: named})
    office.level()
    assert office.compose("static-1", "Running", name="s-n") == []


# ---------------------------------------------------------------- the final delete


def ended_pod(**meta):
    office = Office()
    uid = office.api.put(**meta)
    office.api.set_status(phase="Running")
    office.api.ask_to_delete()
    office.level()
    return office, uid


def test_a_deleted_pod_is_ended_when_it_is_finished_and_the_server_shows_its_last_phase():
    office, uid = ended_pod()
    assert phases(office.compose(uid, "Failed")) == ["Failed"]
    assert office.end() == [], "its volumes may be mounted still"
    [call] = office.compose(uid, "Failed", finished=True)
    assert (type(call), call.uid, call.grace_s, call.path.brief()) == (DeleteObject, uid, 0, "d/pods/a")
    assert office.end() == []
    assert office.api.objects == {}
    assert [line.text for line in office.lines] == ["deleted pod ended"]


def test_the_final_status_is_written_before_the_final_delete():
    office, uid = ended_pod()
    assert isinstance(office.compose(uid, "Failed", finished=True)[0], PatchObject)
    assert isinstance(office.end()[0], DeleteObject)


def test_a_pod_with_a_finalizer_is_ended_once():
    office, uid = ended_pod(finalizers=["example.com/wait"])
    office.compose(uid, "Failed", finished=True)
    office.settle()
    for _ in range(3):
        office.later(60)
        office.api.touch("d", "a")
        assert office.level() == []
    assert [status is None for _, status in office.api.writes] == [False, True]


def test_a_pod_whose_last_phase_the_server_does_not_show_is_not_ended():
    office, uid = ended_pod()
    office.compose(uid, "Running", finished=True)
    office.settle()
    assert ("d", "a") in office.api.objects


def test_a_final_delete_that_fails_is_tried_again():
    office, uid = ended_pod()
    office.compose(uid, "Failed", finished=True)
    office.end()
    office.end(failure=DOWN)
    assert isinstance(office.ring()[0], DeleteObject)
    office.settle()
    assert office.api.objects == {}


def test_a_finished_pod_that_nobody_deleted_stays():
    office = Office()
    uid = office.api.put()
    office.level()
    office.compose(uid, "Succeeded", finished=True)
    office.settle()
    assert office.api.status()["phase"] == "Succeeded"


# ---------------------------------------------------------------- the whole


def test_calls_of_an_earlier_incarnation_are_waited_for():
    office = Office(state=ApiStatusState(inherited=(OpId(77),)))
    uid = office.api.put()
    office.level()
    assert office.compose(uid, "Running") == []
    call = PatchObject(path=None, body=b"")
    assert len(office.give(outcome(OpId(77), call, DOWN, 0.0))) == 1


def test_the_time_from_a_version_to_its_write_is_counted():
    office = Office()
    uid = office.api.put()
    office.level()
    office.compose(uid, "Running")
    office.now += 2
    office.settle()
    office.compose(uid, "Failed")
    office.now += 0.5
    office.settle()
    told = office.state.summary
    assert (told.count, told.sum_s, told.max_s, told.last_s) == (2, 2.5, 2.0, 0.5)
    office.compose(uid, PodStatus(phase="Failed", reason="x"))
    values = {
        one.name.removeprefix("nodeagent_pod_status_write_"): one.samples[0].value
        for one in families(office.state)
    }
    assert values == {
        "seconds_count": 2,
        "seconds_sum": 2.5,
        "seconds_max": 2.0,
        "seconds_last": 0.5,
        "failures_total": 0,
        "pods_waiting": 1,
    }


class WriterMachine(RuleBasedStateMachine):
    """Versions, levels, other writers, failures, deletions: in the end the server has the newest status of each pod."""

    NAMES = st.sampled_from(["a", "b", "c"])

    @initialize(drops=st.sampled_from([(), ("hostIPs", "observedGeneration")]))
    def start(self, drops):
        self.office = Office(FakeApi(drops))
        self.own, self.gates, self.reasons = {}, {}, itertools.count(1)
        for name in ("a", "b", "c"):
            self.make(name)

    def make(self, name):
        gate = [GATE] if name != "c" else []
        uid = self.office.api.put(name=name, status={"phase": "Pending", "conditions": gate})
        self.gates[uid] = bool(gate)

    def uid(self, name):
        return self.office.api.objects["d", name]["metadata"]["uid"]

    @rule(name=NAMES, finished=st.booleans(), running=st.booleans())
    def composes(self, name, finished, running):
        if ("d", name) not in self.office.api.objects:
            return
        uid = self.uid(name)
        before = self.own.get(uid)
        over = (before is not None and before[1]) or finished
        phase = before[0].phase if before is not None and before[1] else "Failed" if over else "Running"
        runs = ContainerState(running=ContainerStateRunning())
        status = PodStatus(
            phase=phase,
            reason=f"r{next(self.reasons)}",
            host_ips=(HostIP(ip="h"),),
            observed_generation=1,
            conditions=(PodCondition(type="Ready", status="True" if running else "False"),),
            container_statuses=(ContainerStatus(name="c", state=runs),) if running and not over else (),
        )
        self.own[uid] = (status, over)
        self.office.compose(uid, status, name=name, finished=over)

    @rule()
    def lists(self):
        self.office.level()

    @rule(name=NAMES, phase=st.sampled_from(["Pending", "Unknown", "Running"]))
    def is_overwritten(self, name, phase):
        if ("d", name) in self.office.api.objects and self.office.api.status(name)["phase"] not in (
            "Failed",
            "Succeeded",
        ):
            self.office.api.set_status(name, phase=phase, message="by somebody")

    @rule(name=NAMES)
    def is_deleted(self, name):
        if ("d", name) in self.office.api.objects:
            self.office.api.ask_to_delete(name)

    @rule(name=NAMES)
    def is_replaced(self, name):
        self.office.api.objects.pop(("d", name), None)
        self.make(name)

    @rule(data=st.data(), failure=st.sampled_from([None, None, DOWN, "lost"]))
    def ends(self, data, failure):
        if not self.office.open:
            return
        op = data.draw(st.sampled_from(sorted(self.office.open)))
        call = self.office.open[op]
        key = (call.path.namespace, call.path.name)
        if isinstance(call, DeleteObject) and key in self.office.api.objects and self.uid(key[1]) == call.uid:
            assert self.own[call.uid][1], "finished"
            assert self.office.api.status(key[1])["phase"] == "Failed"
        if failure == "lost":
            self.office.api.perform(call)
            failure = Failure(kind=FailureKind.TIMED_OUT, message="no answer")
        self.office.end(op, failure)

    @rule(seconds=st.sampled_from([0.3, 5.0, 31.0]))
    def passes(self, seconds):
        self.office.later(seconds)

    @invariant()
    def one_call_of_a_pod_is_in_flight(self):
        uids = [entry.uid for entry in self.office.state.pods.values() if entry.call is not None]
        assert len(uids) == len(self.office.open) == len(self.office.state.calls)

    @invariant()
    def conditions_of_others_survive(self):
        for raw in self.office.api.objects.values():
            if self.gates[raw["metadata"]["uid"]]:
                assert GATE in raw["status"].get("conditions", [])

    def teardown(self):
        office = self.office
        for _ in range(40):
            office.level()
            office.settle()
            office.later(31.0)
            office.settle()
        for name in ("a", "b", "c"):
            raw = office.api.objects.get(("d", name))
            if raw is None or raw["metadata"]["uid"] not in self.own:
                continue
            status, over = self.own[raw["metadata"]["uid"]]
            assert (raw["status"]["phase"], raw["status"]["reason"]) == (status.phase, status.reason)
            assert "message" not in raw["status"]
            assert not (over and "deletionTimestamp" in raw["metadata"])
            ready = next(one for one in raw["status"]["conditions"] if one["type"] == "Ready")
            if status.phase == "Failed":
                assert ready["status"] == "False"
        assert office.open == {}


TestWriterMachine = WriterMachine.TestCase
TestWriterMachine.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
