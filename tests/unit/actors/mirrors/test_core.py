"""Mirror pods: each static pod has one of its version, nothing else stays, and nothing that still ends is hidden."""

import itertools
import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from actors.mirrors.core import CALLS_AT_ONCE, GONE_S, SETTLE_S, decide
from actors.mirrors.report import report
from actors.mirrors.state import MirrorsState
from actors.rules.desiredsources import DesiredSources
from api import paths
from api.errors import Failure, FailureKind
from api.ids import OpId, Uid
from api.kube.objects.container import Container
from api.kube.objects.meta import ObjectMeta
from api.kube.objects.pod import Pod, PodSpec, PodStatus
from api.kube.objects.strmap import StrMap
from api.lifecycle import Start, Tell
from api.messages.apistatus import ApiPodsSeen
from api.messages.eviction import ActivePod, ActivePods
from api.messages.kernel import Alarm, Restarted
from api.messages.nodestatus import NodeObjectSeen, WatchNodeObject
from api.messages.podconfig import SnapshotWanted
from api.messages.supervisor import PodOp, PodsChanged, PodsSnapshot, SourcedPod, WatchPods
from api.ports.kube import CreateObject, DeleteObject
from tests.unit.actors.apistatus.fakeapi import FakeApi, outcome

MIRROR, HASH = "kubernetes.io/config.mirror", "kubernetes.io/config.hash"
DOWN = Failure(kind=FailureKind.UNAVAILABLE, message="connection refused")


def static(name, version="1", source="file"):
    uid = f"{name}-{version}"
    meta = ObjectMeta(
        name=f"{name}-n",
        namespace="d",
        uid=uid,
        labels=StrMap({"app": name}),
        annotations=StrMap({HASH: uid, "kubernetes.io/config.source": source}),
        finalizers=("example.com/x",),
        resource_version="7",
    )
    spec = PodSpec(containers=(Container(name="c", image="i"),), node_name="n", service_account_name="sa")
    return Pod(metadata=meta, spec=spec, status=PodStatus(phase="Pending"))


class Town:
    """The core, a server, PodConfig, supervisor and node as the core hears of them."""

    def __init__(self, api=None, *, node="node-1", running=(), whole=True, seen=("file",), inherited=()):
        self.api = api or FakeApi()
        self.now, self.ops, self.open, self.told, self.lines = 0.0, itertools.count(1), {}, [], []
        self.state = MirrorsState(
            node_name="n", sources=DesiredSources(expected=("file",)), inherited=inherited
        )
        self.number, self.wanted = 0, {}
        self.give(None)
        self.snapshot(seen)
        if node:
            self.give(NodeObjectSeen(uid=node))
        self.runs(*running, whole=whole)

    def give(self, message):
        decision = decide(self.state, message, self.now, lambda: OpId(next(self.ops)))
        if message is not None:
            self.lines += report(self.state, decision.state, message)
        self.state, self.wake_at = decision.state, decision.wake_at
        self.told += [(one.to, one.message) for one in decision.actions if isinstance(one, Tell)]
        starts = [one for one in decision.actions if isinstance(one, Start)]
        self.open |= {one.op: one.call for one in starts}
        return [one.call for one in starts]

    def snapshot(self, seen=("file",)):
        pods = tuple(SourcedPod(source=source, pod=pod) for source, pod in self.wanted.values())
        return self.give(PodsSnapshot(number=self.number, seen=tuple(seen), pods=pods))

    def change(self, op, *pods, source="file", gap=False):
        self.number += 2 if gap else 1
        for pod in pods:
            if op is PodOp.REMOVE:
                self.wanted.pop(pod.metadata.uid, None)
            else:
                self.wanted[pod.metadata.uid] = (source, pod)
        return self.give(PodsChanged(number=self.number, source=source, op=op, pods=pods))

    def runs(self, *uids, whole=True, leaving=()):
        pods = tuple(ActivePod(uid=Uid(uid), pod=Pod()) for uid in uids)
        return self.give(ActivePods(pods=pods, leaving=tuple(map(Uid, leaving)), whole=whole))

    def level(self):
        return self.give(ApiPodsSeen(mirrors=self.api.pods()))

    def end(self, failure=None):
        op = next(iter(self.open))
        call = self.open.pop(op)
        return self.give(outcome(op, call, failure or self.api.perform(call), self.now))

    def settle(self):
        while self.open:
            self.end()

    def later(self, seconds):
        self.now += seconds
        return self.give(Alarm(at=self.now))

    def mirrors(self):
        return {key[1]: raw["metadata"]["annotations"][MIRROR] for key, raw in self.api.objects.items()}


def town_with(*names, **more):
    """Return a town in which these static pods have their mirrors, as a level shows them."""
    town = Town(**more)
    town.level()
    town.change(PodOp.ADD, *(static(name) for name in names))
    town.runs(*(f"{name}-1" for name in names))
    town.settle()
    town.level()
    return town


def test_a_mirror_that_levels_go_on_showing_after_its_deletion_is_deleted_again_at_last():
    town = town_with("a")
    town.runs()
    [call] = town.change(PodOp.REMOVE, static("a"))
    assert isinstance(call, DeleteObject)
    assert town.end(Failure(kind=FailureKind.CONFLICT, message="the object has been modified")) == []
    assert town.level() == []
    assert town.wake_at <= town.now + GONE_S
    assert town.later(GONE_S) == [call]
    town.settle()
    town.level()
    assert town.mirrors() == {}


def test_a_static_pod_gets_a_mirror_that_its_node_owns():
    town = Town()
    town.level()
    [call] = town.change(PodOp.ADD, static("a"))
    assert isinstance(call, CreateObject)
    assert call.path.brief() == "d/pods"
    body = json.loads(call.body)
    assert body["metadata"] == {
        "name": "a-n",
        "namespace": "d",
        "labels": {"app": "a"},
        "annotations": {HASH: "a-1", MIRROR: "a-1", "kubernetes.io/config.source": "file"},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "node-1", "controller": True}
        ],
    }
    assert (body["spec"]["serviceAccountName"], body["spec"]["nodeName"]) == ("sa", "n")
    assert body["status"] == {}
    assert town.end() == []
    assert town.level() == []
    assert [line.text for line in town.lines] == ["mirror pod created"]


def test_pods_of_the_api_server_have_no_mirror():
    town = Town()
    town.level()
    assert town.change(PodOp.ADD, static("a"), source="api") == []
    town.number += 1
    town.wanted["b"] = ("api", static("b"))
    assert town.snapshot(("api", "file")) == []


@pytest.mark.parametrize(
    "node", [None, NodeObjectSeen(uid=""), NodeObjectSeen(uid="x", is_being_deleted=True)]
)
def test_nothing_is_created_before_the_node_is_known_or_while_it_is_deleted(node):
    town = Town(node="")
    if node is not None:
        town.give(node)
    town.level()
    assert town.change(PodOp.ADD, static("a")) == []
    assert len(town.give(NodeObjectSeen(uid="x"))) == 1


def test_nothing_is_done_before_the_api_server_has_listed_its_pods():
    town = Town()
    assert town.change(PodOp.ADD, static("a")) == []
    assert len(town.level()) == 1


def test_a_changed_pod_gets_another_mirror_when_the_old_one_has_ended():
    town = town_with("a")
    town.change(PodOp.REMOVE, static("a"))
    assert town.change(PodOp.ADD, static("a", "2")) == [], (
        "the supervisor has not said that the old one ended"
    )
    assert town.runs("a-2", leaving=("a-1",)) == []
    [call] = town.runs("a-2")
    assert (type(call), call.uid, call.grace_s, call.path.brief()) == (DeleteObject, "uid-1", 0, "d/pods/a-n")
    [call] = town.end()
    assert isinstance(call, CreateObject)
    town.settle()
    assert town.mirrors() == {"a-n": "a-2"}
    assert town.level() == []


def test_a_mirror_of_which_the_pod_is_gone_stays_until_the_pod_has_ended():
    town = town_with("a")
    assert town.change(PodOp.REMOVE, static("a")) == []
    assert town.runs(leaving=("a-1",)) == []
    assert [type(call) for call in town.runs()] == [DeleteObject]
    assert town.end() == []
    assert town.mirrors() == {}
    assert town.level() == []
    assert town.state.entries == {}


@pytest.mark.parametrize(("seen", "whole"), [((), True), (("file",), False)])
def test_an_orphan_stays_while_something_may_want_it_or_run_it(seen, whole):
    api = FakeApi()
    api.put(name="old-n", annotations={MIRROR: "old-1"})
    town = Town(api, seen=seen, whole=whole)
    assert town.level() == []
    town.snapshot(("file",))
    town.runs(whole=True)
    assert [type(call) for call in town.open.values()] == [DeleteObject]


def test_a_mirror_that_somebody_deletes_is_made_again():
    town = town_with("a", "b")
    del town.api.objects["d", "a-n"]
    assert [type(call) for call in town.level()] == [CreateObject]
    town.settle()
    town.api.ask_to_delete("b-n")
    assert [type(call) for call in town.level()] == [DeleteObject]
    assert [type(call) for call in town.end()] == [CreateObject]
    town.settle()
    assert town.mirrors() == {"a-n": "a-1", "b-n": "b-1"}


def test_mirrors_of_another_node_object_are_made_again():
    town = town_with("a")
    assert [type(call) for call in town.give(NodeObjectSeen(uid="node-2"))] == [DeleteObject]
    town.settle()
    owner = town.api.objects["d", "a-n"]["metadata"]["ownerReferences"][0]
    assert owner["uid"] == "node-2"
    assert town.level() == []


def test_a_level_that_is_older_than_a_creation_makes_no_second_one():
    town = Town()
    town.level()
    town.change(PodOp.ADD, static("a"))
    town.end()
    assert town.give(ApiPodsSeen()) == []
    town.api.objects.clear()
    town.now = SETTLE_S
    assert [type(call) for call in town.give(Alarm(at=town.now))] == [CreateObject], "it was no older level"


def test_a_mirror_that_exists_already_is_fine():
    town = Town()
    town.level()
    town.change(PodOp.ADD, static("a"))
    town.api.put(name="a-n", annotations={MIRROR: "a-1"}, ownerReferences=[owner()])
    assert town.end() == []
    assert town.level() == []
    town.later(60)
    assert (town.open, town.lines) == ({}, [])


def owner():
    return {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "node-1", "controller": True}


def test_another_pod_that_has_the_name_is_said_after_a_few_tries():
    town = Town()
    town.level()
    town.change(PodOp.ADD, static("a"))
    taken = Failure(kind=FailureKind.ALREADY_EXISTS, message='pods "a-n" already exists')
    for _ in range(5):
        town.end(taken)
        town.later(60)
    assert [(line.text, line.facts["why"]) for line in town.lines] == [
        ("mirror pod not brought up to date", taken.message)
    ]


@pytest.mark.parametrize(
    ("failure", "waits"),
    [
        (DOWN, [1, 2, 4, 8, 16, 32, 60, 60]),
        (Failure(kind=FailureKind.DENIED, message="forbidden: not allowed"), [10, 20, 40, 80, 160, 300, 300]),
    ],
)
def test_failures_back_off_for_each_pod_and_are_said_once(failure, waits):
    town = Town()
    town.level()
    town.change(PodOp.ADD, static("a"))
    seen = []
    for _ in waits:
        town.end(failure)
        seen.append(town.state.entries["d/a-n"].due_at - town.now)
        assert len(town.later(seen[-1])) == 1
    assert seen == waits
    assert [line.facts["why"] for line in town.lines] == [failure.message]
    assert len(town.change(PodOp.ADD, static("b"))) == 1, "another pod does not wait for it"


def test_that_mirrors_are_forbidden_is_said_once_for_all_of_them():
    town = Town()
    town.level()
    town.change(PodOp.ADD, static("a"), static("b"))
    town.end(Failure(kind=FailureKind.DENIED, message="pods a-n is forbidden"))
    town.end(Failure(kind=FailureKind.DENIED, message="pods b-n is forbidden"))
    assert [(line.text, line.facts["why"]) for line in town.lines] == [
        ("mirror pods forbidden by the API server", "pods a-n is forbidden")
    ]


@pytest.mark.parametrize("kind", [FailureKind.NOT_FOUND, FailureKind.CONFLICT])
def test_a_mirror_that_is_gone_already_is_deleted(kind):
    town = town_with("a")
    town.change(PodOp.REMOVE, static("a"))
    town.runs()
    assert town.end(Failure(kind=kind, message="not that one")) == []
    assert town.state.entries["d/a-n"].failure is None
    del town.api.objects["d", "a-n"]
    assert town.level() == []


def test_few_calls_are_under_way_at_once():
    town = Town()
    town.level()
    town.change(PodOp.ADD, *(static(f"p{number}") for number in range(20)))
    seen = []
    while town.open:
        seen.append(len(town.open))
        town.end()
    assert max(seen) == CALLS_AT_ONCE
    assert len(town.mirrors()) == 20


def test_others_are_asked_until_they_answer_and_again_when_they_restart():
    town = Town.__new__(Town)
    town.now, town.ops, town.open, town.told, town.lines = 0.0, itertools.count(1), {}, [], []
    town.state = MirrorsState(node_name="n")
    town.give(None)
    asked = [
        (paths.CONFIG, SnapshotWanted(asked_by=paths.MIRRORS)),
        (paths.PODS, WatchPods(asked_by=paths.MIRRORS)),
        (paths.NODESTATUS, WatchNodeObject(asked_by=paths.MIRRORS)),
    ]
    assert town.told == asked
    town.later(4)
    assert town.told == asked
    town.later(1)
    assert town.told == asked * 2
    town.told.clear()
    town.give(PodsSnapshot(number=0, seen=()))
    town.give(NodeObjectSeen(uid="x"))
    town.give(ActivePods())
    town.later(59)
    assert town.told == []
    town.give(Restarted(path=paths.PODS, incarnation=1, cause="x"))
    town.give(Restarted(path=paths.NODESTATUS, incarnation=1, cause="x"))
    assert town.told == asked[1:]
    assert town.state.running is None, "what it said of leaving pods was forgotten with it"


def test_a_gap_in_the_changes_asks_for_everything():
    town = town_with("a")
    town.told.clear()
    town.change(PodOp.ADD, static("b"), gap=True)
    assert (paths.CONFIG, SnapshotWanted(asked_by=paths.MIRRORS)) in town.told
    assert [type(call) for call in town.snapshot()] == [CreateObject]


def test_pods_of_a_source_that_was_not_seen_are_unknown_and_not_gone():
    town = town_with("a")
    town.wanted.clear()
    town.runs()
    assert town.snapshot(()) == []
    assert [type(call) for call in town.snapshot(("file",))] == [DeleteObject]


def test_calls_of_an_earlier_incarnation_are_waited_for():
    town = Town(inherited=(OpId(99),))
    town.level()
    assert town.change(PodOp.ADD, static("a")) == []
    assert len(town.give(outcome(OpId(99), CreateObject(path=None, body=b""), DOWN, 0.0))) == 1


class MirrorMachine(RuleBasedStateMachine):
    """Manifests come, change and go, others delete mirrors, calls fail: in the end each static pod has its mirror."""

    NAMES = st.sampled_from(["a", "b", "c"])

    @initialize()
    def start(self):
        self.town, self.versions, self.live = Town(), itertools.count(1), set()

    def say(self):
        wanted = set(self.town.wanted)
        self.town.runs(*(self.live & wanted), leaving=tuple(sorted(self.live - wanted)))

    @rule(name=NAMES)
    def comes(self, name):
        old = [pod for _, pod in self.town.wanted.values() if pod.metadata.name == f"{name}-n"]
        if old:
            self.town.change(PodOp.REMOVE, *old)
        new = static(name, str(next(self.versions)))
        self.town.change(PodOp.ADD, new)
        self.live.add(new.metadata.uid)
        self.say()

    @rule(name=NAMES)
    def goes(self, name):
        old = [pod for _, pod in self.town.wanted.values() if pod.metadata.name == f"{name}-n"]
        self.town.change(PodOp.REMOVE, *old)
        self.say()

    @rule()
    def ends(self):
        self.live &= set(self.town.wanted)
        self.say()

    @rule()
    def lists(self):
        self.town.level()

    @rule(name=NAMES, graceful=st.booleans())
    def is_deleted(self, name, graceful):
        if ("d", f"{name}-n") in self.town.api.objects:
            if graceful:
                self.town.api.ask_to_delete(f"{name}-n")
            else:
                del self.town.api.objects["d", f"{name}-n"]

    @rule(failure=st.sampled_from([None, None, DOWN, "lost"]))
    def answers(self, failure):
        if not self.town.open:
            return
        call = next(iter(self.town.open.values()))
        if isinstance(call, DeleteObject):
            raw = self.town.api.objects.get(("d", call.path.name))
            if raw is not None and raw["metadata"]["uid"] == call.uid:
                shown = raw["metadata"]["annotations"][MIRROR]
                # One of another Node goes whatever it shows: it would be collected.
                ours = raw["metadata"]["ownerReferences"][0]["uid"] == self.town.state.node.uid
                assert not (ours and shown in self.live - set(self.town.wanted)), (
                    "users see it until it has ended"
                )
        if failure == "lost":
            self.town.api.perform(call)
            failure = Failure(kind=FailureKind.TIMED_OUT, message="no answer")
        self.town.end(failure)

    @rule(seconds=st.sampled_from([0.5, 5.0, SETTLE_S, 61.0]))
    def passes(self, seconds):
        self.town.later(seconds)

    @rule()
    def node_is_another(self):
        self.town.give(NodeObjectSeen(uid=f"node-{next(self.versions)}"))

    @invariant()
    def one_call_of_a_name_is_in_flight(self):
        assert len(self.town.open) == len(self.town.state.calls) == len(set(self.town.state.calls.values()))

    def teardown(self):
        town = self.town
        self.ends()
        for _ in range(30):
            town.level()
            town.settle()
            town.later(61.0)
            town.settle()
        assert town.mirrors() == {pod.metadata.name: pod.metadata.uid for _, pod in town.wanted.values()}
        owners = {raw["metadata"]["ownerReferences"][0]["uid"] for raw in town.api.objects.values()}
        assert owners <= {town.state.node.uid}
        town.level()
        assert town.open == {}


TestMirrorMachine = MirrorMachine.TestCase
TestMirrorMachine.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
