"""The port ``podfiles``: files around a container, its last words, and the node's own files."""

import pytest

from api.errors import RejectedError
from api.ports.call import Done
from api.ports.podfiles import (
    ListPodFolders,
    PrepareContainer,
    ReadEnding,
    ReadNodeFiles,
    RemovePodFolders,
    TerminationMessage,
    ending_path,
    hosts_path,
)
from runtime.drivers.host.podfiles.podfolder import PodFolderDriver as FolderDriver
from runtime.drivers.memory.podfolder import MemoryPodFolders


class RealBench:
    def __init__(self, root):
        self.root = root
        self.port = FolderDriver(root / "pods", root / "logs")

    def write(self, path, content):
        self.at(path).parent.mkdir(parents=True, exist_ok=True)
        self.at(path).write_bytes(content)

    def write_log(self, path, lines):
        stamped = (b"2026-01-02T03:04:05.000000006Z stdout F " + line + b"\n" for line in lines)
        self.write(path, b"".join(stamped))

    def read(self, path):
        return self.at(path).read_bytes() if self.at(path).exists() else None

    def at(self, path):
        return self.root / path.removeprefix(f"{self.root}/")

    def put_node_file(self, path, text):
        if text is not None:
            self.write(path, text.encode())


class MemoryBench:
    def __init__(self, root):
        self.root = root
        self.port = MemoryPodFolders(f"{root}/logs", f"{root}/pods")

    def write(self, path, content):
        self.port.write(path, content)

    def write_log(self, path, lines):
        self.port.write(path, b"".join(line + b"\n" for line in lines))

    def read(self, path):
        return self.port.read(path)

    def put_node_file(self, path, text):
        self.port.put_node_file(path, text)


@pytest.fixture(params=[MemoryBench, RealBench], ids=["memory", "files"])
def bench(request, tmp_path):
    return request.param(tmp_path)


def ask(bench, call):
    return bench.port.perform(call, 5.0)


def prepare(bench, **more):
    return ask(bench, PrepareContainer(**{"uid": "u1", "container": "main", "attempt": 3, **more}))


def ending(bench, **more):
    call = {"uid": "u1", "container": "main", "termination_log": own_path(bench), **more}
    return ask(bench, ReadEnding(**call)).message


def own_path(bench, attempt=3):
    return ending_path(str(bench.root), "u1", "main", attempt)


def log_path(bench):
    return f"{bench.root}/logs/default_web_u1/main/3.log"


def test_a_prepared_container_has_an_empty_file_for_its_last_words_and_the_pods_hosts(bench):
    assert prepare(bench, hosts="127.0.0.1\tlocalhost\n") == Done()
    assert bench.read(own_path(bench)) == b""
    assert own_path(bench).endswith("/containers/main/00000003")
    assert bench.read(hosts_path(str(bench.root), "u1")) == b"127.0.0.1\tlocalhost\n"
    assert ask(bench, ListPodFolders()).uids == ("u1",)


def test_preparing_again_changes_the_hosts_and_keeps_the_last_words(bench):
    prepare(bench, hosts="one longer text\n")
    bench.write(own_path(bench), b"bye")
    prepare(bench, hosts="two\n")
    assert bench.read(hosts_path(str(bench.root), "u1")) == b"two\n"
    prepare(bench)
    assert bench.read(hosts_path(str(bench.root), "u1")) == b"two\n"
    assert bench.read(own_path(bench)) == b"bye"


def test_only_what_is_asked_for_is_made(bench):
    prepare(bench, ending=False)
    assert bench.read(own_path(bench)) is None
    assert bench.read(hosts_path(str(bench.root), "u1")) is None


@pytest.mark.parametrize(
    ("uid", "container", "attempt"),
    [
        ("..", "main", 0), ("a/b", "main", 0), ("u1", "..", 0), ("u1", "a/b", 0), ("u1", "", 0), ("u1", "x" * 64, 0),
        ("u1", "a\0", 0), ("u1", "a\n", 0), ("u1", "main", -1), ("u1", "main", 1 << 32),
    ],
)  # fmt: skip
def test_names_that_cannot_be_files_are_refused(bench, uid, container, attempt):
    with pytest.raises(RejectedError):
        ask(bench, PrepareContainer(uid=uid, container=container, attempt=attempt))


def test_the_pods_folders_go_with_the_files_in_them(bench):
    prepare(bench, hosts="x")
    ask(bench, RemovePodFolders(uid="u1"))
    assert bench.read(own_path(bench)) is None
    assert bench.read(hosts_path(str(bench.root), "u1")) is None


def test_last_words_are_the_last_4096_bytes(bench):
    bench.write(own_path(bench), b"x" * 5000 + b"end")
    assert ending(bench) == "x" * 4093 + "end"


def test_bytes_that_are_no_text_are_shown_as_such(bench):
    bench.write(own_path(bench), b"\xff\xfe ok")
    assert ending(bench) == "\ufffd\ufffd ok"


def test_who_left_nothing_has_no_last_words(bench):
    assert ending(bench) == ""
    assert ask(bench, ReadEnding(uid="u1", container="main")) == TerminationMessage()
    prepare(bench)
    assert ending(bench) == ""


def test_the_log_stands_in_only_when_asked_and_when_the_file_is_empty(bench):
    bench.write_log(log_path(bench), [b"first", b"last"])
    assert ending(bench, log_path=log_path(bench)) == ""
    assert ending(bench, log_path=log_path(bench), fall_back=True) == "first\nlast\n"
    bench.write(own_path(bench), b"said")
    assert ending(bench, log_path=log_path(bench), fall_back=True) == "said"


def test_the_log_is_cut_to_80_lines_and_2048_bytes(bench):
    bench.write_log(log_path(bench), [b"%d" % n for n in range(100)])
    assert ending(bench, log_path=log_path(bench), fall_back=True).split() == [str(n) for n in range(20, 100)]
    bench.write_log(log_path(bench), [b"a" * 1000, b"b" * 1000, b"c" * 1500])
    tail = ending(bench, log_path=log_path(bench), fall_back=True)
    assert len(tail) == 2048
    assert tail == "b" * 546 + "\n" + "c" * 1500 + "\n"


@pytest.mark.parametrize(
    "place",
    [
        "pods/u2/containers/main/00000003",
        "pods/u1/containers/other/00000003",
        "pods/u1/containers/main/secret",
        "pods/u1/containers/main/0000000G",
        "pods/u1/containers/main/deeper/00000003",
        "pods/u1/volumes/main/00000003",
        "elsewhere",
    ],
)
def test_a_file_that_no_agent_makes_for_this_container_is_not_read(bench, place):
    bench.write(f"{bench.root}/{place}", b"not yours")
    assert ending(bench, termination_log=f"{bench.root}/{place}") == ""


def test_last_words_of_a_container_that_another_agent_made_are_read_under_its_own_root(bench):
    path = f"{bench.root}/kubelet/pods/u1/containers/main/1a2b3c4d"
    bench.write(path, b"from before")
    assert ending(bench, termination_log=path) == "from before"


@pytest.mark.parametrize(
    "place",
    [
        "logs/default_web_u2/main/3.log",
        "logs/default_web_u1/other/3.log",
        "logs/default_web_u1/main/secret",
        "logs/default_web_u1/3.log",
        "u1/main/3.log",
    ],
)
def test_a_log_of_another_container_is_not_read(bench, place):
    bench.write_log(f"{bench.root}/{place}", [b"not yours"])
    assert ending(bench, log_path=f"{bench.root}/{place}", fall_back=True) == ""


def test_the_nodes_files_are_read_anew_each_time(bench):
    path = f"{bench.root}/resolv.conf"
    for server in ("192.0.2.1", "192.0.2.2"):
        bench.put_node_file(path, f"nameserver {server}\nsearch a.example b.example\noptions ndots:2\n")
        found = ask(bench, ReadNodeFiles(resolv_conf=path))
        assert found.resolver.servers == (server,)
        assert found.resolver.searches == ("a.example", "b.example")
        assert found.problems == ()
    assert "localhost" in found.hosts


def test_a_resolver_file_that_is_missing_is_a_problem_with_its_path(bench):
    found = ask(bench, ReadNodeFiles(resolv_conf=f"{bench.root}/nowhere"))
    assert found.resolver is None
    assert [(p.where, p.message) for p in found.problems] == [
        (f"{bench.root}/nowhere", "No such file or directory")
    ]


def test_without_a_path_no_resolver_file_is_read(bench):
    found = ask(bench, ReadNodeFiles(resolv_conf=""))
    assert (found.resolver, found.problems) == (None, ())
