"""An identity whose files change on disk: it is read again within seconds, and a half-written file changes nothing."""

import json
import os

import pytest

from api.errors import RejectedError
from api.ports.kube import GetObject
from runtime.drivers.kube import identity
from runtime.net.kubeaccess import Access, AccessFile, file_mark
from tests.harness.kubebench import NODE
from tests.harness.wait import until


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(identity, "LOOK_S", 0.05)
    monkeypatch.setattr(identity, "AGAIN_S", 0.3)


class TokenFile:
    """An access whose token is what a file says; a file that is no token is refused."""

    def __init__(self, bench, path):
        self.bench, self.path, self.finds, self.renewals = bench, path, 0, []

    def __call__(self):
        self.finds += 1
        mark = file_mark(str(self.path))
        content = self.path.read_text()
        if not content.endswith("\n"):
            raise RejectedError(f"{self.path}: it is half written")
        peer = self.bench().peer
        return Access(
            server=peer.server,
            ca=peer.ca,
            token=content.strip(),
            files=(AccessFile(path=str(self.path), mark=mark),),
        )


@pytest.fixture
def member(make, tmp_path):
    """Return a bench whose peer says which token it was asked with, and the file of the token."""

    def bench_on(path):
        made = []
        find = TokenFile(lambda: made[0], path)
        made.append(
            make(
                lambda asked: asked.answer(body=json.dumps(asked.headers["authorization"]).encode()),
                find=find,
                renewed=lambda failure: find.renewals.append(failure and failure.message),
            )
        )
        return made[0], find

    return bench_on


def token(bench):
    return json.loads(bench.ask(GetObject(path=NODE))).removeprefix("Bearer ")


def renamed_over(folder, path):
    (folder / "next").write_text("second\n")
    (folder / "next").rename(path)


def written_in_place(_, path):
    path.write_text("second\n")


def link_swapped(folder, _):
    (folder / "2").mkdir()
    (folder / "2" / "token").write_text("second\n")
    (folder / "..new").symlink_to("2")
    (folder / "..new").rename(folder / "..data")


@pytest.mark.parametrize("change", [renamed_over, written_in_place, link_swapped])
def test_a_changed_file_is_read_again_and_connections_are_made_again(member, tmp_path, change):
    path = tmp_path / "token"
    if change is link_swapped:
        # As the kubelet's own volumes of Secrets: a link to a file behind a link to a folder.
        (tmp_path / "1").mkdir()
        (tmp_path / "1" / "token").write_text("first\n")
        (tmp_path / "..data").symlink_to("1")
        path.symlink_to("..data/token")
    else:
        path.write_text("first\n")
    bench, find = member(path)
    assert token(bench) == "first"
    change(tmp_path, path)
    until(lambda: token(bench) == "second", "the new token is used", 5.0)
    assert len(bench.peer.connections) == 2
    assert (find.finds, find.renewals) == (2, [None])


def test_a_file_that_stays_costs_no_reading_and_one_of_the_same_content_no_connection(member, tmp_path):
    path = tmp_path / "token"
    path.write_text("first\n")
    bench, find = member(path)
    assert token(bench) == "first"
    os.utime(path, ns=(1, 1))
    until(lambda: find.finds == 2, "it is read again", 5.0)
    with pytest.raises(AssertionError):
        until(lambda: find.finds > 2, "it is read once more", 0.5)
    assert token(bench) == "first"
    assert len(bench.peer.connections) == 1
    assert find.renewals == []


def test_a_half_written_file_keeps_the_identity_is_told_once_and_tried_again(member, tmp_path):
    path = tmp_path / "token"
    path.write_text("first\n")
    bench, find = member(path)
    assert token(bench) == "first"
    path.write_text("sec")
    until(lambda: find.finds >= 4, "it is tried again though it stays so", 5.0)
    assert token(bench) == "first"
    assert find.renewals == [f"{path}: it is half written"]
    path.write_text("second\n")
    until(lambda: token(bench) == "second", "the new token is used", 5.0)
    assert find.renewals[1:] == [None]


def test_a_file_that_went_away_and_came_back_as_it_was_is_the_end_of_the_trouble(member, tmp_path):
    path = tmp_path / "token"
    path.write_text("first\n")
    bench, find = member(path)
    assert token(bench) == "first"
    path.write_text("no")
    until(lambda: find.renewals, "it is told", 5.0)
    path.write_text("first\n")
    until(lambda: len(find.renewals) == 2, "that it works is told", 5.0)
    assert find.renewals[1] is None
    assert len(bench.peer.connections) == 1
