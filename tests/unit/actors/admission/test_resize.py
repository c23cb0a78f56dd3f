"""Resizes: given when there is room, remembered before they are told, and nothing that is given back is free too early."""

import msgspec

from actors.admission.verdict import AdmissionRecord
from api.kube.objects.container import Container, ResourceRequirements
from api.messages.pod import UpdatePod
from api.messages.supervisor import PodLife, PodMoved, PodOp
from tests.unit.actors.pods import IMAGE, wanted
from tests.unit.actors.supervisor.house import House, refusals, told


def asking(uid, cpu, *, source="api", **spec):
    """Return a pod that requests so much CPU."""
    container = Container(name="a", image=IMAGE, resources=ResourceRequirements(requests={"cpu": cpu}))
    return wanted(container, uid=uid, name=uid, source="" if source == "api" else source, **spec)


def running(*pods, **more):
    """Return a house in which these pods run."""
    house = House(expected=("api",), **more)
    house.listed()
    house.snapshot(*pods, source="api")
    for pod in pods:
        confined(house, pod.metadata.uid)
    return house


def confined(house, uid, generation=None):
    """Let a pod's actor say that what runs is confined by what it was told last."""
    entry = house.state.entries[uid]
    at = entry.desired.revision if generation is None else generation
    return house.give(PodMoved(uid=uid, name=uid, namespace="default", life=PodLife.SYNCING, confined=at))


def given(actions):
    """Return what was told: by UID, the CPU that the pod may use and why it has no other."""
    return {
        update.pod.metadata.uid: (
            update.pod.spec.containers[0].resources.requests["cpu"],
            update.resize and update.resize.reason,
        )
        for _, update in told(actions, UpdatePod)
    }


def update(house, *pods):
    return house.change(PodOp.UPDATE, *pods, source="api")


def test_what_fits_is_given_once_the_ledger_has_it():
    house = running(asking("a", "1"))
    assert given(update(house, asking("a", "2"))) == {"a": ("2", None)}
    verdict = dict(msgspec.msgpack.decode(house.page, type=AdmissionRecord).verdicts)["a"]
    assert verdict.claim.cpu_milli == 2000
    assert verdict.allocated[0].requests == (("cpu", "2"),)


def test_what_does_not_fit_now_waits_and_is_given_when_there_is_room():
    house = running(asking("a", "1"), asking("b", "2"))
    assert given(update(house, asking("a", "3"))) == {"a": ("1", "Deferred")}
    assert "requested: 3000, used: 2000, capacity: 4000" in house.resize("a").message
    house.change(PodOp.REMOVE, asking("b", "2"), source="api")
    assert house.resize("a") is not None, "it is still being stopped"
    house.moved("b", PodLife.TERMINATED)
    assert given(house.last) == {"a": ("3", None)}


def test_what_the_node_will_never_have_is_infeasible():
    house = running(asking("a", "1"))
    assert given(update(house, asking("a", "5"))) == {"a": ("1", "Infeasible")}
    assert house.resize("a").message == (
        "Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000"
    )


def test_a_resize_that_is_taken_back_is_forgotten():
    house = running(asking("a", "1"))
    update(house, asking("a", "5"))
    assert given(update(house, asking("a", "1"))) == {"a": ("1", None)}


def test_who_gives_back_goes_first_but_it_is_free_only_when_nothing_runs_with_it():
    house = running(asking("a", "2"), asking("b", "2"))
    told_now = given(update(house, asking("a", "3"), asking("b", "1")))
    assert told_now["b"] == ("1", None)
    assert house.resize("a").reason == "Deferred"
    confined(house, "b", generation=house.state.entries["b"].desired.revision - 1)
    assert house.resize("a") is not None, "an older update is in force"
    assert given(confined(house, "b")) == {"a": ("3", None)}


def test_a_newcomer_gets_nothing_that_a_shrinking_pod_still_has():
    house = running(asking("a", "3"))
    update(house, asking("a", "1"))
    house.change(PodOp.ADD, asking("b", "2"), source="api")
    assert refusals(house.last) == {"b": "OutOfcpu"}


def test_what_was_given_survives_the_agent():
    before = running(asking("a", "1"))
    update(before, asking("a", "2"))
    after = House(expected=("api",), page=before.page)
    after.listed()
    assert given(after.snapshot(asking("a", "4"), source="api"))["a"] == ("4", None)
    again = House(expected=("api",), page=before.page)
    again.listed()
    assert given(again.snapshot(asking("a", "9"), source="api")) == {"a": ("2", "Infeasible")}


def test_what_a_pod_asks_for_as_a_whole_is_given_and_withheld_like_its_containers_amounts():
    def whole(cpu):
        pod = asking("a", "100m")
        asks = ResourceRequirements(requests={"cpu": cpu}, limits={"cpu": cpu})
        return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, resources=asks))

    def offered(actions):
        (told_a,) = [message for _, message in told(actions, UpdatePod) if message.pod.metadata.uid == "a"]
        return told_a.pod.spec.resources.limits["cpu"], told_a.resize and told_a.resize.reason

    house = running(whole("1"), asking("b", "2"))
    assert offered(update(house, whole("2"))) == ("2", None)
    confined(house, "a")
    assert offered(update(house, whole("3"))) == ("2", "Deferred")
    assert offered(update(house, whole("9"))) == ("2", "Infeasible")
    assert offered(update(house, whole("1"))) == ("1", None)
