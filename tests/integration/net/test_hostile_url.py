"""The URL fetcher and servers that mean harm: one deadline and one limit hold over everything that a fetch does."""

import contextlib
import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from api.errors import DeniedError, OperatingError, RejectedError, TimedOutError, UnavailableError
from api.ports.urls import FetchManifests
from runtime.drivers.host.manifests.yamltext import read_document
from runtime.drivers.net import url
from runtime.drivers.net.url import UrlManifests
from runtime.net import resolver
from tests.harness.netpeer import HttpPeer

DEADLINE_S = 1.0
OK = b"HTTP/1.1 200 OK\r\n"
MOVED = b"HTTP/1.1 302 Found\r\nLocation: /again\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
SECRET = "s3cr3t"


@pytest.fixture
def peers():
    open_ = []

    def put_up(answer):
        open_.append(HttpPeer(answer))
        return open_[-1]

    yield put_up
    for peer in open_:
        peer.close()


def fetch(port, deadline_s=DEADLINE_S):
    call = FetchManifests(url=f"http://user:{SECRET}@127.0.0.1:{port}/x?token={SECRET}")
    return UrlManifests(read_document).perform(call, deadline_s)


def drip(begin, piece, pieces=None):
    """Return pieces that come one after the other, each long before a receiver alone would lose its patience."""

    def dripping():
        yield begin
        quiet = threading.Event()
        for _ in range(pieces) if pieces else itertools.count():
            if quiet.wait(DEADLINE_S / 20):
                return
            yield piece

    return dripping


def flood(begin, piece):
    """Return pieces that come as fast as they are read."""
    return lambda: itertools.chain((begin,), itertools.repeat(piece))


DRIPS = {
    "a status": drip(b"HTTP/1.1 200 ", b"O"),
    "a head": drip(OK, b"a: b\r\n"),
    "interim answers": drip(CONTINUE, CONTINUE),
    "a body": drip(OK + b"\r\n", b" "),
    "chunks": drip(OK + CHUNKED + b"\r\n", b"1\r\n \r\n"),
    "a chunk's extension": drip(OK + CHUNKED + b"\r\n1;", b"x"),
    "trailers": drip(OK + CHUNKED + b"\r\n1\r\n \r\n0\r\n", b"a: b\r\n"),
    "the body of a redirect": drip(MOVED + b"\r\n", b" "),
    "the body of an error": drip(b"HTTP/1.1 500 No\r\n\r\n", b" "),
}


@pytest.mark.parametrize("answer", DRIPS.values(), ids=DRIPS.keys())
def test_a_server_that_drips_costs_no_more_than_the_deadline(peers, answer):
    began = time.monotonic()
    with pytest.raises(OperatingError) as caught:
        fetch(peers(answer).port)
    assert time.monotonic() - began < DEADLINE_S + 2.0
    assert SECRET not in str(caught.value)


def test_redirects_that_each_take_their_time_share_one_deadline(peers):
    # Each answer comes whole within half of the deadline; ten of them would take five times as long as it.
    path = itertools.count()

    def answer():
        threading.Event().wait(DEADLINE_S / 2)
        yield f"HTTP/1.1 302 Found\r\nLocation: /{next(path)}\r\nContent-Length: 0\r\n\r\n".encode()

    began = time.monotonic()
    with pytest.raises(TimedOutError):
        fetch(peers(answer).port)
    assert time.monotonic() - began < DEADLINE_S + 2.0


FLOODS = {
    "one line of a head": flood(OK, b"a" * 65536),
    "a head": flood(OK, b"a: b\r\n" * 50),
    "interim answers": flood(CONTINUE, CONTINUE * 1000),
    "the heads of interim answers": flood(b"", b"HTTP/1.1 100 Continue\r\n" + b"a: b\r\n" * 50 + b"\r\n"),
    "a body": flood(OK + b"\r\n", b" " * 65536),
    "chunks": flood(OK + CHUNKED + b"\r\n", b"1\r\n \r\n" * 10000),
    "trailers": flood(OK + CHUNKED + b"\r\n1\r\n \r\n0\r\n", b"a: b\r\n" * 10000),
    "the body of a redirect": flood(MOVED + b"\r\n", b" " * 65536),
    "the body of an error": flood(b"HTTP/1.1 500 No\r\n\r\n", b" " * 65536),
    "the body of a 304": flood(b"HTTP/1.1 304 Same\r\n\r\n", b" " * 65536),
}


class Counting:
    """Counts what goes out."""

    def __init__(self, pieces):
        self._pieces, self.sent = pieces, 0

    def __call__(self):
        for piece in self._pieces():
            yield piece
            self.sent += len(piece)


def in_buffers():
    """Return how many bytes may wait in the buffers of both sockets, which the kernel lets grow as far as this."""
    return sum(
        int(Path(f"/proc/sys/net/ipv4/{name}").read_text().split()[2]) for name in ("tcp_rmem", "tcp_wmem")
    )


@pytest.mark.parametrize("answer", FLOODS.values(), ids=FLOODS.keys())
def test_of_a_server_that_floods_no_more_than_the_limit_is_read(peers, monkeypatch, answer):
    monkeypatch.setattr(url, "LIMIT_BYTES", 1 << 20)
    counting = Counting(answer)
    with pytest.raises(OperatingError) as caught:
        fetch(peers(counting).port, 20.0)
    assert not isinstance(caught.value, TimedOutError)
    assert counting.sent < (2 << 20) + in_buffers()
    assert SECRET not in str(caught.value)


def test_the_body_of_an_error_that_never_ends_does_not_hide_the_error(peers):
    with pytest.raises(DeniedError, match="403"):
        fetch(peers(flood(b"HTTP/1.1 403 No\r\n\r\n", b" " * 65536)).port, 20.0)


@pytest.mark.parametrize("length", [b"9" * 5000, b"-1", b"x", b"9" * 18])
def test_a_content_length_that_is_none_does_no_more_than_fail(peers, length):
    with contextlib.suppress(UnavailableError):
        assert fetch(peers(OK + b"Content-Length: " + length + b"\r\n\r\n").port, 20.0).document is None


def test_a_redirect_with_a_secret_in_it_shows_it_nowhere(peers):
    for to in (
        f"http://u:{SECRET}@127.0.0.1:1/x?{SECRET}",
        f"ftp://u:{SECRET}@h/",
        f"http://[{SECRET}",
        f"http://h:{SECRET}/",
    ):
        with pytest.raises(OperatingError) as caught:
            fetch(peers(f"HTTP/1.1 302 Found\r\nLocation: {to}\r\n\r\n".encode()).port, 10.0)
        assert SECRET not in str(caught.value)
        assert caught.value.__cause__ is None


def test_a_name_that_is_not_found_out_in_time_costs_no_more_than_the_deadline(monkeypatch):
    asked, answered = threading.Event(), threading.Event()

    def hang(*_):
        asked.set()
        answered.wait(30)
        raise OSError

    monkeypatch.setattr(resolver.socket, "getaddrinfo", hang)
    with ThreadPoolExecutor(1) as pool:
        try:
            call = FetchManifests(url="http://silent.test/x")
            ending = pool.submit(UrlManifests(read_document).perform, call, DEADLINE_S)
            assert asked.wait(10)
            assert isinstance(ending.exception(DEADLINE_S + 5.0), TimedOutError)
        finally:
            answered.set()


def test_what_is_over_the_limit_is_refused_by_its_size(peers, monkeypatch):
    monkeypatch.setattr(url, "LIMIT_BYTES", 1 << 20)
    with pytest.raises(RejectedError, match="1 MiB"):
        fetch(peers(flood(OK + b"\r\n", b" " * 65536)).port, 20.0)
