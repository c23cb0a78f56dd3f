"""Calls under way on a world in memory."""

from api.errors import ConflictError, FailureKind
from api.ports.runtime import InspectPod, PodListing
from runtime.drivers.memory.call import Latency, MemoryCalls
from tests.conformance.containers.clock import VirtualClock

CALL = InspectPod(uid="u")
TAKES = (1.0, 1.0)


class Desk:
    """Calls on virtual time, what they did and what was answered."""

    def __init__(self, **latency):
        self.clock = VirtualClock()
        self.calls = MemoryCalls(self.clock, seed=3, latency=Latency(**latency))
        self.shown, self.answers, self.done = [], [], []
        self.calls.on_answer = self.shown.append

    def begin(self, effect=lambda _: PodListing(), *, deadline_s=9.0, waits=True):
        def carried_out(pending):
            self.done.append(self.clock.now())
            return effect(pending)

        def answered(result, failure):
            self.answers.append(result or failure)

        return self.calls.begin(CALL, deadline_s, answered, carried_out, takes_s=TAKES, waits=waits)

    def pass_time(self, seconds):
        ends_at = self.clock.now() + seconds
        while self.clock.now() < ends_at:
            self.clock.let_pass(ends_at - self.clock.now())


def test_effect_and_answer_each_take_their_time():
    desk = Desk(reply_s=(2.0, 2.0))
    desk.begin()
    desk.pass_time(2.5)
    assert len(desk.done) == 1
    assert desk.answers == []
    desk.pass_time(1.0)
    assert desk.answers == desk.shown == [PodListing()]


def test_a_failure_of_the_world_is_the_answer():
    def refuse(_):
        raise ConflictError("it runs")

    desk = Desk()
    desk.begin(refuse)
    desk.pass_time(1.5)
    assert [answer.brief() for answer in desk.answers] == [ConflictError("it runs").failure().brief()]


def test_only_the_first_of_several_answers_counts_and_none_comes_after_the_deadline():
    waiting = []
    desk = Desk()
    desk.begin(waiting.append, deadline_s=3.0)
    desk.begin(waiting.append, deadline_s=3.0)
    desk.pass_time(1.5)
    with desk.calls.turn():
        desk.calls.reply(waiting[0], PodListing(complete=True), None)
        desk.calls.reply(waiting[0], PodListing(), None)
    assert desk.answers == [PodListing(complete=True)]
    desk.pass_time(3.0)
    assert [answer.kind for answer in desk.answers[1:]] == [FailureKind.TIMED_OUT]
    desk.calls.reply(waiting[1], PodListing(), None)
    desk.pass_time(1.0)
    assert len(desk.answers) == 2


def test_what_was_cancelled_happens_unless_it_only_waits():
    desk = Desk()
    desk.begin(waits=True)()
    desk.pass_time(1.5)
    assert (len(desk.done), [answer.kind for answer in desk.answers]) == (0, [FailureKind.CANCELLED])
    desk.begin(waits=False)()
    desk.pass_time(1.5)
    assert (len(desk.done), len(desk.answers)) == (1, 2)


def test_an_agent_that_is_forgotten_is_answered_nothing_while_its_calls_go_on():
    desk = Desk()
    desk.begin()
    desk.calls.forget()
    desk.pass_time(10.0)
    assert (len(desk.done), desk.answers) == (1, [])
