"""Commands with streams through the agent: the relay, and the command line with and without a terminal.

The container runtime's side is a small SPDY server; the same against a real one is in ``tests/integration/containerd``.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import termios
import threading

import msgspec
import pytest

from api.errors import RejectedError
from runtime.net.endpoint import connect_unix
from runtime.net.spdy.session import Received, Session
from runtime.server import relay
from runtime.server.wire import Request
from tests.harness.agent.stream import REPOSITORY, Socket, SpdyServer
from tests.harness.agent.terminal import Terminal
from tests.harness.wait import until

HANDSHAKE = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
STREAMS = "stdin=true&stdout=true&stderr=true"


@pytest.fixture
def server():
    made = SpdyServer()
    yield made
    made.close()


@pytest.fixture
def admin(tmp_path, server):
    made = Socket(tmp_path, server.open)
    yield made
    server.close()
    made.close()


@pytest.fixture
def terminal(admin):
    made = []

    def start(*words, below=(), **size):
        made.append(Terminal([*below, *admin.words(*words)], **size))
        return made[-1]

    yield start
    for one in made:
        one.close()


def ask(admin, target, headers=HANDSHAKE, method="POST", behind=b""):
    """Send a request and return the connection with the answer's status line and what came so far."""
    sock = connect_unix(admin.path, 10)
    sock.sendall(f"{method} {target} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode() + behind)
    data = b""
    while b"\r\n\r\n" not in data and (piece := sock.recv(65536)):
        data += piece
    return sock, data


# ---------------------------------------------------------------- the command line


def test_piped_input_goes_in_and_its_end_ends_the_command(admin):
    ran = admin.exec("-i", "loop", "--", "echo", data=b"hi\n")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"hi\n", b"")
    [(pod, _container, command, *streams)] = admin.window.ran
    assert (pod, command, streams) == ("loop", ("echo",), [False, True, True, True])


def test_much_goes_both_ways_unchanged(admin):
    data = os.urandom(3_000_000)
    ran = admin.exec("-i", "loop", "--", "echo", data=data)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout == data


def test_the_commands_exit_code_is_the_verbs(admin):
    ran = admin.exec("-i", "loop", "--", "exit", "42")
    assert (ran.returncode, ran.stdout, ran.stderr) == (42, b"", b"bye\n")


def test_a_command_that_cannot_be_run_is_one_clear_line(admin):
    ran = admin.exec("-i", "loop", "--", "fail", "no such file: nosuch")
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert ran.stderr == b"nodeagent: the command failed: no such file: nosuch\n"


def test_a_connection_that_ends_without_a_status_is_a_failure(admin):
    ran = admin.exec("-i", "loop", "--", "cut")
    assert ran.returncode == 1
    [line] = ran.stderr.splitlines()
    assert b"ended before the command" in line


IMPATIENT = """
import runpy, sys
import runtime.cli.interactive
runtime.cli.interactive.LAST_WORD_S = 0.5
runpy.run_module("actors.agent.main", run_name="__main__")
"""


def test_an_end_that_the_runtime_never_tells_is_a_failure_when_nobody_took_the_input(admin):
    _, _, _, *words = admin.words("-i", "web", "--", "mute")
    ran = subprocess.run(
        [sys.executable, "-c", IMPATIENT, *words],
        input=bytes(100_000),
        capture_output=True,
        cwd=REPOSITORY,
        timeout=30,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, b"")
    [line] = ran.stderr.decode().splitlines()
    assert line.startswith(
        "nodeagent: the command closed its outputs, but the container runtime did not report its exit within 0.5 s"
    )


def test_a_command_that_closed_its_outputs_may_take_its_time(admin):
    _, _, _, *words = admin.words("-i", "web", "--", "mute")
    with subprocess.Popen(
        [sys.executable, "-c", IMPATIENT, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=REPOSITORY,
    ) as ran:
        with pytest.raises(subprocess.TimeoutExpired):
            ran.communicate(bytes(1000), timeout=3)
        ran.kill()


def test_an_output_that_nobody_reads_ends_quietly(admin):
    with subprocess.Popen(
        admin.words("-i", "loop", "--", "flood", "1000000"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=REPOSITORY,
    ) as ran:
        ran.stdout.read(10)
        ran.stdout.close()
        assert ran.stderr.read() == b""


def test_without_a_standard_input_the_commands_own_is_empty(admin):
    ran = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *admin.words("-i", "loop", "--", "echo")],
        capture_output=True,
        cwd=REPOSITORY,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


def test_a_terminal_that_is_asked_for_where_there_is_none_is_warned_of(admin):
    ran = admin.exec("-it", "loop", "--", "echo", data=b"hi\n")
    assert (ran.returncode, ran.stdout) == (0, b"hi\n")
    assert ran.stderr == b"Unable to use a TTY - input is not a terminal or the right kind of file\n"
    assert admin.window.ran[0][3:] == (False, True, True, True)


def test_a_command_of_many_words_arrives_whole(admin):
    words = ("echo", *(f"file-{n}" for n in range(300)), "", "a b&c=d\n")
    ran = admin.exec("-i", "loop", "--", *words)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert admin.window.ran[0][2] == words


def test_a_timeout_is_not_for_streams(admin):
    ran = admin.exec("-i", "loop", "--timeout", "5s", "--", "echo")
    assert ran.returncode == 1
    assert b"--timeout" in ran.stderr
    assert admin.window.ran == []


def test_a_refusal_of_the_agent_is_one_clear_line(admin):
    def refuse(command, **streams):
        raise RejectedError("the embedded runtime does not support streaming yet; remove -i and -t")

    admin.window.opener = refuse
    ran = admin.exec("-it", "loop", "--", "sh")
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == (
        b"nodeagent: the embedded runtime does not support streaming yet; remove -i and -t"
    )


def test_a_terminal_is_raw_while_the_command_runs_and_as_before_afterwards(terminal):
    shell = terminal("-it", "loop", "--", "echo")
    until(shell.is_raw, "the terminal is raw")
    shell.type(b"abc\x03\x04\r")
    # Neither ^C nor ^D nor the line's end mean anything here: they are the command's.
    shell.sees(b"abc\x03\x04\r")
    shell.process.send_signal(signal.SIGTERM)
    assert shell.process.wait(10) == 128 + signal.SIGTERM
    assert termios.tcgetattr(shell.fd) == shell.before


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_signal_from_outside_gives_the_terminal_back(terminal, number):
    shell = terminal("-it", "loop", "--", "echo")
    until(shell.is_raw, "the terminal is raw")
    shell.process.send_signal(number)
    assert shell.process.wait(10) == 128 + number
    assert termios.tcgetattr(shell.fd) == shell.before
    assert b"Traceback" not in shell.seen


def test_a_verb_that_was_started_with_nohup_goes_on_when_its_terminal_is_closed(terminal):
    shell = terminal("-it", "loop", "--", "echo", below=("env", "--ignore-signal=HUP"))
    until(shell.is_raw, "the terminal is raw")
    shell.process.send_signal(signal.SIGHUP)
    shell.type(b"still here")
    shell.sees(b"still here")
    shell.process.send_signal(signal.SIGTERM)
    assert shell.process.wait(10) == 128 + signal.SIGTERM


def test_a_lost_connection_gives_the_terminal_back(terminal, server):
    shell = terminal("-it", "loop", "--", "echo")
    until(shell.is_raw, "the terminal is raw")
    server.close()
    shell.sees(b"ended before the command")
    assert shell.process.wait(10) == 1
    assert termios.tcgetattr(shell.fd) == shell.before


def test_the_windows_size_is_told_at_the_start_and_when_it_changes(terminal):
    shell = terminal("-it", "loop", "--", "size", columns=100, lines=30)
    shell.sees(b'{"Width":100,"Height":30}')
    shell.resize(77, 21)
    shell.sees(b'{"Width":77,"Height":21}')


def test_control_c_without_a_terminal_in_the_container_ends_the_verb(terminal):
    shell = terminal("-i", "loop", "--", "echo")
    shell.type(b"abc\n")
    shell.sees(b"abc\r\nabc\r\n")
    assert not shell.is_raw()
    shell.type(b"\x03")
    assert shell.process.wait(10) == 130


# ---------------------------------------------------------------- the agent


def test_only_the_handshake_is_passed_on_in_either_direction(admin, server):
    secrets = HANDSHAKE + "Authorization: Bearer hidden\r\nCookie: hidden\r\n"
    sock, head = ask(admin, f"/exec/-/loop?command=echo&{STREAMS}", secrets)
    with sock:
        assert head.startswith(b"HTTP/1.1 101 ")
        assert b"X-Stream-Protocol-Version: v4.channel.k8s.io" in head
        assert b"Secret" not in head
    [request] = server.requests
    assert request.startswith("POST /exec/0 HTTP/1.1\r\n")
    assert "upgrade: SPDY/3.1" in request
    assert "hidden" not in request


def test_every_version_that_a_client_offers_is_passed_on_in_its_order(admin, server):
    more = HANDSHAKE + "X-Stream-Protocol-Version: v3.channel.k8s.io\r\n"
    ask(admin, f"/exec/-/loop?command=echo&{STREAMS}", more)[0].close()
    offered = [line.split(": ")[1] for line in server.requests[0].splitlines() if "protocol-version" in line]
    assert offered == ["v4.channel.k8s.io", "v3.channel.k8s.io"]


def test_a_client_that_does_not_wait_for_the_answer_loses_nothing(admin):
    session = Session()
    streams = [session.open((("streamtype", kind),)) for kind in ("error", "stdin", "stdout", "stderr")]
    sock, data = ask(admin, f"/exec/-/loop?command=echo&{STREAMS}", behind=session.outgoing())
    with sock:
        data = data.partition(b"\r\n\r\n")[2]
        session.send(streams[1], b"early")
        session.finish(streams[1])
        said = b""
        while True:
            events = [event for event in session.receive(data) if isinstance(event, Received)]
            said += b"".join(event.data for event in events if event.stream == streams[2])
            sock.sendall(session.outgoing())
            if not (data := sock.recv(65536)):
                break
        assert said == b"early"


@pytest.mark.parametrize(
    ("target", "headers", "status", "reason"),
    [
        ("/exec/-/loop?command=a", HANDSHAKE, 400, "BadQuery"),
        (f"/exec/-/loop?{STREAMS}", HANDSHAKE, 400, "BadQuery"),
        (f"/exec/-/loop?command=a&{STREAMS}", HANDSHAKE.replace("SPDY/3.1", "h2c"), 400, "UpgradeRequired"),
        (f"/exec/-/loop?command=a&{STREAMS}", HANDSHAKE.replace("v4", "v4\rX-More: v"), 400, "BadRequest"),
        (f"/exec/-/loop?command=a&tty=perhaps&{STREAMS}", HANDSHAKE, 400, "BadQuery"),
        ("/pods", HANDSHAKE, 405, "MethodNotAllowed"),
    ],
)
def test_what_cannot_be_upgraded_is_answered_as_any_other_request(admin, target, headers, status, reason):
    sock, data = ask(admin, target, headers)
    with sock:
        while piece := sock.recv(65536):
            data += piece
    assert int(data.split(b" ")[1]) == status
    assert msgspec.json.decode(data.partition(b"\r\n\r\n")[2])["reason"] == reason
    assert admin.window.ran == []


def test_a_get_without_an_upgrade_says_what_to_send(admin):
    sock, data = ask(admin, "/exec/-/loop?command=a", "", "GET")
    sock.close()
    assert data.startswith(b"HTTP/1.1 400")


def test_a_kubelets_words_mean_the_same_and_a_terminal_has_one_output(admin):
    ask(admin, "/exec/-/loop?command=echo&input=1&output=1&error=1&tty=1")[0].close()
    assert admin.window.ran[0][3:] == (True, True, True, False)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "answered 404"),
        (b"hello\r\n\r\n", "invalid HTTP answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 4000, "invalid HTTP answer"),
    ],
)
def test_a_runtime_that_does_not_switch_is_told_without_its_url(admin, server, answer, why):
    server.refuse = answer
    ran = admin.exec("-i", "loop", "--", "echo")
    assert ran.returncode == 1
    [line] = ran.stderr.decode().splitlines()
    assert why in line
    assert "/exec/0" not in line


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://127.0.0.1:1/token", "must be plain http"),
        ("http://127.0.0.1:99999/token", "must be plain http"),
        ("ftp://127.0.0.1/token", "must be plain http"),
        ("http://[::1/token", "must be plain http"),
        ("http://[::1]:1/token", "[::1]:1 cannot be reached"),
        ("http://127.0.0.1:1/token", "127.0.0.1:1 cannot be reached"),
    ],
)
def test_an_address_that_cannot_be_used_is_told_without_its_token(admin, url, why):
    admin.window.opener = lambda command, **streams: url
    ran = admin.exec("-i", "loop", "--", "echo")
    [line] = ran.stderr.decode().splitlines()
    assert (ran.returncode, "token" in line) == (1, False)
    assert why in line


def test_a_relative_address_is_the_runtimes_host(server):
    request = Request(
        method="POST", segments=("exec",), upgrade="SPDY/3.1", handshake=(("upgrade", "SPDY/3.1"),)
    )
    url = server.open(("echo",), tty=False, stdin=True, stdout=True, stderr=True)
    made = relay.open_relay(url.removeprefix("http:"), request)
    made.close()
    made = relay.open_relay("/exec/0?a=b", request, host=f"127.0.0.1:{server.port}")
    made.close()
    assert [line.split(" ")[1] for line in server.requests] == ["/exec/0", "/exec/0?a=b"]


class Ends:
    """A relay between two socket pairs, with a thread that runs it."""

    def __init__(self, **options):
        self.client, near = socket.socketpair()
        self.runtime, far = socket.socketpair()
        self.near = near
        made = relay.Relay(far, (), b"", b"")
        self.thread = threading.Thread(target=self._run, args=(made, near, options))
        self.thread.start()
        for end in (self.client, self.runtime):
            end.settimeout(10)

    def _run(self, made, near, options):
        with near:
            made.run(near, **options)

    def close(self):
        self.client.close()
        self.runtime.close()
        self.thread.join(10)
        assert not self.thread.is_alive()


@pytest.fixture
def ends():
    made = Ends()
    yield made
    made.close()


def test_a_half_close_is_passed_on_and_the_other_direction_goes_on(ends):
    ends.client.sendall(b"question")
    ends.client.shutdown(socket.SHUT_WR)
    assert ends.runtime.recv(100) == b"question"
    assert ends.runtime.recv(100) == b""
    ends.runtime.sendall(b"answer")
    assert ends.client.recv(100) == b"answer"
    ends.runtime.shutdown(socket.SHUT_WR)
    assert ends.client.recv(100) == b""
    ends.thread.join(10)
    assert not ends.thread.is_alive()


@pytest.mark.parametrize(("leaver", "other"), [("client", "runtime"), ("runtime", "client")])
def test_a_side_that_leaves_ends_the_other(ends, leaver, other):
    getattr(ends, leaver).sendall(b"last words")
    getattr(ends, leaver).close()
    assert getattr(ends, other).recv(100) == b"last words"
    assert getattr(ends, other).recv(100) == b""
    ends.thread.join(10)
    assert not ends.thread.is_alive()


def test_who_does_not_read_is_not_read_for(ends):
    ends.client.setblocking(False)
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while sent < 1 << 26:
            sent += ends.client.send(bytes(1 << 16))
            select.select([], [ends.client], [], 0.2)
    # Two sockets' buffers and the relay's own: nothing like what was offered.
    assert sent < 2 << 20
    got = 0
    while got < sent:
        got += len(ends.runtime.recv(1 << 16))
    assert got == sent


def test_a_relay_on_which_nothing_moves_is_ended():
    made = Ends(idle_s=0.1)
    try:
        assert made.client.recv(10) == b""
        assert made.runtime.recv(10) == b""
    finally:
        made.close()


def test_stopping_the_agent_ends_its_relays(admin, server):
    with subprocess.Popen(
        admin.words("-i", "loop", "--", "echo"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=REPOSITORY,
    ) as ran:
        ran.stdin.write(b"hi\n")
        ran.stdin.flush()
        assert ran.stdout.readline() == b"hi\n"
        assert admin.server.busy()[0].startswith("POST /exec/-/loop for")
        admin.server.stop()
        assert ran.wait(10) == 1
        assert b"ended before the command" in ran.stderr.read()
