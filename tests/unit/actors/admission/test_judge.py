"""Properties of admission: what is admitted fits, whom a critical pod pushes aside is enough, conditions on labels hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from actors.admission.fit import ResourceSum, Shortage, shortages
from actors.admission.judge import Admitted, PodOnNode, PodsOnNode, Refused, ResourceUsers, judge
from actors.admission.placement import is_satisfied, tolerates
from actors.admission.preemption import CLASSES, Candidate, NoVictimsError, victims, without
from actors.rules.resources.request import Claim, HostPort, is_critical, priority_of
from api.ids import Uid
from api.kube.objects.placement import NodeSelectorRequirement, Toleration
from api.ports.node import NodeFacts, NodeTaint
from tests.unit.actors.pods import wanted

NODE = NodeFacts(
    name="n1",
    allocatable_cpu_milli=4000,
    allocatable_memory_bytes=1000,
    allocatable_ephemeral_bytes=1000,
    max_pods=8,
)
claims = st.builds(
    Claim,
    cpu_milli=st.sampled_from((0, 100, 1000, 2500)),
    memory_bytes=st.sampled_from((0, 1, 300, 600)),
    ports=st.sampled_from(((), (HostPort(port=80),), (HostPort(port=80, address="10.0.0.1"),))),
)


@given(st.lists(st.tuples(claims, st.booleans()), max_size=12))
def test_what_is_admitted_fits_with_all_who_are_there_and_who_left_is_room(rows):
    on_node = PodsOnNode()
    for number, (claim, leaving) in enumerate(rows):
        verdict = judge(wanted(source=""), claim, NODE, on_node)
        if isinstance(verdict, Refused):
            assert verdict.refusal.reason
            assert verdict.refusal.message
        if isinstance(verdict, Admitted):
            on_node = on_node.plus(
                PodOnNode(uid=Uid(str(number)), name=str(number), claim=claim, leaving=leaving)
            )
    assert on_node.load.cpu_milli <= NODE.allocatable_cpu_milli
    assert on_node.load.memory_bytes <= NODE.allocatable_memory_bytes
    assert on_node.load.pods <= NODE.max_pods
    ports = on_node.load.ports
    assert not any(one.clashes(other) for i, one in enumerate(ports) for other in ports[i + 1 :])
    assert on_node.staying.cpu_milli <= on_node.load.cpu_milli


@given(st.lists(st.tuples(claims, st.booleans()), max_size=12))
def test_pods_summed_at_once_are_those_that_came_one_by_one(rows):
    pods = [
        PodOnNode(
            uid=Uid(str(number)),
            name=str(number),
            claim=replace(claim, scalars=(("hugepages-2Mi", number + 1),)),
            leaving=leaving,
        )
        for number, (claim, leaving) in enumerate(rows)
    ]
    one_by_one = PodsOnNode()
    for pod in pods:
        one_by_one = one_by_one.plus(pod)
    assert PodsOnNode.of(pods) == one_by_one


def test_the_largest_users_of_a_resource_are_named_and_the_others_counted():
    claims = [Claim(cpu_milli=milli) for milli in (100, 0, 300, 300, 200, 50, 10)]
    on_node = PodsOnNode.of(
        PodOnNode(uid=Uid(str(number)), name=f"p{number}", claim=claim) for number, claim in enumerate(claims)
    )
    largest = ((300, "p2"), (300, "p3"), (200, "p4"), (100, "p0"), (50, "p5"))
    assert on_node.users["cpu"] == ResourceUsers(count=6, largest=largest)
    assert on_node.users["pods"].count == len(claims)
    assert on_node.plus(PodOnNode(uid=Uid("a"), name="a", claim=Claim(cpu_milli=999))).users["cpu"].count == 7
    assert on_node.users["memory"] == ResourceUsers(count=0, largest=())


@given(
    st.lists(st.tuples(claims, st.sampled_from(CLASSES)), max_size=8),
    st.lists(st.sampled_from(("cpu", "memory", "pods")), min_size=1, max_size=3, unique=True),
    st.integers(1, 5),
)
def test_whom_a_critical_pod_pushes_aside_is_enough_and_in_vain_nobody(rows, short, much):
    candidates = tuple(
        Candidate(uid=Uid(str(number)), claim=claim, qos=qos) for number, (claim, qos) in enumerate(rows)
    )
    lacking = tuple(Shortage(resource=name, asked=much, used=0, capacity=0) for name in short)
    missing = tuple((one.resource, one.missing) for one in lacking)
    try:
        chosen = victims(candidates, lacking)
    except NoVictimsError:
        assert without(missing, candidates), "it gives up only where all of them would not do"
        return
    assert len(set(chosen)) == len(chosen)
    assert not without(missing, tuple(one for one in candidates if one.uid in chosen))
    assert all(any(one.claim.amount(name) for name in short) for one in candidates if one.uid in chosen), (
        "who has nothing of what is missing is left alone"
    )


def test_who_asks_for_nothing_lacks_nothing():
    full = ResourceSum(pods=1, cpu_milli=9000, memory_bytes=9000, ephemeral_bytes=9000)
    assert shortages(Claim(), full, NODE) == ()


@pytest.mark.parametrize(
    ("operator", "values", "label", "expected"),
    [
        ("In", ("a", "b"), "b", True),
        ("In", ("a", "b"), None, False),
        ("NotIn", ("a",), "b", True),
        ("NotIn", ("a",), None, True),
        ("NotIn", ("a",), "a", False),
        ("Exists", (), "", True),
        ("Exists", (), None, False),
        ("DoesNotExist", (), None, True),
        ("DoesNotExist", (), "x", False),
        ("Gt", ("8",), "9", True),
        ("Gt", ("8",), "8", False),
        ("Lt", ("8",), "-9", True),
        ("Lt", ("8",), "much", False),
        ("Gt", ("8",), None, False),
        ("Near", ("8",), "8", False),
    ],
)
def test_a_condition_on_a_label(operator, values, label, expected):
    labels = {} if label is None else {"k": label}
    condition = NodeSelectorRequirement(key="k", operator=operator, values=values)
    assert is_satisfied(condition, labels) is expected


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Equal", "value": "w"}, False),
        ({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "k", "operator": "Gt", "value": "1"}, False),
    ],
)
def test_a_toleration_bears_a_taint(toleration, expected):
    assert tolerates(Toleration(**toleration), NodeTaint(key="k", value="v", effect="NoExecute")) is expected


def test_who_is_critical_and_comes_before_whom():
    named = {"priority_class_name": "system-node-critical"}
    assert (is_critical(wanted()), priority_of(wanted())) == (True, 0)
    assert (is_critical(wanted(source="")), is_critical(wanted(source="", **named))) == (False, False)
    assert priority_of(wanted(**named)) == 2_000_001_000
    assert priority_of(wanted(priority=5, **named)) == 5
    assert is_critical(wanted(source="", priority=2_000_000_000))
