"""Two sinks: each has its own progress, and none holds up the other."""

import itertools

import msgspec
import pytest

from actors.rules.retry import RetryPolicy
from actors.status import ledger
from actors.status.core import decide, unwritten
from actors.status.sink import Sink
from actors.status.state import StatusState
from api.errors import FailureKind
from api.ids import Uid
from api.kube.objects.podstatus import PodStatus
from api.lifecycle import Start
from api.messages.kernel import Alarm
from api.messages.status import ForgetPodStatus, PodStatusComposed
from api.ports.ledger import Forget, Remember
from tests.unit.actors.status.answer import answer


class Post(msgspec.Struct, frozen=True, kw_only=True):
    """What the board is asked for."""

    uid: Uid
    phase: str
    finished: bool
    gone: bool


class Board:
    """A sink that shows statuses to others at once, `finished` too, and has never heard of pods named ``hidden``."""

    PORT = "board"
    DEADLINE_S = 5.0

    def takes(self, before, after):
        if after.name == "hidden":
            return False
        return before is None or msgspec.structs.replace(before, number=after.number) != after

    def gather_s(self, version):
        return 0.0

    def call_of(self, version, progress):
        return Post(
            uid=version.uid, phase=version.status.phase, finished=version.finished, gone=version.forgotten
        )

    def retry_policy(self, outcome):
        gone = outcome.failure is None or outcome.failure.kind is FailureKind.NOT_FOUND
        return None if gone else RetryPolicy(base_s=4.0, limit_s=8.0)


SINKS: tuple[Sink, ...] = (ledger, Board())


class Office:
    """A StatusManager core with two sinks, and the calls that each has in flight."""

    def __init__(self):
        self.state, self.now, self.ops, self.wake_at = StatusState(), 0.0, itertools.count(1), None
        self.open = {"ledger": {}, "board": {}}

    def give(self, message):
        """Give a message; return the calls that it starts, by port."""
        decision = decide(SINKS, self.state, message, self.now, lambda: next(self.ops))
        self.state, self.wake_at = decision.state, decision.wake_at
        started = {"ledger": [], "board": []}
        for action in decision.actions:
            assert isinstance(action, Start)
            self.open[action.port][action.op] = action.call
            started[action.port].append(action.call)
        return started

    def tell(self, phase, *, finished=False, name="n"):
        status = PodStatus(phase=phase)
        return self.give(
            PodStatusComposed(uid=Uid("u1"), namespace="d", name=name, status=status, finished=finished)
        )

    def forget(self):
        return self.give(ForgetPodStatus(uid=Uid("u1")))

    def end(self, port, kind=None):
        """End the one call that a port has in flight."""
        ((op, call),) = self.open[port].items()
        del self.open[port][op]
        return self.give(answer(op, type(call).__name__, self.now, kind))

    def ring(self):
        self.now = self.wake_at
        return self.give(Alarm(at=self.now))

    def progress(self):
        return {
            sink.PORT: (one.stored, one.wanted, one.retry.failures)
            for sink, one in zip(SINKS, self.state.pods[Uid("u1")].progress, strict=True)
        }


def kinds(started):
    return {port: [type(call) for call in calls] for port, calls in started.items()}


def test_one_version_goes_to_both_sinks_as_each_wants_it():
    office = Office()
    assert kinds(office.tell("Pending")) == {"ledger": [], "board": [Post]}, "only the ledger gathers"
    office.end("board")
    started = office.tell("Running")
    assert kinds(started) == {"ledger": [Remember], "board": [Post]}
    assert office.state.pods[Uid("u1")].newest.number == 2
    office.end("ledger"), office.end("board")
    assert office.progress() == {"ledger": (2, 2, 0), "board": (2, 2, 0)}
    assert office.wake_at is None


def test_a_sink_that_fails_holds_up_no_other_and_ends_with_the_newest_version():
    office = Office()
    office.tell("Running")
    office.end("ledger")
    waits = []
    for number in range(2, 6):
        assert office.end("board", FailureKind.UNAVAILABLE) == {"ledger": [], "board": []}
        waits.append(office.wake_at - office.now)
        started = office.tell("Running" if number % 2 else "Unknown")
        assert kinds(started) == {"ledger": [Remember], "board": []}, "the back-off is the board's own"
        office.end("ledger")
        assert office.progress()["ledger"] == (number, number, 0)
        assert office.progress()["board"] == (0, number, number - 1)
        assert kinds(office.ring()) == {"ledger": [], "board": [Post]}
    assert waits == [4, 8, 8, 8]
    (posted,) = office.open["board"].values()
    office.end("board")
    assert (posted.phase, office.progress()["board"]) == ("Running", (5, 5, 0))


def test_the_ledger_fails_on_its_own_too():
    office = Office()
    office.tell("Failed")
    office.end("ledger", FailureKind.EXHAUSTED)
    assert kinds(office.end("board")) == {"ledger": [], "board": []}
    assert office.wake_at == 1.0
    assert office.progress() == {"ledger": (0, 1, 1), "board": (1, 1, 0)}


def test_a_sink_that_lags_has_one_write_of_a_pod_in_flight_and_the_other_goes_on():
    office = Office()
    office.tell("Running")
    for phase in ("Unknown", "Running", "Failed"):
        office.end("ledger")
        assert kinds(office.tell(phase)) == {"ledger": [Remember], "board": []}
    office.end("ledger")
    started = office.end("board")
    assert [post.phase for post in started["board"]] == ["Failed"], (
        "only the newest of what changed meanwhile"
    )
    assert started["ledger"] == []
    office.end("board")
    assert office.progress() == {"ledger": (4, 4, 0), "board": (4, 4, 0)}


def test_that_a_pod_is_finished_is_written_where_it_counts_only():
    office = Office()
    office.tell("Succeeded")
    office.end("ledger"), office.end("board")
    started = office.tell("Succeeded", finished=True)
    assert started["ledger"] == []
    assert [post.finished for post in started["board"]] == [True]
    office.end("board")
    assert office.progress() == {"ledger": (1, 1, 0), "board": (2, 2, 0)}


def test_a_pod_is_dropped_when_the_last_sink_has_removed_it():
    office = Office()
    office.tell("Failed")
    office.end("ledger"), office.end("board")
    assert kinds(office.forget()) == {"ledger": [Forget], "board": [Post]}
    assert kinds(office.end("ledger")) == {"ledger": [], "board": []}
    assert Uid("u1") in office.state.pods
    assert kinds(office.forget()) == {"ledger": [], "board": []}, "what is removed is not removed twice"
    office.end("board", FailureKind.NOT_FOUND)
    assert (dict(office.state.pods), dict(office.state.writes)) == ({}, {})


def test_a_pod_that_comes_back_is_written_durably_only_where_its_earlier_life_may_still_be():
    office = Office()
    office.tell("Failed")
    office.end("ledger"), office.end("board")
    office.forget()
    office.end("ledger")
    ((write,), posts) = (office.tell("Running")["ledger"], office.end("board")["board"])
    assert not write.durable, "the ledger had removed it for good"
    assert [post.phase for post in posts] == ["Running"], "the board had not, and removes and writes in turn"


@pytest.mark.parametrize("again", [False, True])
def test_a_pod_that_a_sink_does_not_take_is_written_to_the_other_alone(again):
    office = Office()
    assert kinds(office.tell("Running", name="hidden")) == {"ledger": [Remember], "board": []}
    office.end("ledger")
    assert kinds(office.forget()) == {"ledger": [Forget], "board": []}
    if again:
        assert kinds(office.tell("Failed", name="hidden")) == {"ledger": [], "board": []}
        assert kinds(office.end("ledger")) == {"ledger": [Remember], "board": []}
        office.end("ledger")
        assert office.progress()["board"] == (0, 0, 0)
    else:
        office.end("ledger")
        assert dict(office.state.pods) == {}


def test_an_orderly_end_writes_what_each_sink_lacks():
    office = Office()
    office.tell("Pending")
    office.end("board")
    (to_ledger, calls), (to_board, none) = unwritten(SINKS, office.state)
    assert (to_ledger, [type(call) for call in calls]) == ("ledger", [Remember])
    assert (to_board, none) == ("board", ())
