"""A root directory on a disk without a byte left: exit codes outlive it, and the agent starts there."""

import contextlib
import os
import signal

import pytest

from runtime.drivers.embedded.keeper import process
from tests.harness.agent.agent import Agent
from tests.harness.agent.house import FOREVER
from tests.harness.eviction.smalldisk import SmallDisk
from tests.harness.wait import until

DISK_MB = 16
BLOCK = 64 << 10
CODE = 7
CALM = {"evictionHard": {"memory.available": "1Mi"}, "imageGCHighThresholdPercent": 100}
"""Nothing is evicted, cleared or collected for want of disk."""


@pytest.fixture
def disk(tmp_path):
    """Return a small disk of the test's own."""
    with SmallDisk(tmp_path / "small", DISK_MB) as made:
        yield made


@pytest.fixture
def agent(disk, tmp_path):
    """Return an agent, not started yet, whose root directory alone is on the small disk."""
    made = Agent(tmp_path / "agent", root=disk.path / "root", **CALM)
    yield made
    make_room(disk)
    made.clean_up()


def fill(disk):
    """Leave no room at all."""
    with (disk.path / "filler").open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * BLOCK):
            pass
    with (disk.path / "filler").open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x"):
            pass
    with pytest.raises(OSError, match="No space left on device"):
        (disk.path / "probe").write_bytes(b"x")
    (disk.path / "probe").unlink()


def make_room(disk):
    """Take away what filled the disk."""
    (disk.path / "filler").unlink(missing_ok=True)


def put_job(agent, restart="Never"):
    """Write a pod that ends with `CODE` once its gate is there; return the gate."""
    gate = agent.folder / "gate"
    agent.put("job", f"until [ -e {gate} ]; do sleep 0.05; done; exit {CODE}", restart=restart)
    agent.until_status("job", "Running")
    return gate


def until_ended(agent):
    """Wait until the job's end is published."""
    agent.until(lambda: agent.status("job")["state"].get("terminated"), "it ended", 30.0)


def hold_end(agent):
    """Hold that the job is shown as ended by its own code."""
    agent.until(lambda: agent.row("job")["status"], "it is known")
    agent.until(lambda: agent.phase("job") == "Failed", "it failed")
    end = agent.status("job")["state"]["terminated"]
    assert (end["exitCode"], end["reason"]) == (CODE, "Error")


def end_keepers(agent):
    """Wait until no pod has a keeper."""
    until(lambda: not agent.pod_keepers(), "the keeper ended", 30.0)


@pytest.mark.parametrize("room", ["room returns first", "still full"])
def test_an_exit_on_a_full_disk_outlives_the_agent(agent, disk, room):
    agent.start()
    gate = put_job(agent)
    fill(disk)
    gate.touch()
    until_ended(agent)
    hold_end(agent)
    if room == "room returns first":
        make_room(disk)
        end_keepers(agent)
    agent.kill9()
    agent.start()
    hold_end(agent)
    make_room(disk)
    end_keepers(agent)
    agent.kill9()
    agent.start()
    hold_end(agent)


def test_an_exit_on_a_full_disk_without_an_agent_is_written_once_there_is_room(agent, disk):
    agent.start()
    gate = put_job(agent)
    [keeper] = agent.pod_keepers()
    main = agent.mains("job")["main"]
    agent.kill9()
    fill(disk)
    gate.touch()
    # As the end of the machine does: the keeper ends its pod, and has a last record to write.
    until(lambda: not process.is_alive(*main), "the container ended", 20.0)
    os.kill(keeper, signal.SIGTERM)
    make_room(disk)
    end_keepers(agent)
    agent.start()
    hold_end(agent)


def test_a_pod_that_ended_on_a_full_disk_is_removed_there(agent, disk):
    agent.start()
    gate = put_job(agent)
    fill(disk)
    gate.touch()
    until_ended(agent)
    assert agent.pod_keepers(), "it waits for room for its record"
    agent.drop("job")
    agent.until_gone("job")
    until(lambda: not any((agent.root / "run" / "sandboxes").iterdir()), "nothing is left of it", 20.0)
    end_keepers(agent)


def test_the_agent_starts_on_a_full_disk_and_runs_pods_once_there_is_room(agent, disk):
    agent.root.mkdir(parents=True)
    fill(disk)
    # Ready it cannot be: the runtime has no folder yet.
    agent.start(ready=False)
    assert "No space left on device" in agent.stderr()
    agent.put("web", FOREVER)
    agent.until(
        lambda: b"No space left on device" in agent.ask("/readyz?verbose")[1],
        "the runtime's trouble is shown",
    )
    make_room(disk)
    agent.until_status("web", "Running", 60.0)
