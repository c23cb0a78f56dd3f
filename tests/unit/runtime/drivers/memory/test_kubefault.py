"""What goes wrong on the way to the API server in memory, and what its streams show of that."""

import json

import pytest

from api.errors import Failure, FailureKind
from api.ports.kube import ApiPodsListed, GetObject, KubeObject, ObjectPath, PatchObject, WatchChecked
from runtime.drivers.memory.kube import MemoryKube
from runtime.drivers.memory.kubefault import CallFault, FaultyKube
from runtime.kernel.sim import VirtualTime

PODS = ObjectPath(plural="pods", namespace="default")
POD = {"metadata": {"name": "a"}, "spec": {"nodeName": "n1", "containers": [{"name": "a", "image": "i"}]}}
REFUSED = Failure(kind=FailureKind.UNAVAILABLE, message="too many requests", reason="TooManyRequests")
DEADLINE_S = 10.0


class Way:
    """A server with one pod, the way to it, and what came back: when, and what."""

    def __init__(self):
        self.time = VirtualTime(0)
        self.kube = MemoryKube("n1", self.time.wall)
        self.kube.admin.create(PODS, POD)
        self.fault, self.answers, self.items = CallFault(), [], []
        self.port = FaultyKube(
            self.time,
            lambda _call: self.fault,
            lambda call, answered: self.kube.request("n1", call, answered=answered),
        )
        self.kube.pods.open(self.items.append, self.items.append)
        self.items.clear()

    def patch(self, phase):
        path = ObjectPath(plural="pods", namespace="default", name="a", subresource="status")
        return self.send(PatchObject(path=path, body=json.dumps({"status": {"phase": phase}}).encode()))

    def send(self, call):
        self.port.begin(call, DEADLINE_S, lambda *answer: self.answers.append((self.time.now(), *answer)))
        while self.time.fire_next():
            pass
        return self.answers

    def phase(self):
        return self.kube.admin.read(ObjectPath(plural="pods", namespace="default", name="a"))["status"][
            "phase"
        ]


def test_a_request_takes_its_time_and_is_answered_once():
    way = Way()
    way.fault = CallFault(delay_s=1.0, answer_s=2.0)
    [(at, result, failure)] = way.send(
        GetObject(path=ObjectPath(plural="pods", namespace="default", name="a"))
    )
    assert (at, type(result), failure) == (3.0, KubeObject, None)


def test_what_the_server_refuses_is_the_answer():
    way = Way()
    [(_, result, failure)] = way.send(
        GetObject(path=ObjectPath(plural="pods", namespace="default", name="b"))
    )
    assert (result, failure.kind) == (None, FailureKind.NOT_FOUND)


@pytest.mark.parametrize(
    ("fault", "phase", "kind"),
    [
        (CallFault(failure=REFUSED, commits=False), "Pending", FailureKind.UNAVAILABLE),
        (CallFault(failure=REFUSED), "Running", FailureKind.UNAVAILABLE),
        (CallFault(answer_s=float("inf")), "Running", FailureKind.TIMED_OUT),
        (CallFault(answer_s=11.0), "Running", FailureKind.TIMED_OUT),
        (CallFault(delay_s=12.0), "Running", FailureKind.TIMED_OUT),
    ],
    ids=["refused", "done, and another answer", "no answer", "a late answer", "done after the deadline"],
)
def test_a_request_that_fails_may_have_been_done(fault, phase, kind):
    way = Way()
    way.fault = fault
    at, result, failure = way.patch("Running")[0]
    assert (way.phase(), result, failure.kind) == (phase, None, kind)
    assert at <= 0.95 * DEADLINE_S


def test_a_write_without_its_answer_is_news_and_one_with_it_is_not():
    way = Way()
    way.patch("Running")
    assert way.items == []
    way.fault = CallFault(answer_s=float("inf"))
    way.patch("Failed")
    assert [type(item) for item in way.items] == [ApiPodsListed]


def test_a_watch_that_hangs_shows_nothing_until_the_next_list():
    way = Way()
    way.kube.blind()
    way.kube.admin.create(PODS, {**POD, "metadata": {"name": "b"}})
    assert way.items == []
    way.kube.relist()
    assert [len(item.pods) for item in way.items] == [2]
    way.kube.relist()
    assert way.items[1].pods[0] is way.items[0].pods[0], "what did not change is the same object"


def test_who_opens_a_stream_that_hangs_has_a_watch_of_its_own():
    way = Way()
    way.kube.blind()
    late = []
    way.kube.pods.open(late.append, late.append)
    way.kube.admin.create(PODS, {**POD, "metadata": {"name": "b"}})
    assert [type(item) for item in late] == [ApiPodsListed, WatchChecked, ApiPodsListed]


def test_a_failure_of_the_streams_alone_leaves_requests_alone():
    way = Way()
    way.kube.blind(REFUSED)
    assert way.items == [WatchChecked(failure=REFUSED)]
    assert way.patch("Running")[0][2] is None
    way.kube.relist()
    assert [type(item) for item in way.items[1:]] == [WatchChecked, ApiPodsListed]
