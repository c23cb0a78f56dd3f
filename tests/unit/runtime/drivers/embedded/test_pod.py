"""The keeper's own loop: what goes wrong in one turn of it."""

import socket
import time

import pytest

from runtime.drivers.embedded.keeper import store
from runtime.drivers.embedded.keeper.cgroup import Survey
from runtime.drivers.embedded.keeper.loop import KeeperLoop
from runtime.drivers.embedded.keeper.pod import Keeper


@pytest.fixture
def keeper(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    near, far = socket.socketpair()
    with near, far:
        yield Keeper("id", str(tmp_path), Survey((), (), ()), None, near)


def test_an_error_that_no_one_expected_is_written_down_and_ends_no_keeper(keeper, tmp_path):
    called = []
    keeper._loop.at(time.monotonic(), lambda: 1 / 0)
    keeper._loop.at(time.monotonic(), lambda: called.append(1))
    keeper._step()
    keeper._step()
    assert called == [1]
    assert "ZeroDivisionError" in (tmp_path / store.TROUBLE).read_text()


def test_an_instant_beyond_what_a_selector_waits_for_is_no_error():
    loop, called = KeeperLoop(), []
    loop.at(time.monotonic() + 60 * 86_400, lambda: called.append("in two months"))
    near, far = socket.socketpair()
    with near, far:
        loop.watch(near, lambda _: called.append("now"))
        far.send(b"x")
        loop.turn()
    assert called == ["now"]
