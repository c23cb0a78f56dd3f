"""Walks of volumes beside real mounts: none is crossed, and a volume that is one is asked as a whole."""

import os
import subprocess

import pytest

from api.ids import Uid
from api.ports.usage import FolderPlace, MeasureFolders
from runtime.drivers.host.usage.usage import UsageReader

pytestmark = pytest.mark.real
MIB = 1 << 20


@pytest.fixture
def volumes(tmp_path):
    folder = tmp_path / "pods/u/volumes/kubernetes.io~empty-dir"
    folder.mkdir(parents=True)
    mounts = []

    def mount(path, *options):
        path.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["mount", *options, str(path)], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"mounts need root: {done.stderr.strip()}")
        mounts.append(path)
        return path

    folder_of = {"folder": folder, "mount": mount}
    yield folder_of
    for path in reversed(mounts):
        subprocess.run(["umount", str(path)], check=True)


def measure(tmp_path):
    place = FolderPlace(uid=Uid("u"), pod_folder=str(tmp_path / "pods/u"), log_folder=str(tmp_path / "none"))
    [row] = UsageReader().perform(MeasureFolders(pods=(place,)), 30.0).rows
    return {volume.name: volume for volume in row.volumes}


def test_a_volume_in_memory_is_its_whole_file_system(tmp_path, volumes):
    ram = volumes["mount"](volumes["folder"] / "ram", "-t", "tmpfs", "-o", "size=16m", "tmpfs")
    (ram / "file").write_bytes(os.urandom(5 * MIB))
    found = measure(tmp_path)["ram"]
    assert found.memory
    assert found.used_bytes == 5 * MIB
    assert found.fs.capacity_bytes == 16 * MIB
    assert found.fs.available_bytes == 11 * MIB


def test_what_is_mounted_inside_a_volume_is_not_counted(tmp_path, volumes):
    disk = volumes["folder"] / "disk"
    disk.mkdir()
    (disk / "own").write_bytes(os.urandom(MIB))
    inside = volumes["mount"](disk / "deep/inside", "-t", "tmpfs", "-o", "size=16m", "tmpfs")
    (inside / "big").write_bytes(os.urandom(8 * MIB))
    found = measure(tmp_path)["disk"]
    assert not found.memory
    assert MIB <= found.used_bytes < 2 * MIB


def test_a_volume_on_an_overlay_is_counted_though_its_files_show_another_device(tmp_path, volumes):
    lower, upper, work = (tmp_path / name for name in ("lower", "upper", "work"))
    for path in (lower, upper, work):
        path.mkdir()
    (lower / "sub").mkdir()
    (lower / "sub/file").write_bytes(os.urandom(2 * MIB))
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    root = volumes["mount"](tmp_path / "root", "-t", "overlay", "-o", options, "overlay")
    volume = root / "pods/u/volumes/kubernetes.io~empty-dir/cache"
    volume.mkdir(parents=True)
    (volume / "file").write_bytes(os.urandom(3 * MIB))
    place = FolderPlace(uid=Uid("u"), pod_folder=str(root / "pods/u"), log_folder=str(root / "none"))
    [row] = UsageReader().perform(MeasureFolders(pods=(place,)), 30.0).rows
    [found] = row.volumes
    assert not found.memory
    assert 3 * MIB <= found.used_bytes < 4 * MIB
