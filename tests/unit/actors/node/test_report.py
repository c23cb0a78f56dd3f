"""What becomes of the runtime is in the log once per change."""

import pytest
from msgspec.structs import replace

from actors.node.report import report, runtime_health
from api.errors import Failure, FailureKind
from tests.unit.actors.node.hand import DOWN, INFO, MACHINE, Hand, following

NO_CNI = replace(
    INFO, network_ready=False, detail="NetworkReady: false: NetworkPluginNotReady: no CNI config"
)
OTHER = Failure(kind=FailureKind.TIMED_OUT, message="no answer within 10 s")


def again(hand, info=None, failure=None):
    """Let the runtime answer once more, and return what the log says of it."""
    while "RuntimeStatus" not in hand.open:
        hand.wake()
        if "DescribeNode" in hand.open:
            hand.machine()
    hand.lines.clear()
    hand.end("RuntimeStatus", info, failure)
    return hand.lines


def test_each_state_of_the_runtime_is_told_once():
    hand = Hand()
    hand.machine()
    assert again(hand, failure=DOWN) == ["container runtime does not answer"]
    assert again(hand, failure=DOWN) == []
    assert again(hand, failure=OTHER) == ["container runtime does not answer"]
    assert again(hand, INFO) == ["container runtime ready"]
    assert again(hand, INFO) == []
    assert again(hand, NO_CNI) == ["container runtime ready, its network is not"]
    assert again(hand, NO_CNI) == []
    assert again(hand, replace(INFO, ready=False)) == ["container runtime not ready"]
    assert again(hand, replace(INFO, version="2.1")) == ["container runtime ready"]


def test_reason_and_message_of_a_condition_are_in_the_line():
    hand = following()
    before = hand.state
    again(hand, NO_CNI)
    [line] = report(before, hand.state)
    assert line.warning
    assert line.facts == {"runtime": "containerd", "version": "2.0", "detail": NO_CNI.detail}


def test_a_change_of_the_node_names_what_changed():
    hand = following()
    before = hand.state
    hand.wake(), hand.machine(replace(MACHINE, cpu_milli=4000)), hand.runtime()
    [line] = report(before, hand.state)
    assert (line.text, line.facts, line.warning) == ("node changed", {"cpu_milli": 4000}, False)


def test_a_machine_that_cannot_be_described_is_told_once():
    hand = following()
    hand.lines.clear()
    for _ in range(3):
        while "DescribeNode" not in hand.open:
            hand.wake()
            if "RuntimeStatus" in hand.open:
                hand.runtime()
        hand.end("DescribeNode", failure=OTHER)
    assert hand.lines == ["node cannot be described"]


@pytest.mark.parametrize(
    ("info", "failure", "health"),
    [
        (INFO, None, (True, "")),
        (NO_CNI, None, (True, NO_CNI.detail)),
        (replace(INFO, ready=False, detail="starting"), None, (False, "starting")),
        (None, DOWN, (False, "connection refused")),
    ],
)
def test_the_runtime_is_as_ready_as_its_last_answer(info, failure, health):
    hand = following()
    again(hand, info, failure)
    assert runtime_health(hand.state) == health


def test_a_runtime_that_was_not_heard_yet_is_not_ready():
    assert runtime_health(Hand().state) == (False, "the runtime has not answered yet")
