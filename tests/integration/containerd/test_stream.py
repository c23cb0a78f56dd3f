"""``exec -i``, ``-t`` and ``-it`` in containers of a real containerd, through its own streaming endpoint."""

import fcntl
import os
import select
import signal
import struct
import subprocess
import termios

import pytest

from tests.harness.agent.stream import REPOSITORY, BusyboxPod, Socket
from tests.harness.agent.terminal import Terminal
from tests.harness.wait import until

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def pod(containerd):
    made = BusyboxPod(containerd, "stream")
    yield made
    made.remove()


@pytest.fixture
def admin(tmp_path, pod):
    made = Socket(tmp_path, pod.open)
    yield made
    made.close()


@pytest.fixture
def terminal(admin):
    made = []

    def start(*words, **size):
        made.append(Terminal(admin.words(*words), **size))
        return made[-1]

    yield start
    for one in made:
        one.close()


def unread(pipe):
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]


def test_piped_input_ends_where_it_ends(admin):
    ran = admin.exec("-i", "stream", "--", "cat", data=b"hi\n")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"hi\n", b"")


def test_much_more_than_any_window_goes_both_ways_unchanged(admin):
    data = os.urandom(5_000_000)
    ran = admin.exec("-i", "stream", "--", "cat", data=data)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout == data


def test_a_reader_that_is_slow_gets_all(admin):
    with subprocess.Popen(
        admin.words("-i", "stream", "--", "head", "-c", "3000000", "/dev/zero"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
    ) as ran:
        # The command has long ended, and the runtime closed its side, when the last of it is read.
        until(lambda: unread(ran.stdout) >= 1 << 16, "the pipe is full")
        got = 0
        while piece := os.read(ran.stdout.fileno(), 10_000):
            got += len(piece)
            select.select([], [], [], 0.001)
        assert (got, ran.wait(10)) == (3_000_000, 0)


def test_output_goes_on_after_the_input_has_ended(admin):
    script = "cat; sleep 0.3; echo more"
    ran = admin.exec("-i", "stream", "--", "sh", "-c", script, data=b"first\n")
    assert (ran.returncode, ran.stdout) == (0, b"first\nmore\n")


def test_outputs_are_kept_apart_and_the_exit_code_is_the_commands(admin):
    ran = admin.exec("-i", "stream", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, b"out\n", b"err\n")


def test_a_command_that_does_not_read_its_input_ends_all_the_same(admin):
    ran = admin.exec("-i", "stream", "--", "true", data=bytes(30_000))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


def test_a_command_that_does_not_read_much_input_ends_or_is_told_to_have_closed_its_outputs(admin):
    # containerd 1.6 waits now and then for ever for somebody to take the input of a command that has ended.
    ran = admin.exec("-i", "stream", "--", "true", data=bytes(1_000_000))
    if ran.returncode:
        [line] = ran.stderr.decode().splitlines()
        assert line.startswith("nodeagent: the command closed its outputs, but for 30 s")
    else:
        assert (ran.stdout, ran.stderr) == (b"", b"")


def test_a_command_that_is_not_there_is_one_clear_line(admin):
    ran = admin.exec("-i", "stream", "--", "no-such-program")
    assert ran.returncode != 0
    [line] = ran.stderr.decode().splitlines()
    assert line.startswith("nodeagent: the command failed: ")
    assert '"no-such-program": executable file not found' in line


def test_a_shell_on_a_terminal(terminal):
    shell = terminal("-it", "stream", "--", "sh", columns=100, lines=30)
    shell.sees(b"/ # ")
    assert shell.is_raw()
    shell.type(b"stty size\r")
    shell.sees(b"30 100")
    shell.resize(77, 21)
    # The new size travels beside the keys: the shell is asked until it knows.
    shell.type(b"until stty size | grep -x '21 77'; do :; done; echo kn'o'wn\r")
    shell.sees(b"known")
    shell.type(b"echo sle'e'ping; sleep 1000\r")
    shell.sees(b"sleeping")
    shell.type(b"\x03")
    shell.sees(b"^C\r\n/ # ")
    shell.type(b"exit 3\r")
    assert shell.process.wait(20) == 3
    assert termios.tcgetattr(shell.fd) == shell.before


def test_a_terminal_without_input_shows_what_the_command_says(terminal):
    shell = terminal("-t", "stream", "--", "sh", "-c", "test -t 1 && echo on a terminal; exit 4")
    shell.sees(b"on a terminal\r\n")
    assert shell.process.wait(20) == 4


def test_a_verb_that_is_killed_ends_the_commands_input(admin, containerd, tmp_path):
    with subprocess.Popen(
        admin.words("-i", "stream", "--", "sh", "-c", "echo up; cat; echo over >/tmp/mark"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
    ) as ran:
        assert ran.stdout.readline() == b"up\n"
        ran.send_signal(signal.SIGKILL)
    until(
        lambda: admin.exec("-i", "stream", "--", "cat", "/tmp/mark").stdout == b"over\n",
        "the command saw its input end",
    )


def test_a_url_is_good_once(admin, pod):
    url = pod.open(("true",), stdout=True)
    admin.window.opener = lambda command, **streams: url
    first = admin.exec("-i", "stream", "--", "true")
    second = admin.exec("-i", "stream", "--", "true")
    assert second.returncode == 1
    [line] = second.stderr.decode().splitlines()
    assert "answered 404" in line
    assert url.rpartition("/")[2] not in first.stderr.decode() + line
