"""Threads for blocking calls: few for short ones, company for one that takes long, never more than the bound."""

from threading import Event, Lock, Thread

import pytest

from api.ports.call import HostCall
from runtime.drivers.host.cgroups.cgroup import PodCgroups
from runtime.drivers.host.ledger import FileLedger
from runtime.drivers.host.podfiles.podfolder import PodFolderDriver
from runtime.drivers.host.usage.usage import UsageReader
from runtime.kernel.offload import Lane
from tests.harness.wait import until


class Calls:
    """Makes calls and notes what of them runs at the same time; one with a gate lasts until that opens."""

    def __init__(self):
        self.lock = Lock()
        self.begun, self.at_once, self.most = [], 0, 0

    def make(self, name, gate=None):
        return Call(self, name, gate)


class Call:
    settled = False

    def __init__(self, calls, name, gate):
        self.calls, self.name, self.gate = calls, name, gate

    def carry_out(self):
        calls = self.calls
        with calls.lock:
            calls.begun.append(self.name)
            calls.at_once += 1
            calls.most = max(calls.most, calls.at_once)
        if self.gate is not None:
            self.gate.wait(20)
        with calls.lock:
            calls.at_once -= 1


@pytest.fixture
def calls():
    return Calls()


@pytest.fixture
def gate():
    gate = Event()
    yield gate
    gate.set()


def test_short_calls_are_made_in_their_order_by_few_threads(calls):
    lane = Lane("x", 16, patience_s=5.0)
    for n in range(500):
        lane.submit(calls.make(n))
    until(lambda: len(calls.begun) == 500, "all are made")
    assert calls.begun == list(range(500))
    assert lane.threads <= 2
    assert calls.most == 1


def test_a_call_that_hangs_holds_up_the_others_for_a_moment_only(calls, gate):
    lane = Lane("x", 16, patience_s=0.05)
    lane.submit(calls.make("hangs", gate))
    for n in range(50):
        lane.submit(calls.make(n))
    until(lambda: len(calls.begun) == 51, "the others are made")
    until(lambda: calls.at_once == 1, "all but the one that hangs have ended")


def test_a_call_that_comes_while_another_hangs_is_made(calls, gate):
    lane = Lane("x", 16, patience_s=0.05)
    lane.submit(calls.make("hangs", gate))
    until(lambda: calls.begun, "it hangs")
    for n in range(5):
        lane.submit(calls.make(n))
        until(lambda n=n: n in calls.begun, "the next one is made")


def test_long_calls_run_side_by_side_up_to_the_bound(calls, gate):
    lane = Lane("x", 5)
    for n in range(12):
        lane.submit(calls.make(n, gate))
    until(lambda: calls.at_once == 5, "five run")
    assert lane.threads == 5
    gate.set()
    until(lambda: len(calls.begun) == 12, "all are made")
    assert calls.most == 5


def test_what_was_settled_before_its_turn_is_never_made(calls, gate):
    lane = Lane("x", 1)
    lane.submit(calls.make("first", gate))
    late = [calls.make(n) for n in range(3)]
    for call in late:
        lane.submit(call)
    late[0].settled = late[1].settled = True
    gate.set()
    until(lambda: len(calls.begun) == 2, "the last is made")
    assert calls.begun == ["first", 2]


def test_a_machine_without_threads_costs_no_call_once_it_has_some_again(calls, gate, monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    lane = Lane("x", 16)
    with monkeypatch.context() as exhausted:
        exhausted.setattr(Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            lane.submit(calls.make(0, gate))
    lane.submit(calls.make(1, gate))
    until(lambda: calls.at_once == 2, "both are made")
    with monkeypatch.context() as exhausted:
        exhausted.setattr(Thread, "start", refuse)
        lane.submit(calls.make(2))
    assert len(calls.begun) == 2
    lane.submit(calls.make(3))
    until(lambda: sorted(calls.begun) == [0, 1, 2, 3], "all are made")


def kinds_of(call):
    return {call.__name__}.union(*(kinds_of(kind) for kind in call.__subclasses__()))


@pytest.mark.parametrize("port", [PodCgroups, PodFolderDriver, FileLedger, UsageReader])
def test_what_a_port_says_of_its_calls_it_says_of_calls(port):
    named = {*getattr(port, "short", ()), *getattr(port, "bounds", ())}
    assert named
    assert named <= kinds_of(HostCall)
