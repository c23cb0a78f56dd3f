"""An agent started by a parent that ignores or blocks signals: `nohup`, a background job of a script, a service of its own."""

import signal
from pathlib import Path

import pytest

from tests.harness.agent.agent import Agent
from tests.harness.wait import until

AT_START_OF_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}


class Child(Agent):
    """An agent whose parent did something to its signals: `how` is said to env."""

    how = ()

    def command(self, *flags, manifests=True):
        """Return the words of ``run``, below such a parent."""
        return ("env", *self.how, *super().command(*flags, manifests=manifests))


@pytest.fixture
def child(tmp_path):
    made = Child(tmp_path)
    yield made
    made.clean_up()


def signals(status, field):
    """Return the signals of one line of `/proc/PID/status`."""
    [mask] = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(f"{field}:")]
    return {number for number in signal.valid_signals() if mask >> (number - 1) & 1}


def status_of(pid):
    return Path(f"/proc/{pid}/status").read_text(encoding="ascii")


def test_a_container_and_its_keeper_start_with_their_own_signals_whatever_the_agent_inherited(child):
    child.how = ("--ignore-signal=HUP,INT,QUIT,USR1,TSTP", "--block-signal=TERM,QUIT,USR2")
    child.start()
    child.put("main", "cat /proc/self/status; exec sleep 1000000", grace=1)
    child.until_status("main", "Running")
    shown = child.until(
        lambda: "SigCgt" in (said := child.verb("logs", "main").stdout) and said, "it has shown its signals"
    )
    assert (signals(shown, "SigIgn"), signals(shown, "SigBlk")) == (set(), set())
    [keeper] = child.pod_keepers()
    held = status_of(keeper)
    assert signals(held, "SigBlk") == set()
    assert signals(held, "SigIgn") - AT_START_OF_PYTHON == {signal.SIGHUP, signal.SIGINT}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_agent_ends_by_a_signal_that_its_parent_had_blocked_or_ignored(child, number):
    child.how = ("--ignore-signal=INT,TERM", "--block-signal=INT,TERM")
    child.start()
    assert child.stop(number)[0] == 0


def test_an_agent_that_was_started_with_nohup_goes_on_when_its_terminal_is_closed(child):
    child.how = ("--ignore-signal=HUP",)
    child.start()
    assert signal.SIGHUP in signals(status_of(child.process.pid), "SigIgn")
    child.process.send_signal(signal.SIGHUP)
    until(lambda: signal.SIGHUP not in signals(status_of(child.process.pid), "ShdPnd"), "it has arrived")
    assert child.is_ready()
    assert child.stop()[0] == 0
