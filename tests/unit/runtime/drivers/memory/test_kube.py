"""The streams of the API server in memory: whole levels, shown when something changed that this node did not write itself."""

import json

import pytest

from api.errors import ConflictError, Failure, FailureKind, RejectedError, TimedOutError, UnavailableError
from api.ports.kube import (
    ApiNodeListed,
    ApiPodsListed,
    CreateObject,
    GetObject,
    ObjectPath,
    PatchObject,
    WatchChecked,
)
from runtime.drivers.memory.kube import MemoryKube

NODES = ObjectPath(plural="nodes")
PODS = ObjectPath(plural="pods", namespace="default")
NODE = "n1"
DOWN = Failure(kind=FailureKind.UNAVAILABLE, message="connection refused")


def pod_path(name, subresource=""):
    return ObjectPath(plural="pods", namespace="default", name=name, subresource=subresource)


def pod(name, node=NODE):
    return {
        "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [{"name": "a", "image": "i"}]},
    }


class Listener:
    """Opens both streams of a server and keeps what they bring."""

    def __init__(self, kube):
        self.pods, self.node, self.ends = [], [], []
        self.close = kube.pods.open(self.pods.append, self.ends.append)
        kube.node.open(self.node.append, self.ends.append)

    def new(self):
        """Return the items since the last time, in short: names and phases of pods, or what was checked."""
        items = list(self.pods)
        self.pods.clear()
        return [
            " ".join(f"{one.metadata.name}:{one.status.phase}" for one in item.pods)
            if isinstance(item, ApiPodsListed)
            else item
            for item in items
        ]


@pytest.fixture
def kube():
    return MemoryKube(NODE, lambda: 1_700_000_000_000_000_000)


def test_a_stream_begins_with_the_level_and_that_it_works(kube):
    kube.admin.create(PODS, pod("b"))
    kube.admin.create(PODS, pod("a"))
    kube.admin.create(PODS, pod("elsewhere", "n2"))
    listener = Listener(kube)
    assert listener.new() == ["a:Pending b:Pending", WatchChecked()]
    assert listener.node == [ApiNodeListed(body=None), WatchChecked()]


def test_what_comes_goes_or_changes_is_shown_as_a_whole_and_what_did_not_is_the_same_object(kube):
    listener = Listener(kube)
    listener.new()
    kube.admin.create(PODS, pod("a"))
    first = listener.pods[0].pods[0]
    kube.admin.create(PODS, pod("b"))
    kube.admin.patch(pod_path("b"), {"metadata": {"labels": {"x": "y"}}})
    assert [item.pods[0] is first for item in listener.pods[1:]] == [True, True]
    assert listener.pods[1].pods[1] is not listener.pods[2].pods[1]
    kube.admin.delete(pod_path("b"))
    assert listener.pods[3].pods[1].metadata.deletion_grace_period_seconds == 30
    kube.admin.delete(pod_path("b"), grace_s=0)
    assert listener.new() == ["a:Pending", *["a:Pending b:Pending"] * 3, "a:Pending"]
    kube.admin.create(PODS, pod("elsewhere", "n2"))
    assert listener.new() == []


def test_a_status_that_this_node_wrote_is_no_news_and_is_there_with_the_next_change(kube):
    kube.admin.create(PODS, pod("a"))
    listener = Listener(kube)
    listener.new()
    body = json.dumps({"status": {"phase": "Running"}}).encode()
    kube.perform(PatchObject(path=pod_path("a", "status"), body=body), 1.0)
    assert listener.new() == []
    kube.admin.create(PODS, pod("b"))
    assert listener.new() == ["a:Running b:Pending"]
    kube.admin.patch(pod_path("a", "status"), {"status": {"phase": "Failed"}})
    assert listener.new() == ["a:Failed b:Pending"]


def test_the_node_is_shown_when_it_changes(kube):
    listener = Listener(kube)
    body = json.dumps({"metadata": {"name": NODE}}).encode()
    made = kube.perform(CreateObject(path=NODES, body=body), 1.0).body
    assert listener.node[2:] == [ApiNodeListed(body=made)]
    kube.admin.create(NODES, {"metadata": {"name": "n2"}})
    assert len(listener.node) == 3
    kube.admin.delete(ObjectPath(plural="nodes", name=NODE))
    assert listener.node[3:] == [ApiNodeListed(body=None)]


def test_a_server_that_fails_shows_that_and_after_it_what_changed_meanwhile(kube):
    listener = Listener(kube)
    listener.new()
    kube.fail(DOWN)
    with pytest.raises(UnavailableError, match="connection refused"):
        kube.perform(GetObject(path=pod_path("a")), 1.0)
    kube.admin.create(PODS, pod("a"))
    assert listener.new() == [WatchChecked(failure=DOWN)]
    late = Listener(kube)
    assert late.new() == [WatchChecked(failure=DOWN)]
    kube.heal()
    assert listener.new() == late.new() == [WatchChecked(), "a:Pending"]
    assert kube.perform(GetObject(path=pod_path("a")), 1.0).body


def test_a_failure_is_of_the_kind_that_it_has(kube):
    kube.fail(Failure(kind=FailureKind.TIMED_OUT, message="no answer"))
    with pytest.raises(TimedOutError, match="no answer"):
        kube.perform(GetObject(path=pod_path("a")), 1.0)


def test_who_closed_or_died_gets_nothing_more(kube):
    listener, dead = Listener(kube), Listener(kube)
    listener.close()
    kube.forget_listeners()
    listener.new(), dead.new()
    kube.admin.create(PODS, pod("a"))
    assert (listener.new(), dead.new()) == ([], [])


def test_times_are_those_of_its_clock(kube):
    assert kube.admin.create(PODS, pod("a"))["metadata"]["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert kube.admin.delete(pod_path("a"))["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:50Z"


def test_the_same_calls_give_the_same_answers(kube):
    other = MemoryKube(NODE, lambda: 1_700_000_000_000_000_000)
    assert kube.admin.create(PODS, pod("a")) == other.admin.create(PODS, pod("a"))


@pytest.mark.parametrize(
    "directive", ["$setElementOrder/conditions", "$retainKeys", "$deleteFromPrimitiveList/x"]
)
def test_a_directive_that_it_does_not_know_is_refused(kube, directive):
    kube.admin.create(PODS, pod("a"))
    with pytest.raises(RejectedError, match="not supported here"):
        kube.admin.patch(pod_path("a", "status"), {"status": {directive: []}})


def test_a_list_that_is_not_there_keeps_the_item_of_a_directive(kube):
    """As the API server of Kubernetes 1.20 does: who replaces a list must know that there is one."""
    kube.admin.create(NODES, {"metadata": {"name": NODE}})
    address = {"type": "Hostname", "address": "h"}
    path = ObjectPath(plural="nodes", name=NODE, subresource="status")
    patched = kube.admin.patch(path, {"status": {"addresses": [{"$patch": "replace"}, address]}})
    assert patched["status"]["addresses"] == [{}, address]


def test_a_conflict_carries_the_reason_of_the_server(kube):
    kube.admin.create(PODS, pod("a"))
    with pytest.raises(ConflictError) as caught:
        kube.admin.patch(pod_path("a"), {"metadata": {"resourceVersion": "99", "labels": {"a": "b"}}})
    assert caught.value.failure().reason == "Conflict"


def test_what_is_no_call_of_the_port_is_a_bug(kube):
    with pytest.raises(TypeError):
        kube.perform(DOWN, 1.0)
