"""The thread on which descriptors and instants are waited for."""

import os
import threading
from pathlib import Path

import pytest

from runtime.net.loop import Loop
from tests.harness.wait import until


@pytest.fixture
def bugs():
    """Return what was told as a bug."""
    return []


@pytest.fixture
def loop(bugs):
    """Return a loop that survives its callbacks' bugs."""
    loop = Loop("loop", on_bug=lambda what, error: bugs.append((what, error)))
    yield loop
    loop.stop(5.0)


def stumble(*_):
    raise ValueError("a bug")


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


class Bell:
    """A descriptor that can be read from the start; tells `then` each time until it is forgotten."""

    def __init__(self, loop, then):
        self.fd = os.eventfd(1, os.EFD_CLOEXEC)
        self._loop, self._then = loop, then
        loop.submit(self._watch)

    def _watch(self):
        self._loop.watch(self.fd, self._rung)

    def _rung(self, mask):
        self._then(self)

    def fileno(self):
        return self.fd

    def close(self):
        os.close(self.fd)


def ring(loop, then):
    """Have `then` called once by a descriptor, which is closed with it."""

    def once(bell):
        loop.forget(bell)
        bell.close()
        then()

    Bell(loop, once)


def test_work_alarms_and_descriptors_are_served_on_one_thread(loop):
    served = []

    def note():
        served.append(threading.current_thread().name)

    loop.submit(note)
    loop.after(0.001, note)
    ring(loop, note)
    until(lambda: len(served) == 3, "all three", 5.0)
    assert set(served) == {"loop"}


def test_alarms_come_in_their_order_from_whatever_thread_they_were_asked_for(loop):
    served = []
    loop.submit(lambda: loop.after(0.04, lambda: served.append("second")))
    loop.after(0.08, lambda: served.append("third"))
    loop.after(0.0, lambda: served.append("first"))
    until(lambda: len(served) == 3, "all three", 5.0)
    assert served == ["first", "second", "third"]


@pytest.mark.parametrize("works", [False, True])
def test_a_loop_costs_no_thread_before_it_has_work_and_keeps_no_descriptor_after_its_end(works):
    before, threads = descriptors(), threading.active_count()
    loop = Loop("idle")
    assert threading.active_count() == threads
    if works:
        served = threading.Event()
        ring(loop, served.set)
        assert served.wait(5.0)
    loop.stop(5.0)
    loop.stop(5.0)
    assert loop.submit(stumble) is False
    assert (descriptors(), threading.active_count()) == (before, threads)


@pytest.mark.parametrize(
    "begin",
    [Loop.submit, lambda loop, then: loop.after(0.0, then), ring],
    ids=["work", "alarm", "descriptor"],
)
def test_a_callback_that_raises_is_told_and_ends_nothing_where_bugs_are_told(loop, bugs, begin):
    served = []
    begin(loop, stumble)
    until(lambda: bugs, "the bug is told", 5.0)
    loop.submit(lambda: served.append("work"))
    loop.after(0.01, lambda: served.append("alarm"))
    ring(loop, lambda: served.append("descriptor"))
    until(lambda: len(served) == 3, "all that comes later is served", 5.0)
    [(_, error)] = bugs
    assert isinstance(error, ValueError)


def test_a_descriptor_whose_callback_raises_is_watched_no_more(loop, bugs):
    bell = Bell(loop, stumble)
    until(lambda: bugs, "the bug is told", 5.0)
    quiet = threading.Event()
    loop.after(0.05, quiet.set)
    assert quiet.wait(5.0)
    assert [what for what, _ in bugs] == ["Bell._rung"]
    bell.close()


def test_what_was_submitted_behind_a_callback_that_raises_is_done(loop, bugs):
    go, done = threading.Event(), threading.Event()
    loop.submit(lambda: go.wait(5.0) or None)
    loop.submit(stumble)
    loop.submit(done.set)
    go.set()
    assert done.wait(5.0)
    assert len(bugs) == 1


def test_a_descriptor_is_told_as_long_as_it_is_ready_and_stays_open_when_it_is_forgotten(loop):
    served, gone = [], threading.Event()
    bell = Bell(loop, served.append)
    until(lambda: len(served) > 1, "it is told again", 5.0)

    def forget():
        loop.forget(bell)
        gone.set()

    loop.submit(forget)
    assert gone.wait(5.0)
    told = len(served)
    later = threading.Event()
    loop.after(0.02, later.set)
    assert later.wait(5.0)
    assert len(served) == told
    os.fstat(bell.fd)
    bell.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_ends_a_loop_that_tells_none_and_whoever_waits_learns_it():
    ended, left, go = threading.Event(), [], threading.Event()
    loop = Loop("frail", ended.set)
    loop.submit(lambda: go.wait(5.0) or None)
    loop.submit(stumble)
    loop.submit(lambda: left.append(ended.is_set()))
    go.set()
    until(lambda: left, "the work that was left is handed back", 5.0)
    assert left == [True], "after the end was told"
    assert loop.submit(left.clear) is False


def test_a_stop_waits_for_the_step_that_is_under_way_and_is_told_once():
    ends, steps, under_way = [], [], threading.Event()
    loop = Loop("loop", lambda: ends.append(threading.current_thread().name))

    def step():
        under_way.set()
        threading.Event().wait(0.05)
        steps.append("done")

    loop.submit(step)
    assert under_way.wait(5.0)
    loop.stop(5.0)
    loop.stop(5.0)
    assert (steps, ends) == (["done"], ["loop"])
