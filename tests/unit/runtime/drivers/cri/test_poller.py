"""The thread on which exits and instants are waited for."""

import os
import threading

import pytest

from runtime.drivers.cri.poller import Poller
from tests.harness.wait import until


@pytest.fixture
def bugs():
    """Return what was told as a bug."""
    return []


@pytest.fixture
def poller(bugs):
    poller = Poller("poller", lambda what, error: bugs.append((what, error)))
    yield poller
    poller.close()


def stumble():
    raise ValueError("a bug")


def is_readable(poller, then):
    """Have `then` called by a descriptor that can be read from now on; the poller owns it."""
    fd = os.eventfd(1, os.EFD_CLOEXEC)
    poller.submit(lambda: poller.watch(fd, then))
    return fd


def test_work_alarms_and_descriptors_are_served_on_one_thread(poller):
    served = []

    def note():
        served.append(threading.current_thread().name)

    poller.submit(note)
    poller.after(0.001, note)
    is_readable(poller, note)
    until(lambda: len(served) == 3, "all three", 5.0)
    assert set(served) == {"poller"}


@pytest.mark.parametrize(
    "begin",
    [Poller.submit, lambda poller, then: poller.after(0.0, then), is_readable],
    ids=["work", "alarm", "descriptor"],
)
def test_a_callback_that_raises_is_logged_and_ends_nothing(poller, bugs, begin):
    served = []
    begin(poller, stumble)
    until(lambda: bugs, "the bug is told", 5.0)
    poller.submit(lambda: served.append("work"))
    poller.after(0.01, lambda: served.append("alarm"))
    is_readable(poller, lambda: served.append("descriptor"))
    until(lambda: len(served) == 3, "all that comes later is served", 5.0)
    [(what, error)] = bugs
    assert what == "stumble"
    assert isinstance(error, ValueError)


def test_what_was_submitted_behind_a_callback_that_raises_is_done(poller, bugs):
    go, done = threading.Event(), threading.Event()
    poller.submit(lambda: go.wait(5.0) or None)
    poller.submit(stumble)
    poller.submit(done.set)
    go.set()
    assert done.wait(5.0)
    assert len(bugs) == 1


def test_a_descriptor_is_told_once_and_closed_when_it_is_forgotten(poller):
    served, gone = [], threading.Event()
    fd = is_readable(poller, lambda: served.append(1))
    until(lambda: served, "it is told", 5.0)
    poller.after(0.02, lambda: poller.forget(fd))
    poller.after(0.02, gone.set)
    assert gone.wait(5.0)
    assert served == [1]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
