"""What folders hold: as ``du`` counts, each inode once, no link followed, no longer than allowed."""

import os
import subprocess
from pathlib import Path

import pytest

from api.usagecall import FolderPlace
from runtime.drivers.host import usagefolder
from runtime.drivers.host.usagefolder import walk_pod


class Folders:
    def __init__(self, root):
        self.pod, self.logs = root / "pod", root / "logs"
        self.place = FolderPlace(uid="u", pod_folder=str(self.pod), log_folder=str(self.logs))

    def write(self, path, size=10_000):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
        return path

    def volume(self, name, kind="empty-dir"):
        return self.pod / f"volumes/kubernetes.io~{kind}/{name}"

    def walk(self, budget_s=60.0, **options):
        return walk_pod(self.place, budget_s, **options)

    def only(self):
        [volume] = self.walk().volumes
        return volume


@pytest.fixture
def folders(tmp_path):
    return Folders(tmp_path)


def du(path, *flags):
    out = subprocess.run(["du", "-s", *flags, path], capture_output=True, text=True, check=True).stdout
    return int(out.split()[0])


def test_a_volume_is_what_du_says(folders):
    for number in range(300):
        folders.write(folders.volume("cache") / f"{number % 7}/{number % 3}/f{number}", 1 + number * 50)
    volume = folders.only()
    assert (volume.name, volume.kind) == ("cache", "empty-dir")
    assert volume.used_bytes == du(folders.volume("cache"), "--block-size=1")
    assert volume.inodes == du(folders.volume("cache"), "--inodes")


def test_an_inode_with_several_names_counts_once(folders):
    file = folders.write(folders.volume("cache") / "a", 1 << 20)
    for number in range(5):
        os.link(file, file.parent / f"link{number}")
    volume = folders.only()
    assert volume.used_bytes == du(folders.volume("cache"), "--block-size=1")
    assert volume.used_bytes < 2 << 20
    assert volume.inodes == 2


def test_a_link_is_counted_and_never_followed(folders, tmp_path):
    folders.write(tmp_path / "outside/big", 4 << 20)
    folders.write(folders.volume("cache") / "small", 10)
    (folders.volume("cache") / "out").symlink_to(tmp_path / "outside")
    (folders.volume("cache") / "file").symlink_to(tmp_path / "outside/big")
    assert folders.only().used_bytes < 1 << 20
    assert folders.only().inodes == 4


def test_a_volume_that_is_a_link_is_named_and_not_followed(folders, tmp_path):
    folders.write(tmp_path / "outside/big", 4 << 20)
    folders.volume("cache").parent.mkdir(parents=True)
    folders.volume("cache").symlink_to(tmp_path / "outside")
    row = folders.walk()
    assert row.volumes == ()
    assert "cache can not be read" in row.trouble


def test_logs_are_the_files_in_a_containers_folder_and_the_rest_is_the_pods(folders):
    folders.write(folders.logs / "main/0.log", 5000)
    folders.write(folders.logs / "main/0.log.20260101-000000.gz", 3000)
    folders.write(folders.logs / "main/deeper/x", 1 << 20)
    folders.write(folders.logs / "stray", 100)
    folders.write(folders.pod / "etc-hosts", 100)
    row = folders.walk()
    [logs] = row.logs
    assert logs.name == "main"
    assert logs.inodes == 3
    assert logs.used_bytes < 1 << 20
    assert row.other_inodes == 2
    assert row.other_bytes >= 2 * 512


def test_what_is_missing_holds_nothing(folders):
    row = folders.walk()
    assert (row.logs, row.volumes, row.other_bytes, row.trouble, row.measured) == ((), (), 0, "", True)


def test_a_walk_that_takes_too_long_is_broken_off_and_says_so(folders):
    for number in range(2 * usagefolder.CHECK_EVERY):
        folders.write(folders.volume("cache") / f"{number:04}", 1)
    ticks = iter(range(10**6))
    row = folders.walk(budget_s=0.5, clock=lambda: float(next(ticks)))
    [volume] = row.volumes
    assert volume.inodes < 2 * usagefolder.CHECK_EVERY
    assert "volume cache: too much to count in time" in row.trouble


def test_folders_nested_too_deep_are_named(folders, monkeypatch):
    monkeypatch.setattr(usagefolder, "DEPTH_LIMIT", 5)
    folders.write(folders.volume("cache") / "/".join("abcdefgh") / "x", 1 << 20)
    row = folders.walk()
    assert "nested over 5 deep" in row.trouble
    assert row.volumes[0].inodes == 6


def open_files():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_no_descriptor_stays_open(folders):
    folders.write(folders.volume("cache") / "a/b/c/d", 10)
    folders.write(folders.logs / "main/0.log", 10)
    before = open_files()
    for _ in range(3):
        folders.walk()
    assert open_files() == before


def test_other_folders_beside_the_volumes_are_left_alone(folders):
    folders.write(folders.pod / "volumes/lost+found/x")
    folders.write(folders.volume("config", "configmap") / "a")
    assert [(v.kind, v.name) for v in folders.walk().volumes] == [("configmap", "config")]
