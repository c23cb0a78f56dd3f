"""The Prober's decisions, by hand: who is asked when, what answers come to, what pods are told."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from actors.probes.core import decide, start
from actors.probes.explain import probe_rows
from actors.probes.state import ProberState
from api.errors import Failure, FailureKind
from api.ids import Uid
from api.lifecycle import Cancel, Start, Tell
from api.messages.kernel import Alarm, ChildDied, Outcome
from api.messages.pod import ProbeChanged, ProbeResult, ProbeTrouble
from api.messages.probes import ProbeKind, ProbePlan, ProbePod, ProbeTarget
from api.paths import pod_path
from api.ports.net import UNREADABLE, GrpcAnswer, GrpcHealth, HttpAnswer, HttpGet, TcpConnect, TcpConnected
from api.ports.runtime import ExecInContainer, ExecResult

NS = 1_000_000_000
WALL = 1_700_000_000 * NS
UID = Uid("u1")
S, L, R = ProbeKind.STARTUP, ProbeKind.LIVENESS, ProbeKind.READINESS
OK, BAD = HttpAnswer(status=200), HttpAnswer(status=500)


class Hand:
    """A Prober by hand: what it asks is answered by the test."""

    def __init__(self, *, seed=0, old=True, **state):
        self.ops = itertools.count(1)
        self.now = 1000.0
        begun = start(ProberState(**state), self.now, seed, ())
        self.state = begun.state
        if old:
            # An agent that has been there for long spreads nothing.
            self.state = replace(self.state, began_at=0.0)
        self.asked = {}
        self.told = []
        self.cancelled = []
        self.wake_at = None

    def tell(self, message):
        wall = WALL + round((self.now - 1000) * NS)
        decision = decide(self.state, message, self.now, wall, lambda: next(self.ops))
        self.state, self.wake_at = decision.state, decision.wake_at
        for action in decision.actions:
            match action:
                case Start():
                    self.asked[action.op] = action
                case Tell():
                    assert action.to == pod_path(action.message.uid)
                    self.told.append(action.message)
                case Cancel():
                    self.cancelled.append(action.op)

    def probe(self, *targets, uid=UID):
        self.tell(ProbePod(uid=uid, targets=targets))

    def go(self, to):
        """Let time pass until `to`, ringing each alarm on the way."""
        while self.wake_at is not None and self.wake_at <= to:
            self.now = max(self.now, self.wake_at)
            before = self.wake_at
            self.tell(Alarm(at=self.now))
            assert self.wake_at is None or self.wake_at > before, (
                "an alarm that changes nothing rings for ever"
            )
        self.now = to

    def answer(self, result=None, failure=None, op=None):
        """Answer what was asked first, or `op`."""
        op = min(self.asked) if op is None else op
        call = type(self.asked.pop(op).call).__name__
        self.tell(
            Outcome(op=op, call=call, result=result, failure=failure, started_at=self.now, ended_at=self.now)
        )

    @property
    def last(self):
        return self.told[-1]


def web(kind=R, call=None, **more):
    more.setdefault("period_s", 10)
    return ProbePlan(kind=kind, call=call or HttpGet(host="10.0.0.7", port=80, path=f"/{kind}"), **more)


def shell(kind=R, **more):
    return web(
        kind, ExecInContainer(uid=UID, container_id="x://a0", command=("well",), timeout_s=1.0), **more
    )


def target(*plans, name="a", number=0, started_s=0, started=None, ready=False):
    begun = all(plan.kind is not S for plan in plans) if started is None else started
    return ProbeTarget(
        container=name,
        container_id=f"x://{name}{number}",
        started_at=WALL + started_s * NS,
        started=begun,
        ready=ready,
        probes=plans,
    )


def paths(hand):
    return [start.call.path for start in hand.asked.values()]


def failed(kind=FailureKind.UNAVAILABLE, message="no", reason=""):
    return Failure(kind=kind, message=message, reason=reason)


def test_the_first_check_is_made_at_once_and_then_one_each_period():
    hand = Hand()
    hand.probe(target(web()))
    for number in range(3):
        assert len(hand.asked) == 1
        hand.answer(OK)
        assert hand.wake_at == 1000 + 10 * (number + 1)
        hand.go(hand.wake_at)


def test_a_check_that_took_longer_than_a_period_is_followed_at_once_and_never_overlapped():
    hand = Hand()
    hand.probe(target(web()))
    hand.go(1035.0)
    assert len(hand.asked) == 1
    hand.answer(OK)
    assert len(hand.asked) == 1, "the next one begins"


def test_the_initial_delay_counts_from_the_start_of_the_container():
    hand = Hand()
    hand.probe(target(web(initial_delay_s=30), started_s=-10))
    assert not hand.asked
    assert hand.wake_at == 1020


@pytest.mark.parametrize(("started_s", "at"), [(-3600, 1000), (3600, 1030)])
def test_a_wall_clock_that_jumped_delays_by_no_more_than_the_delay(started_s, at):
    hand = Hand()
    hand.probe(target(web(initial_delay_s=30), started_s=started_s))
    assert (hand.wake_at or 1000) == at


def test_a_young_agent_spreads_its_first_checks_over_a_period():
    hand = Hand(old=False, seed=7)
    for number in range(200):
        hand.probe(target(web(), name="a"), uid=Uid(f"u{number}"))
    dues = [at for at, _ in hand.state.agenda]
    assert len(dues) == 200
    assert 1000 <= min(dues) < 1001
    assert 1009 < max(dues) < 1010
    other = Hand(old=False, seed=8)
    other.probe(target(web()), uid=Uid("u0"))
    assert other.state.agenda[0][0] != next(at for at, place in hand.state.agenda if place.uid == "u0")


def test_startup_gates_the_others_and_opens_at_once():
    hand = Hand()
    hand.probe(target(web(S), web(L), web(R)))
    assert paths(hand) == ["/Startup"]
    hand.answer(BAD)
    hand.go(1010.0)
    assert paths(hand) == ["/Startup"]
    hand.answer(OK)
    assert hand.last.result is ProbeResult.SUCCESS
    assert sorted(paths(hand)) == ["/Liveness", "/Readiness"]
    for _ in range(2):
        hand.answer(OK)
    hand.go(1025.0)
    assert "/Startup" not in paths(hand), "it is done with this instance"


def test_initial_delays_of_the_others_count_beside_the_gate():
    hand = Hand()
    hand.probe(target(web(S), web(R, initial_delay_s=60)))
    hand.answer(OK)
    assert not hand.asked
    assert hand.wake_at == 1060


@pytest.mark.parametrize("kind", [S, L])
def test_what_kills_is_published_once_and_held_until_another_instance(kind):
    hand = Hand()
    hand.probe(target(web(kind, failure_threshold=2)))
    hand.answer(BAD)
    assert hand.last.result is not ProbeResult.FAILURE
    assert (hand.last.trouble, hand.last.failures) == (ProbeTrouble.FAILED, 1)
    hand.go(1010.0)
    hand.answer(BAD)
    assert hand.last.result is ProbeResult.FAILURE
    assert hand.last.message == "HTTP probe failed with statuscode: 500"
    assert hand.wake_at is None
    told = len(hand.told)
    hand.probe(target(web(kind, failure_threshold=2), number=1))
    assert len(hand.told) == told, "of the new instance nothing is known"
    assert len(hand.asked) == 1
    hand.answer(BAD)
    assert hand.last.container_id == "x://a1"
    assert hand.last.result is not ProbeResult.FAILURE, "counters begin anew"


def test_readiness_comes_and_goes_at_its_thresholds():
    hand = Hand()
    hand.probe(target(web(R, success_threshold=2, failure_threshold=3, period_s=1)))
    results = []
    for answer in (OK, OK, BAD, BAD, OK, BAD, BAD, BAD, OK, OK):
        hand.answer(answer)
        (worker,) = hand.state.pods[UID].workers
        results.append(worker.result.value[0])
        hand.go(hand.now + 1)
    assert "".join(results) == "ussssssffs"
    assert [m.result.value for m in hand.told if not m.trouble] == ["success", "success"]


def test_an_error_counts_neither_way_and_is_tried_three_times_at_once():
    hand = Hand()
    hand.probe(target(shell(failure_threshold=1)))
    for _ in range(3):
        assert len(hand.asked) == 1
        assert not hand.told
        hand.answer(failure=failed())
    assert (hand.last.trouble, hand.last.result) == (ProbeTrouble.ERRORED, ProbeResult.UNKNOWN)
    assert not hand.asked
    assert hand.wake_at == 1010
    hand.go(1010.0)
    hand.answer(ExecResult(exit_code=0))
    assert hand.last.result is ProbeResult.SUCCESS


def test_what_cannot_be_asked_is_told_each_period():
    hand = Hand()
    plan = ProbePlan(kind=R, problem='port "x" not found', period_s=5)
    hand.probe(target(plan))
    assert (hand.last.trouble, hand.last.message) == (ProbeTrouble.ERRORED, 'port "x" not found')
    hand.go(1010.0)
    assert len(hand.told) == 3
    hand.probe(target(web(period_s=5)))
    hand.go(1015.0)
    assert hand.asked, "now it can be asked"


def test_what_is_known_of_an_instance_stands_until_it_was_asked_enough():
    hand = Hand()
    hand.probe(target(web(S), web(R, failure_threshold=2), started=True, ready=True))
    assert paths(hand) == ["/Readiness"], "it has started"
    hand.answer(BAD)
    assert hand.last.result is ProbeResult.SUCCESS
    hand.go(1010.0)
    hand.answer(BAD)
    assert hand.last.result is ProbeResult.FAILURE


def test_the_same_targets_told_again_change_nothing_and_are_answered():
    hand = Hand()
    hand.probe(target(web()))
    hand.answer(BAD)
    before, known = hand.state.agenda, hand.last
    hand.probe(target(web()))
    assert hand.state.agenda == before
    assert hand.last == known
    assert len(hand.told) == 2


def test_what_is_not_named_any_more_is_taken_back():
    hand = Hand()
    hand.probe(target(web(L), web(R)))
    liveness = next(op for op, asked in hand.asked.items() if asked.call.path == "/Liveness")
    hand.probe(target(web(R)))
    assert hand.cancelled == [liveness]
    hand.answer(failure=failed(FailureKind.CANCELLED), op=liveness)
    assert not hand.told
    hand.probe()
    assert hand.state.pods == {}
    assert hand.wake_at is None


def test_a_pod_whose_actor_is_dead_is_forgotten():
    hand = Hand()
    hand.probe(target(web()))
    hand.answer(OK)
    hand.tell(ChildDied(path=pod_path(UID), cause=""))
    assert hand.state.pods == {}
    assert hand.wake_at is None


def test_commands_are_bounded_and_wait_in_their_order():
    hand = Hand(exec_limit=2)
    for number in range(5):
        hand.probe(target(shell(), name=f"c{number}"), uid=Uid(f"u{number}"))
    assert len(hand.asked) == 2
    assert [place.uid for place in hand.state.queue] == ["u2", "u3", "u4"]
    (row,) = probe_rows(hand.state, Uid("u3"), hand.now)
    assert row.waits == "waiting for another probe command to end"
    hand.probe(uid=Uid("u2"))
    hand.answer(ExecResult(exit_code=0))
    assert [place.uid for place in hand.state.queue] == ["u4"]
    assert len(hand.asked) == 2
    # One that is asked in vain holds its place until it has ended.
    hand.probe(uid=Uid("u1"))
    assert hand.state.execs == 2


def test_a_pod_whose_commands_hang_leaves_room_for_others():
    hand = Hand(exec_limit=5, exec_limit_of_pod=2)
    hand.probe(*(target(shell(), name=f"c{number}") for number in range(6)))
    assert len(hand.asked) == 2
    hand.probe(target(shell()), uid=Uid("u2"))
    assert len(hand.asked) == 3
    hand.answer(ExecResult(exit_code=0))
    assert len(hand.asked) == 3
    assert len(hand.state.queue) == 3


def test_a_probe_over_the_network_is_held_up_by_no_command():
    hand = Hand(exec_limit=1)
    hand.probe(target(shell(L), web(R)))
    hand.probe(target(shell(), name="b"), uid=Uid("u2"))
    assert sorted(type(asked.call).__name__ for asked in hand.asked.values()) == [
        "ExecInContainer",
        "HttpGet",
    ]


VERDICTS = [
    (HttpGet(host="h", port=1), HttpAnswer(status=204), None, ProbeTrouble.NONE, ""),
    (HttpGet(host="h", port=1), HttpAnswer(status=399, body=b"x"), None, ProbeTrouble.WARNED,
     "Probe terminated redirects, Response body: x"),
    (HttpGet(host="h", port=1), HttpAnswer(status=400), None, ProbeTrouble.FAILED,
     "HTTP probe failed with statuscode: 400"),
    (HttpGet(host="h", port=1), None, failed(FailureKind.TIMED_OUT, "late"), ProbeTrouble.FAILED, "late"),
    (HttpGet(host="h", port=1), None, failed(reason=UNREADABLE), ProbeTrouble.ERRORED, "no"),
    (HttpGet(host="h", port=1), None, failed(FailureKind.EXHAUSTED), ProbeTrouble.ERRORED, "no"),
    (TcpConnect(host="h", port=1), TcpConnected(), None, ProbeTrouble.NONE, ""),
    (TcpConnect(host="h", port=1), None, failed(), ProbeTrouble.FAILED, "no"),
    (GrpcHealth(host="h", port=1), GrpcAnswer(status="SERVING"), None, ProbeTrouble.NONE, ""),
    (GrpcHealth(host="h", port=1), GrpcAnswer(status="UNKNOWN"), None, ProbeTrouble.FAILED,
     'service unhealthy (responded with "UNKNOWN")'),
    (ExecInContainer(uid=UID, container_id="c", command=("a", "b"), timeout_s=90.0), ExecResult(exit_code=1, stdout=b"o\x1b", stderr=b"e"),
     None, ProbeTrouble.FAILED, "o\N{REPLACEMENT CHARACTER}e"),
    (ExecInContainer(uid=UID, container_id="c", command=("a", "b"), timeout_s=90.0), None, failed(FailureKind.TIMED_OUT), ProbeTrouble.FAILED,
     'command timed out: "a b" timed out after 1m30s'),
]  # fmt: skip


@pytest.mark.parametrize(("call", "result", "failure", "trouble", "message"), VERDICTS)
def test_each_end_of_a_check_says_what_a_kubelet_says(call, result, failure, trouble, message):
    hand = Hand()
    hand.probe(target(web(L, call)))
    while hand.asked:
        hand.answer(result, failure)
    (worker,) = hand.state.pods[UID].workers
    assert (worker.trouble, worker.message) == (trouble, message)


def test_long_output_is_cut():
    hand = Hand()
    hand.probe(target(shell()))
    hand.answer(ExecResult(exit_code=1, stdout=b"x" * 10_240))
    assert len(hand.last.message) == 1024


def test_explain_tells_what_each_probe_does():
    hand = Hand()
    hand.probe(target(web(S, period_s=3), web(R)))
    startup, readiness = probe_rows(hand.state, UID, hand.now)
    assert startup.waits == "check running"
    assert readiness.waits == "waiting until the container has started"
    hand.answer(BAD)
    hand.go(1001.0)
    startup, _ = probe_rows(hand.state, UID, hand.now)
    assert (startup.failures, startup.failing_s, startup.next_in_s) == (1, 1.0, 2.0)
    assert startup.what == "startup probe of container a: GET http://10.0.0.7:80/Startup every 3 s"


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 4), st.integers(1, 4))
def test_the_result_is_the_last_run_of_equal_answers_that_was_long_enough(answers, success, failure):
    hand = Hand()
    hand.probe(target(web(R, success_threshold=success, failure_threshold=failure, period_s=1)))
    expected, run, last = ProbeResult.UNKNOWN, 0, None
    for well in answers:
        hand.answer(OK if well else BAD)
        run = run + 1 if well is last else 1
        last = well
        if run >= (success if well else failure):
            expected = ProbeResult.SUCCESS if well else ProbeResult.FAILURE
        (worker,) = hand.state.pods[UID].workers
        assert worker.result is expected
        hand.go(hand.now + 1)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from("ptao")), max_size=60))
def test_the_books_agree_whatever_comes(steps):
    hand = Hand(exec_limit=2)
    for pod, number, what in steps:
        uid = Uid(f"u{pod}")
        match what:
            case "p":
                hand.probe(target(shell(L), web(R), shell(S), number=number), uid=uid)
            case "t":
                hand.probe(uid=uid)
            case "a":
                hand.go(hand.now + 5 * number)
            case "o" if hand.asked:
                op = sorted(hand.asked)[number % len(hand.asked)]
                is_exec = isinstance(hand.asked[op].call, ExecInContainer)
                hand.answer(ExecResult(exit_code=number) if is_exec else OK, op=op)
        state = hand.state
        workers = [worker for pod in state.pods.values() for worker in pod.workers]
        assert sorted((w.due, w.place) for w in workers if w.due is not None) == list(state.agenda)
        assert sorted(w.place for w in workers if w.queued) == sorted(state.queue)
        assert all((w.due is not None) + w.queued + (w.op is not None) + w.held <= 1 for w in workers)
        under_way = [op for op, asked in hand.asked.items() if isinstance(asked.call, ExecInContainer)]
        assert state.execs == len(under_way) <= 2
        assert set(state.flights) == set(hand.asked)
        assert {w.op for w in workers if w.op is not None} <= set(state.flights)
    assert all(isinstance(message, ProbeChanged) for message in hand.told)


def test_thousands_of_probes_are_all_made_within_a_period():
    hand = Hand(old=False)
    for number in range(1000):
        hand.probe(target(web(L), web(R)), uid=Uid(f"u{number}"))
    assert len(hand.state.agenda) == 2000
    hand.go(1010.0)
    assert len(hand.asked) == 2000
