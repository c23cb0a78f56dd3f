"""The life of a pod with init containers and sidecars, call by call, and what people are told of it."""

import pytest
from msgspec.structs import replace

from actors.pod.explain import explain, pod_row
from actors.pod.life.event import field_path
from actors.pod.state import Finished, Syncing, Terminating
from api.errors import FailureKind
from api.kube.objects.container import ExecAction, Lifecycle, LifecycleHandler, Probe
from api.kube.objects.pod import Container, ContainerRestartRule, ContainerRestartRuleOnExitCodes
from api.messages.pod import ProbeChanged, ProbeResult
from api.messages.probes import ProbeKind
from api.ports.ledger import Remember
from api.ports.runtime import (
    CreateContainer,
    ExecInContainer,
    RemoveContainer,
    RunSandbox,
    SandboxState,
    StartContainer,
    StopContainer,
)
from tests.unit.actors.pods import IMAGE, UID, init, wanted
from tests.unit.actors.tiny import Hand, crashed, made, running_pod


def staged(*inits, policy="Always", mains=("a",), source="api"):
    return wanted(*mains, policy=policy, init_containers=inits, source=source)


def ended(hand, name, code=0):
    return crashed(hand, name, code)


def row(hand):
    found = pod_row(hand.state, hand.now, hand.wall)
    return found.ready, found.status, found.restarts


def sandbox_dies(hand):
    world = hand.world
    boxes = tuple(replace(one, state=SandboxState.NOT_READY) for one in world.view.sandboxes)
    world.view = replace(world.view, sandboxes=boxes)
    for one in world.view.containers:
        world.exit(one.name, 137, hand.wall)
    hand.wait(0.01)
    hand.observe()


def test_init_containers_run_in_turn_and_people_are_told_how_far_they_are():
    hand = running_pod(staged(init("i"), init("j")))
    assert (made(hand), row(hand)) == (["i0"], ("0/1", "Init:0/2", 0))
    ended(hand, "i")
    assert (made(hand), row(hand)) == (["i0", "j0"], ("0/1", "Init:1/2", 0))
    ended(hand, "j")
    assert (made(hand), row(hand)) == (["i0", "j0", "a0"], ("1/1", "Running", 0))
    paths = {field_path(hand.state, e.container) for e in hand.state.events if e.reason == "Started"}
    assert paths == {"spec.initContainers{i}", "spec.initContainers{j}", "spec.containers{a}"}


def test_what_is_waited_for_is_the_init_container_that_runs():
    hand = running_pod(staged(init("i"), init("j")))
    hand.wait(7)
    told = explain(hand.state, hand.now, hand.wall)
    assert told.waits_for == "init container i to exit"
    assert 7 <= told.since_s < 8
    assert told.containers[0].startswith("i (init): running for")
    hand.kill(), hand.settle()
    assert not isinstance(hand.state.life, Syncing)


def test_a_failing_init_container_backs_off_and_counts_until_it_is_done():
    hand = running_pod(staged(init("i")))
    ended(hand, "i", 3)
    assert made(hand) == ["i0", "i1"]
    ended(hand, "i", 3)
    assert (made(hand), row(hand)) == (["i0", "i1"], ("0/1", "Init:CrashLoopBackOff", 1))
    hand.ring(), hand.settle()
    assert made(hand) == ["i0", "i1", "i2"]
    ended(hand, "i")
    # Once the pod is initialised the tries that prepared it are history.
    assert (made(hand)[-1], row(hand)) == ("a0", ("1/1", "Running", 0))


@pytest.mark.parametrize(("name", "word"), [("i", "Init:Error"), ("j", "Init:Error")])
def test_an_init_container_that_fails_for_good_fails_the_pod(name, word):
    hand = running_pod(staged(init("i"), init("j"), policy="Never"))
    for one in "ij":
        ended(hand, one, 9 if one == name else 0)
        if one == name:
            break
    assert isinstance(hand.state.life, Finished)
    assert (hand.status.phase, row(hand)[1]) == ("Failed", word)
    assert "a0" not in made(hand)
    assert hand.status.container_statuses[0].state.waiting.reason == "PodInitializing"


def test_a_failed_init_container_that_a_new_agent_finds_makes_no_running_pod():
    hand = running_pod(staged(init("i"), policy="Never"))
    hand.world.exit("i", 9, hand.wall)
    hand.world.pages.clear()
    after = Hand(world=hand.world, now=hand.now + 5)
    after.update(staged(init("i"), policy="Never")), after.settle_until(Remember)
    phases = []
    while after.open:
        phases.append(after.status.phase)
        after.end(min(after.open))
    assert "Running" not in phases
    assert after.status.phase == "Failed"


def test_a_sidecar_comes_first_stays_and_ends_with_the_last_main():
    hand = running_pod(staged(init("s", "Always"), init("i"), policy="Never", mains=("a", "b")))
    assert made(hand) == ["s0", "i0"]
    ended(hand, "i")
    assert (made(hand), row(hand)) == (["s0", "i0", "a0", "b0"], ("3/3", "Running", 0))
    ended(hand, "a")
    assert isinstance(hand.state.life, Syncing)
    ended(hand, "s", 5)
    assert made(hand)[-1] == "s1"
    assert row(hand) == ("2/3", "Running", 1)
    ended(hand, "b")
    assert isinstance(hand.state.life, Finished)
    assert (hand.status.phase, made(hand)[-1]) == ("Succeeded", "s1")


def test_a_sidecar_in_back_off_holds_up_no_init_container_after_it():
    hand = running_pod(staged(init("s", "Always"), init("i")))
    ended(hand, "s", 1), ended(hand, "s", 1)
    assert explain(hand.state, hand.now, hand.wall).waits_for.startswith("back-off of container s")
    ended(hand, "i")
    assert made(hand) == ["s0", "i0", "s1", "a0"]


def ill(hand, name):
    """Let the startup probe of what runs of a container fail as often as it may."""
    (identity,) = (c.id for c in hand.world.view.containers if c.name == name and c.state == "running")
    report = ProbeChanged(
        uid=UID, container=name, container_id=identity, kind=ProbeKind.STARTUP, result=ProbeResult.FAILURE
    )
    return hand.give(report)


WATCHED = replace(init("s", "Always"), startup_probe=Probe(exec=ExecAction(command=("up",))))


def stopped(hand):
    return [c.container_id.partition("-")[0] for c in hand.started if isinstance(c, StopContainer)]


def test_an_ill_sidecar_is_stopped_and_started_again_while_later_ones_and_the_main_run():
    hand = running_pod(staged(init("s", "Always"), init("t", "Always")))
    hand.update(staged(WATCHED, init("t", "Always")), 2)
    ill(hand, "s"), hand.settle()
    assert stopped(hand) == ["tiny://s"]
    assert made(hand) == ["s0", "t0", "a0", "s1"]


def test_an_ill_sidecar_is_started_again_though_a_hook_of_the_main_runs_on():
    main = Container(
        name="a",
        image=IMAGE,
        lifecycle=Lifecycle(post_start=LifecycleHandler(exec=ExecAction(command=("wake",)))),
    )
    hand = Hand()
    hand.update(staged(init("s", "Always"), mains=(main, "b"))), hand.settle(but=ExecInContainer)
    hand.update(staged(WATCHED, mains=(main, "b")), 2)
    ill(hand, "s"), hand.settle(but=ExecInContainer)
    assert (stopped(hand), made(hand)) == (["tiny://s"], ["s0", "a0", "s1"])
    assert not hand.cancelled, "the hook goes on"
    hand.settle()
    assert made(hand) == ["s0", "a0", "s1", "b0"]


def test_an_ill_sidecar_waits_for_its_turn_once_the_pod_is_killed():
    hand = running_pod(staged(init("s", "Always")))
    hand.update(staged(WATCHED), 2)
    ill(hand, "s")
    hand.kill(), hand.settle()
    assert stopped(hand) == ["tiny://s", "tiny://a"], "the stop that was under way goes on"
    other = running_pod(staged(init("s", "Always")))
    other.update(staged(WATCHED), 2)
    other.kill()
    ill(other, "s"), other.settle()
    assert stopped(other) == ["tiny://a", "tiny://s"]


def test_a_new_sandbox_runs_all_init_containers_again_under_numbers_of_their_own():
    hand = running_pod(staged(init("i"), init("j")))
    ended(hand, "i")
    begun = len(hand.started)
    sandbox_dies(hand), hand.settle()
    again = hand.started[begun:]
    removed = next(index for index, call in enumerate(again) if isinstance(call, RemoveContainer))
    assert any(isinstance(call, Remember) for call in again[:removed]), "their numbers are written down first"
    assert removed < next(index for index, call in enumerate(again) if isinstance(call, RunSandbox))
    assert made(hand) == ["i0", "j0", "i1"]
    ended(hand, "i"), ended(hand, "j")
    assert made(hand) == ["i0", "j0", "i1", "j1", "a0"]


def test_no_number_is_used_twice_though_the_agent_dies_between_the_removal_and_the_next_run():
    hand = running_pod(staged(init("i"), init("j")))
    ended(hand, "i")
    sandbox_dies(hand)
    hand.settle_until(RunSandbox)
    # The next agent finds what the ledger holds: no status was written since the pod was made.
    after = Hand(world=hand.world, now=hand.now + 5)
    after.update(staged(init("i"), init("j"))), after.settle()
    assert made(after) == ["i1"]
    ended(after, "i")
    assert made(after) == ["i1", "j1"]


def test_what_an_old_sandbox_left_holds_up_nothing_when_it_cannot_be_removed():
    hand = running_pod(staged(init("i")))
    ended(hand, "i")
    sandbox_dies(hand)
    hand.settle_until(RemoveContainer)
    while any(isinstance(start.call, RemoveContainer) for start, _ in hand.open.values()):
        hand.fail(RemoveContainer, FailureKind.UNAVAILABLE)
    hand.settle()
    assert made(hand) == ["i0", "a0", "i1"], "the old end counts for nothing"
    hand.wait(60), hand.observe(), hand.settle()
    assert [one.attempt for one in hand.world.view.containers if one.name == "i"] == [1]


def test_init_containers_are_not_run_again_under_a_running_main_whose_init_records_are_gone():
    hand = running_pod(staged(init("i")))
    ended(hand, "i")
    hand.world.lose("i")
    hand.wait(1), hand.observe(), hand.settle()
    assert made(hand) == ["i0", "a0"]
    [status] = hand.status.init_container_statuses
    assert (status.ready, status.state.terminated.exit_code) == (True, 0)
    ended(hand, "a", 1)
    assert made(hand) == ["i0", "a0", "a1"]


def test_a_kill_during_init_stops_what_runs_and_starts_nothing_more():
    hand = running_pod(staged(init("s", "Always"), init("i")))
    hand.kill(deleted=False), hand.settle()
    assert isinstance(hand.state.life, Finished)
    assert hand.status.phase == "Failed"
    assert made(hand) == ["s0", "i0"]
    assert [s.state.terminated.exit_code for s in hand.status.init_container_statuses] == [143, 143]
    assert hand.status.container_statuses[0].state.waiting.reason == "PodInitializing"


def test_a_start_in_flight_of_an_init_container_lets_nothing_pass():
    hand = Hand()
    hand.update(staged(init("i"))), hand.settle_until(StartContainer)
    hand.fail(StartContainer, FailureKind.TIMED_OUT, happens=True)
    hand.settle()
    assert made(hand) == ["i0"]
    assert isinstance(hand.state.life, Syncing | Terminating)


def asking(name, policy="Never"):
    rule = ContainerRestartRule(
        action="RestartAllContainers",
        exit_codes=ContainerRestartRuleOnExitCodes(operator="In", values=(42,)),
    )
    return replace(init(name, policy), restart_policy_rules=(rule,))


def conditions(hand):
    return {c.type: (c.status, c.reason) for c in hand.status.conditions}


def test_a_rule_restarts_all_containers_in_the_same_sandbox_and_removes_who_asked_last():
    hand = running_pod(
        staged(init("i"), init("s", "Always"), policy="Never", mains=(asking("a"), "b"), source="file")
    )
    ended(hand, "i")
    assert made(hand) == ["i0", "s0", "a0", "b0"]
    assert conditions(hand)["AllContainersRestarting"] == ("False", "")
    begun = len(hand.started)
    hand.wait(1), hand.world.exit("a", 42, hand.wall), hand.wait(0.01), hand.observe()
    hand.settle_until(RemoveContainer)
    assert conditions(hand)["AllContainersRestarting"] == ("True", "RestartAllContainersStarted")
    while not [c for c in hand.started[begun:] if isinstance(c, CreateContainer)]:
        assert hand.status.phase == "Running"
        hand.end(min(hand.open))
    calls = hand.started[begun:]
    stops = {
        call.container_id.split("-")[0]: call.grace_s for call in calls if isinstance(call, StopContainer)
    }
    assert stops == {"tiny://b": 2.0, "tiny://s": 2.0}
    gone = [
        call.container_id.split("//")[1].split("-")[0] for call in calls if isinstance(call, RemoveContainer)
    ]
    assert gone in (["b", "s", "i", "a"], ["b", "i", "s", "a"])
    pages = [call for call in calls if isinstance(call, Remember)]
    assert len(pages) == 2
    assert all(page.durable for page in pages), "what is removed is the only other witness of the numbers"
    assert not [c for c in calls if isinstance(c, RunSandbox)]
    for status in (*hand.status.init_container_statuses, *hand.status.container_statuses):
        end = status.last_state.terminated
        assert (end.exit_code, end.reason) == (137, "RestartingAllContainers")
        assert status.restart_count == 1
    hand.settle()
    ended(hand, "i")
    assert made(hand) == ["i0", "s0", "a0", "b0", "i1", "s1", "a1", "b1"]
    assert conditions(hand)["AllContainersRestarting"] == ("False", "")
    assert hand.status.phase == "Running"


def test_who_asks_for_a_restart_of_all_backs_off_first():
    hand = running_pod(staged(policy="Always", mains=(asking("a", "Always"), "b")))
    ended(hand, "a", 42)
    assert made(hand) == ["a0", "b0", "a1", "b1"]
    ended(hand, "a", 42)
    assert made(hand) == ["a0", "b0", "a1", "b1"]
    assert hand.status.container_statuses[0].state.waiting.reason == "CrashLoopBackOff"
    assert hand.status.container_statuses[1].state.running is not None
    hand.ring(), hand.settle()
    assert made(hand) == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_an_agent_that_dies_in_the_middle_of_a_restart_of_all_ends_it():
    pod = staged(init("i"), policy="Never", mains=(asking("a"), "b"))
    hand = running_pod(pod)
    ended(hand, "i")
    hand.wait(1), hand.world.exit("a", 42, hand.wall), hand.wait(0.01), hand.observe()
    hand.settle_until(RemoveContainer)
    hand.end(hand.op_of(RemoveContainer))
    after = Hand(world=hand.world, now=hand.now + 5)
    after.update(pod), after.settle()
    ended(after, "i")
    assert made(after) == ["i1", "a1", "b1"]


def test_a_sandbox_that_dies_during_a_restart_of_all_ends_a_pod_that_never_restarts():
    hand = running_pod(staged(policy="Never", mains=(asking("a"), "b")))
    hand.wait(1), hand.world.exit("a", 42, hand.wall), hand.wait(0.01), hand.observe()
    hand.settle_until(StopContainer)
    sandbox_dies(hand), hand.settle()
    assert isinstance(hand.state.life, Finished)
    assert hand.status.phase == "Failed"


def test_an_init_container_may_ask_for_a_restart_of_all():
    hand = running_pod(staged(init("s", "Always"), asking("i"), policy="Never"))
    ended(hand, "i", 42)
    assert isinstance(hand.state.life, Syncing)
    assert made(hand) == ["s0", "i0", "s1", "i1"]
    ended(hand, "i")
    assert made(hand)[-1] == "a0"
