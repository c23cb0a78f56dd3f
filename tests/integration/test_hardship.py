"""Pods that ask for what cannot be, or must not be, on either runtime: bounded, explained, and their neighbour notices nothing."""

import ctypes
import os
import threading

import pytest

from tests.harness.agent.house import FOREVER
from tests.harness.part import need
from tests.harness.wait import until


@pytest.fixture(autouse=True)
def neighbour(house):
    """Let a pod run beside whatever a test does, and hold that nothing became of it."""
    house.put("calm", house.container("main", FOREVER))
    house.until_content("calm")
    before = house.agent.mains("calm")
    yield
    assert house.agent.is_alive()
    assert house.agent.mains("calm") == before
    row = house.agent.row("calm")
    assert (row["status"], row["ready"], row["restarts"]) == ("Running", "1/1", 0)
    assert "Traceback" not in house.agent.stderr()


def test_a_probe_on_a_port_name_that_no_container_has_kills_nothing_and_is_explained(house):
    nosuch = {"httpGet": {"port": "nosuch"}, "periodSeconds": 1, "failureThreshold": 1}
    house.put("web", house.container("main", FOREVER, livenessProbe=nosuch, readinessProbe=nosuch))
    told = house.until_waits("web", "readiness probe of container main to succeed")
    rows = house.until_said("web", lambda t: t["probes"], "nosuch")["probes"]
    assert all("nothing, " in row["what"] for row in rows), told
    said = until(lambda: house.events("web", "Unhealthy"), "it is told", 30.0)
    assert any(
        "probe errored and resulted in unknown state: port" in text and "nosuch" in text for text in said
    )
    assert house.agent.row("web")["restarts"] == 0
    assert not house.agent.status("web")["ready"]


def test_a_probe_that_floods_and_a_hook_that_hangs_are_cut_off_and_explained(house):
    flood = {
        "exec": {"command": ["sh", "-c", "yes 0123456789 | head -c 3000000; exit 3"]},
        "periodSeconds": 1,
        "timeoutSeconds": 10,
        "failureThreshold": 1,
    }
    hangs = {"preStop": {"exec": {"command": ["sh", "-c", "exec sleep 1000001"]}}}
    house.put(
        "web",
        house.container("main", FOREVER, readinessProbe=flood, lifecycle=hangs),
        terminationGracePeriodSeconds=4,
    )
    told = house.until_waits("web", "readiness probe of container main to succeed: 0123456789")
    assert len(told["waits_for"]) < 400
    assert all(len(row["message"]) <= 200 for row in told["probes"])
    house.agent.drop("web")
    told = house.until_waits(
        "web", "the preStop hook of container main: exec sh -c exec sleep 1000001; timeout in "
    )
    assert told["kill"].endswith("grace period 4 s")
    house.agent.until_gone("web", deadline_s=40.0)


def test_an_init_container_that_never_ends_is_named_and_leaves_with_its_pod(house):
    house.put("web", house.container("main", FOREVER), initContainers=[house.container("stuck", FOREVER)])
    told = house.until_waits("web", "init container stuck to exit")
    assert told["since_s"] is not None
    assert house.agent.row("web")["status"] == "Init:0/1"
    house.agent.drop("web")
    house.agent.until_gone("web")


def test_a_socket_where_a_folder_should_be_starts_nothing_and_is_explained(house):
    need("root")
    listener = house.agent.root / "nodeagent.sock"
    place = house.place("place")
    for kind, text in (
        ("Directory", "is not a directory"),
        ("File", "is not a file"),
        ("BlockDevice", "is not a block device"),
    ):
        name = kind.lower()
        house.put(
            name,
            house.container("main", FOREVER, volumeMounts=[{"name": "v", "mountPath": str(place)}]),
            volumes=[{"name": "v", "hostPath": {"path": str(listener), "type": kind}}],
        )
        told = house.until_waits(name, f"{listener} {text}")
        assert "main: waiting: ContainerCreating" in told["containers"][0]
        assert house.status(name)["phase"] == "Pending"
    assert listener.is_socket()


def test_a_part_with_dots_is_refused_in_the_file_and_where_a_variable_brings_them(house):
    need("root")
    place = house.place("place")
    volumes = [{"name": "v", "emptyDir": {}}]

    def put(name, env=(), **part):
        mount = {"name": "v", "mountPath": str(place), **part}
        house.put(
            name, house.container("main", FOREVER, volumeMounts=[mount], env=list(env)), volumes=volumes
        )

    put("plain", subPath="a/../../etc")
    told = house.agent.until_source("plain.yaml", "broken")
    assert "subPath" in told
    assert '".."' in told
    assert "plain" not in house.agent.rows()
    put("expr", env=[{"name": "WHERE", "value": "../../etc"}], subPathExpr="a/$(WHERE)")
    house.agent.until_status("expr", "CreateContainerConfigError")
    told = house.until_waits("expr", "a valid configuration of container main", "must not contain '..'")
    assert 0 < told["next"][0]["in_s"] <= 10


def test_a_folder_that_is_swapped_for_a_link_while_it_is_mounted_never_leads_out(house):
    need("root")
    inside, outside = house.agent.folder / "volume", house.agent.folder / "outside"
    place = house.place("place")
    for folder, word in ((inside / "part", "inside"), (outside, "secret")):
        folder.mkdir(parents=True)
        (folder / "word").write_text(f"{word}\n")
    (inside / "other").symlink_to(outside)
    one, two = os.fsencode(inside / "part"), os.fsencode(inside / "other")
    over = threading.Event()

    def swap():
        # RENAME_EXCHANGE: at each instant one of the two is there, never nothing.
        libc = ctypes.CDLL(None, use_errno=True)
        while not over.is_set():
            assert libc.renameat2(-100, one, -100, two, 2) == 0
        if (inside / "part").is_symlink():
            assert libc.renameat2(-100, one, -100, two, 2) == 0

    diary = house.gate("diary")
    thread = threading.Thread(target=swap)
    thread.start()
    names = [f"p{number}" for number in range(6)]
    try:
        for name in names:
            mount = {"name": "v", "mountPath": str(place), "subPath": "part"}
            house.put(
                name,
                house.container(
                    "main", f"echo $(cat {place}/word) >>{diary}; {FOREVER}", volumeMounts=[mount]
                ),
                volumes=[{"name": "v", "hostPath": {"path": str(inside)}}],
            )

        def settled():
            rows = house.agent.rows()
            return all(
                rows.get(name, {"status": ""})["status"] in ("Running", "CreateContainerConfigError")
                for name in names
            )

        house.agent.until(settled, "each runs, or is told why not", 60.0)
    finally:
        over.set()
        thread.join()
    refused = [name for name in names if house.agent.row(name)["status"] == "CreateContainerConfigError"]
    for name in refused:
        message = house.agent.status(name)["state"]["waiting"]["message"]
        assert message == 'failed to prepare subPath for volumeMount "v" of container "main"'
        assert str(outside) not in str(house.status(name)), "nobody but the node's operator is told the path"
    # Once nobody swaps any more each of them runs.
    for name in names:
        house.agent.until_status(name, "Running", 60.0)
    until(lambda: len(house.diary()) >= len(names), "each spoke", 30.0)
    assert set(house.diary()) == {"inside"}
