"""The port ``podfiles``: folders of pods are made, listed by UID and removed."""

from pathlib import Path

import pytest

from api.errors import RejectedError
from api.ports.call import Done
from api.ports.podfiles import ListPodFolders, MakePodFolders, PodFolders, RemovePodFolders
from runtime.drivers.host.podfiles.podfolder import PodFolderDriver as FolderDriver
from runtime.drivers.memory.podfolder import MemoryPodFolders


class RealBench:
    def __init__(self, root):
        self.logs = root / "logs"
        self.port = FolderDriver(root / "pods", self.logs)

    def add_logs(self, name):
        (self.logs / name / "main").mkdir(parents=True)
        (self.logs / name / "main" / "0.log").write_text("line\n")
        return str(self.logs / name)


class MemoryBench:
    def __init__(self, root):
        self.logs = root / "logs"
        self.port = MemoryPodFolders(str(self.logs))

    def add_logs(self, name):
        path = str(self.logs / name)
        self.port.add_logs(path)
        return path


@pytest.fixture(params=[MemoryBench, RealBench], ids=["memory", "files"])
def bench(request, tmp_path):
    return request.param(tmp_path)


def ask(bench, call):
    return bench.port.perform(call, 5.0)


def test_nothing_is_listed_where_nothing_is(bench):
    assert ask(bench, ListPodFolders()) == PodFolders()


def test_folders_that_were_made_are_listed_by_uid(bench):
    for uid in ("uid-b", "uid-a", "uid-b"):
        assert ask(bench, MakePodFolders(uid=uid)) == Done()
    assert ask(bench, ListPodFolders()).uids == ("uid-a", "uid-b")


def test_log_folders_are_listed_by_what_follows_the_last_underscore(bench):
    web = bench.add_logs("default_web_uid-2")
    odd = bench.add_logs("name_with_many_underscores_uid-1")
    bench.add_logs("notapod")
    bench.add_logs("half_uid-9")
    listing = ask(bench, ListPodFolders())
    assert listing.log_directories == (("uid-1", odd), ("uid-2", web))
    assert listing.uids == (), "a log folder alone does not make a pod ours"


def test_removed_folders_are_gone_and_removing_them_again_is_fine(bench):
    logs = bench.add_logs("default_web_uid-1")
    ask(bench, MakePodFolders(uid="uid-1"))
    ask(bench, MakePodFolders(uid="uid-2"))
    for _ in range(2):
        assert ask(bench, RemovePodFolders(uid="uid-1", log_directory=logs)) == Done()
    assert ask(bench, ListPodFolders()) == PodFolders(uids=("uid-2",))


def test_logs_stay_when_they_are_not_named(bench):
    logs = bench.add_logs("default_web_uid-1")
    ask(bench, MakePodFolders(uid="uid-1"))
    ask(bench, RemovePodFolders(uid="uid-1"))
    assert ask(bench, ListPodFolders()) == PodFolders(log_directories=(("uid-1", logs),))


def test_logs_whose_name_nobody_knows_are_found_by_the_uid_and_no_others(bench):
    bench.add_logs("default_web_uid-1")
    others = [bench.add_logs(name) for name in ("default_web_uid-10", "default_web_x-uid-1")]
    bench.add_logs("half_uid-1")
    ask(bench, MakePodFolders(uid="uid-1"))
    for _ in range(2):
        assert ask(bench, RemovePodFolders(uid="uid-1", find_logs=True)) == Done()
    left = ask(bench, ListPodFolders())
    assert left.uids == ()
    assert sorted(path for _, path in left.log_directories) == sorted(others)


@pytest.mark.parametrize("uid", ["", ".", "..", "../x", "a/b", "a_b", "/", "x" * 201, "a\0", "a\n"])
def test_a_uid_that_cannot_name_a_folder_is_refused(bench, uid):
    for call in (MakePodFolders(uid=uid), RemovePodFolders(uid=uid)):
        with pytest.raises(RejectedError):
            ask(bench, call)


def test_logs_that_are_not_the_pods_own_are_not_removed(bench):
    other = bench.add_logs("default_web_uid-2")
    before = ask(bench, ListPodFolders())
    for path in (
        other,
        str(bench.logs),
        str(bench.logs / ".."),
        f"{bench.logs}/../pods_x_uid-1",
        f"{bench.logs}/deeper/default_web_uid-1",
        "/etc",
        "default_web_uid-1",
        str(Path(other) / "a_b_uid-1"),
    ):
        with pytest.raises(RejectedError):
            ask(bench, RemovePodFolders(uid="uid-1", log_directory=path))
    assert ask(bench, ListPodFolders()) == before
