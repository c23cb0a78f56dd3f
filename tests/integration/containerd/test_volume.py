"""Volumes on a real containerd: what containers see of them, and that nothing of them is left."""

import json
import os
from pathlib import Path

import pytest

from runtime.drivers.host.volumes import mount
from tests.harness.agent.node import container

pytestmark = pytest.mark.real
FOREVER = "exec sleep 1000000"


def at(name, path, **more):
    return {"name": name, "mountPath": path, **more}


def until_printed(node, pod, count, container="main"):
    """Return the lines of a container's newest run once there are so many."""
    return node.until(
        lambda: len(lines := next(iter(node.printed(pod, container)[-1:]), [])) >= count and lines, "it spoke"
    )


def until_nothing_is_left(node, name):
    folder = node.root / "pods" / node.row(name)["uid"]
    node.drop(name)
    node.until_gone(name)
    node.until(lambda: not node.mounts() and not folder.exists(), "no mount and no folder is left")


def place(node, name):
    """Return the folder of a pod's volumes."""
    return node.root / "pods" / node.row(name)["uid"] / "volumes" / "kubernetes.io~empty-dir"


def told(node, reason):
    return {row["message"] for row in node.json("/events")["events"] if row["reason"] == reason}


def test_two_containers_share_a_folder_that_outlives_them_both(node_of_each):
    node = node_of_each
    write = "id -u; echo hello >/data/f; echo run >>/data/runs; exec sleep 1000000"
    read = "until cat /other/f 2>/dev/null; do sleep 0.05; done; exec sleep 1000000"
    node.put_pod(
        "pair",
        container("main", write, volumeMounts=[at("v", "/data")], securityContext={"runAsUser": 4321}),
        container("reads", read, volumeMounts=[at("v", "/other", readOnly=True)]),
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    node.start()
    assert until_printed(node, "pair", 1, "reads") == ["hello"]
    assert until_printed(node, "pair", 1) == ["4321"], "any user may write into it"
    folder = place(node, "pair") / "v"
    assert (folder / "f").read_text() == "hello\n"
    [pid, *_] = [node.mains("pair")["main"][0]]
    os.kill(pid, 9)
    node.until(lambda: (folder / "runs").read_text() == "run\nrun\n", "its successor found it")
    assert node.mounts() == []
    until_nothing_is_left(node, "pair")


def test_memory_is_a_file_system_of_its_size_and_goes_with_its_pod(node_of_each):
    node = node_of_each
    script = "grep ' /m ' /proc/mounts; dd if=/dev/zero of=/m/big bs=1M count=3 2>&1 | tail -n 1; stat -c %s /m/big; exec sleep 1000000"
    node.put_pod(
        "mem",
        container("main", script, volumeMounts=[at("v", "/m")]),
        volumes=[{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}],
    )
    node.start()
    lines = until_printed(node, "mem", 3)
    assert lines[0].split()[2] == "tmpfs"
    assert "size=1024k" in lines[0]
    assert lines[-1] == str(1 << 20), lines
    assert node.mounts() == [str(place(node, "mem").resolve() / "v")]
    node.kill9()
    node.start()
    node.until_running("mem")
    assert len(node.mounts()) == 1, "the next agent mounts nothing over it"
    until_nothing_is_left(node, "mem")


def test_a_folder_of_the_node_is_read_only_when_that_is_asked_for(node, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "f").write_text("from the node\n")
    script = "cat /ro/f; touch /ro/x 2>&1; echo back >/rw/g; exec sleep 1000000"
    node.put_pod(
        "host",
        container("main", script, volumeMounts=[at("v", "/ro", readOnly=True), at("v", "/rw")]),
        volumes=[{"name": "v", "hostPath": {"path": str(shared), "type": "Directory"}}],
    )
    node.start()
    lines = until_printed(node, "host", 2)
    assert lines[0] == "from the node"
    assert "Read-only file system" in lines[1]
    node.until((shared / "g").exists, "what it wrote is there")
    until_nothing_is_left(node, "host")
    assert sorted(path.name for path in shared.iterdir()) == ["f", "g"], "the node's files stay"


def test_parts_of_a_volume_are_a_file_and_a_folder_and_one_named_by_a_variable(node, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "f").write_text("a file\n")
    script = "cat /etc/one; echo x >/two/made; ls /all /mine; exec sleep 1000000"
    node.put_pod(
        "parts",
        container(
            "main",
            script,
            env=[{"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            volumeMounts=[
                at("node", "/etc/one", subPath="f"),
                at("v", "/two", subPath="deep/er"),
                at("v", "/mine", subPathExpr="$(WHO)/own"),
                at("v", "/all"),
            ],
        ),
        volumes=[{"name": "v", "emptyDir": {}}, {"name": "node", "hostPath": {"path": str(shared)}}],
    )
    node.start()
    lines = until_printed(node, "parts", 5)
    assert lines[0] == "a file"
    assert "deep" in lines
    folder = place(node, "parts") / "v"
    assert (folder / "deep" / "er" / "made").read_text() == "x\n"
    assert any(path.name == "own" for path in folder.glob("parts-*/own"))
    assert len(node.mounts()) == 3
    assert all("/volume-subpaths/" in point for point in node.mounts())
    node.until(lambda: "main" in node.mains("parts"), "its status says that it runs")
    pid = node.mains("parts")["main"][0]
    os.kill(pid, 9)
    node.until(lambda: len(node.printed("parts")) == 2, "it runs again")
    until_printed(node, "parts", 5)
    assert len(node.mounts()) == 3, "nothing is mounted twice"
    until_nothing_is_left(node, "parts")
    assert (shared / "f").read_text() == "a file\n"


def test_a_part_that_leads_out_of_its_volume_starts_nothing_and_tells_no_path(node, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "out").symlink_to("/etc")
    volumes = [{"name": "v", "hostPath": {"path": str(shared)}}]
    node.put_pod(
        "evil", container("main", FOREVER, volumeMounts=[at("v", "/x", subPath="out")]), volumes=volumes
    )
    node.put("web", FOREVER, grace=1)
    node.start()
    node.until_running("web")
    node.until_status("evil", "CreateContainerConfigError")
    message = node.status("evil")["state"]["waiting"]["message"]
    assert message == 'failed to prepare subPath for volumeMount "v" of container "main"'
    assert "/etc" not in json.dumps(node.pod("evil")["status"])
    assert node.mounts() == []
    until_nothing_is_left(node, "evil")


def test_a_folder_that_is_not_there_is_told_and_waited_for(node, tmp_path):
    missing = tmp_path / "missing"
    volumes = [{"name": "v", "hostPath": {"path": str(missing), "type": "Directory"}}]
    node.put_pod("waits", container("main", FOREVER, volumeMounts=[at("v", "/x")]), volumes=volumes)
    node.put("web", FOREVER, grace=1)
    node.start()
    node.until_running("web")
    text = (
        f'MountVolume.SetUp failed for volume "v" : hostPath type check failed: {missing} is not a directory'
    )
    node.until(lambda: text in told(node, "FailedMount"), "the event is told")
    assert "is not a directory" in json.dumps(node.explain("waits"))
    assert node.pod("waits")["status"]["phase"] == "Pending"
    assert not [s for s in node.runtime.link.sandboxes() if "waits" in s]
    missing.mkdir()
    node.until_running("waits", deadline_s=60)
    until_nothing_is_left(node, "waits")
    assert missing.is_dir()


def test_a_socket_of_the_node_is_no_folder(node, tmp_path):
    volumes = [{"name": "v", "hostPath": {"path": str(node.runtime.socket), "type": "Directory"}}]
    node.put_pod("waits", container("main", FOREVER, volumeMounts=[at("v", "/x")]), volumes=volumes)
    volumes = [{"name": "v", "hostPath": {"path": str(node.runtime.socket), "type": "Socket"}}]
    script = "test -S /x && echo it is one; exec sleep 1000000"
    node.put_pod("has", container("main", script, volumeMounts=[at("v", "/x")]), volumes=volumes)
    node.start()
    assert until_printed(node, "has", 1) == ["it is one"]
    node.until(lambda: "is not a directory" in json.dumps(node.explain("waits")), "it is told")
    assert Path(node.runtime.socket).is_socket()


def test_mounts_made_later_on_the_node_are_seen_where_that_is_asked_for(node):
    script = "until cat /v/later/f 2>/dev/null; do sleep 0.05; done; exec sleep 1000000"
    hidden = "echo on; until cat /v/later/f 2>/dev/null; do sleep 0.05; done"
    node.put_pod(
        "late",
        container("main", script, volumeMounts=[at("v", "/v", mountPropagation="HostToContainer")]),
        container("blind", hidden, volumeMounts=[at("v", "/v")]),
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    node.start()
    node.until_running("late")
    until_printed(node, "late", 1, "blind")
    folder = place(node, "late") / "v"
    (folder / "later").mkdir()
    mount.attach("tmpfs", str(folder / "later"), "tmpfs")
    (folder / "later" / "f").write_text("seen\n")
    assert until_printed(node, "late", 1) == ["seen"]
    assert node.printed("late", "blind") == [["on"]]
    until_nothing_is_left(node, "late")


def test_what_a_privileged_container_mounts_is_seen_by_the_others_and_goes_with_the_pod(node):
    makes = "mkdir /v/m && mount -t tmpfs tmpfs /v/m && echo made >/v/m/f; echo on; exec sleep 1000000"
    sees = "until cat /v/m/f 2>/dev/null; do sleep 0.05; done; exec sleep 1000000"
    node.put_pod(
        "both",
        container(
            "main",
            makes,
            securityContext={"privileged": True},
            volumeMounts=[at("v", "/v", mountPropagation="Bidirectional")],
        ),
        container("sees", sees, volumeMounts=[at("v", "/v", mountPropagation="HostToContainer")]),
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    node.start()
    assert until_printed(node, "both", 1, "sees") == ["made"]
    assert any(point.endswith("/v/m") for point in node.mounts())
    until_nothing_is_left(node, "both")


def test_a_finished_pod_gives_its_memory_back_while_it_is_kept(node):
    node.put_pod(
        "job",
        container("main", "echo done >/m/f", volumeMounts=[at("v", "/m")]),
        volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}],
        restartPolicy="Never",
    )
    node.start()
    node.until_status("job", "Completed")
    node.until(lambda: node.mounts() == [], "it is unmounted")
    assert node.rows()["job"]["status"] == "Completed"
    until_nothing_is_left(node, "job")


def test_the_volumes_of_a_pod_that_was_removed_while_the_agent_was_down_go_too(node):
    node.put_pod(
        "gone",
        container("main", FOREVER, volumeMounts=[at("v", "/m"), at("v", "/s", subPath="a")]),
        volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}],
    )
    node.start()
    node.until_running("gone")
    assert len(node.mounts()) == 2
    node.kill9()
    Path(node.manifests, "gone.yaml").unlink()
    node.start()
    node.until(lambda: not node.mounts() and not node.pod_folders(), "no mount and no folder is left")
    node.until_empty()
