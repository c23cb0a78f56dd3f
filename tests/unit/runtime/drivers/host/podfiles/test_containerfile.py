"""Files around a container on the real file system: modes, links, pipes, and bounded reading."""

import os
import stat
import threading

import pytest

from api.errors import ConflictError, OperatingError
from api.ports.node import NodeFiles
from api.ports.podfiles import PrepareContainer, ReadEnding
from runtime.drivers.host.node.nodefile import ReadNodeFiles, read_node_files
from runtime.drivers.host.podfiles import containerfile
from runtime.process import UMASK

STAMP = b"2026-01-02T03:04:05.000000006Z"


@pytest.fixture
def pods(tmp_path):
    return tmp_path / "pods"


def prepare(pods, **more):
    containerfile.prepare(pods, PrepareContainer(uid="u1", container="main", attempt=0, **more))


def ending_of(path, **more):
    call = ReadEnding(uid="u1", container="main", termination_log=str(path), **more)
    return containerfile.read_ending(call).message


def test_modes_are_those_of_a_kubelet_under_the_umask_that_the_agent_sets_itself(pods):
    old = os.umask(UMASK)
    try:
        prepare(pods, hosts="x\n")
    finally:
        os.umask(old)
    modes = {
        name: stat.S_IMODE((pods / "u1" / name).stat().st_mode)
        for name in ("etc-hosts", "containers", "containers/main", "containers/main/00000000")
    }
    assert list(modes.values()) == [0o644, 0o750, 0o750, 0o666]


def test_the_hosts_file_stays_the_same_file(pods):
    prepare(pods, hosts="one\n")
    before = (pods / "u1/etc-hosts").stat().st_ino
    with (pods / "u1/etc-hosts").open() as mounted:
        prepare(pods, hosts="a longer text than before\n")
        assert mounted.read() == "a longer text than before\n"
        prepare(pods, hosts="2\n")
        mounted.seek(0)
        assert mounted.read() == "2\n"
    assert (pods / "u1/etc-hosts").stat().st_ino == before


@pytest.mark.parametrize("inside", ["u1", "u1/containers", "u1/containers/main"])
def test_a_link_in_the_place_of_a_folder_is_not_followed(pods, tmp_path, inside):
    precious = tmp_path / "precious"
    (precious / "containers/main").mkdir(parents=True)
    (precious / "main").mkdir()
    (precious / "00000000").write_text("keep")
    place = pods / inside
    place.parent.mkdir(parents=True)
    place.symlink_to(precious)
    with pytest.raises(ConflictError):
        prepare(pods, hosts="x")
    assert (precious / "00000000").read_text() == "keep"
    assert not (precious / "etc-hosts").exists()
    assert ending_of(pods / "u1/containers/main/00000000").startswith("Error on reading termination log")


@pytest.mark.parametrize("name", ["etc-hosts", "containers/main/00000000"])
def test_a_link_in_the_place_of_a_file_is_not_followed(pods, tmp_path, name):
    precious = tmp_path / "precious"
    precious.write_text("keep")
    (pods / "u1/containers/main").mkdir(parents=True)
    (pods / "u1" / name).symlink_to(precious)
    with pytest.raises(OperatingError):
        prepare(pods, hosts="x")
    assert precious.read_text() == "keep"
    if name != "etc-hosts":
        assert "keep" not in ending_of(pods / "u1" / name)


def test_a_pipe_blocks_nobody_and_says_what_it_is(pods):
    folder = pods / "u1/containers/main"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "00000000")
    with pytest.raises(OperatingError):
        prepare(pods)
    found = []
    reader = threading.Thread(target=lambda: found.append(ending_of(folder / "00000000")), daemon=True)
    reader.start()
    reader.join(5)
    assert found == [
        f"Error on reading termination log {folder}/00000000: 00000000 is not a regular file; see what is there"
    ]


def test_a_termination_file_that_cannot_be_read_keeps_the_log_out(pods, tmp_path):
    folder = pods / "u1/containers/main"
    (folder / "00000000").mkdir(parents=True)
    log = tmp_path / "logs/d_w_u1/main/0.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(STAMP + b" stdout F hello\n")
    message = ending_of(folder / "00000000", log_path=str(log), fall_back=True)
    assert message.startswith("Error on reading termination log")
    assert "hello" not in message


def test_the_tail_of_a_log_joins_the_pieces_of_long_lines_and_both_streams(pods, tmp_path):
    log = tmp_path / "logs/d_w_u1/main/0.log"
    log.parent.mkdir(parents=True)
    records = [b"stdout P one ", b"stdout F line", b"stderr F problem", b"stdout P unfinished"]
    log.write_bytes(b"".join(STAMP + b" " + record + b"\n" for record in records))
    assert ending_of("", log_path=str(log), fall_back=True) == "one line\nproblem\nunfinished"


def test_only_the_end_of_a_huge_log_is_read_from_a_whole_record_on(tmp_path):
    log = tmp_path / "logs/d_w_u1/main/0.log"
    log.parent.mkdir(parents=True)
    with log.open("wb") as file:
        for n in range(6000):
            file.write(STAMP + b" stdout F %04d" % n + b"x" * 60 + b"\n")
    assert log.stat().st_size > 2 * containerfile.LOG_WINDOW_BYTES
    tail = ending_of("", log_path=str(log), fall_back=True)
    assert len(tail) == 2048
    assert tail.endswith("5999" + "x" * 60 + "\n")
    assert STAMP.decode() not in tail


def test_a_log_that_is_a_link_is_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(STAMP + b" stdout F secret\n")
    log = tmp_path / "logs/d_w_u1/main/0.log"
    log.parent.mkdir(parents=True)
    log.symlink_to(secret)
    assert ending_of("", log_path=str(log), fall_back=True) == ""


def test_a_hosts_file_that_is_missing_or_too_large_is_a_problem(tmp_path):
    call = ReadNodeFiles(resolv_conf="")
    missing = read_node_files(call, tmp_path / "hosts")
    assert isinstance(missing, NodeFiles)
    assert (missing.hosts, [p.message for p in missing.problems]) == ("", ["No such file or directory"])
    (tmp_path / "hosts").write_bytes(b"x" * ((1 << 20) + 1))
    assert [p.message for p in read_node_files(call, tmp_path / "hosts").problems] == [
        "more than 1048576 bytes"
    ]
    os.mkfifo(tmp_path / "pipe")
    assert [p.message for p in read_node_files(call, tmp_path / "pipe").problems] == ["not a regular file"]


def test_a_folder_in_the_place_of_a_file_of_the_node_is_a_problem_and_leaves_nothing_open(tmp_path):
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208  # numbers, not paths
    found = read_node_files(ReadNodeFiles(resolv_conf=str(tmp_path)), tmp_path)
    assert [(p.where, p.message) for p in found.problems] == [(str(tmp_path), "not a regular file")] * 2
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
