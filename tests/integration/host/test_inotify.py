"""The stream of manifest changes on a real kernel: what is announced, and what is not."""

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from api.ports.manifests import FileSettled
from runtime.drivers.host.manifests import inotify
from runtime.drivers.host.manifests.inotify import ManifestChanges

DEADLINE_S = 10.0


class Listener:
    """Collects announcements and waits for them."""

    def __init__(self, path):
        self.heard = []
        self.ended = []
        self.changed = threading.Condition()
        self.undo = ManifestChanges(str(path)).open(self.push, self.end)

    def push(self, item):
        assert isinstance(item, FileSettled)
        with self.changed:
            self.heard.append(item.path)
            self.changed.notify_all()

    def end(self, failure):
        with self.changed:
            self.ended.append(failure)
            self.changed.notify_all()

    def hears(self, path, seconds=DEADLINE_S):
        with self.changed:
            return self.changed.wait_for(lambda: str(path) in self.heard, seconds)

    def wait_for(self, path):
        assert self.hears(path), f"{path} was not announced, only {self.heard}"

    def forget(self):
        with self.changed:
            self.heard.clear()


@pytest.fixture
def listen():
    listeners = []

    def start(path):
        listeners.append(Listener(path))
        return listeners[-1]

    yield start
    for listener in listeners:
        listener.undo()
        listener.undo()
    watching = [t for t in threading.enumerate() if t.name == "manifest-changes"]
    for thread in watching:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    assert all(not listener.ended for listener in listeners)


def mark(folder, listener):
    """Write a file until it is announced: after everything that happened before, and as soon as `folder` is watched."""
    ends_at = time.monotonic() + DEADLINE_S
    while True:
        (folder / "mark.yaml").write_text("x")
        if listener.hears(folder / "mark.yaml", 0.2):
            return
        assert time.monotonic() < ends_at, f"{folder} is not watched"


def test_a_file_is_announced_when_its_writer_closes_it_and_not_before(tmp_path, listen):
    listener = listen(tmp_path)
    with (tmp_path / "a.yaml").open("w") as file:
        file.write("half")
        file.flush()
        mark(tmp_path, listener)
        assert str(tmp_path / "a.yaml") not in listener.heard
    listener.wait_for(tmp_path / "a.yaml")


def test_renames_links_and_removals_are_announced(tmp_path, listen):
    folder, outside = tmp_path / "m", tmp_path / "outside"
    folder.mkdir()
    outside.write_text("x")
    listener = listen(folder)
    outside.rename(folder / "in.yaml")
    listener.wait_for(folder / "in.yaml")
    listener.forget()
    (folder / "in.yaml").rename(folder / "to.yaml")
    listener.wait_for(folder / "in.yaml")
    listener.wait_for(folder / "to.yaml")
    (folder / "soft.yaml").symlink_to("to.yaml")
    listener.wait_for(folder / "soft.yaml")
    (folder / "hard.yaml").hardlink_to(folder / "to.yaml")
    listener.wait_for(folder / "hard.yaml")
    listener.forget()
    (folder / "to.yaml").unlink()
    listener.wait_for(folder / "to.yaml")


def test_names_that_are_no_manifests_are_not_announced(tmp_path, listen):
    listener = listen(tmp_path)
    for name in (".a.yaml.swp", "a.yaml~", "4913", "4913"):
        (tmp_path / name).write_text("x")
    mark(tmp_path, listener)
    assert listener.heard == [str(tmp_path / "mark.yaml")]


def test_the_exchange_of_kubernetes_atomic_writer_asks_for_a_rescan(tmp_path, listen):
    listener = listen(tmp_path)
    (tmp_path / "..tmp").symlink_to("x")
    (tmp_path / "..tmp").rename(tmp_path / "..data")
    listener.wait_for(tmp_path)


def test_a_path_that_does_not_exist_yet_is_waited_for_at_any_depth(tmp_path, listen):
    folder = tmp_path / "a" / "b" / "c"
    listener = listen(folder)
    (tmp_path / "noise").mkdir()
    folder.mkdir(parents=True)
    listener.wait_for(folder)
    mark(folder, listener)


def test_a_folder_that_goes_and_comes_back_is_watched_again(tmp_path, listen):
    folder = tmp_path / "m"
    folder.mkdir()
    listener = listen(folder)
    folder.rmdir()
    listener.wait_for(folder)
    listener.forget()
    folder.mkdir()
    listener.wait_for(folder)
    mark(folder, listener)
    folder.rename(tmp_path / "away")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "x.yaml").write_text("x")
    listener.forget()
    (tmp_path / "new").rename(folder)
    listener.wait_for(folder)
    listener.forget()
    mark(folder, listener)


def test_a_link_to_a_folder_is_followed_when_it_is_exchanged(tmp_path, listen):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    link = tmp_path / "m"
    link.symlink_to("one")
    listener = listen(link)
    (tmp_path / "one" / "a.yaml").write_text("x")
    listener.wait_for(link / "a.yaml")
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").rename(link)
    listener.wait_for(link)
    (tmp_path / "two" / "b.yaml").write_text("x")
    listener.wait_for(link / "b.yaml")


def test_a_single_file_is_watched_through_its_folder(tmp_path, listen):
    path = tmp_path / "pod.conf"
    listener = listen(path)
    (tmp_path / "else.yaml").write_text("x")
    path.write_text("x")
    listener.wait_for(path)
    listener.forget()
    (tmp_path / "new").write_text("y")
    (tmp_path / "new").rename(path)
    listener.wait_for(path)
    listener.forget()
    path.unlink()
    listener.wait_for(path)
    assert set(listener.heard) == {str(path)}


def test_an_overflow_asks_for_a_rescan(tmp_path, listen, monkeypatch):
    overflow = inotify.HEADER.pack(-1, inotify.Q_OVERFLOW, 0, 0)
    real = os.read
    once = iter([overflow])
    monkeypatch.setattr(os, "read", lambda fd, n: next(once, None) or real(fd, n))
    listener = listen(tmp_path)
    (tmp_path / "a.yaml").write_text("x")
    listener.wait_for(tmp_path)
    mark(tmp_path, listener)


def test_a_moved_parent_is_noticed_by_the_check(tmp_path, listen, monkeypatch):
    monkeypatch.setattr(inotify, "CHECK_S", 0.02)
    folder = tmp_path / "p" / "m"
    folder.mkdir(parents=True)
    listener = listen(folder)
    (tmp_path / "p").rename(tmp_path / "q")
    listener.wait_for(folder)
    folder.mkdir(parents=True)
    mark(folder, listener)


def test_a_kernel_without_watches_left_is_told_with_what_to_do(tmp_path, monkeypatch):
    def refuse(self, path):
        raise OSError(errno.ENOSPC, "No space left on device", path)

    monkeypatch.setattr(inotify.InotifyWatch, "_add", refuse)
    listener = Listener(tmp_path)
    (failure,) = listener.ended
    assert "fs.inotify.max_user_watches" in failure.message


def test_a_watch_that_is_refused_later_ends_the_stream_once_with_the_reason(tmp_path, monkeypatch):
    def refuse(self, path):
        raise OSError(errno.ENOSPC, "No space left on device", path)

    folder = tmp_path / "m"
    folder.mkdir()
    listener = Listener(folder)
    monkeypatch.setattr(inotify.InotifyWatch, "_add", refuse)
    folder.rmdir()
    with listener.changed:
        assert listener.changed.wait_for(lambda: listener.ended, DEADLINE_S)
    listener.undo()
    join_threads()
    (failure,) = listener.ended
    assert "fs.inotify.max_user_watches" in failure.message


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_on_the_thread_ends_the_stream_so_that_it_is_opened_again(tmp_path):
    ends, over = [], threading.Event()

    def end(failure):
        ends.append(failure)
        over.set()

    def stumble(item):
        raise ValueError("a bug")

    broken = inotify.InotifyWatch(str(tmp_path), stumble, end)
    broken.start()
    (tmp_path / "a.yaml").write_text("x")
    assert over.wait(DEADLINE_S)
    broken.stop()
    join_threads()
    assert ends == [None]


def join_threads():
    for thread in [t for t in threading.enumerate() if t.name == "manifest-changes"]:
        thread.join(DEADLINE_S)


def test_streams_leave_no_descriptors_behind(tmp_path, listen):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        Listener(tmp_path).undo()
    join_threads()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
