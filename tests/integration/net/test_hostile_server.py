"""The port ``net`` beside servers that mean harm: each costs its own probe only, and no longer than its timeout."""

import itertools
import threading
import time

import pytest

from api.errors import FailureKind
from api.ports.net import UNREADABLE, HttpAnswer, HttpGet
from runtime.drivers.net.conversation import Conversation
from runtime.drivers.net.httpget import HttpConversation
from runtime.drivers.net.network import Network
from runtime.net.loop import Loop
from runtime.net.resolver import Resolver
from tests.harness.netpeer import HttpPeer, certificate, saying

TIMEOUT_S = 2.0
PATIENCE_S = 30.0
OK = b"HTTP/1.1 200 OK\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"


class Bugs(list):
    """Keeps what the port reports."""

    def __call__(self, what, error):
        self.append((what, error))


@pytest.fixture
def bugs():
    return Bugs()


@pytest.fixture
def net(bugs):
    port = Network(bugs)
    yield port
    port.close()


@pytest.fixture
def peers():
    open_ = []

    def put_up(answer, tls=None):
        open_.append(HttpPeer(answer, tls=tls))
        return open_[-1].port

    yield put_up
    for peer in open_:
        peer.close()


class Asked:
    """A call under way."""

    def __init__(self, net, call):
        self.over = threading.Event()
        self.began = time.monotonic()
        self.undo = net.begin(call, PATIENCE_S, self._done)

    def _done(self, result, failure):
        self.end, self.took_s = result if failure is None else failure, time.monotonic() - self.began
        self.over.set()

    def wait(self):
        assert self.over.wait(PATIENCE_S), "the call never ended"
        return self.end


def get(port, *, scheme="http", timeout_s=TIMEOUT_S):
    return HttpGet(host="127.0.0.1", port=port, scheme=scheme, timeout_s=timeout_s)


def drip(begin, piece):
    """Return pieces that come one after the other, each soon enough for whoever waits for the next one only."""

    def pieces():
        yield begin
        quiet = threading.Event()
        while not quiet.wait(0.01):
            yield piece

    return pieces


def flood(begin, piece):
    """Return pieces that come as fast as they are read."""
    return lambda: itertools.chain((begin,), itertools.repeat(piece))


FOREVER = {
    "drips interim answers": drip(INTERIM, INTERIM),
    "floods interim answers": flood(INTERIM, INTERIM * 600),
    "floods interim answers with heads": flood(b"", b"HTTP/1.1 103 Early Hints\r\n" + b"a: b\r\n" * 9000 + b"\r\n"),
    "drips a head": drip(OK, b"a: b\r\n"),
    "floods a head": flood(OK, b"a: b\r\n" * 2000),
    "floods one line of a head": flood(OK, b"a" * 16384),
    "drips a body": drip(OK + b"Content-Length: 9000\r\n\r\n", b"x"),
    "drips chunks": drip(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "drips a chunk's extension": drip(OK + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x"),
    "floods a chunk's extension": flood(OK + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x" * 16384),
}  # fmt: skip


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("answer", FOREVER.values(), ids=FOREVER.keys())
def test_a_server_that_never_ends_costs_its_own_probe_only(net, bugs, peers, tmp_path, scheme, answer):
    well = peers(saying(200, b"ok"))
    asked = Asked(
        net, get(peers(answer, certificate(tmp_path) if scheme == "https" else None), scheme=scheme)
    )
    others = 0
    while not asked.over.is_set() or not others:
        other = Asked(net, get(well, timeout_s=10.0))
        assert other.wait() == HttpAnswer(status=200, body=b"ok")
        others += 1
        assert time.monotonic() - asked.began < PATIENCE_S, "the hostile conversation outlived its timeout"
    assert asked.end.kind in (FailureKind.TIMED_OUT, FailureKind.UNAVAILABLE)
    assert asked.took_s < TIMEOUT_S + 3.0
    assert not bugs


LENGTHS = {
    "of 5,000 digits": (b"9" * 5000,),
    "of 40 digits": (b"9" * 40,),
    "negative": (b"-1",),
    "signed": (b"+5",),
    "with an underscore": (b"1_0",),
    "with foreign digits": ("٣".encode(),),
    "twice, and different": (b"5", b"6"),
    "empty": (b"",),
    "hexadecimal": (b"0x5",),
}


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
def test_a_content_length_that_is_none_is_a_failed_probe(net, bugs, peers, tmp_path, scheme, lengths):
    head = OK + b"".join(b"Content-Length: " + length + b"\r\n" for length in lengths)
    port = peers(head + b"\r\nhello", certificate(tmp_path) if scheme == "https" else None)
    failure = Asked(net, get(port, scheme=scheme, timeout_s=10.0)).wait()
    assert failure.kind is FailureKind.UNAVAILABLE
    assert failure.reason != UNREADABLE
    assert "Content-Length" in failure.message
    assert len(failure.message) < 500
    assert Asked(net, get(peers(saying(200)), timeout_s=10.0)).wait().status == 200
    assert not bugs


def test_a_content_length_that_is_repeated_counts_once(net, peers):
    answer = OK + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"
    assert Asked(net, get(peers(answer), timeout_s=10.0)).wait() == HttpAnswer(status=200, body=b"hello")


def test_five_interim_answers_are_taken_and_a_sixth_is_one_too_many(net, peers):
    assert Asked(net, get(peers(INTERIM * 5 + saying(200)), timeout_s=10.0)).wait().status == 200
    failure = Asked(net, get(peers(INTERIM * 6 + saying(200)), timeout_s=10.0)).wait()
    assert failure.kind is FailureKind.UNAVAILABLE
    assert failure.message.endswith("too many 1xx informational responses")


def test_a_tls_server_that_sends_garbage_after_the_handshake_costs_its_own_probe_only(net, bugs, peers):
    # A record that says it is a handshake, again and again: not one of them is whole.
    records = flood(b"\x16\x03\x03\x40\x00", b"\x02" * 16384)
    failure = Asked(net, get(peers(records), scheme="https")).wait()
    assert failure.kind in (FailureKind.TIMED_OUT, FailureKind.UNAVAILABLE)
    assert Asked(net, get(peers(saying(200)), timeout_s=10.0)).wait().status == 200
    assert not bugs


class Broken(Conversation):
    """Raises what nobody foresaw, when it is reached or when its time is up."""

    def reached(self, sock):
        raise LookupError("a secret stands here")

    def late(self):
        raise LookupError("a secret stands here")


@pytest.mark.parametrize("timeout_s", [10.0, 0.0], ids=["when it is reached", "when its time is up"])
def test_a_bug_in_one_conversation_ends_that_one_with_a_failure_and_a_line(bugs, peers, timeout_s):
    lost, over, ends = threading.Event(), threading.Event(), []
    loop = Loop("net", lost.set)

    def done(result, failure):
        ends.append(failure)
        if len(ends) == 2:
            over.set()

    port = peers(None)
    try:
        slow = HttpConversation(loop, Resolver(), get(port, timeout_s=20.0), 20.0, done, bugs)
        loop.submit(slow.begin)
        broken = Broken(loop, Resolver(), timeout_s, done, bugs)
        loop.submit(lambda: broken.start("127.0.0.1", port))
        loop.submit(slow.cancel)
        assert over.wait(PATIENCE_S)
    finally:
        loop.stop(PATIENCE_S)
    failure, cancelled = ends
    assert failure.kind is FailureKind.UNAVAILABLE
    assert "LookupError" in failure.message
    assert "secret" not in failure.message
    assert [type(error) for _, error in bugs] == [LookupError]
    assert cancelled.kind is FailureKind.CANCELLED
