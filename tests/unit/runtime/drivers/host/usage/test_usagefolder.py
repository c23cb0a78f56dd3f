"""What folders hold: as ``du`` counts, each inode once, no link followed, no longer than allowed."""

import os
import resource
import subprocess
from pathlib import Path

import pytest

from api.ports.usage import FolderPlace
from api.ports.volumes import RemoveVolumes
from runtime.drivers.host.usage import usagefolder
from runtime.drivers.host.usage.usagefolder import walk_pod
from runtime.drivers.host.volumes.volume import Volumes


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
    [volume] = row.volumes
    assert (volume.used_bytes, volume.at_least) == (0, True)
    assert "cache: cannot be read" in row.trouble


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
    assert volume.at_least
    assert "volume cache: too much to count in time" in row.trouble


def nest(folder, depth):
    """Nest folders in one, deeper than any path can name."""
    folder.mkdir(parents=True, exist_ok=True)
    fd = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)


@pytest.fixture
def emptied(folders):
    """Remove what is nested as it is removed when the pod goes."""
    yield
    Volumes(folders.pod.parent).perform(RemoveVolumes(uid=folders.pod.name), 60.0)
    assert not any((folders.pod / "volumes").iterdir())


def test_a_nest_of_folders_hides_neither_itself_nor_what_is_beside_it(folders, emptied, monkeypatch):
    for name in ("a", "e", "z"):
        folders.write(folders.volume("cache") / name / "x", 1 << 20)
    nest(folders.volume("cache") / "nest", 5000)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files() + 16, hard))
    try:
        row = folders.walk()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    [volume] = row.volumes
    assert volume.used_bytes >= 3 << 20
    assert volume.inodes == 1 + 3 * 2 + 5000 + 2
    assert (row.trouble, volume.at_least) == ("", False)


def test_folders_that_are_moved_meanwhile_cost_nothing_that_is_beside_them(folders, monkeypatch):
    monkeypatch.setattr(usagefolder, "CHECK_EVERY", 1)
    cache = folders.volume("cache")
    for name in ("a", "b/c/d/e", "z"):
        folders.write(cache / name / "x", 1 << 20)
    folders.write(cache / "b/c/later/x", 1 << 20)

    def clock():
        # As soon as the walk is somewhere below b/c, that is taken from under it.
        if (cache / "b/c").exists() and inside(cache / "b/c"):
            (cache / "b/c/d").rename(cache / "b/d") if (cache / "b/c/d").exists() else None
            (cache / "b/c").rename(cache / "moved")
        return 0.0

    row = folders.walk(clock=clock)
    assert (cache / "moved").exists()
    [volume] = row.volumes
    assert volume.used_bytes >= 2 << 20
    assert volume.at_least
    assert "volume cache: folders were moved while they were counted: this is a part of it" in row.trouble


def inside(folder):
    """Tell whether this process has something below a folder open."""
    return any(os.path.realpath(link).startswith(f"{folder}/") for link in Path("/proc/self/fd").iterdir())


def test_a_volume_that_takes_all_the_time_leaves_some_to_the_next(folders):
    for number in range(8 * usagefolder.CHECK_EVERY):
        folders.write(folders.volume("a") / f"{number:04}", 1)
    for number in range(2 * usagefolder.CHECK_EVERY):
        folders.write(folders.volume("b") / f"{number:04}", 1)
    ticks = iter(range(10**6))
    a, b = folders.walk(budget_s=10.0, clock=lambda: float(next(ticks))).volumes
    assert (a.at_least, b.at_least) == (True, False)
    assert b.inodes == 1 + 2 * usagefolder.CHECK_EVERY


def test_more_files_with_several_names_than_are_remembered_still_count_once(folders, monkeypatch):
    monkeypatch.setattr(usagefolder, "LINKS_LIMIT", 2)
    for number in range(9):
        file = folders.write(folders.volume("cache") / f"f{number}", 40_000)
        for name in range(2):
            os.link(file, file.parent / f"f{number}-{name}")
    volume = folders.only()
    assert volume.used_bytes == du(folders.volume("cache"), "--block-size=1")
    assert volume.inodes == 10


def test_more_folders_than_are_remembered_are_a_part_and_said_to_be(folders, monkeypatch):
    monkeypatch.setattr(usagefolder, "FOLDERS_LIMIT", 3)
    for number in range(9):
        folders.write(folders.volume("cache") / f"{number}/x", 1 << 20)
    row = folders.walk()
    [volume] = row.volumes
    assert volume.at_least
    assert volume.used_bytes >= 3 << 20
    assert "too many folders" in row.trouble


def test_folders_of_a_pod_that_cannot_be_read_are_not_taken_for_empty_ones(folders):
    folders.write(folders.pod / "volumes")
    row = folders.walk()
    assert (row.measured, row.volumes) == (False, ())
    assert "Not a directory" in row.trouble


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
