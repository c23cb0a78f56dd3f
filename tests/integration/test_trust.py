"""What another user of the machine could put in the agent's way or its client's: his folders, his socket, his words, his pipes."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.harness.agent.agent import FAULTS, REPOSITORY
from tests.harness.agent.house import FOREVER
from tests.harness.part import need

NOBODY = 65534


def refused(agent, root, *words):
    """Hold that an agent refuses a root directory in one line with these words."""
    agent.root = root
    ended = agent.run()
    assert ended.returncode == 1, ended.stderr
    [line] = ended.stderr.splitlines()
    assert f"cannot use the root directory {root}" in line
    assert all(word in line for word in words), line
    return line


def folder(path, mode=0o755, owner=0):
    """Return a folder with this mode and owner."""
    path.mkdir(parents=True)
    path.chmod(mode)
    os.chown(path, owner, owner)
    return path


# ---------------------------------------------------------------- the root directory


def test_a_root_directory_of_another_user_is_refused_and_his_links_are_not_followed(agent, tmp_path):
    need("root")
    root = folder(tmp_path / "his", owner=NOBODY)
    victim = folder(tmp_path / "victim")
    (root / "pods").symlink_to(victim)
    (root / "run").symlink_to(victim)
    refused(agent, root, "it belongs to user nobody")
    assert list(victim.iterdir()) == []
    assert sorted(path.name for path in root.iterdir()) == ["pods", "run"]


def test_a_parent_of_another_user_is_refused_and_nothing_is_made_in_it(agent, tmp_path):
    need("root")
    his = folder(tmp_path / "his", owner=NOBODY)
    refused(agent, his / "a" / "b", f"{his} belongs to user nobody")
    assert list(his.iterdir()) == []


@pytest.mark.parametrize("mode", [0o777, 0o757])
@pytest.mark.parametrize("there", [True, False])
def test_a_parent_in_which_others_may_swap_the_root_directory_is_refused(agent, tmp_path, mode, there):
    open_to_all = folder(tmp_path / "open", mode)
    root = open_to_all / "root"
    if there:
        folder(root, 0o750)
    refused(agent, root, f"{open_to_all} (of user root", "may be written by others")


def test_a_group_that_may_write_is_refused_unless_it_is_the_owners_own(agent, tmp_path):
    need("root")
    root = folder(tmp_path / "shared", 0o775)
    os.chown(root, 0, NOBODY)
    refused(agent, root, "it (of user root", "may be written by others")


def test_a_link_of_another_user_on_the_way_is_refused(agent, tmp_path):
    need("root")
    real = folder(tmp_path / "real")
    link = tmp_path / "link"
    link.symlink_to(real)
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    refused(agent, link / "root", f"{link} belongs to user nobody")
    assert list(real.iterdir()) == []


def test_a_folder_of_ones_own_in_a_sticky_one_and_a_link_of_ones_own_are_fine(agent, tmp_path):
    sticky = folder(tmp_path / "sticky", 0o1777)
    (sticky / "link").symlink_to("real")
    folder(sticky / "real", 0o775)
    agent.root = sticky / "link" / "root"
    agent.put("web", FOREVER)
    agent.start()
    agent.until_status("web", "Running")
    agent.root = sticky / "real" / "root"


# ---------------------------------------------------------------- who answers, and what


@contextlib.contextmanager
def answering(path, answer):
    """Listen at `path` and give each request this answer."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    link, _ = listener.accept()
                    with link:
                        link.recv(1 << 16)
                        for piece in answer if isinstance(answer, list) else [answer]:
                            link.sendall(piece)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5.0)


def asked(path, *words):
    """Return what a verb says to who listens at `path`."""
    return subprocess.run(
        [sys.executable, "-m", "actors.agent.main", *words[:1], "--socket", str(path), *words[1:]],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        timeout=30.0,
        check=False,
    )


def whole(body, status="200 OK"):
    """Return an answer with this body."""
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


ODD = {
    "no HTTP": b"hello\r\n\r\n",
    "status of another script": "HTTP/1.1 \u00b2\u00b2\u00b2 OK\r\n\r\n".encode("latin-1"),
    "no JSON": whole(b"<html>"),
    "no UTF-8": whole(b'{"pods":["\xff\xfe"]}'),
    "nested": whole(b"[" * 200_000),
    "wrong type": whole(b'{"pods":{"a":1},"actors":7}'),
    "no length": b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}",
    "negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
    "huge length": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}",
    "no chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "endless head": [b"HTTP/1.1 200 OK\r\n", *[b"x: " + b"y" * 60_000 + b"\r\n"] * 4],
    "lines and orders": whole(json.dumps({"error": "one\ntwo\x1b[31m"}).encode(), "500 Oh"),
}


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_answer_is_one_line(tmp_path, odd):
    with answering(tmp_path / "socket", ODD[odd]):
        said = asked(tmp_path / "socket", "pods")
    assert said.returncode == 1
    assert said.stdout == ""
    [line] = said.stderr.splitlines()
    assert line.startswith("nodeagent: ")
    assert line.isprintable()
    assert len(line) < 500


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (("exec", "web", "--", "true"), b'{"exit_code": "x"}'),
        (("exec", "web", "--", "true"), b'{"exit_code": 0, "stdout": "\xff"}'),
        (("exec", "web", "--", "true"), b'{"exit_code": 0, "stdout": "a"}'),
        (("images", "rm", "x"), b'{"removed": "\xff"}'),
    ],
)
def test_an_odd_answer_to_what_changes_something_is_one_line(tmp_path, words, body):
    with answering(tmp_path / "socket", whole(body)):
        said = asked(tmp_path / "socket", *words)
    assert said.returncode == 1, said
    [line] = said.stderr.splitlines()
    assert "cannot read the agent's answer" in line


IMPOSTOR = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
os.setgid({uid}); os.setuid({uid})
listener.bind(sys.argv[1])
listener.listen()
print("there", flush=True)
link, _ = listener.accept()
print(link.recv(100), flush=True)
"""


def test_a_socket_of_another_user_is_not_believed_and_told_nothing(tmp_path_factory):
    need("root")
    path = folder(Path(f"/tmp/trust-{os.getpid()}"), 0o777) / "socket"
    words = [sys.executable, "-c", IMPOSTOR.format(uid=NOBODY), str(path)]
    try:
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as impostor:
            assert impostor.stdout.readline() == "there\n"
            said = asked(path, "exec", "web", "--", "echo", "secret")
            assert impostor.stdout.readline() == "b''\n"
            assert said.returncode == 1
            [line] = said.stderr.splitlines()
            assert f"(process {impostor.pid}) runs as user {NOBODY}, neither root nor you" in line
    finally:
        path.unlink(missing_ok=True)
        path.parent.rmdir()


# ---------------------------------------------------------------- faults and pipes


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """Name a plan of faults in the environment, as a service file could that was copied from a test."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"faults": []}))
    monkeypatch.setenv(FAULTS, str(path))
    return path


def test_a_plan_of_faults_counts_only_with_its_flag_and_is_shown(agent, plan):
    agent.start()
    assert f"{FAULTS} is set and ignored" in agent.stderr()
    assert b"faults" not in agent.ask("/healthz?verbose")[1]
    agent.stop()
    agent.start("--enable-fault-injection")
    assert f"[+]faults ok: fault injection is on ({plan})".encode() in agent.ask("/healthz?verbose")[1]
    assert "fault injection is on" in agent.stderr()


@pytest.mark.parametrize("kind", ["pipe", "folder", "large"])
def test_a_plan_that_is_no_small_file_is_refused_at_once(agent, plan, kind):
    plan.unlink()
    if kind == "pipe":
        os.mkfifo(plan)
    elif kind == "folder":
        plan.mkdir()
    else:
        plan.write_bytes(b" " * (2 << 20))
    ended = agent.run("--enable-fault-injection", deadline_s=15.0)
    assert ended.returncode == 1
    [line] = ended.stderr.splitlines()
    assert f"{FAULTS}: cannot read the plan of faults: {plan}" in line


def test_a_configuration_that_is_a_pipe_is_refused_at_once(agent):
    agent.config.unlink()
    os.mkfifo(agent.config)
    ended = agent.run(deadline_s=15.0)
    assert ended.returncode == 1
    assert ended.stderr == f"nodeagent: {agent.config}: it is not a regular file\n"
