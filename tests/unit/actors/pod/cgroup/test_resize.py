"""In-place resize: what runs gets other amounts, one kind after the other, without a restart where that is allowed."""

from actors.pod.cgroup.resize import resize_steps
from actors.pod.explain import explain
from api.errors import FailureKind
from api.kube.objects.container import Container, ContainerResizePolicy, ResourceRequirements
from api.kube.objects.pod import Pod
from api.messages.pod import Resize, UpdatePod
from api.ports.confinement import Resources
from api.ports.ledger import Remember
from api.ports.runtime import (
    CreateContainer,
    RuntimeContainerState,
    StartContainer,
    StopContainer,
    UpdateContainer,
)
from tests.unit.actors.pods import IMAGE, wanted
from tests.unit.actors.tiny import FACTS, Hand

MI = 1 << 20


def amounts(name="a", cpu="500m", memory="64Mi", limits=None, policy=()):
    """Return a container that asks for these, and is limited to the same unless told otherwise."""
    asked = {"cpu": cpu, "memory": memory}
    return Container(
        name=name,
        image=IMAGE,
        resources=ResourceRequirements(requests=asked, limits=asked if limits is None else limits),
        resize_policy=tuple(
            ContainerResizePolicy(resource_name=resource, restart_policy=how) for resource, how in policy
        ),
    )


def running(*containers, **more):
    """Return the hand of a pod that runs."""
    hand = Hand(node=FACTS)
    hand.update(wanted(*containers, **more)), hand.settle()
    assert hand.status.phase == "Running"
    hand.started.clear()
    return hand


def resized(hand, *containers, **more):
    """Tell the pod its other amounts; return the updates that it asked for."""
    hand.update(wanted(*containers, **more), generation=2), hand.settle()
    return [call for call in hand.started if isinstance(call, UpdateContainer)]


def asked(call):
    """Return shares, quota and memory of an update."""
    given = call.resources
    return given.cpu_shares, given.cpu_quota_us, given.memory_limit_bytes


def test_each_resource_is_updated_by_itself_and_nothing_is_restarted():
    hand = running(amounts())
    calls = resized(hand, amounts(cpu="1", memory="128Mi"))
    assert [asked(call) for call in calls] == [(0, 0, 128 * MI), (1024, 100_000, 0)]
    assert not [
        call for call in hand.started if isinstance(call, CreateContainer | StartContainer | StopContainer)
    ]
    (shown,) = hand.state.observed.containers
    assert shown.resources == Resources(
        cpu_shares=1024, cpu_period_us=100_000, cpu_quota_us=100_000, memory_limit_bytes=128 * MI
    )
    assert resize_steps(hand.state) == ()


def test_who_shrinks_goes_before_who_grows_and_memory_before_cpu():
    hand = running(amounts("a", "500m", "64Mi"), amounts("b", "500m", "64Mi"))
    calls = resized(hand, amounts("a", "600m", "128Mi"), amounts("b", "400m", "32Mi"))
    order = [(call.container_id.partition("://")[2][0], asked(call)) for call in calls]
    assert order == [
        ("b", (0, 0, 32 * MI)),
        ("a", (0, 0, 128 * MI)),
        ("b", (409, 40_000, 0)),
        ("a", (614, 60_000, 0)),
    ]


def test_a_policy_that_asks_for_a_restart_gets_one_and_the_next_instance_has_all():
    policy = (("memory", "RestartContainer"),)
    hand = running(amounts(policy=policy))
    assert resized(hand, amounts(memory="128Mi", policy=policy)) == []
    kinds = [type(call).__name__ for call in hand.started]
    assert kinds.count("StopContainer") == kinds.count("StartContainer") == 1
    assert hand.state.observed.containers[0].resources.memory_limit_bytes == 128 * MI
    assert hand.status.container_statuses[0].restart_count == 1


def conditions_of(hand):
    """Return reason and message of each condition about a resize."""
    return {c.type: (c.reason, c.message) for c in hand.status.conditions if c.type.startswith("PodResize")}


def test_a_restart_for_a_resize_counts_for_no_end_of_the_pod():
    how = (("cpu", "RestartContainer"),)
    hand = running(amounts(policy=how), policy="OnFailure")
    hand.update(wanted(amounts(cpu="1", policy=how), policy="OnFailure"), generation=2)
    hand.settle_until(StopContainer)
    (container,) = hand.state.observed.containers
    hand.world._change(container.id, state=RuntimeContainerState.EXITED, exit_code=0, finished_at=hand.wall)
    hand.settle()
    assert hand.status.phase == "Running"
    assert hand.state.observed.containers[0].resources.cpu_shares == 1024


def test_an_agent_that_dies_between_such_an_end_and_the_next_instance_starts_it_all_the_same():
    how = (("cpu", "RestartContainer"),)
    hand = running(amounts(policy=how), policy="OnFailure")
    pod = wanted(amounts(cpu="1", policy=how), policy="OnFailure")
    hand.update(pod, generation=2)
    hand.settle_until(StopContainer)
    written = [call for call in hand.started if isinstance(call, Remember)]
    assert [call.durable for call in written] == [True], "what is meant is written before it is stopped"
    hand.world.exit("a", 0, hand.wall)
    later = Hand(hand.world, node=FACTS)
    later.update(pod), later.settle()
    assert later.status.phase == "Running"
    assert later.state.observed.containers[0].resources.cpu_shares == 1024
    # What that life is started with ends for good when it ends well.
    later.world.exit("a", 0, later.wall), later.observe(), later.settle()
    assert later.status.phase == "Succeeded"


def test_an_agent_that_dies_before_the_stop_decides_anew():
    how = (("cpu", "RestartContainer"),)
    hand = running(amounts(policy=how), policy="OnFailure")
    hand.update(wanted(amounts(cpu="1", policy=how), policy="OnFailure"), generation=2)
    hand.settle_until(StopContainer)
    # Meanwhile the resize was taken back, and the container ends well by itself.
    later = Hand(hand.world, node=FACTS)
    later.update(wanted(amounts(policy=how), policy="OnFailure")), later.settle()
    assert later.state.memo.renewed == ()
    later.world.exit("a", 0, later.wall), later.observe(), later.settle()
    assert later.status.phase == "Succeeded"


def test_a_container_that_is_never_restarted_is_not_stopped_for_its_resize():
    how = (("cpu", "RestartContainer"),)
    hand = running(amounts(policy=how), policy="Never")
    resized(hand, amounts(cpu="1", policy=how), policy="Never")
    assert not [call for call in hand.started if isinstance(call, StopContainer | UpdateContainer)]
    assert hand.status.phase == "Running"
    reason, message = conditions_of(hand)["PodResizeInProgress"]
    assert reason == "Error"
    assert "restartPolicy Never forbids" in message


def test_a_resize_is_told_while_it_goes_on_and_when_it_is_done():
    hand = running(amounts())
    hand.update(wanted(amounts(memory="128Mi")), generation=2)
    assert conditions_of(hand) == {"PodResizeInProgress": ("", "")}
    hand.settle()
    assert conditions_of(hand) == {}
    told = [event.reason for event in hand.state.events if event.reason.startswith("Resize")]
    assert told == ["ResizeStarted", "ResizeCompleted"]


def test_a_resize_that_waits_for_room_says_so():
    hand = running(amounts())
    waits = Resize(reason="Deferred", message="no room")
    update = UpdatePod(pod=wanted(amounts()), source="file", generation=2, node=FACTS, resize=waits)
    hand.give(update), hand.settle()
    assert conditions_of(hand) == {"PodResizePending": ("Deferred", "no room")}
    assert [e.reason for e in hand.state.events if e.reason.startswith("Resize")] == ["ResizeDeferred"]


def test_a_limit_that_goes_away_needs_a_restart():
    hand = running(amounts())
    assert resized(hand, amounts(limits={})) == []
    assert [type(call) for call in hand.started].count(StopContainer) == 1


def test_a_limit_of_memory_alone_that_goes_away_needs_a_restart_too():
    hand = running(amounts())
    assert resized(hand, amounts(limits={"cpu": "500m"})) == []
    assert [type(call) for call in hand.started].count(StopContainer) == 1


def test_a_request_of_cpu_that_goes_away_is_taken_back_in_place():
    hand = running(amounts(limits={"memory": "64Mi"}))
    (update,) = resized(hand, amounts(cpu="0", limits={"memory": "64Mi"}))
    assert asked(update) == (2, 0, 0)


def test_what_the_runtime_refuses_is_tried_again_later_and_holds_up_nobody():
    hand = running(amounts("a"), amounts("b"))
    hand.update(wanted(amounts("a", memory="32Mi"), amounts("b")), generation=2)
    hand.fail(UpdateContainer, FailureKind.REJECTED), hand.settle()
    assert hand.state.call_backoff("(resizing)") is not None
    assert any(event.reason == "ResizeError" for event in hand.state.events)
    hand.world.exit("b", 3, hand.wall), hand.observe(), hand.settle()
    assert [c.restart_count for c in hand.status.container_statuses] == [0, 1]
    said = explain(hand.state, hand.now, hand.wall)
    assert said.problems == ("resize in progress: it broke",)
    assert [step.what for step in said.next] == ["retry UpdateContainer"]
    hand.ring(), hand.settle()
    assert resize_steps(hand.state) == ()


def test_a_change_that_failed_and_came_through_all_the_same_can_be_taken_back():
    hand = running(amounts())
    resized(hand, amounts(memory="128Mi"))
    hand.update(wanted(amounts(memory="256Mi")), generation=3), hand.settle_until(UpdateContainer)
    hand.fail(UpdateContainer, FailureKind.TIMED_OUT, happens=True), hand.settle()
    (shown,) = hand.state.observed.containers
    assert shown.resources.memory_limit_bytes == 256 * MI
    hand.wait(60), hand.settle()
    hand.update(wanted(amounts(memory="128Mi")), generation=4), hand.settle()
    (shown,) = hand.state.observed.containers
    assert shown.resources.memory_limit_bytes == 128 * MI, "it was asked for before the change that failed"


def test_a_runtime_that_rounds_what_it_shows_is_not_asked_again_and_again():
    hand = running(amounts())
    resized(hand, amounts(cpu="777m"))
    (container,) = hand.state.observed.containers
    rounded = Resources(
        cpu_shares=800, cpu_period_us=100_000, cpu_quota_us=78_000, memory_limit_bytes=64 * MI
    )
    hand.world._change(container.id, resources=rounded)
    hand.started.clear(), hand.wait(1), hand.observe(), hand.settle()
    assert hand.started == []


def test_no_request_and_two_shares_are_the_same():
    hand = running(Container(name="a", image=IMAGE))
    (container,) = hand.state.observed.containers
    hand.world._change(container.id, resources=Resources(cpu_period_us=100_000))
    hand.started.clear(), hand.wait(1), hand.observe(), hand.settle()
    assert hand.started == []


def test_explain_says_which_container_gets_what():
    hand = running(amounts())
    hand.update(wanted(amounts(memory="128Mi")), generation=2)
    hand.settle_until(UpdateContainer)
    said = explain(hand.state, hand.now, hand.wall)
    assert isinstance(hand.state.desired, Pod)
    assert "UpdateContainer" in str(said)
