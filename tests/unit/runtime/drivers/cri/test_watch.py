"""Processes that are watched for their end: their descriptors."""

import subprocess
from pathlib import Path

import pytest

from runtime.drivers.cri.known import Known
from runtime.drivers.cri.watch import ExitWatch
from runtime.net.loop import Loop
from tests.harness.wait import until


class SilentRuntime:
    """A runtime that never answers."""

    request_timeout_s = 1.0

    def __init__(self):
        self.channel = self
        self.asked = []

    def begin(self, rpc, request, limit_s, answer, what=""):
        self.asked.append(rpc.path.rpartition("/")[2])


class Site:
    """A watch on a loop of its own."""

    def __init__(self):
        self.link, self.changed = SilentRuntime(), []
        self.loop = Loop("test", self._ended)
        self.watch = ExitWatch(self.link, self.loop, self.changed.append)
        self.watch.known = Known(self.watch.add, self.watch.forget)

    def _ended(self):
        self.watch.close()

    def add(self, process, name="c1"):
        self.watch.add(name, "u", process.pid, False)


@pytest.fixture
def process():
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def site():
    site = Site()
    yield site
    site.loop.stop(2.0)


def pidfds():
    links = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(link.readlink()))
        except OSError:
            continue
    return links.count("anon_inode:[pidfd]")


def test_a_process_is_held_by_one_descriptor_until_it_is_forgotten(site, process):
    before = pidfds()
    site.add(process)
    site.add(process)
    until(lambda: pidfds() == before + 1, "it is watched", 5.0)
    site.watch.forget("c1")
    until(lambda: pidfds() == before, "it is let go", 5.0)


def test_the_runtime_is_asked_when_a_process_ends(site, process):
    before = pidfds()
    site.add(process)
    # Whether it is still that container's is asked too, as its cgroup does not say so.
    until(lambda: len(site.link.asked) == 1, "it is watched", 5.0)
    process.kill()
    until(lambda: len(site.link.asked) == 2, "its end is seen", 5.0)
    assert set(site.link.asked) == {"ContainerStatus"}
    assert pidfds() == before


def test_the_end_of_the_loop_lets_go_of_every_process(site, process):
    before = pidfds()
    for name in ("c1", "c2"):
        site.add(process, name)
    until(lambda: pidfds() == before + 2, "both are watched", 5.0)
    site.loop.stop(2.0)
    assert pidfds() == before
    site.add(process, "c3")
    assert pidfds() == before
