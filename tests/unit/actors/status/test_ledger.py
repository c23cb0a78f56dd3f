"""What the ledger takes of statuses, and how."""

import msgspec
import pytest

from actors.status import ledger
from actors.status.state import PodStatusVersion, SinkProgress
from api.errors import FailureKind
from api.ids import OpId, Uid
from api.kube.objects.podstatus import PodCondition, PodStatus
from api.ports.ledger import Forget, Remember
from tests.unit.actors.status.answer import answer


def version(phase="Running", **fields):
    return PodStatusVersion(uid=Uid("u1"), status=PodStatus(phase=phase), **fields)


def outcome(kind=None):
    return answer(OpId(1), "Remember", 0.0, kind)


def test_a_change_of_the_status_is_taken_and_one_of_finished_is_not():
    assert ledger.takes(None, version())
    assert ledger.takes(version("Running"), version("Failed"))
    assert not ledger.takes(version("Failed"), version("Failed", finished=True))


def test_what_others_wrote_is_not_taken():
    others = PodStatus(phase="Running", conditions=(PodCondition(type="example.com/x", status="True"),))
    assert not ledger.takes(version(), PodStatusVersion(uid=Uid("u1"), status=others))


def test_that_a_pod_is_forgotten_and_that_it_comes_back_are_taken_whatever_its_status():
    assert ledger.takes(version(), version(forgotten=True))
    assert ledger.takes(version(forgotten=True), version())


@pytest.mark.parametrize(
    ("phase", "gather_s"), [("Pending", 10.0), ("Running", 0.0), ("Succeeded", 0.0), ("Failed", 0.0)]
)
def test_only_what_does_not_run_yet_is_gathered(phase, gather_s):
    assert ledger.gather_s(version(phase)) == gather_s
    assert ledger.gather_s(version(phase, forgotten=True)) == 0.0


@pytest.mark.parametrize(
    ("phase", "durable"), [("Pending", False), ("Running", False), ("Succeeded", True), ("Failed", True)]
)
def test_a_final_status_is_written_durably(phase, durable):
    call = ledger.call_of(version(phase), SinkProgress(wanted=1))
    status = msgspec.msgpack.encode(PodStatus(phase=phase))
    assert call == Remember(section="status", key="u1", data=status, durable=durable)


def test_what_replaces_or_removes_an_earlier_life_is_durable():
    assert ledger.call_of(version(), SinkProgress(wanted=3, stored=1, returned=3)).durable
    assert not ledger.call_of(version(), SinkProgress(wanted=4, stored=3, returned=3)).durable
    removal = Forget(section="status", key="u1", durable=True)
    assert ledger.call_of(version(forgotten=True), SinkProgress(wanted=2, stored=1)) == removal


def test_a_full_disk_is_tried_again_sooner_than_other_failures_and_a_success_not_at_all():
    assert ledger.retry_policy(outcome()) is None
    assert ledger.retry_policy(outcome(FailureKind.UNAVAILABLE)).wait_s(9) == 60.0
    assert ledger.retry_policy(outcome(FailureKind.EXHAUSTED)).wait_s(9) == 2.0
