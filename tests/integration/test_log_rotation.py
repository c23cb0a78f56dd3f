"""The logs of running containers are rotated by a real agent, and following them loses nothing."""

import gzip
import subprocess
import sys

from tests.harness.agent.agent import REPOSITORY


def files(agent, name="loud"):
    (folder,) = agent.logs.glob(f"default_{name}-n1_*/main")
    return folder, sorted(path.name for path in folder.iterdir())


def lines_of(path):
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [line.split(" ", 3)[3] for line in data.decode().splitlines()]


def test_a_loud_containers_log_is_rotated_compressed_and_followed_without_a_loss(agent):
    gate = agent.folder / "gate"
    agent.configure(containerLogMaxSize="20Ki", containerLogMonitorInterval="3s", containerLogMaxFiles=50)
    agent.put(
        "loud",
        f"i=0; while :; do echo line $i; i=$((i+1)); sleep 0.004; test -e {gate} && exit; done",
        restart="Never",
    )
    agent.start()
    agent.until_status("loud", "Running")
    words = (sys.executable, "-m", "actors.agent.main", "logs", "-f", "loud", "--root-dir", str(agent.root))
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=REPOSITORY) as following:
        agent.until(lambda: any(name.endswith(".gz") for name in files(agent)[1]), "two rotations", 40.0)
        gate.touch()
        followed = following.stdout.read().decode().splitlines()
        assert following.wait(10) == 0
    assert followed == [f"line {number}" for number in range(len(followed))]
    folder, names = files(agent)
    rotated = [name for name in names if name != "0.log"]
    assert "0.log" in names
    assert len(rotated) >= 2
    ordered = [*sorted(rotated, key=lambda name: name.removesuffix(".gz")), "0.log"]
    kept = [line for name in ordered for line in lines_of(folder / name)]
    assert kept == followed
    assert "container log not rotated" not in agent.stderr()


def test_the_log_of_a_container_that_ended_big_is_rotated_once_and_still_shown(agent):
    agent.configure(containerLogMaxSize="100Ki", containerLogMonitorInterval="3s")
    agent.put("burst", "i=0; while [ $i -lt 10000 ]; do echo line $i; i=$((i+1)); done", restart="Never")
    agent.start()
    agent.until_status("burst", "Completed")
    agent.until(lambda: any(name.endswith(".gz") for name in files(agent, "burst")[1]), "it is cut", 30.0)
    folder, names = files(agent, "burst")
    (packed,) = [name for name in names if name.endswith(".gz")]
    shown = agent.verb("logs", "burst").stdout.splitlines()
    assert shown[-1] == "line 9999"
    assert 1000 < len(shown) < 3000
    assert (folder / "0.log").stat().st_size <= 100 << 10
    assert lines_of(folder / packed) + shown == [f"line {number}" for number in range(10000)]
