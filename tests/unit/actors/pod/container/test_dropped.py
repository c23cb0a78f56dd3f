"""Containers that a spec under the same UID lost, or that have another name in it."""

import pytest
from msgspec.structs import replace

from actors.pod.container.dropped import dropped
from actors.pod.explain import explain
from actors.pod.state import Finished, Syncing, change_view
from actors.rules.container.backoff import Backoff
from api.errors import FailureKind
from api.kube.objects.container import Container, ExecAction, Lifecycle, LifecycleHandler
from api.ports.runtime import (
    ANNOTATION_PRE_STOP,
    CreateContainer,
    ExecInContainer,
    RemoveContainer,
    StartContainer,
    StopContainer,
)
from tests.unit.actors.pods import IMAGE, box, init, instance, shown, wanted
from tests.unit.actors.tiny import Hand, TinyWorld, calls, made, running_pod, stopped

WAKE, DRAIN = ("wake",), ("drain",)


def hooked(name, *, start=None, stop=None):
    start, stop = (LifecycleHandler(exec=ExecAction(command=c)) if c else None for c in (start, stop))
    return Container(name=name, image=IMAGE, lifecycle=Lifecycle(post_start=start, pre_stop=stop))


def names(hand):
    return sorted(one.name for one in hand.world.view.containers)


def test_what_the_spec_lost_is_stopped_with_the_pods_grace_and_removed_and_the_rest_runs_on():
    hand = running_pod(wanted("a", "b", grace=7))
    before = hand.world.view.containers
    hand.update(wanted("a", grace=7), 2), hand.settle()
    assert (stopped(hand), names(hand)) == ([("b", 7)], ["a"])
    assert hand.world.view.containers == tuple(one for one in before if one.name == "a")
    assert [one.name for one in hand.status.container_statuses] == ["a"]
    assert (hand.status.phase, type(hand.state.life)) == ("Running", Syncing)
    assert (
        explain(hand.state, hand.now, hand.wall).waits_for
        == explain(running_pod(wanted("a", grace=7)).state, hand.now, hand.wall).waits_for
    )


def test_a_container_under_another_name_takes_the_place_of_the_old_one():
    hand = running_pod(wanted("a", "old"))
    hand.update(wanted("a", "new"), 2), hand.settle()
    assert stopped(hand) == [("old", 30)]
    assert (made(hand), names(hand)) == (["a0", "old0", "new0"], ["a", "new"])
    order = [type(c) for c in hand.started if isinstance(c, StopContainer | CreateContainer)]
    assert order == [CreateContainer, CreateContainer, StopContainer, CreateContainer]


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_its_end_is_no_end_of_the_pod_and_is_told(policy):
    hand = running_pod(wanted("a", "b", policy=policy))
    hand.update(wanted("a", policy=policy), 2), hand.settle()
    assert isinstance(hand.state.life, Syncing)
    assert ("Exited", "b") in [(e.reason, e.container) for e in hand.state.events]


def test_sidecars_plain_init_containers_and_every_kind_are_meant():
    pod = wanted("a", init_containers=(init("s", "Always"), init("i")))
    hand = running_pod(pod)
    hand.world.exit("i", 0, hand.wall), hand.wait(0.1), hand.observe(), hand.settle()
    assert names(hand) == ["a", "i", "s"]
    hand.update(wanted("a"), 2), hand.settle()
    assert (stopped(hand), names(hand)) == ([("s", 30)], ["a"])


def test_its_pre_stop_hook_is_the_one_that_it_was_made_with():
    hand = running_pod(wanted("a", hooked("b", stop=DRAIN)))
    assert ANNOTATION_PRE_STOP in dict(hand.world.view.containers[0].annotations)
    hand.update(wanted("a"), 2), hand.settle(but=ExecInContainer)
    assert ([c.command for c in calls(hand, ExecInContainer)], stopped(hand)) == ([DRAIN], [])
    hand.wait(10), hand.end(hand.op_of(ExecInContainer)), hand.settle()
    assert (stopped(hand), names(hand)) == ([("b", 20)], ["a"])


def test_while_its_hook_runs_others_are_started_again():
    hand = running_pod(wanted("a", hooked("b", stop=DRAIN)))
    hand.update(wanted("a"), 2), hand.settle(but=ExecInContainer)
    hand.wait(1), hand.world.exit("a", 1, hand.wall), hand.wait(0.1), hand.observe()
    hand.settle(but=ExecInContainer)
    assert made(hand) == ["a0", "b0", "a1"]


def test_a_post_start_hook_ends_with_its_containers_place_in_the_spec():
    hand = Hand()
    hand.update(wanted(hooked("b", start=WAKE), "a")), hand.settle(but=ExecInContainer)
    running = hand.op_of(ExecInContainer)
    hand.update(wanted("a"), 2), hand.settle(but=ExecInContainer)
    assert hand.cancelled == [running]
    assert (stopped(hand), names(hand), made(hand)) == ([("b", 30)], ["a"], ["b0", "a0"])
    assert not hand.state.memo.hooks
    assert not [e for e in hand.state.events if e.reason == "FailedPostStartHook"]


def test_one_that_is_being_made_is_removed_before_it_runs():
    hand = Hand()
    hand.update(wanted("a", "b")), hand.settle_until(CreateContainer)
    hand.end(hand.op_of(CreateContainer)), hand.settle_until(CreateContainer)
    assert made(hand) == ["a0", "b0"]
    hand.update(wanted("a"), 2), hand.settle()
    assert (stopped(hand), names(hand)) == ([], ["a"])
    assert len(calls(hand, StartContainer)) == 1


def test_a_kill_stops_it_at_once_and_a_sidecar_waits_for_the_specs_own():
    hand = running_pod(wanted("a", "b", init_containers=(init("s", "Always"),)))
    hand.update(wanted("a", init_containers=(init("s", "Always"),)), 2)
    hand.kill(), hand.settle()
    assert stopped(hand) == [("b", 30), ("a", 30), ("s", 30)]
    assert not hand.world.view.containers
    assert not hand.world.pages


def test_a_pod_whose_own_containers_ended_is_over_though_it_runs():
    hand = running_pod(wanted("a", hooked("b", stop=DRAIN), policy="Never"))
    hand.update(wanted("a", policy="Never"), 2), hand.settle(but=ExecInContainer)
    hand.wait(1), hand.world.exit("a", 0, hand.wall), hand.wait(0.1), hand.observe(), hand.settle()
    assert isinstance(hand.state.life, Finished)
    assert [name for name, _ in stopped(hand)] == ["b"]
    assert hand.status.phase == "Succeeded"


def test_what_could_not_be_removed_is_tried_again_and_holds_up_nothing():
    hand = running_pod(wanted("a", "b"))
    hand.update(wanted("a"), 2), hand.settle_until(RemoveContainer)
    hand.fail(RemoveContainer, FailureKind.UNAVAILABLE), hand.settle()
    assert names(hand) == ["a", "b"]
    hand.wait(1.1), hand.observe(), hand.settle()
    assert names(hand) == ["a"]


def test_one_of_the_same_name_that_comes_later_begins_anew():
    hand = running_pod(wanted("a", "b"))
    entry = Backoff(container="b", delay_s=80.0, updated_at=hand.wall, for_attempt=4)
    hand.state = replace(hand.state, memo=hand.state.memo.with_backoff(entry))
    hand.observe()
    assert hand.state.memo.backoff("b") == entry
    hand.update(wanted("a"), 2), hand.settle()
    assert hand.state.memo.backoff("b") is None
    hand.update(wanted("a", "b"), 3), hand.settle()
    assert (made(hand), names(hand)) == (["a0", "b0", "b0"], ["a", "b"])
    assert {one.name: one.restart_count for one in hand.status.container_statuses} == {"a": 0, "b": 0}


def test_one_that_comes_back_before_it_was_stopped_runs_on():
    hand = running_pod(wanted("a", hooked("b", stop=DRAIN)))
    before = hand.world.view.containers
    hand.state = change_view(hand.state, must_inspect=True)
    hand.update(wanted("a"), 2), hand.update(wanted("a", hooked("b", stop=DRAIN)), 3), hand.settle()
    assert (stopped(hand), hand.world.view.containers) == ([], before)


def test_a_pod_that_no_source_has_told_of_yet_loses_nothing():
    hand = Hand(TinyWorld(shown(box(), instance("a"), instance("b"))))
    hand.settle()
    assert names(hand) == ["a", "b"]
    assert dropped(hand.state, wanted("a")) == (instance("b"),)
    hand.update(wanted("a")), hand.settle()
    assert ([c.container_id for c in calls(hand, StopContainer)], names(hand)) == (["tiny://b0"], ["a"])
