"""Registration and status: one request at a time, and nothing is written that does not change."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from actors.nodestatus.core import is_older
from actors.nodestatus.exchange import ATTEMPTS
from api import paths
from api.errors import Failure, FailureKind
from api.eviction import Pressure
from api.kube.objects.meta import ObjectMeta
from api.kube.objects.node import Node
from api.messages.kernel import Restarted
from api.messages.nodestatus import NodeObjectSeen, PlegHealthSeen, WatchNodeObject
from api.ports.images import ImageListing, ImageRow
from api.ports.kube import CreateObject, GetObject, KubeObject, PatchObject
from tests.unit.actors.nodestatus.hand import HEALTHY, INFO, MACHINE, Hand, failed, registered

DOWN = failed(FailureKind.UNAVAILABLE, "connection refused")
FOREIGN = {"type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated"}


def existing(**metadata):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "old", **metadata}}


def body(call):
    return json.loads(call.body)


# registration


def test_a_new_node_is_created_whole_and_then_left_alone():
    hand = Hand(provider_id="cloud://1")
    assert not hand.requests(), "a kubelet sleeps before the first try"
    call = hand.to_request()
    assert isinstance(call, CreateObject)
    assert hand.now == pytest.approx(100.1)
    made = body(call)
    assert made["metadata"]["labels"]["rack"] == "r1"
    assert made["metadata"]["annotations"] == {
        "volumes.kubernetes.io/controller-managed-attach-detach": "true"
    }
    assert made["spec"] == {"providerID": "cloud://1", "taints": [{"key": "own", "effect": "NoSchedule"}]}
    assert {"addresses", "capacity", "allocatable", "conditions", "nodeInfo"} <= set(made["status"])
    assert hand.run(60.0) == 1
    assert hand.state.registration.is_done
    assert "node is registered" in hand.lines


def test_an_external_cloud_has_the_node_tainted_until_it_is_initialized():
    spec = body(Hand(external_cloud=True, controller_attach=False).to_request())["spec"]
    taint = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}
    assert spec["taints"][-1] == taint


def test_registration_is_tried_again_with_back_off_without_end():
    hand, at = Hand(), []
    for _ in range(10):
        hand.to_request()
        at.append(hand.now)
        hand.answer(DOWN)
    assert [b - a for a, b in itertools.pairwise(at)] == pytest.approx(
        [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 7, 7, 7]
    )
    assert hand.lines.count("request about the node failed") == 1


@pytest.mark.parametrize("kind", [FailureKind.CONFLICT, FailureKind.ALREADY_EXISTS, FailureKind.DENIED])
def test_a_node_that_is_there_already_is_read_corrected_and_reported(kind):
    hand = Hand(
        existing(
            labels={
                "kubernetes.io/hostname": "else",
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "mine": "x",
            },
            annotations={"other": "y"},
            resourceVersion="7",
        )
    )
    hand.server.node["spec"] = {"taints": [{"key": "k", "effect": "NoExecute"}], "providerID": "cloud://old"}
    hand.server.node["status"] = {
        "capacity": {"example.com/gpu": "2", "hugepages-1Gi": "1Gi"},
        "allocatable": {"cpu": "1"},
    }
    hand.to_request(), hand.answer(failed(kind))
    assert isinstance(hand.to_request(), GetObject)
    hand.answer()
    call = hand.to_request()
    assert isinstance(call, PatchObject)
    assert body(call) == {
        "metadata": {
            "labels": {"kubernetes.io/hostname": "n1"},
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "status": {
            "capacity": {"example.com/gpu": "0", "hugepages-1Gi": None},
            "allocatable": {"example.com/gpu": "0"},
        },
    }
    hand.answer()
    assert hand.state.registration.is_done
    assert hand.run(5.0) == 1, "the status follows at once"
    assert hand.server.node["spec"] == {
        "taints": [{"key": "k", "effect": "NoExecute"}],
        "providerID": "cloud://old",
    }
    assert hand.server.node["metadata"]["labels"]["mine"] == "x"


def test_a_node_whose_capacity_is_missing_gets_the_whole_of_it_and_the_annotation_goes():
    annotations = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
    hand = Hand(existing(annotations=annotations), controller_attach=False)
    hand.to_request(), hand.answer()
    hand.answer()
    patch = body(hand.to_request())
    assert patch["metadata"]["annotations"] in (
        {"volumes.kubernetes.io/controller-managed-attach-detach": None},
        None,
    )
    assert set(patch["status"]["capacity"]) == {"cpu", "memory", "pods", "ephemeral-storage"}


def test_a_forbidden_create_of_a_node_that_is_not_there_begins_again():
    hand = Hand()
    hand.to_request(), hand.answer(failed(FailureKind.DENIED))
    hand.answer()
    assert not hand.state.registration.is_done
    assert isinstance(hand.to_request(), CreateObject)


def test_a_node_that_does_not_register_itself_waits_for_its_node():
    hand = Hand(register=False)
    hand.run(40.0)
    assert {type(call) for call in hand.asked} == {GetObject}
    hand.server.node = existing()
    hand.show()
    hand.run(1.0)
    assert hand.server.condition("Ready")["status"] == "True"
    assert not [call for call in hand.asked if isinstance(call, CreateObject)]


def test_nothing_is_asked_before_the_machine_is_known():
    hand = Hand(health=None)
    assert hand.run(30.0) == 0
    assert hand.asked == []


# status


def test_the_first_ready_is_written_within_a_second_of_the_runtimes():
    not_yet = replace(HEALTHY, runtime=replace(INFO, ready=False), ready_until=float("-inf"))
    hand = Hand(health=not_yet)
    hand.run(15.0)
    assert hand.server.condition("Ready")["status"] == "False"
    hand.run(2.0)
    at = hand.now
    hand.give(HEALTHY)
    hand.run(1.0)
    assert hand.server.condition("Ready")["status"] == "True"
    assert hand.now == at + 1.0
    assert "NodeReady" in hand.events()


def test_a_ready_that_cannot_be_written_is_tried_no_faster_than_any_other_status():
    hand = Hand(pleg=None)
    hand.run(1.0)
    hand.give(PlegHealthSeen(is_healthy=True, listed_at=hand.now))
    hand.to_request()
    for _ in range(ATTEMPTS):
        hand.answer(DOWN)
    at = hand.now
    hand.to_request()
    assert hand.now - at > 9


def test_an_unchanged_status_is_reported_again_after_five_minutes_give_or_take_a_half():
    hand = registered()
    gaps, last = [], hand.now
    for _ in range(6):
        while not hand.run(1.0):
            pass
        gaps.append(hand.now - last)
        last = hand.now
    assert 140 <= gaps[0] <= 470
    assert all(290 <= gap <= 320 for gap in gaps[1:]), "what merely expired has no further delay"


def test_a_change_is_written_at_the_next_look_and_brings_its_events_once():
    hand = registered()
    hand.press(Pressure.DISK)
    assert hand.run(0.5) == 0
    assert hand.run(11.0) == 1
    assert hand.server.condition("DiskPressure")["reason"] == "KubeletHasDiskPressure"
    assert hand.events().count("NodeHasDiskPressure") == 1
    assert hand.run(30.0) == 0


def test_many_changes_are_not_more_than_a_write_in_ten_seconds():
    hand, writes = registered(), 0
    for number in range(120):
        hand.press(*((Pressure.DISK,) if number % 2 else ()))
        writes += hand.run(1.0)
    assert writes <= 12


def test_a_failed_write_is_followed_by_reads_from_the_server_five_attempts_in_all():
    hand = registered()
    hand.press(Pressure.PID)
    assert isinstance(hand.to_request(), PatchObject)
    hand.asked = []
    for _ in range(ATTEMPTS):
        assert len(hand.requests()) == 1
        hand.answer(DOWN)
    assert [type(call) for call in hand.asked] == [GetObject] * (ATTEMPTS - 1)
    assert not hand.requests()
    at = hand.now
    hand.run(11.0)
    assert hand.server.condition("PIDPressure")["status"] == "True"
    assert at + 9 < hand.now
    assert "requests about the node work again" in hand.lines


def test_a_write_that_may_have_been_done_is_repeated_from_what_the_server_has():
    hand = registered()
    hand.press(Pressure.MEMORY)
    hand.server.answer(hand.to_request())
    hand.answer(failed(FailureKind.TIMED_OUT))
    assert isinstance(hand.to_request(), GetObject)
    hand.answer()
    assert not hand.requests(), "it had been done"
    assert hand.server.condition("MemoryPressure")["status"] == "True"


def test_a_node_that_is_deleted_is_registered_again_once_the_server_confirms_it():
    hand = registered()
    hand.give(WatchNodeObject(asked_by=paths.LEASE))
    hand.stream(None)
    assert isinstance(hand.to_request(), GetObject)
    hand.answer()
    assert not hand.requests(), "it was still there"
    assert hand.state.registration.is_done
    hand.server.node = None
    hand.stream(None)
    hand.run(2.0)
    assert hand.server.node["metadata"]["uid"] == "uid-2"
    assert "node is registered again" in hand.lines
    assert [one.uid for one in hand.published()] == ["uid-1", "", "uid-2"]


def test_a_node_that_is_deleted_while_it_is_written_is_looked_for_as_well():
    hand = registered()
    hand.press(Pressure.MEMORY)
    hand.to_request()
    answer = hand.server.answer(hand.to_request())
    hand.server.node = None
    hand.stream(None)
    ((op, _),) = hand.requests().items()
    hand.end(op, answer)
    hand.run(12.0)
    assert hand.server.node["metadata"]["uid"] == "uid-2"


def test_a_node_that_another_made_anew_is_corrected_like_any_that_is_there():
    hand = registered()
    hand.server.node = existing(labels={"kubernetes.io/hostname": "else"}, resourceVersion="1000")
    hand.server.version = 1000
    hand.show()
    hand.run(12.0)
    assert hand.server.node["metadata"]["labels"]["kubernetes.io/hostname"] == "n1"
    assert hand.server.condition("Ready")["status"] == "True"


def test_what_the_stream_brings_late_is_not_taken_for_news():
    hand = registered()
    old = json.dumps(hand.server.node).encode()
    hand.press(Pressure.DISK)
    hand.run(12.0)
    hand.stream(old)
    assert hand.run(12.0) == 0


@pytest.mark.parametrize(
    ("one", "other", "older"),
    [
        ("9", "10", True),
        ("10", "9", False),
        ("10", "10", False),
        ("", "9", False),
        ("a", "9", False),
        ("٣", "9", False),
    ],
)
def test_versions_are_compared_as_numbers_of_any_length(one, other, older):
    first, second = (Node(metadata=ObjectMeta(resource_version=text)) for text in (one, other))
    assert is_older(first, second) is older


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[" * 100_000, b"\xff", b"3", b'{"kind": "Pod"}', b'{"kind": "Node", "metadata": {"name": "else"}}',
     b'{"kind": "Node", "metadata": {"name": "n1"}, "status": {"conditions": 3}}'],
)  # fmt: skip
def test_whatever_a_server_sends_is_a_failure_and_no_more(text):
    hand = registered()
    hand.stream(text)
    assert hand.state.failure is not None
    assert hand.state.node.metadata.uid == "uid-1"
    hand.press(Pressure.DISK)
    hand.to_request()
    for _ in range(ATTEMPTS):
        ((op, _),) = hand.requests().items()
        hand.end(op, KubeObject(body=text))
    assert not hand.requests()


def test_a_pleg_that_is_late_makes_the_node_not_ready_at_the_next_look():
    hand = registered()
    hand.give(PlegHealthSeen(is_healthy=False, listed_at=hand.now - 200))
    hand.run(12.0)
    assert hand.server.condition("Ready")["status"] == "False"
    assert "NodeNotReady" in hand.events()


# images


def test_images_are_listed_at_most_every_thirty_seconds_and_are_in_the_first_status():
    hand = Hand()
    hand.images = ImageListing(images=(ImageRow(id="a", names=("x:1",), size_bytes=3),))
    assert hand.to_request()
    assert hand.server.node is None
    hand.run(1.0)
    assert hand.server.node["status"]["images"] == [{"names": ["x:1"], "sizeBytes": 3}]
    asked = [hand.state.images.asked_at]
    for _ in range(100):
        hand.run(1.0)
        if hand.state.images.asked_at != asked[-1]:
            asked.append(hand.state.images.asked_at)
    assert len(asked) >= 3
    assert all(b - a >= 30 for a, b in itertools.pairwise(asked))


def test_a_listing_that_hangs_delays_no_status_for_long_and_one_that_fails_is_said():
    hand = Hand()
    for _ in range(10):
        if hand.requests():
            break
        hand.wake()
    assert hand.requests()
    assert hand.now < 101
    hand.images = failed(FailureKind.UNAVAILABLE, "no runtime")
    hand.run(11.0)
    assert "part of the node's status is unknown" in hand.lines
    assert "images" not in hand.server.node["status"]


# subscribers, others


def test_subscribers_know_the_node_and_each_of_its_changes_once():
    hand = registered()
    hand.give(WatchNodeObject(asked_by=paths.LEASE))
    assert isinstance(hand.published()[-1], NodeObjectSeen)
    assert [one.key for one in hand.published()[-1].taints] == ["own", "node.kubernetes.io/not-ready"]
    hand.server.node["spec"]["taints"] = []
    hand.show()
    hand.show()
    assert [len(one.taints) for one in hand.published()] == [2, 0]


def test_who_may_be_scheduled_is_an_event_when_it_changes():
    hand = registered()
    for value in (True, True, False):
        hand.server.node["spec"]["unschedulable"] = value
        hand.show()
    assert [one for one in hand.events() if "chedulable" in one] == ["NodeNotSchedulable", "NodeSchedulable"]
    assert hand.events()[0] == "Starting"


def test_others_are_asked_again_after_their_restart():
    hand = registered()
    for path, question in (
        (paths.NODE, "WatchNodeHealth"),
        (paths.PLEG, "WatchPlegHealth"),
        (paths.EVICTION, "WatchPressure"),
    ):
        hand.sent = []
        hand.give(Restarted(path=path, incarnation=1, cause="bug"))
        assert hand.questions() == [(path, question)]


# whatever the order

KINDS = (
    FailureKind.UNAVAILABLE,
    FailureKind.TIMED_OUT,
    FailureKind.DENIED,
    FailureKind.NOT_FOUND,
    FailureKind.CONFLICT,
)
STEPS = st.one_of(
    st.tuples(st.just("answer"), st.none()),
    st.tuples(st.just("fail"), st.sampled_from(KINDS)),
    st.tuples(st.just("lose"), st.none()),
    st.tuples(st.just("wait"), st.sampled_from((0.1, 1.0, 12.0, 400.0))),
    st.tuples(st.just("press"), st.sets(st.sampled_from(list(Pressure)))),
    st.tuples(st.just("runtime"), st.booleans()),
    st.tuples(st.just("delete"), st.none()),
    st.tuples(st.just("absent"), st.none()),
    st.tuples(st.just("show"), st.none()),
    st.tuples(st.just("boot"), st.integers(1, 3)),
)


@given(st.lists(STEPS, max_size=40), st.booleans())
def test_whatever_happens_one_request_is_in_flight_and_what_is_others_stays(steps, there):
    hand = Hand({**existing(), "status": {"conditions": [FOREIGN]}} if there else None)
    for step, value in steps:
        match step:
            case "answer" if hand.requests():
                hand.answer()
            case "fail" if hand.requests():
                hand.answer(failed(value))
            case "lose" if hand.requests():
                hand.server.answer(next(iter(hand.requests().values())))
                hand.answer(failed(FailureKind.TIMED_OUT))
            case "wait":
                hand.list_images()
                until = hand.now + value
                while not hand.requests() and hand.wake_at <= until:
                    hand.wake()
                hand.now = max(hand.now, until)
            case "press":
                hand.press(*sorted(value))
            case "runtime":
                hand.health(runtime=replace(INFO, ready=value), ready_until=None if value else hand.now)
            case "delete" if not there:
                hand.server.node = None
            case "absent":
                hand.stream(None)
            case "show":
                hand.show()
            case "boot":
                identity = replace(MACHINE.identity, boot_id=f"b{value}")
                hand.health(machine=replace(MACHINE, identity=identity))
            case _:
                continue
        assert len(hand.requests()) <= 1
        if there:
            assert FOREIGN in hand.server.node["status"]["conditions"]
    hand.health(runtime=INFO, ready_until=None)
    hand.show()
    hand.run(60.0)
    assert hand.server.condition("Ready")["status"] == "True"
    known = json.dumps(hand.server.node["status"]["capacity"])
    writes = [call for call in hand.server.writes if isinstance(call, PatchObject)]
    hand.run(400.0)
    later = [call for call in hand.server.writes if isinstance(call, PatchObject)][len(writes) :]
    assert all(
        set(body(call)) == {"status"} and set(body(call)["status"]) == {"conditions"} for call in later
    )
    assert len(later) <= 3
    assert json.dumps(hand.server.node["status"]["capacity"]) == known


def test_an_identity_that_is_not_valid_here_is_said_once_and_asks_the_server_nothing_else():
    hand = Hand()
    invalid = Failure(kind=FailureKind.DENIED, message="the certificate was valid until yesterday")
    for _ in range(5):
        assert isinstance(hand.to_request(), CreateObject)
        hand.answer(invalid)
    assert hand.lines.count("request about the node failed") == 1
