"""Following a container's log while it is written at full speed and rotated: nothing is lost, nothing comes twice."""

import os
import socket
import threading

import pytest

from api.errors import NotFoundError
from api.ports.logs import RotateLog
from api.shown.introspection import LogQuery, LogTarget
from runtime.drivers.host.logs.containerlog import open_log
from runtime.drivers.host.logs.logfile import LogFiles
from tests.harness.agent.agent import until

STAMP = "2024-01-02T03:04:05.000000000Z stdout F"


class Writer:
    """A container's log as a runtime writes it, and what a rotation does to it."""

    def __init__(self, root):
        self.root = root / "default_web_u1"
        self.path = self.root / "main" / "0.log"
        self.path.parent.mkdir(parents=True)
        self.port = LogFiles(root, root.parent / "containers")
        self.running = True
        self.written = 0
        self.stop_at = None
        self.looks = 0
        """How often a follower asked whether the container runs: once in each of its rounds."""
        self._rotation = threading.Lock()
        self._next = None
        self._file = self._open()
        self._thread = None

    def _open(self):
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)

    def write(self, count=1):
        """Write some lines; a new file is taken into use only some lines after it was made, as containerd does it."""
        for _ in range(count):
            os.write(self._file, f"{STAMP} {self.written}\n".encode())
            self.written += 1

    def rotate(self, late=3):
        """Put the file aside; `late` lines still go into the old one after the new one was made."""
        with self._rotation:
            self.port.perform(RotateLog(path=str(self.path), max_files=50), 5.0)
            self._next = (self._open(), late)
            if self._thread is None:
                self._swap()

    def _swap(self):
        fresh, late = self._next
        self._next = None
        self.write(late)
        os.close(self._file)
        self._file = fresh

    def start(self):
        """Write at full speed until `finish`."""

        def run():
            while self.stop_at is None or self.written < self.stop_at:
                with self._rotation:
                    self.write(20)
                    if self._next is not None:
                        self._swap()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def finish(self):
        """End the container."""
        self.stop_at = self.written
        if self._thread is not None:
            self._thread.join(10)
        os.close(self._file)
        self.running = False

    def open(self, query, hangup=-1):
        target = LogTarget(path=str(self.path), root=str(self.root), running=self.running)
        return open_log(target, query, running=self._is_running, hangup=hangup)

    def _is_running(self):
        self.looks += 1
        return self.running

    def looked_at(self):
        """Wait until a follower has gone round twice more."""
        seen = self.looks
        until(lambda: self.looks >= seen + 2, "the follower looked")


class Reader:
    """Somebody who follows, on a thread of its own."""

    def __init__(self, writer, query=None, pause=lambda: None):
        self.data = b""
        self._log = writer.open(query or LogQuery(follow=True))
        self._pause = pause
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        for piece in self._log:
            self.data += piece
            self._pause()
        self._log.close()

    def numbers(self):
        """Return the lines so far as numbers."""
        whole = self.data[: self.data.rfind(b"\n") + 1]
        return [int(line) for line in whole.splitlines()]

    def finished(self):
        self._thread.join(20)
        assert not self._thread.is_alive(), "following did not end"
        return self.numbers()


@pytest.fixture
def writer(tmp_path):
    made = Writer(tmp_path / "pods")
    yield made
    if made.running:
        made.finish()


def test_full_speed_across_many_rotations(writer):
    writer.write(5)
    reader = Reader(writer)
    writer.start()
    for _ in range(6):
        seen = writer.written
        until(lambda seen=seen: writer.written > seen + 2000, "it writes on")
        writer.rotate()
        # A rotation every ten seconds: whoever follows is never two behind.
        last = writer.written
        until(
            lambda last=last: len(reader.data) and reader.numbers()[-1] >= last, "the reader keeps up", 60.0
        )
    writer.finish()
    assert reader.finished() == list(range(writer.written))


def test_a_slow_reader_goes_through_a_file_that_was_rotated_meanwhile(writer):
    gate = threading.Event()
    writer.write(3)
    reader = Reader(writer, pause=lambda: gate.wait(20))
    until(lambda: reader.data, "it has begun")
    for _ in range(2):
        writer.write(10)
        writer.rotate(late=0)
    writer.write(10)
    gate.set()
    writer.finish()
    assert reader.finished() == list(range(33))


def test_lines_that_still_go_into_the_old_file_are_not_lost(writer):
    reader = Reader(writer)
    writer.write(3)
    until(lambda: reader.numbers() == [0, 1, 2], "it follows")
    writer.port.perform(RotateLog(path=str(writer.path), max_files=5), 5.0)
    fresh = writer._open()
    writer.looked_at()
    writer.write(4)
    os.close(writer._file)
    writer._file = fresh
    writer.write(1)
    until(
        lambda: reader.numbers() == list(range(8)),
        "the late lines come before the new one",
        seen=reader.numbers,
    )
    writer.finish()
    assert reader.finished() == list(range(8))


def test_an_empty_new_file_keeps_nobody_from_the_old_one(writer):
    reader = Reader(writer)
    writer.write(2)
    writer.port.perform(RotateLog(path=str(writer.path), max_files=5), 5.0)
    writer.path.touch()
    writer.looked_at()
    writer.write(2)
    until(lambda: reader.numbers() == [0, 1, 2, 3], "what goes into the old file is shown")
    writer.finish()
    assert reader.finished() == [0, 1, 2, 3]


def test_the_log_of_an_ended_container_that_is_cut_while_it_is_followed_comes_once(writer):
    gate = threading.Event()
    writer.write(3000)
    reader = Reader(writer, pause=lambda: gate.wait(20))
    until(lambda: reader.data, "it has begun")
    writer.finish()
    os.utime(writer.path, (1, 1))
    writer.port.perform(RotateLog(path=str(writer.path), max_files=5, keep_bytes=5000), 5.0)
    gate.set()
    assert reader.finished() == list(range(3000))


def test_logs_of_an_ended_container_whose_log_was_cut_show_its_last_lines(writer):
    writer.write(3000)
    writer.finish()
    os.utime(writer.path, (1, 1))
    writer.port.perform(RotateLog(path=str(writer.path), max_files=5, keep_bytes=5000), 5.0)
    assert Reader(writer, LogQuery(tail=3)).finished() == [2997, 2998, 2999]
    shown = Reader(writer, LogQuery(follow=True)).finished()
    assert shown == list(range(3000 - len(shown), 3000))
    assert len(shown) > 50


def test_the_tail_is_of_the_live_file_only_as_a_kubelets(writer):
    writer.write(10)
    writer.rotate(late=0)
    writer.write(2)
    assert Reader(writer, LogQuery(tail=5)).finished() == [10, 11]
    reader = Reader(writer, LogQuery(tail=1, follow=True))
    until(lambda: reader.numbers() == [11], "the tail")
    writer.rotate(late=2)
    writer.write(1)
    until(lambda: reader.numbers() == [11, 12, 13, 14], "what came since", seen=reader.numbers)
    writer.finish()
    assert reader.finished() == [11, 12, 13, 14]


def test_a_log_asked_for_between_two_steps_of_a_rotation_is_waited_for(writer):
    writer.write(2)
    writer.port.perform(RotateLog(path=str(writer.path), max_files=5), 5.0)
    found = []
    asking = threading.Thread(target=lambda: found.append(Reader(writer)))
    asking.start()
    writer._file = writer._open()
    writer.write(1)
    asking.join(10)
    (reader,) = found
    until(lambda: reader.numbers() == [2], "the live file")
    writer.finish()
    assert reader.finished() == [2]


def test_a_log_that_never_was_is_not_waited_for(writer):
    writer.path.unlink()
    with pytest.raises(NotFoundError):
        writer.open(LogQuery())


def test_whoever_hangs_up_in_the_middle_of_a_rotation_is_let_go(writer):
    ours, theirs = socket.socketpair()
    writer.write(2)
    log = writer.open(LogQuery(follow=True), hangup=ours.fileno())
    pieces = iter(log)
    assert next(pieces).splitlines() == [b"0", b"1"]
    writer.port.perform(RotateLog(path=str(writer.path), max_files=5), 5.0)
    theirs.close()
    assert list(pieces) == []
    log.close()
    ours.close()
