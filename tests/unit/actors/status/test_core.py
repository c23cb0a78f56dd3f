"""The one writer of statuses: newest wins, one write of a pod at a time, nothing is dropped."""

import itertools

import msgspec
from msgspec.structs import replace

from actors.rules.container.ownership import say_the_same
from actors.status import ledger
from actors.status.core import decide
from actors.status.core import unwritten as lacking
from actors.status.ledger import GATHER_S
from actors.status.state import StatusState
from api.errors import FailureKind
from api.ids import Uid
from api.kube.objects.podstatus import ContainerStatus, PodCondition, PodStatus
from api.lifecycle import Start
from api.messages.kernel import Alarm
from api.messages.status import ForgetPodStatus, PodStatusComposed
from api.ports.ledger import Forget, Remember
from tests.unit.actors.status.answer import answer


class Desk:
    """A StatusManager core, its writes in flight, and what is on disk."""

    def __init__(self):
        self.state, self.now, self.ops, self.open, self.disk = StatusState(), 0.0, itertools.count(1), {}, {}

    def version(self, uid="u1"):
        return self.state.pods[Uid(uid)].newest

    def give(self, message):
        decision = decide((ledger,), self.state, message, self.now, lambda: next(self.ops))
        self.state, self.wake_at = decision.state, decision.wake_at
        calls = [a.call for a in decision.actions if isinstance(a, Start)]
        self.open |= {a.op: a.call for a in decision.actions if isinstance(a, Start)}
        return calls

    def tell(self, status, uid="u1", *, finished=False):
        """Tell a status and let nothing pass."""
        fact = PodStatusComposed(uid=Uid(uid), namespace="d", name="n", status=status, finished=finished)
        return self.give(fact)

    def publish(self, status, uid="u1"):
        """Tell a status and let the time pass in which changes are gathered."""
        calls = self.tell(status, uid)
        self.now += GATHER_S
        return calls + self.give(Alarm(at=self.now))

    def status(self, phase, uid="u1"):
        return self.publish(PodStatus(phase=phase), uid)

    def forget(self, uid="u1"):
        return self.give(ForgetPodStatus(uid=Uid(uid)))

    def end(self, *, fails=False, kind=FailureKind.UNAVAILABLE):
        op, call = self.open.popitem()
        self.now += 0.01
        if isinstance(call, Forget) and not fails:
            self.disk.pop(call.key, None)
        elif not fails:
            self.disk[call.key] = msgspec.msgpack.decode(call.data, type=PodStatus).phase
        return self.give(answer(op, type(call).__name__, self.now, kind if fails else None))

    def ring(self):
        self.now = self.wake_at
        return self.give(Alarm(at=self.now))


def unwritten(state):
    """Return the calls that write what the ledger lacks."""
    ((port, calls),) = lacking((ledger,), state)
    assert port == "ledger"
    return calls


def test_a_status_is_written_and_an_equal_one_is_not():
    desk = Desk()
    (write,) = desk.status("Pending")
    assert (write.section, write.key, write.durable) == ("status", "u1", False)
    desk.end()
    assert desk.status("Pending") == []
    assert desk.disk == {"u1": "Pending"}


def test_a_change_during_a_write_is_written_right_after_and_only_the_newest():
    desk = Desk()
    desk.status("Pending")
    assert desk.status("Running") == desk.status("Failed") == []
    assert len(desk.open) == 1
    assert len(desk.end()) == 1
    assert desk.end() == []
    assert desk.disk == {"u1": "Failed"}


def test_changes_of_a_moment_are_written_together_and_an_end_at_once():
    desk = Desk()
    for reason in ("", "Waits"):
        assert desk.tell(PodStatus(phase="Pending", reason=reason)) == []
        desk.now += GATHER_S / 4
    assert [call.key for call in unwritten(desk.state)] == ["u1"]
    assert len(desk.ring()) == 1
    assert desk.now == GATHER_S, "the first of them is not late because of the others"
    desk.end()
    assert (desk.disk, unwritten(desk.state)) == ({"u1": "Pending"}, ())
    assert len(desk.tell(PodStatus(phase="Running"))) == 1, (
        "that it runs, and is ready, must outlive the agent"
    )
    desk.end()
    (write,) = desk.tell(PodStatus(phase="Failed"))
    assert write.durable


def test_pods_do_not_wait_for_each_other():
    desk = Desk()
    desk.status("Pending", "u1")
    assert len(desk.status("Pending", "u2")) == 1


def test_a_terminal_status_is_durable():
    for phase, durable in (("Succeeded", True), ("Failed", True), ("Running", False)):
        (write,) = Desk().status(phase)
        assert write.durable is durable


def test_failures_back_off_and_the_newest_is_written_in_the_end():
    desk = Desk()
    desk.status("Pending")
    waits = []
    for _ in range(8):
        assert desk.end(fails=True) == []
        waits.append(round(desk.wake_at - desk.now, 3))
        assert desk.tell(PodStatus(phase=f"phase{len(waits)}")) == [], "a change must not outrun the back-off"
        assert len(desk.ring()) == 1
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    desk.end()
    assert desk.disk == {"u1": "phase8"}


def test_a_status_waits_for_room_no_longer_than_two_seconds():
    """What makes the room is the clearing of records: until it is written nobody else knows how the pod ended."""
    desk = Desk()
    desk.status("Failed")
    waits = []
    for _ in range(8):
        assert desk.end(fails=True, kind=FailureKind.EXHAUSTED) == []
        waits.append(round(desk.wake_at - desk.now, 3))
        assert len(desk.ring()) == 1
    assert waits == [1, 2, 2, 2, 2, 2, 2, 2]


def test_a_pod_that_is_gone_is_forgotten_on_disk_and_here():
    desk = Desk()
    desk.status("Running"), desk.end()
    assert [type(c) for c in desk.forget()] == [Forget]
    desk.end()
    assert (desk.disk, dict(desk.state.pods)) == ({}, {})


def test_a_pod_of_an_earlier_life_is_forgotten_on_disk_too():
    assert [type(c) for c in Desk().forget("old")] == [Forget]


def test_forgetting_waits_for_the_write_in_flight():
    desk = Desk()
    desk.status("Running")
    assert desk.forget() == []
    assert [type(c) for c in desk.end()] == [Forget]
    desk.end()
    assert desk.disk == {}


def test_a_pod_that_comes_back_while_it_is_forgotten_is_written_again():
    desk = Desk()
    desk.status("Running"), desk.end(), desk.forget()
    assert desk.status("Pending") == []
    assert [type(c) for c in desk.end()] == [Remember]
    desk.end()
    assert desk.disk == {"u1": "Pending"}


def test_no_power_failure_brings_back_the_end_of_an_earlier_life():
    desk = Desk()
    desk.status("Failed"), desk.end()
    assert [(type(c), c.durable) for c in desk.forget()] == [(Forget, True)]
    desk.status("Pending")
    desk.end(fails=True)
    assert [(type(c), c.durable) for c in desk.ring()] == [(Remember, True)]
    desk.end()
    assert [c.durable for c in desk.status("Running")] == [False]


def test_that_a_pod_is_finished_is_a_version_and_no_second_write():
    desk = Desk()
    ended = PodStatus(phase="Succeeded")
    (write,) = desk.tell(ended)
    assert write.durable
    desk.end()
    assert desk.tell(ended, finished=True) == []
    assert (desk.version().finished, desk.version().number) == (True, 2)
    assert (desk.wake_at, unwritten(desk.state)) == (None, ())
    assert [type(call) for call in desk.forget()] == [Forget]
    desk.end()
    assert (desk.disk, dict(desk.state.pods)) == ({}, {})


def test_that_a_pod_is_finished_neither_repeats_nor_hastens_a_write_in_flight_or_one_that_failed():
    desk = Desk()
    ended = PodStatus(phase="Failed")
    desk.tell(ended)
    assert desk.tell(ended, finished=True) == []
    assert desk.end(fails=True) == []
    assert desk.tell(ended, finished=False) == []
    (write,) = desk.ring()
    assert write.durable
    assert desk.end() == []
    assert desk.disk == {"u1": "Failed"}


def published(desk, *conditions):
    status = PodStatus(
        phase="Running", conditions=tuple(PodCondition(type=kind, status=word) for kind, word in conditions)
    )
    return desk.publish(status)


def test_what_others_wrote_makes_no_new_version_and_what_is_ours_does():
    desk = Desk()
    assert len(published(desk, ("Ready", "True"))) == 1
    desk.end()
    assert published(desk, ("example.com/other", "True"), ("Ready", "True")) == []
    assert desk.version().number == 1
    assert [c.type for c in desk.version().status.conditions] == [
        "example.com/other",
        "Ready",
    ]
    assert len(published(desk, ("Ready", "False"))) == 1
    desk.end()
    assert len(published(desk, ("Ready", "False"), ("DisruptionTarget", "True"))) == 1


def test_the_order_of_a_status_is_no_part_of_what_it_says():
    one, other = ContainerStatus(name="a", image="x"), ContainerStatus(name="b", image="x")
    assert say_the_same(
        PodStatus(container_statuses=(one, other)), PodStatus(container_statuses=(other, one))
    )
    assert not say_the_same(PodStatus(observed_generation=1), PodStatus(observed_generation=2))


class Unwalked(dict):
    """Entries that may be looked up, and not walked over."""

    def values(self):
        raise AssertionError("all pods were walked over for the sake of one")

    items = values


def test_a_message_of_one_pod_looks_at_no_other():
    desk = Desk()
    for number in range(300):
        desk.tell(PodStatus(phase="Pending"), uid=f"u{number}")

    def give(message):
        desk.state = replace(desk.state, pods=Unwalked(desk.state.pods))
        return desk.give(message)

    fact = PodStatusComposed(uid=Uid("u7"), namespace="d", name="n", status=PodStatus(phase="Running"))
    assert [call.key for call in give(fact)] == ["u7"]
    (op,) = desk.open
    assert give(answer(op, "Remember", desk.now)) == []
    assert desk.state.pods[Uid("u7")].progress[0].stored == 2
    assert desk.wake_at == GATHER_S
    desk.open.clear()
    desk.now = GATHER_S
    assert len(give(Alarm(at=desk.now))) == 299, "those that were gathered are written when they are due"
