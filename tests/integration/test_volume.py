"""Volumes of plain processes on the host: mounted where only their own container sees them, and gone with the pod."""

import json
import os
from pathlib import Path

import pytest

from runtime.drivers.host.volumes import mount
from tests.harness.agent.agent import pod
from tests.harness.part import need

pytestmark = pytest.mark.real
FOREVER = "exec sleep 1000000"


@pytest.fixture(autouse=True)
def _as_root():
    need("root")


@pytest.fixture
def places(tmp_path):
    """Return folders of the host at which things can be mounted."""
    found = [tmp_path / "places" / name for name in ("one", "two")]
    for folder in found:
        folder.mkdir(parents=True)
        (folder / "own").write_text("the host's own")
    return found


def put(agent, name, script, mounts, volumes, *, others=(), **spec):
    """Write a pod whose container mounts volumes; `others` are scripts of containers without any."""
    made = pod(name, script, folder=agent.folder, volumes=volumes, **spec)
    first = made["spec"]["containers"][0]
    made["spec"]["containers"] += [
        {**first, "name": f"other{index}", "command": ["sh", "-c", text]} for index, text in enumerate(others)
    ]
    first["volumeMounts"] = mounts
    agent.write(f"{name}.yaml", json.dumps(made))


def mounts(agent):
    return mount.mounts_below(os.path.realpath(agent.root))


def until_nothing_is_left(agent, name):
    folder = agent.root / "pods" / agent.row(name)["uid"]
    agent.drop(name)
    agent.until_gone(name)
    agent.until(lambda: not mounts(agent) and not folder.exists(), "no mount and no folder is left")


def test_only_the_container_itself_sees_what_it_mounts(agent, places):
    one, _ = places
    out = agent.folder / "out"
    script = f"cat {one}/own >>{out}; echo mine >{one}/f; cat {one}/f >>{out}; echo end >>{out}; {FOREVER}"
    beside = (
        f"until grep -q end {out}; do sleep 0.05; done; cat {one}/own >>{out}2; ls {one} >>{out}2; {FOREVER}"
    )
    put(
        agent,
        "web",
        script,
        [{"name": "v", "mountPath": str(one)}],
        [{"name": "v", "emptyDir": {}}],
        others=[beside],
    )
    agent.start()
    agent.until_status("web", "Running")
    beside_saw = Path(f"{out}2")
    agent.until(lambda: beside_saw.exists() and beside_saw.read_text().endswith("own\n"), "both spoke")
    assert out.read_text() == "mine\nend\n", "the volume was empty at first"
    assert beside_saw.read_text() == "the host's ownown\n"
    assert [path.name for path in one.iterdir()] == ["own"]
    ran = agent.verb("exec", "web", "-c", "main", "--", "cat", f"{one}/f")
    assert ran.stdout == "mine\n", "a command in the container sees its volumes too"
    until_nothing_is_left(agent, "web")


def test_memory_read_only_and_parts(agent, places, tmp_path):
    one, two = places
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "f").write_text("from the host\n")
    out = agent.folder / "out"
    script = (
        f"cat {two}/f >{out}; touch {two}/x 2>>{out}; stat -f -c %T {one} >>{out};"
        f" echo deep >{one}/inner/g; ls {one} >>{out}; echo end >>{out}; {FOREVER}"
    )
    put(
        agent,
        "web",
        script,
        [
            {"name": "m", "mountPath": f"{one}/inner", "subPath": "a/b"},
            {"name": "m", "mountPath": str(one)},
            {"name": "h", "mountPath": str(two), "readOnly": True},
        ],
        [
            {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "h", "hostPath": {"path": str(shared), "type": "Directory"}},
        ],
    )
    agent.start()
    # The folder for the inner mount is made in the volume around it.
    agent.until(lambda: out.exists() and out.read_text().endswith("end\n"), "it spoke")
    volume = agent.root / "pods" / agent.row("web")["uid"] / "volumes" / "kubernetes.io~empty-dir" / "m"
    lines = out.read_text().splitlines()
    assert lines[0] == "from the host"
    assert "Read-only file system" in lines[1]
    assert lines[2:] == ["tmpfs", "a", "inner", "end"]
    assert (volume / "a" / "b" / "g").read_text() == "deep\n"
    assert [path.name for path in shared.iterdir()] == ["f"]
    until_nothing_is_left(agent, "web")


def test_a_container_keeps_nothing_of_other_pods_volumes(agent, places):
    one, two = places
    memory = [{"name": "m", "emptyDir": {"medium": "Memory"}}]
    put(agent, "first", FOREVER, [{"name": "m", "mountPath": str(one)}], memory)
    agent.start()
    agent.until_status("first", "Running")
    uid = agent.row("first")["uid"]
    put(agent, "second", FOREVER, [{"name": "m", "mountPath": str(two)}], memory)
    agent.until_status("second", "Running")
    pid = agent.mains("second")["main"][0]
    table = Path(f"/proc/{pid}/mountinfo").read_text()
    assert str(two) in table
    assert uid not in table
    assert agent.row("second")["uid"] not in "".join(
        line.split(" ")[4] for line in table.splitlines() if str(two) not in line
    )
    agent.drop("first")
    agent.until_gone("first")
    until_nothing_is_left(agent, "second")


def test_a_place_that_is_not_on_the_host_is_told_with_what_to_do(agent, places, tmp_path):
    missing = tmp_path / "nowhere"
    put(
        agent,
        "web",
        FOREVER,
        [{"name": "v", "mountPath": str(missing)}],
        [{"name": "v", "emptyDir": {}}],
        others=[FOREVER],
    )
    agent.start()
    agent.until_status("web", "CreateContainerError")
    status = agent.statuses("web")
    message = status["main"]["state"]["waiting"]["message"]
    assert f"mountPath {missing} does not exist on this host" in message
    assert "make that folder" in message
    agent.until(lambda: "running" in agent.statuses("web")["other0"]["state"], "the other container runs")
    missing.mkdir()
    agent.until(lambda: "running" in agent.statuses("web")["main"]["state"], "it runs once that is there", 60)


def test_a_finished_pod_and_one_removed_while_the_agent_is_down_leave_nothing(agent, places):
    one, _ = places
    memory = [{"name": "m", "emptyDir": {"medium": "Memory"}}]
    put(agent, "job", f"echo x >{one}/f", [{"name": "m", "mountPath": str(one)}], memory, restart="Never")
    put(agent, "stays", FOREVER, [{"name": "m", "mountPath": str(one)}], memory, grace=1)
    agent.start()
    agent.until_status("job", "Completed")
    agent.until_status("stays", "Running")
    agent.until(lambda: len(mounts(agent)) == 1, "the volume of what ended is gone")
    agent.kill9()
    agent.drop("stays")
    agent.start()
    agent.until(lambda: not mounts(agent), "the other one went too")
