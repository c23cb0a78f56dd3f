"""What `explain` says of the steps at which nothing is under way, or something waits behind what is."""

import msgspec

from actors.pod.explain import explain
from api.kube.objects.container import Container, EnvVar, EnvVarSource, ResourceFieldSelector
from api.kube.objects.pod import PodReadinessGate
from api.messages.pod import Resize, UpdatePod
from api.ports.runtime import StopContainer
from tests.unit.actors.pods import IMAGE, wanted
from tests.unit.actors.tiny import FACTS, Hand, running_pod


def told(hand):
    return explain(hand.state, hand.now, hand.wall)


def sidecar(name):
    return Container(name=name, image=IMAGE, restart_policy="Always")


def test_sidecars_that_wait_behind_a_stop_under_way_say_for_whom():
    hand = running_pod(wanted("main", init_containers=(sidecar("one"), sidecar("two"))))
    hand.kill()
    hand.settle_until(StopContainer)
    waits = told(hand).waits_for
    assert waits.startswith("container main to exit; SIGKILL in 30s")
    assert "container one, after containers main, two" in waits
    assert "container two, after container main" in waits
    hand.wait(31)
    assert ", after container" not in told(hand).waits_for, "the grace is used up: no sidecar waits"


def test_a_deadline_is_announced_until_it_is_there():
    hand = running_pod(wanted("a", active_deadline_seconds=60))
    (step,) = told(hand).next
    assert (round(step.in_s), step.what) == (60, "active deadline exceeded: stop the pod, phase Failed")
    hand.wait(10)
    assert round(told(hand).next[0].in_s) == 50
    hand.wait(51)
    hand.ring()
    assert told(hand).kill.startswith("active deadline exceeded")
    assert not [step for step in told(hand).next if "deadline" in step.what]


def test_a_shut_readiness_gate_is_what_a_pod_waits_for():
    hand = running_pod(wanted("a", readiness_gates=(PodReadinessGate(condition_type="example.org/ok"),)))
    hand.wait(7)
    answer = told(hand)
    assert answer.waits_for.startswith("its readiness gates: corresponding condition of")
    assert '"example.org/ok" does not exist' in answer.waits_for
    assert round(answer.since_s) == 7


def test_a_resize_that_waits_says_for_what_and_one_that_cannot_be_is_a_problem():
    hand = running_pod(wanted("a"), node=FACTS)
    pod = hand.state.desired

    def offer(resize, generation):
        hand.give(UpdatePod(pod=pod, source="file", generation=generation, node=FACTS, resize=resize))
        return told(hand.settle())

    waits = Resize(reason="Deferred", message="too little", advice=("cpu is used by: b (2)",))
    answer = offer(waits, 2)
    assert answer.waits_for == "free resources for its resize: too little"
    assert answer.problems == ("resize Deferred: too little", "cpu is used by: b (2)")
    answer = offer(msgspec.structs.replace(waits, reason="Infeasible", advice=()), 3)
    assert (answer.waits_for, answer.problems) == ("", ("resize Infeasible: too little",))
    answer = offer(None, 4)
    assert (answer.waits_for, answer.problems) == ("", ())


def test_the_wait_for_a_definition_is_said_in_words_and_its_end_comes_nearer():
    source = EnvVarSource(
        resource_field_ref=ResourceFieldSelector(container_name="other", resource="limits.cpu")
    )
    hand = Hand(node=FACTS)
    hand.update(wanted(Container(name="a", image=IMAGE, env=(EnvVar(name="N", value_from=source),))))
    hand.settle()
    answer = told(hand)
    assert answer.waits_for.startswith("a valid configuration of container a: container other")
    first = answer.next[0].in_s
    assert 0 < first <= 10
    assert abs(hand.wake_at - hand.now - first) < 0.1
    hand.wait(first / 2)
    assert told(hand).next[0].in_s < first
