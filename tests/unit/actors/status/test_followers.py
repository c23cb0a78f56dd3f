"""Followers get each new version of a status once, and all of them again when they restart."""

import itertools

from actors.status import ledger
from actors.status.core import decide
from actors.status.state import StatusState
from api.ids import Path, Uid
from api.kube.objects.podstatus import PodCondition, PodStatus
from api.lifecycle import Start, Tell
from api.messages.kernel import Restarted
from api.messages.status import ForgetPodStatus, PodStatusComposed
from tests.unit.actors.status.answer import answer

WRITER = Path("/node/apistatus")


class Desk:
    """A StatusManager core with one sink and one follower."""

    def __init__(self):
        self.state, self.ops, self.open = StatusState(), itertools.count(1), {}

    def give(self, message):
        """Give a message and return what the follower gets."""
        decision = decide((ledger,), self.state, message, 0.0, lambda: next(self.ops), (WRITER,))
        self.state = decision.state
        self.open |= {one.op: one.call for one in decision.actions if isinstance(one, Start)}
        assert {one.to for one in decision.actions if isinstance(one, Tell)} <= {WRITER}
        return [one.message for one in decision.actions if isinstance(one, Tell)]

    def end_writes(self):
        for op, call in list(self.open.items()):
            del self.open[op]
            self.give(answer(op, type(call).__name__, 0.0))


def composed(phase, uid="u1", *, finished=False, conditions=()):
    status = PodStatus(phase=phase, conditions=conditions)
    return PodStatusComposed(uid=Uid(uid), namespace="d", name="n", status=status, finished=finished)


def test_a_new_version_is_sent_at_once_and_an_equal_one_is_not():
    desk = Desk()
    assert desk.give(composed("Pending")) == [composed("Pending")]
    assert desk.give(composed("Pending")) == []
    of_others = PodCondition(type="example.com/gate", status="True")
    assert desk.give(composed("Pending", conditions=(of_others,))) == [], "others' part is no version"
    assert desk.give(composed("Failed")) == [composed("Failed")]
    assert desk.give(composed("Failed", finished=True)) == [composed("Failed", finished=True)]


def test_a_follower_that_restarts_gets_every_pod_that_is_not_forgotten():
    desk = Desk()
    desk.give(composed("Running", "u1"))
    desk.give(composed("Running", "u2", finished=True))
    desk.give(composed("Running", "u3"))
    assert desk.give(ForgetPodStatus(uid=Uid("u3"))) == [ForgetPodStatus(uid=Uid("u3"))]
    again = desk.give(Restarted(path=WRITER, incarnation=1, cause="x"))
    assert again == [composed("Running", "u1"), composed("Running", "u2", finished=True)]
    assert desk.give(Restarted(path=Path("/node/pods/u1"), incarnation=1, cause="x")) == []


def test_a_pod_that_is_forgotten_and_comes_back_is_sent_again():
    desk = Desk()
    desk.give(composed("Running"))
    desk.end_writes()
    assert desk.give(ForgetPodStatus(uid=Uid("u1"))) == [ForgetPodStatus(uid=Uid("u1"))]
    desk.end_writes()
    assert desk.give(composed("Running")) == [composed("Running")]
