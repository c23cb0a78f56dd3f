"""The port ``volumes``: volumes are made, parts of them bound, all of them removed; the node's own files are looked at."""

import os
import socket
import stat
from pathlib import Path

import pytest

from api.errors import OperatingError, RejectedError
from api.ports.volumes import (
    EMPTY_DIR,
    HOST_RULES,
    EmptyDir,
    HostKind,
    HostPath,
    Medium,
    PrepareSubPath,
    PrepareVolume,
    RemoveVolumes,
    SubPathReady,
    VolumeReady,
    VolumesRemoved,
)
from runtime.drivers.host.volumes.volume import Volumes
from runtime.drivers.memory.volume import MemoryVolumes
from tests.harness.part import missing

UID = "uid-1"
FOUND = tuple(kind for kind in HostKind if kind is not HostKind.OTHER)


class RealBench:
    def __init__(self, root):
        self.root = root
        self.pods = root / "pods"
        self.port = Volumes(self.pods)
        self.sockets = []

    def put(self, name, kind):
        """Let something of this kind be on the node; return its path."""
        path = self.root / name
        match kind:
            case HostKind.FOLDER:
                path.mkdir()
            case HostKind.FILE:
                path.write_text("here")
            case HostKind.SOCKET:
                self.sockets.append(socket.socket(socket.AF_UNIX))
                folder = os.open(self.root, os.O_PATH)
                self.sockets[-1].bind(f"/proc/self/fd/{folder}/{name}")
                os.close(folder)
            case HostKind.CHARACTER_DEVICE:
                return "/dev/null"
            case HostKind.BLOCK_DEVICE:
                found = [path for path in Path("/dev").iterdir() if path.is_block_device()]
                if not found:
                    pytest.skip("there is no block device on this machine")
                return str(found[0])
            case _:
                pass
        return str(path)

    def kind(self, path):
        return {stat.S_IFDIR: HostKind.FOLDER, stat.S_IFREG: HostKind.FILE}[
            stat.S_IFMT(Path(path).stat().st_mode)
        ]

    def close(self):
        for one in self.sockets:
            one.close()
        if self.pods.exists():
            for uid in [path.name for path in self.pods.iterdir()]:
                self.port.perform(RemoveVolumes(uid=uid), 5.0)


class MemoryBench:
    def __init__(self, root):
        self.pods = root / "pods"
        self.port = MemoryVolumes(str(self.pods))
        self.port.put("/node", HostKind.FOLDER)

    def put(self, name, kind):
        if kind is not HostKind.NOTHING:
            self.port.put(f"/node/{name}", kind)
        return f"/node/{name}"

    def kind(self, path):
        return self.port.kind(path)

    def close(self):
        pass


@pytest.fixture(params=[MemoryBench, RealBench], ids=["memory", "machine"])
def bench(request, tmp_path):
    made = request.param(tmp_path)
    yield made
    made.close()


def prepare(bench, plan, name="v", uid=UID):
    return bench.port.perform(PrepareVolume(uid=uid, volume=name, plan=plan), 5.0)


def bind(bench, volume, sub_path, index=0, container="c"):
    call = PrepareSubPath(
        uid=UID,
        volume="v",
        host_path=volume,
        sub_path=sub_path,
        container=container,
        attempt=0,
        index=index,
    )
    return bench.port.perform(call, 5.0)


def mounting(bench):
    if isinstance(bench, RealBench) and missing("root"):
        pytest.skip("only root may mount")


def test_an_empty_dir_is_where_a_kubelet_has_it_and_making_it_again_is_fine(bench):
    for _ in range(2):
        assert prepare(bench, EmptyDir()) == VolumeReady(
            host_path=f"{bench.pods}/{UID}/volumes/{EMPTY_DIR}/v"
        )


@pytest.mark.parametrize("kind", sorted(HOST_RULES))
@pytest.mark.parametrize("found", FOUND)
def test_a_path_of_the_node_is_what_its_type_says_or_is_told_not_to_be(bench, kind, found):
    path = bench.put("here", found)
    wanted, text = HOST_RULES[kind]
    made = found is HostKind.NOTHING and kind.endswith("OrCreate")
    if found is wanted or made:
        assert prepare(bench, HostPath(path=path, kind=kind)) == VolumeReady(host_path=path)
        if made:
            assert bench.kind(path) is wanted
        return
    with pytest.raises(RejectedError) as told:
        prepare(bench, HostPath(path=path, kind=kind))
    assert str(told.value) == f"hostPath type check failed: {path} {text}"


def test_a_path_without_a_type_is_not_looked_at(bench):
    path = bench.put("nowhere", HostKind.NOTHING)
    assert prepare(bench, HostPath(path=path)) == VolumeReady(host_path=path)


def test_a_folder_is_made_with_those_above_it_and_a_file_is_not(bench):
    path = bench.put("far", HostKind.NOTHING)
    with pytest.raises(OperatingError):
        prepare(bench, HostPath(path=f"{path}/file", kind="FileOrCreate"))
    prepare(bench, HostPath(path=f"{path}/away/folder", kind="DirectoryOrCreate"))
    assert bench.kind(f"{path}/away") is HostKind.FOLDER


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (HostPath(path="/a/../b"), "invalid HostPath `/a/../b`: must not contain '..'"),
        (HostPath(path="b"), "invalid HostPath `b`: must be an absolute path"),
        (HostPath(path="/", kind="Fluid"), "Fluid is an invalid volume type"),
    ],
)
def test_a_path_that_is_none_is_refused(bench, plan, text):
    with pytest.raises(RejectedError) as told:
        prepare(bench, plan)
    assert str(told.value) == text


@pytest.mark.parametrize(
    ("uid", "name", "container"),
    [("../x", "v", "c"), ("u", "..", "c"), ("u", "a/b", "c"), ("u", "v", "../c"), ("u", "", "c")],
)
def test_names_that_cannot_name_folders_are_refused(bench, uid, name, container):
    call = PrepareSubPath(
        uid=uid, volume=name, host_path="/", sub_path="a", container=container, attempt=0, index=0
    )
    with pytest.raises(RejectedError):
        bench.port.perform(call, 5.0)


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc", "a/.."])
def test_a_sub_path_that_is_no_path_inside_is_refused(bench, path):
    volume = prepare(bench, EmptyDir()).host_path
    with pytest.raises(RejectedError):
        bind(bench, volume, path)


def test_a_part_of_a_volume_has_a_place_for_each_mount(bench):
    mounting(bench)
    volume = prepare(bench, EmptyDir()).host_path
    place = f"{bench.pods}/{UID}/volume-subpaths/v/c"
    for _ in range(2):
        assert bind(bench, volume, "a/b") == SubPathReady(host_path=f"{place}/0")
        assert bind(bench, volume, "c", 1) == SubPathReady(host_path=f"{place}/1")


def test_all_volumes_of_a_pod_are_removed_and_removing_them_again_is_fine(bench):
    mounting(bench)
    prepare(bench, EmptyDir())
    in_memory = prepare(bench, EmptyDir(medium=Medium.MEMORY, size_bytes=1 << 20), "m").host_path
    part = bind(bench, in_memory, "a").host_path
    other = prepare(bench, EmptyDir(), uid="uid-2")
    removed = bench.port.perform(RemoveVolumes(uid=UID), 5.0)
    assert set(removed.unmounted) == {in_memory, part}
    assert bench.port.perform(RemoveVolumes(uid=UID), 5.0) == VolumesRemoved()
    assert prepare(bench, EmptyDir(), uid="uid-2") == other


def test_what_a_pod_had_of_the_node_stays(bench):
    path = bench.put("here", HostKind.FOLDER)
    prepare(bench, HostPath(path=path, kind="Directory"))
    bench.port.perform(RemoveVolumes(uid=UID), 5.0)
    assert bench.kind(path) is HostKind.FOLDER


def test_a_pod_that_is_not_known_has_nothing_to_remove(bench):
    assert bench.port.perform(RemoveVolumes(uid="nobody"), 5.0) == VolumesRemoved()
