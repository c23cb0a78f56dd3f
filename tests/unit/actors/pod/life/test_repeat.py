"""Calls that change nothing are asked for again ever more rarely, and hold up no more than they have to."""

from itertools import pairwise

import pytest
from msgspec.structs import replace

from actors.pod.explain import explain
from actors.pod.life.repeat import REPEAT_LIMIT, SPACING, spaced, wait_after, with_answer
from actors.pod.life.stage import Stage
from actors.pod.state import Gone, PodSettings, PodState, PortCall
from api.ports.podfiles import RemovePodFolders
from api.ports.runtime import (
    CreateContainer,
    InspectPod,
    RemoveContainer,
    RemoveSandbox,
    RunSandbox,
    StartContainer,
    StopContainer,
    StopSandbox,
)
from api.ports.volumes import RemoveVolumes
from tests.unit.actors.pods import UID, box, instance, shown, wanted
from tests.unit.actors.tiny import Hand, TinyWorld, running_pod

SPAN_S = 120.0


class Idle(TinyWorld):
    """A runtime that answers calls of some kinds well and does nothing, as one that says that they are done already."""

    def __init__(self, *kinds, view=None):
        super().__init__(view)
        self.kinds = kinds

    def apply(self, call, wall):
        """Carry out what is not ignored."""
        return super().apply(InspectPod(uid=UID) if isinstance(call, self.kinds) else call, wall)


def times_of(hand, kind, container_id="", span_s=SPAN_S):
    """Return when calls of a kind (on this container) were made while calls are answered and alarms ring for so long."""
    until, made, known = hand.now + span_s, [], len(hand.started)
    for _ in range(2000):
        fresh = [call for call in hand.started[known:] if isinstance(call, kind)]
        made += [hand.now for call in fresh if getattr(call, "container_id", "").startswith(container_id)]
        known = len(hand.started)
        if hand.open:
            hand.end(min(hand.open))
        elif hand.wake_at is not None and hand.wake_at < until:
            hand.ring()
        else:
            return made
    raise AssertionError(f"it is never quiet: {hand.started[-4:]}")


def is_spaced(made):
    """Tell whether calls came more than twice, a few in the first second, then ever more rarely."""
    gaps = [round(later - sooner, 1) for sooner, later in pairwise(made)]
    few = sum(at - made[0] < 1.0 for at in made) <= 4
    return few and 4 <= len(made) <= 12 and gaps == sorted(gaps) and 10 <= gaps[-1] <= SPACING.limit_s + 0.1


def removed_from(world):
    hand = Hand(world)
    hand.update(wanted()), hand.settle_until(StartContainer)
    hand.kill()
    return hand


@pytest.mark.parametrize("kind", [StopContainer, StopSandbox, RemoveSandbox])
def test_what_ends_a_pod_and_changes_nothing_is_asked_for_ever_more_rarely(kind):
    assert is_spaced(times_of(removed_from(Idle(kind)), kind))


def test_containers_without_a_sandbox_that_do_not_go_are_removed_ever_more_rarely():
    hand = Hand(Idle(RemoveContainer, view=shown(instance("b", "exited", sandbox="s9"))))
    hand.kill()
    assert is_spaced(times_of(hand, RemoveContainer))
    said = explain(hand.state, hand.now, hand.wall).waits_for
    assert said.startswith("retrying RemoveContainer tiny://b0 (")


@pytest.mark.parametrize("kind", [RunSandbox, CreateContainer, StartContainer])
def test_what_brings_a_pod_up_and_changes_nothing_is_asked_for_ever_more_rarely(kind):
    hand = Hand(Idle(kind))
    hand.update(wanted())
    assert is_spaced(times_of(hand, kind))


def test_a_removal_in_a_running_pod_that_changes_nothing_holds_up_nothing():
    old = (instance(state="exited", attempt=n, code=1) for n in (2, 1, 0))
    hand = Hand(Idle(RemoveContainer, view=shown(box(), *old)))
    hand.update(wanted("a", "b"))
    assert is_spaced(times_of(hand, RemoveContainer, "tiny://a0"))
    assert {c.spec.name for c in hand.started if isinstance(c, CreateContainer)} == {"a", "b"}
    assert hand.status.phase == "Running"


def test_a_container_that_does_not_come_about_keeps_no_other_waiting():
    class Half(TinyWorld):
        def apply(self, call, wall):
            mine = isinstance(call, CreateContainer) and call.spec.name == "a"
            return super().apply(InspectPod(uid=UID) if mine else call, wall)

    hand = Hand(Half())
    hand.update(wanted("a", "b"))
    made = times_of(hand, StartContainer)
    assert len(made) == 1
    tries = [c for c in hand.started if isinstance(c, CreateContainer) and c.spec.name == "a"]
    assert 4 <= len(tries) <= 12


def test_a_pod_goes_on_at_once_when_what_had_no_effect_has_happened_after_all():
    hand = removed_from(Idle(RemoveSandbox))
    assert is_spaced(times_of(hand, RemoveSandbox))
    hand.world.kinds = ()
    hand.world.view = shown()
    hand.observe(), hand.settle()
    assert isinstance(hand.state.life, Gone)


def test_the_grace_that_is_left_makes_no_other_call_of_a_stop():
    state = PodState(uid=UID, settings=PodSettings(log_root="/logs"))
    for second in range(3):
        stop = StopContainer(uid=UID, container_id="c", grace_s=30.0 - second)
        state = with_answer(state, stop, float(second))
    (known,) = state.calls.repeats
    assert known.times == 3


def test_waits_begin_with_the_second_answer_and_double_up_to_half_a_minute():
    waits = [wait_after(times) for times in range(1, 12)]
    assert waits[:5] == [0.0, 0.25, 0.5, 1.0, 2.0]
    assert waits[-1] == SPACING.limit_s
    assert waits == sorted(waits)


@pytest.mark.parametrize("call", [RemoveVolumes(uid=UID), RemovePodFolders(uid=UID, log_directory="/logs/a")])
def test_calls_on_the_host_are_spaced_too(call):
    state = PodState(uid=UID, settings=PodSettings(log_root="/logs"))
    what = PortCall(port="host", call=call, deadline_s=1.0)
    stage = Stage(calls=(what,), why="removing")
    state = with_answer(state, call, 0.0)
    assert spaced(state, stage, 0.0) is stage, "once is no repetition"
    state = with_answer(state, call, 1.0)
    assert (spaced(state, stage, 1.1).calls, spaced(state, stage, 1.1).wake_at) == ((), 1.25)
    assert spaced(state, stage, 1.25) is stage
    other = replace(what, call=InspectPod(uid=UID))
    assert spaced(state, Stage(calls=(what, other)), 1.1).calls == (other,)


def test_what_is_remembered_of_calls_is_forgotten_and_bounded():
    state = PodState(uid=UID, settings=PodSettings(log_root="/logs"))
    for number in range(REPEAT_LIMIT + 5):
        state = with_answer(state, RemoveContainer(uid=UID, container_id=str(number)), 0.0)
    assert len(state.calls.repeats) == REPEAT_LIMIT
    state = with_answer(state, RemoveContainer(uid=UID, container_id="last"), 1000.0)
    assert [one.call.container_id for one in state.calls.repeats] == ["last"]


def test_a_pod_that_gets_on_waits_for_nothing():
    hand = running_pod(wanted("a", "b", "c"))
    assert all(one.times == 1 for one in hand.state.calls.repeats)
