"""The world in memory: its scripts, its hands, its accounts, and that a seed repeats it."""

import pytest

from api.errors import FailureKind
from api.ports.runtime import (
    ANNOTATION_OWNER,
    HOST_IMAGE,
    ContainerSpec,
    CreateContainer,
    ListPods,
    RemoveContainer,
    RemoveSandbox,
    RunSandbox,
    RuntimeContainerState,
    SandboxSpec,
    SandboxState,
    StartContainer,
    StopContainer,
)
from runtime.drivers.memory.behaviour import (
    Behaviour,
    OnTerm,
    Output,
    OutputLine,
    ProcessExit,
    killed_by,
    parse,
)
from runtime.drivers.memory.call import Latency
from runtime.drivers.memory.history import Cause, Happening, HistoryRow, Referee, violations
from runtime.drivers.memory.runtime import MemoryRuntime
from tests.conformance.containers.clock import VirtualClock
from tests.harness.runtimeport import port_for

SPREAD = Latency(effect_s=(0.001, 0.05), reply_s=(0.001, 0.05), event_s=(0.001, 0.1))


class Hands:
    """A runtime on virtual time, and calls that wait for their answer."""

    def __init__(self, **options):
        self.clock = VirtualClock()
        self.runtime = MemoryRuntime(self.clock, **options)

    def pass_time(self, seconds):
        ends_at = self.clock.now() + seconds
        while self.clock.now() < ends_at:
            self.clock.let_pass(ends_at - self.clock.now())

    def call(self, call, deadline_s=10.0):
        answers = []
        port_for(self.runtime, call).begin(
            call, deadline_s, lambda result, failure: answers.append(result or failure)
        )
        while not answers:
            self.clock.let_pass(1.0)
        return answers[0]

    def spec(self, uid="uid-1", attempt=0):
        return SandboxSpec(
            uid=uid,
            name="web",
            namespace="default",
            attempt=attempt,
            annotations=((ANNOTATION_OWNER, "nodeagent"),),
            log_directory=f"/logs/default_web_{uid}",
        )

    def sandbox(self, uid="uid-1", attempt=0):
        return self.call(RunSandbox(spec=self.spec(uid, attempt))).sandboxes[0]

    def container(self, sandbox, *script, name="main", attempt=0):
        spec = ContainerSpec(
            name=name, attempt=attempt, image=HOST_IMAGE, command=script, log_path=f"{name}/{attempt}.log"
        )
        box = self.spec(sandbox.uid, sandbox.attempt)
        pod = self.call(CreateContainer(uid=sandbox.uid, sandbox_id=sandbox.id, sandbox=box, spec=spec))
        made = next(c for c in pod.containers if (c.name, c.attempt) == (name, attempt))
        pod = self.call(StartContainer(uid=sandbox.uid, container_id=made.id))
        return next(c for c in pod.containers if c.id == made.id)

    def look(self, container):
        pods = self.runtime.snapshot().pods
        return next((c for p in pods for c in p.containers if c.id == container.id), None)


@pytest.mark.parametrize(
    ("words", "behaviour"),
    [
        ((), Behaviour()),
        (("run",), Behaviour()),
        (("exit", "37"), Behaviour(ends_after_s=0, ending=ProcessExit(code=37, reason="Error"))),
        (("exit", "0"), Behaviour(ends_after_s=0, ending=ProcessExit(reason="Completed"))),
        (("sleep", "5"), Behaviour(ends_after_s=5)),
        (("sleep", "5", "exit", "3"), Behaviour(ends_after_s=5, ending=ProcessExit(code=3, reason="Error"))),
        (("sleep", "5", "run"), Behaviour()),
        (("ignore-term",), Behaviour(on_term=OnTerm(ignored=True))),
        (("slow-term", "3"), Behaviour(on_term=OnTerm(takes_s=3, code=143))),
        (("slow-term", "3", "code", "7", "run"), Behaviour(on_term=OnTerm(takes_s=3, code=7))),
        (("slow-term", "3", "sleep", "9"), Behaviour(on_term=OnTerm(takes_s=3, code=143), ends_after_s=9)),
        (("crash",), Behaviour(ends_after_s=0, ending=killed_by(11))),
        (("sleep", "1", "crash", "6"), Behaviour(ends_after_s=1, ending=killed_by(6))),
        (("sleep", "1", "oom"), Behaviour(ends_after_s=1, ending=killed_by(9, "OOMKilled"))),
        (
            ("sleep", "1", "print", "a b", "stderr"),
            Behaviour(ends_after_s=1, lines=(OutputLine(after_s=1, text="a b", output=Output.STDERR),)),
        ),
    ],
)
def test_a_script_means_what_its_page_says(words, behaviour):
    assert parse(words) == behaviour


@pytest.mark.parametrize(
    "words", [("missing",), ("/bin/sh", "-c", "x"), ("sleep",), ("exit", "x"), ("print", "a", "b")]
)
def test_a_script_that_is_wrong_cannot_start_and_says_why(words):
    assert parse(words).cannot_start


def test_a_container_killed_from_outside_shows_the_signal():
    hands = Hands()
    container = hands.container(hands.sandbox(), "run")
    hands.runtime.kill_container(container.id, 9)
    ended = hands.look(container)
    assert (ended.exit_code, ended.signal, ended.reason) == (137, 9, "OOMKilled")
    hands.runtime.kill_container(container.id, 15)
    assert hands.look(container) == ended


def test_a_killed_sandbox_is_not_ready_and_so_is_what_ran_in_it():
    hands = Hands()
    sandbox = hands.sandbox()
    container = hands.container(sandbox, "ignore-term")
    hands.runtime.kill_sandbox(sandbox.uid)
    (pod,) = hands.runtime.snapshot().pods
    assert pod.sandboxes[0].state is SandboxState.NOT_READY
    assert hands.look(container).exit_code == 137


def test_records_can_vanish_behind_our_back():
    hands = Hands()
    sandbox = hands.sandbox()
    first, second = hands.container(sandbox, "run", name="a"), hands.container(sandbox, "run", name="b")
    hands.runtime.remove_behind_our_back(first.id)
    assert hands.look(first) is None
    assert hands.look(second).state is RuntimeContainerState.RUNNING
    hands.runtime.remove_behind_our_back(sandbox.id)
    assert hands.runtime.snapshot().pods == ()
    assert hands.runtime.running() == ()
    assert hands.runtime.violations() == ()


def test_a_reboot_leaves_records_of_what_ended():
    hands = Hands()
    sandbox = hands.sandbox()
    runs, ended = hands.container(sandbox, "run", name="a"), hands.container(sandbox, "exit", "4", name="b")
    hands.pass_time(0.01)
    hands.runtime.reboot()
    assert (hands.look(runs).state, hands.look(runs).exit_code) == (RuntimeContainerState.EXITED, 255)
    assert hands.look(ended).exit_code == 4
    assert hands.runtime.snapshot().pods[0].sandboxes[0].state is SandboxState.NOT_READY


def test_foreign_pods_run_and_are_not_ours():
    hands = Hands()
    pod = hands.runtime.add_foreign_pod("kube-system", "proxy")
    assert pod.ours is False
    assert [c.state for c in pod.containers] == [RuntimeContainerState.RUNNING]


def test_a_lost_container_is_unknown():
    hands = Hands()
    container = hands.container(hands.sandbox(), "run")
    hands.runtime.lose_track(container.id)
    assert hands.look(container).state is RuntimeContainerState.UNKNOWN


def test_nothing_reaches_an_agent_that_was_killed_but_its_requests_happen():
    hands = Hands(latency=Latency(effect_s=(1.0, 1.0)))
    sandbox = hands.sandbox()
    container = hands.container(sandbox, "ignore-term")
    answers, items = [], []
    hands.runtime.events.open(items.append, answers.append)
    call = StopContainer(uid=sandbox.uid, container_id=container.id, grace_s=2)
    hands.runtime.begin(call, 60, lambda result, failure: answers.append((result, failure)))
    hands.runtime.disconnect()
    hands.pass_time(2.5)
    assert hands.look(container).state is RuntimeContainerState.RUNNING
    hands.pass_time(1.0)
    assert hands.look(container).exit_code == 137
    hands.pass_time(100)
    assert (answers, items) == ([], [])


def test_a_start_that_was_cancelled_on_its_way_happens_all_the_same():
    hands = Hands(latency=Latency(effect_s=(1.0, 1.0)))
    sandbox = hands.sandbox()
    spec = ContainerSpec(name="main", attempt=0, image=HOST_IMAGE, log_path="main/0.log")
    answers = []
    create = CreateContainer(uid=sandbox.uid, sandbox_id=sandbox.id, sandbox=hands.spec(), spec=spec)
    cancel = hands.runtime.begin(create, 5, lambda *a: answers.append(a))
    cancel()
    hands.pass_time(1.5)
    assert [failure.kind for _, failure in answers] == [FailureKind.CANCELLED]
    assert len(hands.runtime.snapshot().pods[0].containers) == 1


def test_the_same_seed_is_the_same_history_and_another_is_another():
    def run(seed):
        hands = Hands(seed=seed, latency=SPREAD)
        for n in range(3):
            sandbox = hands.sandbox(f"uid-{n}")
            container = hands.container(sandbox, "sleep", "1", "exit", "2")
            hands.pass_time(2)
            hands.call(ListPods())
            hands.call(RemoveContainer(uid=sandbox.uid, container_id=container.id))
        return hands.runtime

    first = run(1)
    assert first.history == run(1).history
    assert first.history != run(2).history
    assert first.violations() == ()


def test_a_listing_that_is_not_complete_keeps_states_and_hides_exit_codes():
    hands = Hands(complete_listings=False)
    hands.container(hands.sandbox(), "exit", "3")
    hands.pass_time(0.01)
    listing = hands.call(ListPods())
    (container,) = listing.pods[0].containers
    assert (listing.complete, container.state, container.exit_code) == (
        False,
        RuntimeContainerState.EXITED,
        None,
    )


def test_two_live_sandboxes_are_a_violation():
    hands = Hands()
    hands.sandbox(attempt=0)
    hands.sandbox(attempt=1)
    assert ["two live sandboxes" in v for v in hands.runtime.violations()] == [True]


def test_a_container_that_runs_twice_is_a_violation():
    hands = Hands()
    sandbox = hands.sandbox()
    hands.container(sandbox, "run", attempt=0)
    hands.container(sandbox, "run", attempt=1)
    assert ["runs twice" in v for v in hands.runtime.violations()] == [True]


@pytest.mark.parametrize("by_the_agent", [False, True])
def test_a_lost_container_runs_until_it_is_stopped_or_somebody_else_takes_it_away(by_the_agent):
    hands = Hands()
    sandbox = hands.sandbox()
    lost = hands.container(sandbox, "run", attempt=0)
    hands.runtime.lose_track(lost.id)
    if by_the_agent:
        hands.call(RemoveContainer(uid=sandbox.uid, container_id=lost.id))
    else:
        hands.runtime.remove_behind_our_back(lost.id)
    hands.container(sandbox, "run", attempt=1)
    assert ["runs twice" in v for v in hands.runtime.violations()] == [True] * by_the_agent


def test_removing_what_runs_is_a_violation():
    hands = Hands()
    sandbox = hands.sandbox()
    container = hands.container(sandbox, "run")
    hands.call(RemoveContainer(uid=sandbox.uid, container_id=container.id))
    assert ["running container main" in v for v in hands.runtime.violations()] == [True]
    assert hands.runtime.running() == ()


def test_removing_an_exit_that_nobody_saw_is_a_violation():
    hands = Hands()
    sandbox = hands.sandbox()
    hands.container(sandbox, "sleep", "1", "exit", "3")
    hands.pass_time(2)
    hands.call(RemoveSandbox(uid=sandbox.uid, sandbox_id=sandbox.id))
    assert ["before its exit was seen" in v for v in hands.runtime.violations()] == [True]


def test_an_attempt_that_starts_again_in_another_sandbox_is_a_violation():
    def row(what, **fields):
        return HistoryRow(at=0.0, what=what, uid="u", cause=Cause.AGENT, name="main", **fields)

    rows = [
        row(Happening.STARTED, container_id="1"),
        row(Happening.EXITED, container_id="1"),
        row(Happening.STARTED, container_id="2"),
    ]
    assert ["started twice" in v for v in violations(rows)] == [True]


def test_a_number_goes_with_the_newest_record_that_the_world_removes():
    def row(what, cause=Cause.AGENT, **fields):
        return HistoryRow(at=1.0, what=what, uid="u", cause=cause, name="main", **fields)

    referee = Referee()
    ran = [
        row(what, container_id=str(attempt), attempt=attempt)
        for attempt in range(2)
        for what in (Happening.STARTED, Happening.EXITED, Happening.EXIT_SHOWN)
    ]
    gone = [
        row(Happening.REMOVED, container_id="0", attempt=0),
        row(Happening.REMOVED, Cause.WORLD, container_id="1", attempt=1),
    ]
    assert [said for step in (*ran, *gone) for said in referee.judge(step)] == []
    again = [row(what, container_id="2", attempt=0) for what in (Happening.CREATED, Happening.STARTED)]
    said = [said for step in again for said in referee.judge(step)]
    assert ["started twice" in one for one in said] == [True], "the same agent saw it"
    assert list(referee.judge(row(Happening.EXITED, container_id="2"))) == []
    assert list(referee.judge(row(Happening.REMOVED, Cause.WORLD, container_id="2", attempt=0))) == []
    referee.agent_began()
    assert [said for step in again for said in referee.judge(step)] == []


@pytest.mark.parametrize("begins", ["agent", "owner"])
@pytest.mark.parametrize("shown", [(), (("main", 0),), (("other", 0),), (("main", 2),)])
def test_a_new_agent_or_owner_knows_the_numbers_that_a_look_showed_it(shown, begins):
    def row(what, cause=Cause.AGENT):
        return HistoryRow(at=1.0, what=what, uid="u", cause=cause, name="main", container_id="1")

    referee = Referee()
    assert list(referee.judge(row(Happening.STARTED))) == []
    if begins == "agent":
        referee.agent_began()
    else:
        referee.owner_began("u")
    referee.agent_saw("u", shown)
    rest = (Happening.EXITED, Happening.REMOVED, Happening.CREATED, Happening.STARTED)
    said = [one for what in rest for one in referee.judge(row(what, Cause.WORLD))]
    assert ["started twice" in one for one in said] == [True] * ("main" in dict(shown))
