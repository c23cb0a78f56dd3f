"""An agent with too few descriptors: no pod that runs is touched, what cannot be done says why, and no thread ends unseen."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.drivers.embedded.descriptor import OWN, SPARE
from runtime.drivers.embedded.keeper import process
from tests.harness.agent.agent import REPOSITORY, Agent
from tests.harness.agent.house import FOREVER
from tests.harness.wait import until

MANY = 40
FEW = 52
"""Descriptors that are enough to start with, and not enough for a connection to each of so many keepers."""
LATE = tuple(f"late{number}" for number in range(4))
"""New pods: more than the few descriptors that the others may leave, fewer than an agent with ``FEW`` can hold."""


class Limited(Agent):
    """An agent that is started with these limits of open files, soft and hard."""

    nofile = ""

    def command(self, *flags, manifests=True):
        """Return the words of ``run`` below the limit, if there is one."""
        words = super().command(*flags, manifests=manifests)
        return ("prlimit", f"--nofile={self.nofile}", *words) if self.nofile else words


@pytest.fixture
def limited(tmp_path):
    """Return an agent, not started yet, whose limits a test sets."""
    agent = Limited(tmp_path / "agent")
    yield agent
    agent.clean_up()


def said(agent, text):
    """Return the lines of the agent's log with a text."""
    return [line for line in agent.stderr().splitlines() if text in line]


def is_alive(pid):
    """Tell whether a process is there."""
    seen = process.look(pid)
    return seen is not None and seen.state not in "ZX"


def cpu_ticks(pid):
    """Return how long a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_too_few_descriptors_kill_no_pod_and_are_told(limited):
    names = [f"p{number}" for number in range(MANY)]
    for name in names:
        limited.put(name, FOREVER)
    limited.start()
    for name in names:
        limited.until_status(name, "Running", 90.0)
    before = {name: limited.mains(name) for name in names}
    assert all(mains["main"][0] for mains in before.values())
    limited.stop()
    limited.nofile = f"{FEW}:{FEW}"
    limited.start()
    line = limited.until(lambda: said(limited, "open file limit"), "it says what it can hold")[-1]
    assert f"open_files={FEW}" in line
    assert f"pods_at_most={FEW - OWN - SPARE}" in line
    verbose = limited.until(
        lambda: b"too few descriptors" in (text := limited.ask("/readyz?verbose")[1]) and text,
        "the health says which limit it is",
    )
    assert f"the agent may open {FEW}".encode() in verbose
    limited.until(lambda: {name: limited.mains(name) for name in names} == before, "each runs on")
    assert {limited.row(name)["restarts"] for name in names} == {0}
    # What is new must wait once the last descriptor is taken, and says for what.
    for name in LATE:
        limited.put(name, FOREVER)
    for name in LATE:
        limited.until(lambda name=name: limited.row(name)["status"], "the new pod is known")
    limited.until(
        lambda: any("too few descriptors" in str(limited.explain(name)) for name in LATE),
        "a new pod that waits is explained",
    )
    # Descriptors that become free are used: the pods that could not be reached end as asked, and the new ones run.
    for name in names:
        limited.drop(name)
    limited.until_gone(*names, deadline_s=150.0)
    for name in LATE:
        limited.until_status(name, "Running", 60.0)
    assert "unexpectedly" not in limited.stderr()


def test_a_lack_of_descriptors_fails_calls_and_ends_no_thread(limited):
    limited.put("calm", FOREVER)
    limited.start()
    limited.until_status("calm", "Running")
    before = limited.mains("calm")
    pid = limited.process.pid
    victim = limited.pod_keepers()[0]
    limited.put("dies", FOREVER)
    limited.until_status("dies", "Running")
    (doomed,) = set(limited.pod_keepers()) - {victim}
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    # None is left: neither a socket nor a folder of /proc can be opened.
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))
    try:
        os.kill(doomed, signal.SIGKILL)
        limited.put("late", FOREVER)
        until(lambda: not is_alive(doomed), "the keeper's end", 10.0)
        beats = cpu_ticks(pid)
        until(lambda: cpu_ticks(pid) > beats, "the agent does something meanwhile", 20.0)
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    limited.until_status("late", "Running", 60.0)
    limited.until(lambda: limited.row("dies")["restarts"] == 1, "the pod of the dead keeper runs again", 60.0)
    limited.until_status("dies", "Running", 60.0)
    assert limited.mains("calm") == before
    assert limited.process.poll() is None
    assert "Traceback" not in limited.stderr()


def test_the_agent_raises_its_own_limit_and_leaves_that_of_its_pods(limited):
    limited.nofile = "256:4096"
    limited.put("web", f"ulimit -Sn >{limited.folder}/soft; {FOREVER}")
    limited.start()
    limited.until_status("web", "Running")
    assert resource.prlimit(limited.process.pid, resource.RLIMIT_NOFILE) == (4096, 4096)
    until((limited.folder / "soft").exists, "the container spoke", 10.0)
    until(
        lambda: (limited.folder / "soft").read_text() == "256\n", "it has the limit that it always had", 10.0
    )


@pytest.mark.parametrize("name", ["embedded-runtime", "kernel-events"])
def test_a_thread_that_ends_ends_the_agent_and_no_pod(agent, name):
    agent.put("web", FOREVER)
    agent.start()
    agent.until_status("web", "Running")
    before = agent.mains("web")
    agent.stop()
    breaks = (
        "import sys, threading, runtime.net.loop as loop\n"
        "from actors.agent.main import main\n"
        "run = loop.Loop._run\n"
        "def breaking(self):\n"
        f"    if self._name == {name!r}: self.submit(lambda: self.after(1.0, lambda: 1 // 0))\n"
        "    run(self)\n"
        "loop.Loop._run = breaking\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    words = agent.command()
    ended = subprocess.run(
        [sys.executable, "-c", breaks, *words[words.index("run") :]],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        timeout=30.0,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    assert f"thread {name} ended by ZeroDivisionError" in ended.stderr
    agent.start()
    agent.until_status("web", "Running")
    assert agent.mains("web") == before
