"""The admin socket and the health port, with a real server on real sockets."""

import contextlib
import os
import re
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from api.errors import AlreadyExistsError, DeniedError, NotFoundError, RejectedError, UnavailableError
from api.shown.introspection import HealthRow, LogTarget, SourceRow
from api.shown.metric import CONTENT_TYPE
from runtime.drivers.host.logs.containerlog import open_log
from runtime.net.endpoint import connect_unix, listen_tcp, listen_unix
from runtime.server import wire
from runtime.server.health import health_answer
from runtime.server.server import Server
from runtime.server.view import Admin
from tests.harness.agent.reading import metrics
from tests.harness.world.window import SECRET, UID_WEB, WALL, PlainLevels, PlainWindow


def until(condition, deadline_s=10.0):
    """Wait for a condition; fail when it does not come true."""
    end = time.monotonic() + deadline_s
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        pause.wait(0.01)


class Agent:
    """A served `PlainWindow`."""

    def __init__(self, path, limit=32):
        self.path, self.window, self.levels, self.bugs = str(path), PlainWindow(), PlainLevels(), []
        admin = Admin(self.window, open_log, self.levels, now=lambda: 1030.0, wall=lambda: WALL)
        listener = listen_unix(self.path)
        self.server = Server(
            listener.sock,
            admin,
            name="admin",
            limit=limit,
            is_long=Admin.is_long,
            on_bug=lambda what, error: self.bugs.append((what, error)),
            close=listener.close,
        )
        self.server.start()

    def connect(self):
        return connect_unix(self.path, 10)

    def raw(self, data: bytes) -> bytes:
        with self.connect() as sock:
            with contextlib.suppress(BrokenPipeError):
                sock.sendall(data)
            return receive_all(sock)

    def ask(self, target, method="GET", body=b""):
        answer = self.raw(
            f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        )
        head, _, rest = answer.partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]), rest

    def json(self, target, **kwargs):
        status, body = self.ask(target, **kwargs)
        return status, msgspec.json.decode(body)


def receive_all(sock) -> bytes:
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while piece := sock.recv(65536):
            parts.append(piece)
    return b"".join(parts)


@pytest.fixture
def agent(tmp_path):
    made = Agent(tmp_path / "nodeagent.sock")
    yield made
    if made.window.gate is not None:
        made.window.gate.set()
    made.server.stop()
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("admin")])


def test_the_socket_is_private_before_anyone_could_connect(tmp_path, monkeypatch):
    seen = []
    real = os.stat
    monkeypatch.setattr(os, "stat", lambda *a, **k: seen.append(real(*a, **k)) or seen[-1])
    before = os.umask(0)
    try:
        listener = listen_unix(str(tmp_path / "s.sock"))
    finally:
        os.umask(before)
    # The first look after bind: nothing has changed the mode since.
    first = next(found for found in seen if stat.S_ISSOCK(found.st_mode))
    assert stat.S_IMODE(first.st_mode) == 0o600
    listener.close()
    assert not (tmp_path / "s.sock").exists()


def test_a_root_folder_of_two_hundred_characters_works(tmp_path):
    long = tmp_path / ("r" * 120) / ("s" * 120)
    agent = Agent(long / "nodeagent.sock")
    assert len(agent.path) > 200
    assert agent.json("/pods")[0] == 200
    agent.server.stop()
    with pytest.raises(NotFoundError):
        connect_unix(agent.path, 1)


def test_a_live_socket_names_who_holds_it(agent):
    with pytest.raises(AlreadyExistsError, match=rf"pid {os.getpid()}\b"):
        listen_unix(agent.path)
    assert agent.json("/pods")[0] == 200


def test_a_stale_socket_is_replaced_and_anything_else_is_not(tmp_path):
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with pytest.raises(UnavailableError, match="no process listens"):
        connect_unix(str(path), 1)
    listen_unix(str(path)).close()
    path.write_text("precious")
    with pytest.raises(RejectedError, match="not a socket"):
        listen_unix(str(path))
    assert path.read_text() == "precious"


def test_stopping_leaves_a_successors_socket_alone(tmp_path):
    path = tmp_path / "s.sock"
    old = listen_unix(str(path))
    path.unlink()
    new = listen_unix(str(path))
    old.close()
    assert path.exists()
    new.close()


def test_actors_can_be_filtered_and_asked_for_one_by_one(agent):
    _, everyone = agent.json("/actors")
    assert everyone["total"] == 9
    assert "operations" not in everyone["actors"][0]
    _, dead = agent.json("/actors?state=dead&detail=true")
    assert [row["path"] for row in dead["actors"]] == ["/node/status"]
    assert dead["actors"][0]["operations"] == []
    _, below = agent.json("/actors?prefix=/node/pods")
    assert below["total"] == 3
    _, one = agent.json(f"/actors/node/pods/{UID_WEB}")
    assert one["actor"]["operations"][0]["call"] == "StopContainer"
    assert len(one["deliveries"]) == 16
    _, summary = agent.json("/actors/summary")
    assert summary["by_state"] == {"ALIVE": 7, "DEAD": 1, "RESTARTING": 1}
    assert agent.json("/actors/node/nobody")[0] == 404


def test_views_answer_what_the_window_shows(agent):
    assert len(agent.json("/trace/node/pleg?n=3")[1]["deliveries"]) == 3
    assert agent.json("/dead-letters")[1]["dead_letters"][0]["reason"] == "no such actor"
    assert agent.json("/pods")[1]["kind"] == "PodList"
    assert agent.json("/pods?format=rows")[1]["total"] == 3
    assert agent.json("/explain/-/loop")[1] == agent.json("/explain/default/loop")[1]
    assert len(agent.json("/events?pod=loop")[1]["events"]) == 2
    assert agent.json("/sources")[1]["sources"][1]["status"] == "broken"
    assert agent.json("/images")[1]["images"][2]["pinned"]


def test_usage_is_told_as_a_kubelet_tells_it(agent):
    _, full = agent.json("/stats/summary")
    assert full["node"]["nodeName"] == "node1"
    assert full["node"]["fs"]["capacityBytes"] == 100 << 30
    assert [pod["podRef"]["name"] for pod in full["pods"]] == ["loop-node1", "web-node1"]
    _, short = agent.json("/stats/summary?only_cpu_and_memory=true")
    assert "fs" not in short["node"]
    assert agent.json("/stats/summary?only_cpu_and_memory=perhaps")[0] == 400
    assert agent.json("/usage")[1]["troubles"] == ["pod default/loop-node1: no usage: no container runs"]


def test_metrics_are_text_that_prometheus_reads(agent):
    for target in ("/metrics", "/metrics/resource"):
        answer = agent.raw(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert f"content-type: {CONTENT_TYPE}" in head.decode().lower()
        found = metrics(body)
        assert found["pod_cpu_usage_seconds_total"] == {(("namespace", "default"), ("pod", "web-node1")): 5.0}


def test_before_the_first_round_there_is_no_summary_and_metrics_say_so(agent):
    agent.window.used = None
    assert agent.json("/stats/summary")[0] == 503
    assert agent.json("/usage")[0] == 503
    assert metrics(agent.ask("/metrics")[1])["resource_scrape_error"] == {(): 1}


def test_top_shows_the_largest_first_and_names_what_is_wrong(agent):
    text = verb(agent, "top", "--containers").stdout.decode()
    lines = text.splitlines()
    assert (
        lines[0]
        == "node node1: cpu 1500m, memory 2.0GiB of 8.0GiB, disk 40GiB of 100GiB, threads 321 of 32768"
    )
    rows = [line.split() for line in lines[2:]]
    assert rows[0] == ["NAMESPACE", "NAME", "CPU", "MEMORY", "DISK", "INODES", "PROCESSES"]
    assert rows[1][:4] == ["default", "web-node1", "13m", "64MiB"]
    assert rows[2][0] == "nginx"
    assert rows[3][:4] == ["default", "loop-node1", "-", "-"]
    assert lines[-1] == "! pod default/loop-node1: no usage: no container runs"


def test_eviction_is_explained_the_answer_first(agent):
    text = verb(agent, "explain", "eviction").stdout.decode()
    lines = text.splitlines()
    assert lines[0] == "Now:        evict pod default/web for memory.available"
    assert lines[1] == "Pressure:   MemoryPressure, observed now"
    [memory] = [line.split() for line in lines if line.startswith("memory.available")]
    assert memory == [
        "memory.available",
        "1Gi",
        "hard",
        "1.0GiB",
        "1.0GiB",
        "512MiB",
        "16GiB",
        "3s",
        "ago",
        "4s",
    ]
    rows = [line.split(maxsplit=4) for line in lines if line.startswith("default/")]
    assert rows[0] == ["default/web", "2.0GiB", "0B", "0", "next"]
    assert rows[1][4] == "usage unknown"
    assert "were short:" not in text
    assert "default/hog for nodefs.available, 70s ago" in text
    assert "Kernel:     notifies when a memory threshold is crossed" in lines
    assert "OOM kills:  default/web/main: hog (7), 3 s ago, limit of /kubepods" in lines
    assert (
        "order of eviction if pid.available were short:"
        in verb(agent, "explain", "eviction", "--dry-run").stdout.decode()
    )
    assert msgspec.json.decode(verb(agent, "explain", "eviction", "-o", "json").stdout)["short_of"]


def test_a_pod_called_eviction_is_asked_for_with_its_namespace(agent):
    asked = verb(agent, "explain", "default/eviction")
    assert asked.returncode != 0
    assert b"eviction" in asked.stderr
    assert verb(agent, "explain", "web", "--dry-run").returncode == 2


def test_the_log_level_can_be_set_and_listed(agent):
    assert agent.json("/loglevel?path=/node/pods&level=DEBUG", method="PUT")[0] == 200
    assert {"path": "/node/pods", "level": "DEBUG"} in agent.json("/loglevel")[1]["levels"]
    assert agent.json("/loglevel?path=/node&level=LOUD", method="PUT")[0] == 400


def test_a_command_runs_once_with_its_words_as_they_are(agent):
    body = b'{"command": ["sh", "-c", "echo $X"], "timeout_s": 5}'
    status, answer = agent.json("/exec/default/loop/app", method="POST", body=body)
    assert (status, answer["exit_code"], answer["stdout"]) == (200, 3, "b3V0IP8K")
    assert agent.window.ran == [("default/loop", "app", ("sh", "-c", "echo $X"), 5.0)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"command": []}',
        b'{"command": ["a"], "timeout_s": 0}',
        b'{"command": ["a"], "shell": 1}',
    ],
)
def test_a_body_that_is_no_command_is_refused(agent, body):
    status, answer = agent.json("/exec/default/loop/app", method="POST", body=body)
    assert (status, answer["reason"]) == (400, "BadBody")
    assert not agent.window.ran


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /pods HTTP/2.0\r\n\r\n", 505),
        (b"BREW /pods HTTP/1.1\r\nHost: x\r\n\r\n", 501),
        (b"GET pods HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET //pods HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /logs/../pods HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /logs/a%2Fb/c HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /logs/%2e%2e/c HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /logs/%ff/c HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"DELETE /pods HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"GET /pods HTTP/1.1\r\nHost: x\r\nbroken header\r\n\r\n", 400),
        (b"GET /pods HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET /pods HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"GET /pods HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"POST /exec/a/b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"GET /pods HTTP/1.1\r\nHost: x\r\nX: " + b"y" * (wire.HEAD_LIMIT_BYTES + 10) + b"\r\n\r\n", 431),
        (b"GET /pods?format=xml HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /trace/node?n=0 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /logs/default/loop?tail=-1 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /logs/default/loop?follow=maybe HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /logs/default/two HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /logs/-/two HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ],
)
def test_a_bad_request_gets_an_error_in_json_and_no_traceback(agent, data, status):
    answer = agent.raw(data)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert int(head.split(b" ")[1]) == status
    error = msgspec.json.decode(body)
    assert error["error"]
    assert re.fullmatch(r"[A-Z][A-Za-z]+", error["reason"])
    assert "Traceback" not in str(error)
    assert not agent.bugs
    assert agent.json("/pods")[0] == 200


def test_a_bug_in_a_view_is_told_to_the_log_and_its_text_to_nobody(agent):
    agent.window.broken = KeyError(SECRET)
    status, body = agent.ask("/explain/default/loop")
    assert status == 500
    assert SECRET.encode() not in body
    assert b"KeyError" in body
    assert agent.bugs[0][0] == "GET /explain/default/loop"


def test_head_has_the_head_only(agent):
    status, body = agent.ask("/pods", method="HEAD")
    assert (status, body) == (200, b"")


def test_a_hanging_view_holds_up_nobody_else(agent):
    agent.window.gate = threading.Event()
    with agent.connect() as stuck:
        stuck.sendall(b"GET /explain/default/loop HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: any("explain" in what for what in agent.server.busy()))
        assert agent.json("/pods")[0] == 200
        agent.window.gate.set()
        assert receive_all(stuck).startswith(b"HTTP/1.1 200")


def test_when_all_places_are_taken_the_answer_says_by_what(tmp_path):
    agent = Agent(tmp_path / "s.sock", limit=4)
    agent.window.gate = threading.Event()
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            sock = stack.enter_context(agent.connect())
            sock.sendall(b"GET /explain/default/loop HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: len([w for w in agent.server.busy() if "explain" in w]) == 4)
        status, error = agent.json("/pods")
        assert (status, error["reason"]) == (503, "TooBusy")
        assert "GET /explain/default/loop for" in error["detail"]
        agent.window.gate.set()
        until(lambda: not agent.server.busy())
        assert agent.json("/pods")[0] == 200
    agent.server.stop()


HALVES = [
    b"",
    b"GET /pods HTTP/1.1\r\nHost: x\r\nA: ",
    b"POST /exec/default/loop HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf",
]


@pytest.mark.parametrize("half", HALVES, ids=["nothing", "half a head", "half a body"])
def test_requests_that_are_half_sent_keep_nobody_out(agent, half):
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(agent.connect()).sendall(half)
        for _ in range(40):
            assert agent.json("/pods")[0] == 200
    assert not agent.bugs


def test_a_full_house_drops_the_request_that_has_been_arriving_longest_and_no_other(tmp_path):
    agent = Agent(tmp_path / "s.sock", limit=4)
    agent.window.gate = threading.Event()
    with contextlib.ExitStack() as stack:
        whole = stack.enter_context(agent.connect())
        whole.sendall(b"GET /explain/default/loop HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: any("explain" in what for what in agent.server.busy()))
        halves = []
        for _ in range(3):
            halves.append(stack.enter_context(agent.connect()))
            until(lambda: len(agent.server.busy()) == 1 + len(halves))
            halves[-1].sendall(b"GET /po")
        assert agent.json("/pods")[0] == 200
        assert receive_all(halves[0]) == b""
        for half in halves[1:]:
            half.sendall(b"ds HTTP/1.1\r\nHost: x\r\n\r\n")
            assert receive_all(half).startswith(b"HTTP/1.1 200")
        agent.window.gate.set()
        assert receive_all(whole).startswith(b"HTTP/1.1 200")
    agent.server.stop()


def test_commands_that_take_long_leave_a_place_to_ask_what_is_going_on(tmp_path):
    agent = Agent(tmp_path / "s.sock", limit=4)
    agent.window.gate = threading.Event()
    body = b'{"command": ["sleep"]}'
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                sock = stack.enter_context(agent.connect())
                sock.sendall(
                    b"POST /exec/default/loop HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b"
                    % (len(body), body)
                )
            until(lambda: len([w for w in agent.server.busy() if "exec" in w]) == 3)
            assert agent.json("/exec/default/loop", method="POST", body=body)[0] == 503
            # The refused one holds its place until its connection is wholly gone.
            until(lambda: agent.json("/pods")[0] == 200)
            agent.window.gate.set()
        until(lambda: not agent.server.busy())
    finally:
        agent.window.gate.set()
        agent.server.stop()


def test_a_client_that_drips_its_head_is_sent_away(agent, monkeypatch):
    monkeypatch.setattr(wire, "READ_S", 0.3)
    with agent.connect() as slow:
        slow.sendall(b"GET /po")
        assert b" 408 " in receive_all(slow)
    with agent.connect() as silent:
        assert b" 408 " in receive_all(silent)
    until(lambda: not agent.server.busy())


LINE = b"2026-05-01T12:00:00.000000000Z stdout F line %d\n"


@pytest.fixture
def log(agent, tmp_path):
    folder = tmp_path / "logs" / "default_loop_u" / "app"
    folder.mkdir(parents=True)
    file = folder / "0.log"
    file.write_bytes(b"".join(LINE % at for at in range(5)))
    target = LogTarget(path=str(file), root=str(folder.parent), running=True)
    agent.window.logs["loop", "app"] = target
    return file


class Chunks:
    """The text of a chunked answer as it comes."""

    def __init__(self, sock):
        self.sock, self.data = sock, b""

    def wait_for(self, text: bytes):
        while text not in self.data:
            piece = self.sock.recv(4096)
            assert piece, f"the answer ended without {text!r}: {self.data!r}"
            self.data += piece


def test_a_log_can_be_read_from_its_end(agent, log):
    _, body = agent.ask("/logs/default/loop/app?tail=2&timestamps=true")
    assert body.split(b"\r\n")[1].splitlines() == [
        b"2026-05-01T12:00:00.000000000Z line 3",
        b"2026-05-01T12:00:00.000000000Z line 4",
    ]


def test_following_survives_rotation_and_ends_with_the_container(agent, log):
    with agent.connect() as sock:
        sock.sendall(b"GET /logs/-/loop?follow&tail=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = Chunks(sock)
        answer.wait_for(b"line 4\n")
        with log.open("ab") as file:
            file.write(LINE % 5)
        answer.wait_for(b"line 5\n")
        with log.open("ab") as file:
            log.rename(log.with_name("0.log.20260501-120000"))
            file.write(LINE % 6)
            log.write_bytes(LINE % 7)
        answer.wait_for(b"line 7\n")
        target = agent.window.logs["loop", "app"]
        with log.open("ab") as file:
            file.write(LINE % 8)
        agent.window.logs["loop", "app"] = msgspec.structs.replace(target, running=False)
        rest = receive_all(sock)
        everything = answer.data + rest
    assert everything.endswith(b"0\r\n\r\n")
    assert [int(n) for n in re.findall(rb"line (\d+)\n", everything)] == [4, 5, 6, 7, 8]


def test_a_follower_that_leaves_ends_the_reading_at_once(agent, log):
    before = len(list(Path("/proc/self/fd").iterdir()))
    with agent.connect() as sock:
        sock.sendall(b"GET /logs/default/loop/app?follow=true HTTP/1.1\r\nHost: x\r\n\r\n")
        Chunks(sock).wait_for(b"line 4\n")
        left = time.monotonic()
    until(lambda: not agent.server.busy())
    assert time.monotonic() - left < 0.9  # not only at the next forced look
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_planted_link_is_refused_over_the_socket(agent, log):
    log.unlink()
    log.symlink_to("/etc/passwd")
    status, error = agent.json("/logs/default/loop/app")
    assert (status, error["reason"]) == (403, "Denied")


def test_stopping_the_server_ends_its_followers(tmp_path, agent, log):
    with agent.connect() as sock:
        sock.sendall(b"GET /logs/default/loop/app?follow HTTP/1.1\r\nHost: x\r\n\r\n")
        Chunks(sock).wait_for(b"line 4\n")
        agent.server.stop()
        until(lambda: not agent.server.busy())


@pytest.fixture
def health():
    window = PlainWindow()
    sock = listen_tcp("127.0.0.1", 0)
    server = Server(sock, health_answer(window), name="admin-health", limit=4)
    server.start()

    def get(target):
        with socket.create_connection(sock_name, timeout=10) as conn:
            conn.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            head, _, body = receive_all(conn).partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]), body.decode()

    get.address = sock_name = sock.getsockname()
    yield window, get
    server.stop()


def test_health_says_ok_and_more_when_asked(health):
    _, get = health
    assert get("/healthz") == (200, "ok")
    assert get("/livez?verbose") == (200, "[+]ping ok\n[+]kernel ok\n[+]runtime ok\nlivez check passed\n")
    assert get("/healthz/runtime") == (200, "ok")


def test_health_names_the_culprit(health):
    window, get = health
    window.checks = (
        HealthRow(name="kernel", ok=False, detail="/node/pleg on ListPods for 33 s\nat core.py:120"),
    )
    status, body = get("/healthz")
    assert status == 500
    assert (
        body
        == "[+]ping ok\n[-]kernel failed: /node/pleg on ListPods for 33 s at core.py:120\nhealthz check failed\n"
    )
    assert get("/healthz/kernel") == (
        500,
        "internal server error: /node/pleg on ListPods for 33 s at core.py:120\n",
    )
    assert get("/healthz?exclude=kernel") == (200, "ok")
    assert "no matches for nope" in get("/healthz?verbose&exclude=nope")[1]


def test_ready_says_what_it_waits_for(health):
    _, get = health
    status, body = get("/readyz")
    assert status == 500
    assert "[-]sources failed: file source /etc/kubernetes/manifests not read yet, for 3 s" in body


def test_the_health_port_has_three_routes_only(health):
    _, get = health
    for target in ("/pods", "/actors", "/", "/logs/a/b", "/debug/pprof"):
        assert get(target)[0] == 404


def test_health_is_told_whoever_sends_half_requests(health):
    _, get = health
    with contextlib.ExitStack() as stack:
        for _ in range(32):
            sock = stack.enter_context(socket.create_connection(get.address, 10))
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        for _ in range(32):
            assert get("/healthz") == (200, "ok")


def test_a_health_port_in_use_is_one_clear_line(health):
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen(1)
    port = taken.getsockname()[1]
    with pytest.raises(AlreadyExistsError, match=rf"127\.0\.0\.1:{port}: the port is in use.*healthzPort"):
        listen_tcp("127.0.0.1", port)
    taken.close()
    with pytest.raises(RejectedError, match="cannot serve health"):
        listen_tcp("192.0.2.1", 0)


def test_a_folder_we_may_not_use_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises((RejectedError, DeniedError), match="not a folder"):
        listen_unix(str(tmp_path / "file" / "s.sock"))


# The command line against the same server.


def verb(agent, *words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "tests.harness.agent.verbs", words[0], "--socket", agent.path, *words[1:]],
        capture_output=True,
        timeout=30,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )


def test_every_verb_prints_for_people_and_for_programs(agent, log):
    for words in (
        ["actors"],
        ["pods"],
        ["explain", "loop"],
        ["events"],
        ["sources"],
        ["images", "ls"],
        ["trace", "/node/pleg"],
        ["top"],
    ):
        people = verb(agent, *words)
        assert (people.returncode, people.stderr) == (0, b""), words
        assert b"\x1b" not in people.stdout
        programs = verb(agent, *words, "-o", "json")
        assert msgspec.json.decode(programs.stdout)


def test_images_are_listed_with_who_uses_them_and_since_when(agent):
    lines = verb(agent, "images").stdout.decode().splitlines()
    assert lines[0].split() == ["IMAGE", "ID", "SIZE", "CONTAINERS", "SEEN", "USED", "KEPT"]
    assert lines[1].split() == ["docker.io/library/nginx:1.27", "0123456789ab", "179MiB", "2", "2h5m", "now"]
    assert lines[2].split() == ["docker.io/library/nginx@sha256:" + "ab12" * 16]
    assert lines[3].split()[-2:] == ["1h1m", "ago"]
    assert lines[4].split() == ["nodeagent.local/host", "nodeagent.local/host", "0B", "-", "-", "-", "pinned"]


def test_an_image_is_pulled_and_a_refusal_is_one_line(agent):
    pulled = verb(agent, "images", "pull", "registry.local/app:1")
    assert (pulled.returncode, pulled.stdout) == (0, b"pulled registry.local/app:1: abababababab, 5.0MiB\n")
    refused = verb(agent, "images", "pull", "registry.local/private:1")
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert refused.stderr == b"nodeagent: image registry.local/private:1: the registry wants credentials\n"


def test_an_image_is_removed_unless_it_is_used_or_unknown(agent):
    removed = verb(agent, "images", "rm", "old:1")
    assert (removed.returncode, removed.stdout) == (
        0,
        b"removed cdcdcdcdcdcd, 7.0MiB: docker.io/library/old:1\n",
    )
    used = verb(agent, "images", "rm", "docker.io/library/nginx:1.27")
    assert used.returncode == 1
    assert b"is used by default/web-node1/nginx; remove those pods first" in used.stderr
    unknown = verb(agent, "images", "rm", "nosuch")
    assert unknown.returncode == 1
    assert b'no image "nosuch" here' in unknown.stderr


def test_a_collection_is_waited_for_and_told(agent):
    ended = verb(agent, "images", "gc")
    lines = ended.stdout.decode().splitlines()
    assert ended.returncode == 0
    assert agent.window.asked_runs == ["run-1"]
    assert lines[1].split()[:4] == ["docker.io/library/old:1", "cdcdcdcdcdcd", "7.0MiB", "removed"]
    assert "used by default/web-node1/nginx" in lines[2]
    assert lines[-1] == "1 image removed, 7.0MiB as the runtime counts; 6.0MiB freed; 40GiB free now"


def test_a_collection_that_failed_ends_with_one_and_a_line(agent):
    agent.window.gc_failure = "cannot remove image x: it is busy"
    ended = verb(agent, "images", "gc")
    assert ended.returncode == 1
    assert ended.stderr == b"nodeagent: garbage collection failed: cannot remove image x: it is busy\n"
    assert b"1 image removed" in ended.stdout
    agent.window.looks = 0
    assert verb(agent, "images", "gc", "-o", "json").returncode == 1


def test_a_dry_run_asks_nobody_to_collect(agent):
    ended = verb(agent, "images", "gc", "--dry-run")
    assert (ended.returncode, agent.window.asked_runs) == (0, [])
    assert ended.stdout.decode().splitlines()[-1] == "1 image would be removed, 7.0MiB as the runtime counts"
    assert msgspec.json.decode(verb(agent, "images", "gc", "--dry-run", "-o", "json").stdout)["dry_run"]


def test_a_collection_that_the_manager_forgot_is_not_waited_for_for_ever(agent, monkeypatch):
    monkeypatch.setattr("runtime.server.view.UNKNOWN_LIMIT_S", 0.2)
    monkeypatch.setattr(agent.window, "collection", lambda _run: None)
    status, answer = agent.json("/images/gc", method="POST")
    assert (status, answer["reason"]) == (503, "Unavailable")


@pytest.mark.parametrize(
    "words", [("pull",), ("rm",), ("rm", " "), ("ls", "x"), ("gc", "x"), ("ls", "--dry-run"), ("load", "x")]
)
def test_a_wrong_use_of_images_is_refused_before_anything_is_asked(agent, words):
    wrong = verb(agent, "images", *words)
    assert wrong.returncode == 2
    assert b"usage: nodeagent images" in wrong.stderr


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("DELETE", "/images", 400),
        ("POST", "/images/pull", 400),
        ("POST", "/images/gc?dry_run=maybe", 400),
        ("DELETE", "/images?ref=nosuch", 404),
    ],
)
def test_a_wrong_request_about_images_is_told_as_one(agent, method, target, status):
    assert agent.json(target, method=method)[0] == status


def test_the_tree_of_actors_is_drawn(agent):
    out = verb(agent, "actors", "--tree").stdout.decode()
    assert "├─ pods" in out
    assert f"│  ├─ {UID_WEB}" in out
    assert "awaits runtime.StopContainer for 12s" in out
    assert "stuck: on Outcome op=3 ListPods for 33 s" in out


def test_exec_gives_output_and_exit_code_of_the_command(agent):
    ran = verb(agent, "exec", "loop", "-c", "app", "--", "ls", "-c", "--", "x")
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, b"out \xff\n", b"err\n")
    assert agent.window.ran[0][2] == ("ls", "-c", "--", "x")
    refused = verb(agent, "exec", "-it", "loop", "--", "sh")
    assert refused.returncode == 1
    assert b"the embedded runtime does not support streaming yet; remove -i and -t" in refused.stderr


def test_logs_go_through_as_they_are(agent, log):
    assert verb(agent, "logs", "loop", "--tail", "2").stdout == b"line 3\nline 4\n"
    assert verb(agent, "logs", "gone").returncode == 1


def test_no_agent_is_one_clear_line(tmp_path):
    for words in (["pods", "--root-dir", str(tmp_path)], ["pods", "--root-dir", str(tmp_path / "none")]):
        ran = subprocess.run(
            [sys.executable, "-m", "tests.harness.agent.verbs", *words],
            capture_output=True,
            timeout=30,
            check=False,
        )
        assert ran.returncode == 1
        assert ran.stdout == b""
        assert ran.stderr.count(b"\n") == 1
        assert b"cannot connect to the agent" in ran.stderr


def test_a_closed_pipe_ends_a_verb_quietly(agent):
    command = f"{sys.executable} -m tests.harness.agent.verbs actors --socket {agent.path} | true; echo ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, timeout=30, check=False)
    assert ran.stderr == b""
    assert ran.stdout == b"0\n"


def test_validate_needs_no_agent_and_fails_with_the_file(tmp_path):
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("kind: Pod")
    bad.write_text("what")
    words = [sys.executable, "-m", "tests.harness.agent.verbs", "validate", str(good), str(bad)]
    ran = subprocess.run(words, capture_output=True, timeout=30, check=False, text=True)
    assert ran.returncode == 1
    assert ran.stdout == f"{good}: ok\n{bad}:1: no kind; add one\n"


def test_a_name_that_is_no_utf8_hides_nothing_and_breaks_nothing(agent):
    odd = os.fsdecode(b"/m/\xff.yaml")
    agent.window.sources = lambda: (
        SourceRow(source="file", where=odd, status="broken"),
        SourceRow(source="file", where="/m/a.yaml", status="accepted"),
    )
    rows = agent.json("/sources")[1]["sources"]
    assert [row["where"] for row in rows] == ["/m/\\udcff.yaml", "/m/a.yaml"]
    asked = verb(agent, "explain", os.fsdecode(b"\xff"))
    assert asked.returncode == 1
    assert b"not UTF-8" in asked.stderr
    assert b"Traceback" not in asked.stderr
    assert verb(agent, "actors", "--tree", PYTHONIOENCODING="latin-1").returncode == 0


@pytest.mark.parametrize(("no_color", "painted"), [("", True), ("1", False)])
def test_colour_is_for_terminals_that_want_it(agent, no_color, painted):
    master, slave = os.openpty()
    command = [sys.executable, "-m", "tests.harness.agent.verbs", "pods", "--socket", agent.path]
    environment = {**os.environ, "NO_COLOR": no_color, "TERM": "xterm", "COLUMNS": "90"}
    ran = subprocess.run(
        command, stdout=slave, stderr=subprocess.PIPE, timeout=30, check=False, env=environment
    )
    os.close(slave)
    out = os.read(master, 65536).decode()
    os.close(master)
    assert ran.returncode == 0
    assert ("\x1b[32m" in out) is painted
    # The container's own message has an escape in it, which must not have come through.
    assert "\x1b[31m\nyet" not in out
    plain = re.sub(r"\x1b\[\d*m", "", out)
    assert all(len(line) <= 90 for line in plain.split("\r\n"))
