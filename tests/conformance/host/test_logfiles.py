"""The port ``logfiles`` and the calls on logs of ``podfiles``: found, rotated, taken back, linked, removed."""

import gzip
import os
import time

import pytest

from api.errors import ConflictError, NotFoundError, RejectedError
from api.ports.call import Done
from api.ports.logs import (
    DeadLink,
    DeadLinks,
    FindDeadLinks,
    FindLogs,
    LinkContainerLog,
    LogLinked,
    LogSeen,
    RemoveContainerLogs,
    RemoveDeadLink,
    RestoreLog,
    RotateLog,
)
from runtime.drivers.host.logs.logfile import LogFiles
from runtime.drivers.host.podfiles.podfolder import PodFolderDriver
from runtime.drivers.memory.logs import MemoryLogFiles
from runtime.drivers.memory.podfolder import MemoryPodFolders

NAME = "web_default_main-c1.log"
LONG_AGO = time.time() - 3600


def line(number):
    return f"line {number:04d}"


class RealBench:
    def __init__(self, root):
        self.logs = root / "pods"
        self.links = root / "containers"
        self.port = LogFiles(self.logs, self.links)
        self.podfiles = PodFolderDriver(root / "state", self.logs, self.links)

    def write(self, path, lines):
        path.parent.mkdir(parents=True, exist_ok=True)
        stamp = "2024-01-02T03:04:05.123456789Z stdout F"
        path.write_text("".join(f"{stamp} {text}\n" for text in lines))
        os.utime(path, (LONG_AGO, LONG_AGO))

    def read(self, path):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return [text.split(" ", 3)[3] for text in data.decode().splitlines()]

    def files(self, folder):
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def remove(self, path):
        path.unlink()

    def link_names(self):
        return self.files(self.links)


class MemoryBench:
    def __init__(self, root):
        self.logs = root / "pods"
        self.port = MemoryLogFiles(str(self.logs))
        self.podfiles = MemoryPodFolders(str(self.logs), logs=self.port)

    def write(self, path, lines):
        self.port.files[str(path)] = [("stdout", text) for text in lines]

    def read(self, path):
        return [text for _, text in self.port.files[str(path)]]

    def files(self, folder):
        return sorted(p.rpartition("/")[2] for p in self.port.files if p.startswith(f"{folder}/"))

    def remove(self, path):
        del self.port.files[str(path)]

    def link_names(self):
        return sorted(self.port.links)


@pytest.fixture(params=[MemoryBench, RealBench], ids=["memory", "files"])
def bench(request, tmp_path):
    return request.param(tmp_path)


def ask(bench, call):
    return bench.port.perform(call, 5.0)


def ask_pods(bench, call):
    return bench.podfiles.perform(call, 5.0)


def folder_of(bench, uid="u1"):
    return bench.logs / f"default_web_{uid}" / "main"


def test_nothing_is_found_where_nothing_is(bench):
    assert ask(bench, FindLogs(limit_bytes=1)).logs == ()
    assert ask(bench, FindDeadLinks()) == DeadLinks()


def test_only_live_logs_over_the_limit_are_found(bench):
    small, large = folder_of(bench, "u1"), folder_of(bench, "u2")
    bench.write(small / "0.log", [line(0)])
    bench.write(large / "0.log", [line(n) for n in range(100)])
    bench.write(large / "0.log.20240101-000000", [line(n) for n in range(100)])
    (found,) = ask(bench, FindLogs(limit_bytes=1000)).logs
    assert (found.uid, found.container, found.path) == ("u2", "main", str(large / "0.log"))
    assert 4000 < found.size_bytes < 8000


def test_a_rotated_log_is_put_aside_whole_and_the_live_name_is_free(bench):
    folder = folder_of(bench)
    lines = [line(n) for n in range(100)]
    bench.write(folder / "0.log", lines)
    rotated = ask(bench, RotateLog(path=str(folder / "0.log"), max_files=5)).rotated
    (name,) = bench.files(folder)
    assert rotated == str(folder / name)
    assert name.startswith("0.log.2")
    assert bench.read(folder / name) == lines


def test_at_most_so_many_files_are_left_and_the_newest_of_them(bench):
    folder = folder_of(bench)
    for number in range(8):
        bench.write(folder / "0.log", [line(number)])
        ask(bench, RotateLog(path=str(folder / "0.log"), max_files=4))
    bench.write(folder / "0.log", [line(8)])
    names = bench.files(folder)
    assert len(names) == 4
    rotated = sorted((n for n in names if n != "0.log"), key=lambda n: n.removesuffix(".gz"))
    assert [bench.read(folder / n) for n in rotated] == [[line(5)], [line(6)], [line(7)]]


def test_two_files_are_the_live_one_and_the_last(bench):
    folder = folder_of(bench)
    for number in range(3):
        bench.write(folder / "0.log", [line(number)])
        ask(bench, RotateLog(path=str(folder / "0.log"), max_files=2))
    (name,) = bench.files(folder)
    assert bench.read(folder / name) == [line(2)]


def test_the_log_of_an_ended_container_keeps_its_last_lines(bench):
    folder = folder_of(bench)
    path = folder / "0.log"
    lines = [line(n) for n in range(100)]
    bench.write(path, lines)
    rotated = ask(bench, RotateLog(path=str(path), max_files=3, keep_bytes=1000)).rotated
    assert rotated.endswith(".gz")
    kept = bench.read(path)
    assert 10 <= len(kept) <= 25
    assert bench.read(folder / rotated.rpartition("/")[2]) + kept == lines
    assert ask(bench, FindLogs(limit_bytes=1000)).logs == (), "once is enough"


def test_a_rotation_is_taken_back(bench):
    folder = folder_of(bench)
    path = folder / "0.log"
    bench.write(path, [line(1)])
    rotated = ask(bench, RotateLog(path=str(path), max_files=5)).rotated
    assert ask(bench, RestoreLog(path=str(path), rotated=rotated)) == Done()
    assert bench.files(folder) == ["0.log"]
    assert bench.read(path) == [line(1)]


def test_a_rotation_is_not_taken_back_over_a_new_live_file(bench):
    folder = folder_of(bench)
    path = folder / "0.log"
    bench.write(path, [line(1)])
    rotated = ask(bench, RotateLog(path=str(path), max_files=5)).rotated
    bench.write(path, [line(2)])
    assert ask(bench, RestoreLog(path=str(path), rotated=rotated)) == Done()
    assert bench.read(path) == [line(2)]
    assert len(bench.files(folder)) == 2


def test_a_log_that_is_not_there_is_not_found(bench):
    path = str(folder_of(bench) / "0.log")
    with pytest.raises(NotFoundError):
        ask(bench, RotateLog(path=path, max_files=5))
    with pytest.raises(NotFoundError):
        ask(bench, RestoreLog(path=path, rotated=path + ".20240101-000000"))


def test_what_is_no_containers_log_is_refused(bench):
    for path in (
        "/etc/passwd",
        str(bench.logs / "0.log"),
        str(bench.logs / "default_web_u1" / "0.log"),
        str(bench.logs / "default_web_u1" / ".." / "0.log"),
        f"{bench.logs}/default_web_u1/main/../../0.log",
        str(folder_of(bench) / "record.json"),
        str(folder_of(bench) / "0.log.20240101-000000"),
        str(folder_of(bench) / "deeper" / "0.log"),
        str(bench.logs / "notapod" / "main" / "0.log"),
        "",
    ):
        with pytest.raises(RejectedError):
            ask(bench, RotateLog(path=path, max_files=5))
        with pytest.raises(RejectedError):
            ask_pods(bench, LinkContainerLog(name=NAME, log_path=path))
        if path:
            with pytest.raises(RejectedError):
                ask_pods(bench, RemoveContainerLogs(uid="u1", log_path=path))


# links


def test_a_link_is_made_once_its_target_is_there(bench):
    path = folder_of(bench) / "0.log"
    call = LinkContainerLog(name=NAME, log_path=str(path))
    assert ask_pods(bench, call) == LogLinked(made=False)
    assert bench.link_names() == []
    bench.write(path, [line(0)])
    for _ in range(2):
        assert ask_pods(bench, call) == LogLinked(made=True)
    assert bench.link_names() == [NAME]


@pytest.mark.parametrize("name", ["", "x", "../x.log", "a/b.log", "x.log/..", "x\0.log", "x" * 252 + ".log"])
def test_a_name_that_is_no_links_is_refused(bench, name):
    path = folder_of(bench) / "0.log"
    bench.write(path, [line(0)])
    with pytest.raises(RejectedError):
        ask_pods(bench, LinkContainerLog(name=name, log_path=str(path)))


def test_a_link_is_dead_while_its_target_is_missing_and_only_then_removed(bench):
    path = folder_of(bench) / "0.log"
    bench.write(path, [line(0)])
    ask_pods(bench, LinkContainerLog(name=NAME, log_path=str(path)))
    assert ask(bench, FindDeadLinks()) == DeadLinks()
    call = RemoveDeadLink(name=NAME, target=str(path))
    assert ask(bench, call) == Done()
    assert bench.link_names() == [NAME]
    bench.remove(path)
    dead = DeadLink(name=NAME, target=str(path), uid="u1")
    assert ask(bench, FindDeadLinks()) == DeadLinks(links=(dead,))
    assert ask(bench, RemoveDeadLink(name=NAME, target=str(path) + "x")) == Done()
    assert bench.link_names() == [NAME]
    for _ in range(2):
        assert ask(bench, call) == Done()
    assert bench.link_names() == []


def test_all_that_a_dead_instance_left_is_removed_and_nothing_of_another_one(bench):
    folder = folder_of(bench)
    for name in ("0.log", "0.log.20240101-000000", "0.log.20230101-000000.gz", "1.log"):
        if name.endswith(".gz"):
            continue
        bench.write(folder / name, [line(0)])
    bench.write(folder / "10.log", [line(0)])
    ask_pods(bench, LinkContainerLog(name=NAME, log_path=str(folder / "0.log")))
    ask_pods(bench, LinkContainerLog(name="other.log", log_path=str(folder / "1.log")))
    call = RemoveContainerLogs(uid="u1", log_path=str(folder / "0.log"), link=NAME)
    for _ in range(2):
        assert ask_pods(bench, call) == Done()
    assert bench.files(folder) == ["1.log", "10.log"]
    assert bench.link_names() == ["other.log"]


def test_the_logs_of_another_pod_are_not_removed(bench):
    path = folder_of(bench, "u2") / "0.log"
    bench.write(path, [line(0)])
    with pytest.raises(RejectedError):
        ask_pods(bench, RemoveContainerLogs(uid="u1", log_path=str(path)))
    assert bench.files(path.parent) == ["0.log"]


def test_a_newest_log_that_is_missing_is_found_by_what_is_left_of_it(bench):
    folder = folder_of(bench)
    bench.write(folder / "0.log", [line(0)])
    bench.write(folder / "1.log.20240101-000000", [line(1)])
    assert ask(bench, FindLogs(limit_bytes=1000)).logs == (
        LogSeen(uid="u1", container="main", path=str(folder / "1.log"), missing=True),
    )
    bench.write(folder / "1.log", [line(1)])
    assert ask(bench, FindLogs(limit_bytes=1000)).logs == ()


# what only real files show


@pytest.fixture
def real(tmp_path):
    return RealBench(tmp_path)


def test_the_rotated_file_stays_plain_until_the_next_rotation(real):
    folder = folder_of(real)
    for number in range(3):
        real.write(folder / "0.log", [line(number)])
        ask(real, RotateLog(path=str(folder / "0.log"), max_files=5))
    names = sorted(real.files(folder), key=lambda n: n.removesuffix(".gz"))
    assert [name.endswith(".gz") for name in names] == [True, True, False]
    assert [real.read(folder / name) for name in names] == [[line(0)], [line(1)], [line(2)]]


def test_a_rotated_file_is_called_by_local_time_and_never_takes_anothers_name(real):
    then = time.strptime("2024-01-02 03:04:05", "%Y-%m-%d %H:%M:%S")
    port = LogFiles(real.logs, real.links, lambda: then)
    folder = folder_of(real)
    for number in range(3):
        real.write(folder / "0.log", [line(number)])
        port.perform(RotateLog(path=str(folder / "0.log"), max_files=5), 5.0)
    assert real.files(folder) == [
        "0.log.20240102-030405-1.gz",
        "0.log.20240102-030405-2",
        "0.log.20240102-030405.gz",
    ]


def test_files_are_kept_by_their_age_also_when_the_clock_is_set_back(real):
    stamps = ["2024-01-02 03:04:05", *["2024-01-01 00:00:00"] * 12]
    clock = iter([time.strptime(stamp, "%Y-%m-%d %H:%M:%S") for stamp in stamps])
    port = LogFiles(real.logs, real.links, lambda: next(clock))
    folder = folder_of(real)
    for number in range(13):
        real.write(folder / "0.log", [line(number)])
        port.perform(RotateLog(path=str(folder / "0.log"), max_files=3), 5.0)
    assert real.files(folder) == ["0.log.20240102-030405-11.gz", "0.log.20240102-030405-12"]
    assert real.read(folder / "0.log.20240102-030405-12") == [line(12)]


def test_what_a_rotation_that_was_cut_off_left_is_removed(real):
    folder = folder_of(real)
    real.write(folder / "0.log", [line(3)])
    real.write(folder / "0.log.20240101-000000", [line(1)])
    (folder / "0.log.20240101-000000.gz").write_bytes(gzip.compress(b"t stdout F whole\n"))
    real.write(folder / "0.log.20240102-000000", [line(2)])
    (folder / "0.log.20240102-000000.tmp").write_bytes(b"half")
    ask(real, RotateLog(path=str(folder / "0.log"), max_files=5))
    names = real.files(folder)
    assert names[:2] == ["0.log.20240101-000000.gz", "0.log.20240102-000000.gz"]
    assert real.read(folder / names[0]) == ["whole"]
    assert real.read(folder / names[1]) == [line(2)]
    assert len(names) == 3


def test_compressed_files_keep_the_mode_of_the_log(real):
    folder = folder_of(real)
    for number in range(2):
        real.write(folder / "0.log", [line(number)])
        (folder / "0.log").chmod(0o640)
        ask(real, RotateLog(path=str(folder / "0.log"), max_files=5))
    assert {(folder / name).stat().st_mode & 0o777 for name in real.files(folder)} == {0o640}


def test_a_log_that_was_just_written_is_not_cut(real):
    path = folder_of(real) / "0.log"
    real.write(path, [line(n) for n in range(100)])
    os.utime(path)
    with pytest.raises(ConflictError):
        ask(real, RotateLog(path=str(path), max_files=3, keep_bytes=1000))
    assert real.files(path.parent) == ["0.log"]
    assert len(real.read(path)) == 100


def test_an_empty_folder_of_logs_is_found(real):
    empty = folder_of(real, "u2")
    empty.mkdir(parents=True)
    assert ask(real, FindLogs(limit_bytes=1000)).logs == (
        LogSeen(uid="u2", container="main", path=str(empty), missing=True),
    )


def test_links_in_the_way_lead_nowhere(real, tmp_path):
    folder = folder_of(real)
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    real.write(folder / "0.log", [line(0)])
    (folder / "0.log.20240101-000000").symlink_to(secret)
    ask(real, RotateLog(path=str(folder / "0.log"), max_files=5))
    assert not (folder / "0.log.20240101-000000.gz").exists()
    (folder / "0.log").symlink_to(secret)
    assert ask(real, FindLogs(limit_bytes=1)).logs == ()
    with pytest.raises((ConflictError, NotFoundError)):
        ask(real, RotateLog(path=str(folder / "0.log"), max_files=5))
    other = real.logs / "default_web_u2"
    other.symlink_to(tmp_path)
    (tmp_path / "main").mkdir()
    (tmp_path / "main" / "0.log").write_text("mine\n")
    call = RemoveContainerLogs(uid="u2", log_path=str(other / "main" / "0.log"))
    with pytest.raises(ConflictError):
        ask_pods(real, call)
    assert (tmp_path / "main" / "0.log").exists()
    assert secret.read_text() == "secret\n"


def test_links_that_lead_elsewhere_are_nobodys_business(real):
    real.links.mkdir()
    (real.links / "docker.log").symlink_to("/var/lib/docker/containers/x/x-json.log")
    (real.links / "plain.log").write_text("")
    (real.links / "readme").symlink_to(str(folder_of(real) / "0.log"))
    assert ask(real, FindDeadLinks()) == DeadLinks()
    ask_pods(real, RemoveContainerLogs(uid="u1", link="docker.log"))
    ask_pods(real, RemoveContainerLogs(uid="u1", link="plain.log"))
    assert real.link_names() == ["docker.log", "plain.log", "readme"]


def test_a_link_that_points_elsewhere_is_replaced_and_a_file_is_not(real):
    folder = folder_of(real)
    for name in ("0.log", "1.log"):
        real.write(folder / name, [line(0)])
        ask_pods(real, LinkContainerLog(name=NAME, log_path=str(folder / name)))
    assert (real.links / NAME).readlink() == folder / "1.log"
    assert real.link_names() == [NAME]
    assert real.links.stat().st_mode & 0o777 == 0o755
    (real.links / "plain.log").write_text("")
    with pytest.raises(ConflictError):
        ask_pods(real, LinkContainerLog(name="plain.log", log_path=str(folder / "0.log")))


def test_a_termination_message_in_the_pods_own_folder_is_removed_and_a_volumes_is_not(real, tmp_path):
    mine = tmp_path / "state" / "u1" / "containers" / "main" / "0badcafe"
    other = tmp_path / "state" / "u2" / "containers" / "main" / "0badcafe"
    volume = tmp_path / "volume" / "message"
    for path in (mine, other, volume):
        path.parent.mkdir(parents=True)
        path.write_text("ended")
    for path in (mine, other, volume, mine.parent, mine.parent / ".." / ".." / "x", "", "relative"):
        ask_pods(real, RemoveContainerLogs(uid="u1", termination_log=str(path) if path else ""))
    assert not mine.exists()
    assert mine.parent.exists()
    assert other.exists()
    assert volume.exists()


def test_looking_through_250_pods_costs_little_more_than_the_bare_calls(real):
    for number in range(250):
        real.write(folder_of(real, f"00000000-0000-4000-8000-{number:012d}") / "0.log", [line(0)])

    def bare(folder=real.logs):
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir():
                    bare(entry.path)
                else:
                    entry.stat()

    def look():
        assert ask(real, FindLogs(limit_bytes=10 << 20)).logs == ()

    costs = {run: [] for run in (bare, look)}
    for _ in range(10):
        for run, took in costs.items():
            begun = time.thread_time()
            run()
            took.append(time.thread_time() - begun)
    assert min(costs[look]) < 3 * min(costs[bare])
