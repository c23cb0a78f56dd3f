"""Whose back-off it is: a corrected container starts at once, one that is as it was goes on waiting."""

import pytest
from msgspec.structs import replace

from actors.rules.container.backoff import Backoff, backoff_key
from api.errors import FailureKind
from api.kube.objects.container import (
    Container,
    ContainerResizePolicy,
    EnvVar,
    ExecAction,
    Probe,
    ResourceRequirements,
)
from api.messages.pod import ProbeChanged, ProbeResult
from api.messages.probes import ProbeKind, ProbePod
from api.ports.runtime import CreateContainer, RuntimeContainerState, StopContainer
from tests.unit.actors.pods import IMAGE, UID, wanted
from tests.unit.actors.tiny import FACTS, Hand, crashed, running_pod

CORRECTED = "example/app:2"


def of(image=IMAGE, **more):
    return Container(name="a", image=image, **more)


def looping(container):
    """Return the hand of a pod whose container waits for 20 s, and began three times."""
    hand = crashed(running_pod(wanted(container), node=FACTS))
    crashed(hand), hand.wait(10), hand.ring(), hand.settle()
    crashed(hand)
    assert (waiting(hand), hand.state.memo.backoff("a").delay_s) == ("CrashLoopBackOff", 20)
    return hand


def waiting(hand):
    (status,) = hand.status.container_statuses
    return status.state.waiting.reason if status.state.waiting else ""


def images(hand):
    return [c.spec.image for c in hand.started if isinstance(c, CreateContainer)]


def limited(cpu, **more):
    amounts = {"cpu": cpu, "memory": "64Mi"}
    return of(resources=ResourceRequirements(requests=amounts, limits=amounts), **more)


def test_a_corrected_image_ends_the_wait_and_begins_another_history():
    hand = looping(of())
    hand.update(wanted(of(CORRECTED)), 2), hand.settle()
    assert images(hand) == [IMAGE, IMAGE, IMAGE, CORRECTED]
    assert waiting(hand) == ""
    assert (hand.state.memo.backoff("a").delay_s, hand.status.container_statuses[0].restart_count) == (10, 3)
    crashed(hand)
    assert waiting(hand) == "CrashLoopBackOff", "the corrected one waits as any other"


def test_other_amounts_end_the_wait_too():
    hand = looping(limited("1"))
    hand.update(wanted(limited("2")), 2), hand.settle()
    assert len(images(hand)) == 4


def test_what_no_key_is_made_of_changes_nothing():
    hand = looping(of())
    hand.update(wanted(of(env=(EnvVar(name="X", value="1"),))), 2), hand.settle()
    assert (len(images(hand)), waiting(hand)) == (3, "CrashLoopBackOff")


def test_an_agent_that_dies_before_the_corrected_one_was_made_starts_it_at_once_too():
    hand = looping(of())
    again = Hand(hand.world, now=hand.now + 1)
    again.update(wanted(of(CORRECTED))), again.settle()
    assert images(again) == [CORRECTED]
    same = Hand(looping(of()).world, now=hand.now + 1)
    same.update(wanted(of())), same.settle()
    assert images(same) == []


def test_an_entry_of_an_earlier_version_holds_whatever_the_image_is():
    hand = looping(of())
    entry = replace(hand.state.memo.backoff("a"), key="")
    hand.state = replace(hand.state, memo=hand.state.memo.with_backoff(entry))
    hand.update(wanted(of(CORRECTED)), 2), hand.settle()
    assert waiting(hand) == "CrashLoopBackOff"


def test_a_restart_for_a_resize_is_no_crash_loop():
    how = (ContainerResizePolicy(resource_name="cpu", restart_policy="RestartContainer"),)
    hand = Hand(node=FACTS)
    hand.update(wanted(limited("1", resize_policy=how))), hand.settle()
    for generation, cpu in enumerate(("2", "3", "4"), 2):
        hand.wait(1), hand.update(wanted(limited(cpu, resize_policy=how)), generation), hand.settle()
        (newest, *_) = hand.state.observed.containers
        assert (newest.state, newest.attempt) == (RuntimeContainerState.RUNNING, generation - 1)
    assert sum(isinstance(call, StopContainer) for call in hand.started) == 3


def test_a_corrected_image_is_not_held_up_by_what_a_probe_killed_and_is_probed_anew():
    probe = Probe(exec=ExecAction(command=("live",)))
    hand = running_pod(wanted(of(liveness_probe=probe)))
    for _ in range(2):
        (newest, *_) = hand.world.view.containers
        ill = ProbeChanged(
            uid=UID,
            container="a",
            container_id=newest.id,
            kind=ProbeKind.LIVENESS,
            result=ProbeResult.FAILURE,
        )
        hand.wait(1), hand.give(ill), hand.settle()
    assert waiting(hand) == "CrashLoopBackOff"
    hand.update(wanted(of(CORRECTED, liveness_probe=probe)), 2), hand.settle()
    (newest, *_) = hand.world.view.containers
    assert (newest.image, newest.state) == (CORRECTED, RuntimeContainerState.RUNNING)
    ((target,),) = (hand.messages(ProbePod)[-1].targets,)
    assert target.container_id == newest.id
    assert not any(one.probes for one in hand.state.instances.values())


@pytest.mark.parametrize("change", [{"image": CORRECTED}, {"env": (EnvVar(name="X", value="1"),)}])
def test_what_could_not_be_made_is_tried_at_once_when_it_is_defined_otherwise(change):
    hand = Hand()
    hand.update(wanted("a")), hand.settle_until(CreateContainer)
    hand.fail(CreateContainer, FailureKind.REJECTED), hand.settle()
    assert (len(images(hand)), waiting(hand)) == (1, "CreateContainerError")
    hand.update(wanted("a"), 2), hand.settle()
    assert len(images(hand)) == 1, "the same definition waits"
    hand.update(wanted(replace(of(), **change)), 3), hand.settle()
    assert len(images(hand)) == 2
    assert hand.world.view.containers[0].state is RuntimeContainerState.RUNNING


def test_the_key_is_made_of_image_and_amounts_in_whatever_order_they_are_written():
    one = of(resources=ResourceRequirements(requests={"cpu": "1", "memory": "1Gi"}))
    two = of(resources=ResourceRequirements(requests={"memory": "1Gi", "cpu": "1"}))
    assert backoff_key(one) == backoff_key(two)
    assert len({backoff_key(c) for c in (one, of(), of(CORRECTED), limited("1"), limited("2"))}) == 5
    entry = Backoff(container="a", delay_s=10, updated_at=1, for_attempt=1, key=backoff_key(one))
    assert entry.key
