"""The port ``net``: GETs, connections, health checks; each is over in time and says in a kubelet's words what failed."""

import threading
import time

import pytest

from api.errors import FailureKind
from api.ports.net import (
    PLAIN_HTTP,
    UNREACHED,
    GrpcAnswer,
    GrpcHealth,
    HttpAnswer,
    HttpGet,
    TcpConnect,
    TcpConnected,
)
from runtime.drivers.memory.net import Peer
from tests.conformance.net.bench import CALLS, DRIVERS, HOST


@pytest.fixture(params=sorted(DRIVERS))
def bench(request, tmp_path):
    bench = DRIVERS[request.param](tmp_path)
    yield bench
    bench.close()


class Asked:
    """A call under way, and how often it ended."""

    def __init__(self, bench, call):
        self.ends = []
        self._over = threading.Event()
        self.undo = bench.port.begin(call, 60.0, self._done)

    def _done(self, result, failure):
        self.ends.append((result, failure))
        self._over.set()

    def wait(self):
        assert self._over.wait(30), "the call never ended"
        return self.ends[0]


def ask(bench, call):
    return Asked(bench, call).wait()


def get(port, **more):
    return HttpGet(host=HOST, port=port, timeout_s=20.0, **more)


def test_an_answer_is_a_result_whatever_its_status(bench):
    for status in (200, 204, 404, 503):
        body = b"" if status == 204 else b"hello"
        port = bench.listen(Peer(status=status, body=body))
        assert ask(bench, get(port)) == (HttpAnswer(status=status, body=body), None)


def test_only_the_beginning_of_a_body_is_read(bench):
    port = bench.listen(Peer(body=b"x" * 300_000))
    answer, _ = ask(bench, get(port))
    assert answer == HttpAnswer(status=200, body=b"x" * (10 << 10), truncated=True)


def test_https_is_spoken_without_looking_at_the_certificate(bench):
    port = bench.listen(Peer(tls=True, body=b"secret"))
    assert ask(bench, get(port, scheme="https")) == (HttpAnswer(status=200, body=b"secret"), None)


def test_https_to_a_plain_server_is_said_to_be_that(bench):
    port = bench.listen(Peer())
    _, failure = ask(bench, get(port, scheme="https"))
    assert (failure.kind, failure.reason) == (FailureKind.UNAVAILABLE, PLAIN_HTTP)
    assert failure.message == f'Get "https://{HOST}:{port}/": http: server gave HTTP response to HTTPS client'


def test_a_redirect_on_the_same_host_is_followed(bench):
    end = bench.listen(Peer(body=b"here"))
    port = bench.listen(Peer(status=302, location=f"http://{HOST}:{end}/there"))
    assert ask(bench, get(port)) == (HttpAnswer(status=200, body=b"here"), None)


def test_a_redirect_that_leaves_the_host_is_the_answer(bench):
    port = bench.listen(Peer(status=301, body=b"away", location="http://other.test/"))
    assert ask(bench, get(port)) == (HttpAnswer(status=301, body=b"away"), None)


def test_redirects_in_a_circle_end(bench):
    port = bench.listen(Peer(status=307, location="/"))
    _, failure = ask(bench, get(port))
    assert failure.message.endswith("stopped after 10 redirects")


def test_a_connection_is_made_or_refused(bench):
    port = bench.listen(Peer())
    assert ask(bench, TcpConnect(host=HOST, port=port, timeout_s=20.0)) == (TcpConnected(), None)
    port = bench.nobody()
    _, failure = ask(bench, TcpConnect(host=HOST, port=port, timeout_s=20.0))
    assert (failure.kind, failure.reason) == (FailureKind.UNAVAILABLE, UNREACHED)
    assert failure.message == f"dial tcp {HOST}:{port}: connect: connection refused"


def test_a_get_of_nobody_says_so_as_a_kubelet_does(bench):
    port = bench.nobody()
    _, failure = ask(bench, get(port, path="healthz"))
    refused = f"dial tcp {HOST}:{port}: connect: connection refused"
    assert failure.message == f'Get "http://{HOST}:{port}/healthz": {refused}'
    assert failure.reason == UNREACHED


@pytest.mark.parametrize(("kind", "peer"), [("http", Peer(deaf=True)), ("http", Peer(dark=True)),
                                            ("tcp", Peer(dark=True)), ("grpc", Peer(deaf=True)),
                                            ("grpc", Peer(dark=True))])  # fmt: skip
def test_who_does_not_answer_costs_no_more_than_the_timeout(bench, kind, peer):
    port = bench.listen(peer)
    began = time.monotonic()
    _, failure = ask(bench, CALLS[kind](port, 0.3))
    assert time.monotonic() - began >= 0.25
    assert failure.kind is FailureKind.TIMED_OUT
    assert (failure.reason == UNREACHED) == peer.dark
    assert "timeout" in failure.message.lower()


def test_grpc_health_is_asked_per_service(bench):
    serving = (("", "SERVING"), ("ill", "NOT_SERVING"))
    port = bench.listen(Peer(grpc=True, serving=serving))
    for service, status in serving:
        call = GrpcHealth(host=HOST, port=port, service=service, timeout_s=20.0)
        assert ask(bench, call) == (GrpcAnswer(status=status), None)
    _, failure = ask(bench, GrpcHealth(host=HOST, port=port, service="none", timeout_s=20.0))
    assert (
        failure.message == "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"
    )


def test_grpc_to_nobody_is_said_to_be_that(bench):
    port = bench.nobody()
    _, failure = ask(bench, GrpcHealth(host=HOST, port=port, timeout_s=20.0))
    assert failure.message.startswith(f'error: failed to connect service at "{HOST}:{port}"')


@pytest.mark.parametrize("kind", sorted(CALLS))
def test_what_is_taken_back_ends_once_and_at_once(bench, kind):
    asked = Asked(bench, CALLS[kind](bench.listen(Peer(dark=True)), 25.0))
    began = time.monotonic()
    asked.undo()
    result, failure = asked.wait()
    assert result is None
    assert failure.kind is FailureKind.CANCELLED
    assert time.monotonic() - began < 20
    asked.undo()
    assert len(asked.ends) == 1


def test_an_unknown_scheme_is_refused(bench):
    _, failure = ask(bench, get(bench.nobody(), scheme="gopher"))
    assert failure.kind is FailureKind.REJECTED


def test_hundreds_at_once_all_end(bench):
    port = bench.listen(Peer())
    asked = [Asked(bench, get(port)) for _ in range(300)]
    assert {one.wait() for one in asked} == {(HttpAnswer(status=200, body=b"ok"), None)}
