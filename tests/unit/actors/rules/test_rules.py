"""The decisions that several cores share, as tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.rules.container.backoff import Backoff, counted, wait_s
from actors.rules.container.instance import not_back
from actors.rules.container.loglink import link_name
from actors.rules.container.restart import should_start
from actors.rules.container.sandbox import judge, worth_making
from actors.rules.resources.qos import qos_class
from api.kube.objects.pod import Container, ContainerRestartRule, ContainerRestartRuleOnExitCodes, PodSpec
from api.kube.objects.pod import ResourceRequirements as Resources
from tests.unit.actors.pods import NS, WALL, box, instance, shown, wanted


def crash_waits(limit_s, runs_s, times=8):
    entry, wall, waits = None, WALL, []
    for attempt in range(1, times + 1):
        wall += int(runs_s * NS)
        wait = wait_s(entry, wall, wall, attempt)
        waits.append(wait)
        entry = counted(entry, Container(name="a"), wall, wall + int(wait * NS), attempt, limit_s)
        wall += int(wait * NS)
    return waits


def test_waits_double_from_ten_seconds_to_five_minutes():
    assert crash_waits(300, 1) == [0, 10, 20, 40, 80, 160, 300, 300]


def test_a_limit_below_ten_seconds_is_the_first_wait_too():
    assert crash_waits(4, 1, 4) == [0, 4, 4, 4]


def test_a_run_of_more_than_ten_minutes_forgets_what_was_before():
    assert crash_waits(300, 601, 4) == [0, 0, 0, 0]
    assert crash_waits(300, 599, 4) == [0, 10, 20, 40]


def test_counting_one_start_twice_changes_nothing():
    once = counted(None, Container(name="a"), WALL, WALL, 1, 300)
    assert counted(once, Container(name="a"), WALL, WALL + NS, 1, 300) == once
    assert wait_s(once, WALL, WALL, 1) == 0
    assert wait_s(once, WALL, WALL, 2) == 10


@given(st.integers(0, 10**6))
def test_a_wall_clock_that_jumped_backwards_waits_no_longer_than_the_delay(back_s):
    entry = Backoff(container="a", delay_s=40, updated_at=WALL, for_attempt=3)
    assert wait_s(entry, WALL, WALL - back_s * NS, 4) == 40


def rules(policy, *pairs):
    return Container(
        name="a",
        restart_policy=policy,
        restart_policy_rules=tuple(
            ContainerRestartRule(
                action="Restart", exit_codes=ContainerRestartRuleOnExitCodes(operator=op, values=values)
            )
            for op, values in pairs
        ),
    )


@pytest.mark.parametrize(
    ("policy", "container", "newest", "starts"),
    [
        ("Always", Container(name="a"), None, True),
        ("Never", Container(name="a"), None, True),
        ("Always", Container(name="a"), instance(), False),
        ("Never", Container(name="a"), instance(state="created"), True),
        ("Never", Container(name="a"), instance(state="unknown"), True),
        ("Always", Container(name="a"), instance(state="exited", code=0), True),
        ("", Container(name="a"), instance(state="exited", code=0), True),
        ("OnFailure", Container(name="a"), instance(state="exited", code=0), False),
        ("OnFailure", Container(name="a"), instance(state="exited", code=1), True),
        ("Never", Container(name="a"), instance(state="exited", code=1), False),
        ("Never", rules("Always"), instance(state="exited", code=0), True),
        ("Always", rules("Never"), instance(state="exited", code=1), False),
        ("Always", rules("OnFailure"), instance(state="exited", code=0), False),
        ("Always", rules("Never", ("In", (42,))), instance(state="exited", code=42), True),
        ("Always", rules("Never", ("In", (42,))), instance(state="exited", code=41), False),
        ("Never", rules("Never", ("NotIn", (0,))), instance(state="exited", code=1), True),
        ("Never", rules("Never", ("NotIn", (0,))), instance(state="exited", code=0), False),
        ("Never", rules("Never", ("In", (1,)), ("In", (2,))), instance(state="exited", code=2), True),
    ],
)
def test_a_container_is_started_again_by_its_own_policy_before_the_pods(policy, container, newest, starts):
    assert should_start(PodSpec(restart_policy=policy), container, newest) is starts


@pytest.mark.parametrize(
    ("parts", "needed", "attempt"),
    [
        ((), True, 0),
        ((box(),), False, 0),
        ((box(3), box(2, "not-ready")), False, 3),
        ((box(1), box(0)), True, 2),
        ((box(4, "not-ready"),), True, 5),
        ((box(2, "not-ready"), box(1)), True, 3),
        ((box(0, host_network=True),), True, 1),
    ],
)
def test_a_new_sandbox_is_needed_unless_exactly_the_newest_is_ready_and_fits(parts, needed, attempt):
    verdict = judge(shown(*parts), host_network=False)
    assert (verdict.needed, verdict.attempt) == (needed, attempt)


@pytest.mark.parametrize(
    ("policy", "parts", "attempt", "worth"),
    [
        ("Never", (), 0, True),
        ("Never", (instance(state="exited", code=1),), 1, False),
        ("Always", (instance(state="exited", code=0),), 1, True),
        ("OnFailure", (instance(state="exited", code=0),), 1, False),
        ("OnFailure", (instance(state="exited", code=1),), 1, True),
    ],
)
def test_a_new_sandbox_is_made_only_if_something_would_run_in_it(policy, parts, attempt, worth):
    assert worth_making(wanted(policy=policy).spec, shown(*parts), attempt) is worth


def compute(requests=None, limits=None):
    return Container(name="a", resources=Resources(requests=requests or {}, limits=limits or {}))


BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "qos"),
    [
        ((compute(),), "BestEffort"),
        ((compute({"cpu": "0"}),), "BestEffort"),
        ((compute({"cpu": "1"}),), "Burstable"),
        ((compute(limits=BOTH),), "Guaranteed"),
        ((compute(BOTH, BOTH),), "Guaranteed"),
        ((compute({"cpu": "1000m", "memory": "1Gi"}, BOTH),), "Guaranteed"),
        ((compute({"cpu": "500m", "memory": "1Gi"}, BOTH),), "Burstable"),
        ((compute(limits={"cpu": "1"}),), "Burstable"),
        ((compute(BOTH, BOTH), compute()), "Burstable"),
        ((compute({"example.com/gpu": "1"}),), "BestEffort"),
    ],
)
def test_quality_of_service_follows_from_requests_and_limits(containers, qos):
    assert qos_class(PodSpec(containers=containers)) == qos


def test_the_link_to_a_log_is_called_as_a_kubelet_calls_it():
    name = link_name("web-n1", "default", "main", "containerd://0123abc")
    assert name == "web-n1_default_main-0123abc.log"
    assert link_name("web-n1", "default", "main", "0123abc") == name


def test_the_link_to_a_log_fits_into_a_file_name():
    for pod in ("p" * 230, "p" * 253, "p" * 230 + "\u00e9" * 20):
        name = link_name(pod, "default", "main", "containerd://" + "0" * 64)
        assert 253 <= len(name.encode()) <= 255
        assert name.startswith(pod[:100])
        assert name.endswith(".log")


def test_a_later_answer_of_an_earlier_look_brings_nothing_back_to_life():
    before = shown(box(), instance("a", "exited", code=3), instance("b"))
    older = shown(box(), instance("a"), instance("b", "exited", code=0))
    view = not_back(before, older)
    assert [(c.name, c.state.value, c.exit_code) for c in view.containers] == [
        ("a", "exited", 3),
        ("b", "exited", 0),
    ]
    assert not_back(None, older) is older
    assert not_back(older, before).containers[1].exit_code == 0
