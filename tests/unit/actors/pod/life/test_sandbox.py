"""Sandboxes that died by themselves: each is stopped, so that it gives back what it held."""

from msgspec.structs import replace

from actors.pod.state import Gone
from api.ports.runtime import RunSandbox, RuntimeContainerState, SandboxState, StopSandbox
from tests.unit.actors.pods import box, instance, shown, wanted
from tests.unit.actors.tiny import Hand, TinyWorld, calls, running_pod


def test_a_dead_sandbox_is_stopped_until_that_went_well_and_then_no_more():
    hand = Hand(TinyWorld(shown(box(state="not-ready"), instance("a", "exited", code=137))))
    hand.update(wanted()), hand.settle_until(StopSandbox)
    hand.fail(StopSandbox), hand.settle()
    assert not calls(hand, RunSandbox)
    assert hand.state.call_backoff("").reason == "KillPodSandboxError"
    hand.ring(), hand.settle()
    assert len(calls(hand, StopSandbox)) == 2
    assert [call.spec.attempt for call in calls(hand, RunSandbox)] == [1]
    hand.kill(), hand.settle()
    assert [call.sandbox_id for call in calls(hand, StopSandbox)] == ["s0", "s0", "box1"]


def test_a_dead_sandbox_that_was_seen_dead_is_stopped_before_its_pod_counts_as_stopped():
    hand = running_pod(wanted())
    boxes = tuple(replace(b, state=SandboxState.NOT_READY) for b in hand.world.view.sandboxes)
    gone = tuple(
        replace(c, state=RuntimeContainerState.EXITED, exit_code=137) for c in hand.world.view.containers
    )
    hand.world.view = replace(hand.world.view, sandboxes=boxes, containers=gone)
    hand.kill(), hand.observe(), hand.settle()
    assert len(calls(hand, StopSandbox)) == 1
    assert isinstance(hand.state.life, Gone)
