"""Which requests for streams of a command reach the runtime, and as what."""

import json

import pytest

from api.errors import RejectedError, UnavailableError
from runtime.server.streaming import exec_streams
from runtime.server.wire import Request, RequestRefusedError
from tests.harness.world.window import PlainWindow


class Window(PlainWindow):
    """A window whose commands are at an address that nobody can use."""

    def __init__(self, url="https://127.0.0.1:1/token"):
        super().__init__()
        self.url, self.opened = url, []

    def open_exec(self, pod, container, command, *, tty, stdin, stdout, stderr):
        self.opened.append((pod, container, command, tty, stdin, stdout, stderr))
        return self.url


def request(query, upgrade="SPDY/3.1"):
    pairs = tuple(tuple(pair.split("=")) for pair in query.split("&") if pair)
    return Request(method="GET", segments=("exec", "-", "web", "main"), query=pairs, upgrade=upgrade)


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("command=sh&input=1&output=1&error=1", (False, True, True, True)),
        ("command=sh&stdin=true&stdout=true&tty=true&stderr=true", (True, True, True, False)),
        ("command=sh&error=1", (False, False, False, True)),
    ],
)
def test_both_spellings_of_the_streams_are_asked_of_the_runtime(query, asked):
    window = Window()
    with pytest.raises(RejectedError, match="must be plain http"):
        exec_streams(window, request(query))
    assert window.opened == [("web", "main", ("sh",), *asked)]


@pytest.mark.parametrize(
    ("query", "upgrade", "reason"),
    [
        ("command=sh&stdout=1", "h2c", "UpgradeRequired"),
        ("stdout=1", "websocket", "BadQuery"),
        ("command=&stdout=1", "websocket", "BadQuery"),
        ("command=sh", "SPDY/3.1", "BadQuery"),
        ("command=sh&tty=1&error=1", "SPDY/3.1", "BadQuery"),
    ],
)
def test_a_request_without_command_streams_or_protocol_prepares_nothing(query, upgrade, reason):
    window = Window()
    with pytest.raises(RequestRefusedError) as refused:
        exec_streams(window, request(query, upgrade))
    assert json.loads(refused.value.response.body)["reason"] == reason
    assert window.opened == []


def test_an_endpoint_that_is_away_is_told_without_its_address():
    with pytest.raises(UnavailableError) as away:
        exec_streams(Window("http://127.0.0.1:1/secret-token"), request("command=sh&stdout=1"))
    assert "secret-token" not in str(away.value)
