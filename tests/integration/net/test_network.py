"""The port ``net`` on real sockets, beyond what its conformance suite asks of every driver."""

import contextlib
import socket
import threading
from pathlib import Path

import pytest

from api.errors import FailureKind
from api.ports.net import UNREACHED, UNREADABLE, GrpcAnswer, GrpcHealth, HttpAnswer, HttpGet, TcpConnect
from runtime.drivers.net.network import Network
from runtime.edge import perform
from tests.harness.netpeer import GrpcPeer, HttpPeer, certificate, saying


@pytest.fixture
def net():
    port = Network()
    yield port
    port.close()


@pytest.fixture
def peer():
    server = HttpPeer(saying(200, b"ok"))
    yield server
    server.close()


def ask(net, call):
    """Return the result, or the failure."""
    over, ends = threading.Event(), []

    def done(result, failure):
        ends.append(result if failure is None else failure)
        over.set()

    net.begin(call, 30.0, done)
    assert over.wait(30)
    return ends[0]


def get(port, host="127.0.0.1", **more):
    return HttpGet(host=host, port=port, timeout_s=15.0, **more)


def test_a_name_is_looked_up(net, peer):
    assert ask(net, get(peer.port, "localhost")) == HttpAnswer(status=200, body=b"ok")
    failure = ask(net, get(peer.port, "no-such-host.invalid"))
    assert (failure.kind, failure.reason) == (FailureKind.UNAVAILABLE, UNREACHED)
    assert "lookup no-such-host.invalid" in failure.message


def test_an_address_of_version_six_is_asked(net):
    try:
        server = HttpPeer(saying(200), host="::1")
    except OSError:
        pytest.skip("this machine has no loopback address of version six")
    try:
        assert ask(net, get(server.port, "::1")).status == 200
        assert server.requests[0].split(b"\r\n")[1] == f"Host: [::1]:{server.port}".encode()
    finally:
        server.close()


@pytest.mark.parametrize(
    ("answer", "said", "reason"),
    [
        (b"", "EOF", ""),
        (b"SSH-2.0-x\r\n", 'malformed HTTP response "SSH-2.0-x', ""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal", "unexpected EOF", UNREADABLE),
    ],
)
def test_what_is_no_whole_answer_is_said_to_be_that(net, peer, answer, said, reason):
    peer.answer = answer
    failure = ask(net, get(peer.port, path="/x"))
    assert failure.kind is FailureKind.UNAVAILABLE
    assert failure.message.startswith(f'Get "http://127.0.0.1:{peer.port}/x": ')
    assert said in failure.message
    assert failure.reason == reason


def test_headers_arrive_and_their_values_are_in_no_text(net, peer):
    call = get(peer.port, headers=(("Authorization", "s3cret"), ("Host", "web.test")))
    assert ask(net, call).status == 200
    assert b"Authorization: s3cret\r\n" in peer.requests[0]
    assert peer.requests[0].count(b"Host:") == 1
    assert "s3cret" not in repr(call) + call.brief()
    failure = ask(net, get(peer.port, headers=(("A", "s3cret\n"),)))
    assert failure.kind is FailureKind.REJECTED
    assert "s3cret" not in failure.message


def test_a_tls_server_that_says_good_bye_and_stays_connected_has_answered(net, tmp_path):
    context = certificate(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with (
                contextlib.suppress(OSError),
                context.wrap_socket(listener.accept()[0], server_side=True) as sock,
            ):
                sock.recv(4096)
                sock.sendall(b"HTTP/1.1 200 OK\r\n\r\nall of it")
                # Says that nothing more comes, and waits for the other side to say so too.
                sock.unwrap()

        thread = threading.Thread(target=serve)
        thread.start()
        answer = ask(net, get(listener.getsockname()[1], scheme="https"))
        thread.join(20)
    assert answer == HttpAnswer(status=200, body=b"all of it")


def test_a_grpc_probe_of_a_server_that_speaks_something_else_fails(net, peer):
    failure = ask(net, GrpcHealth(host="127.0.0.1", port=peer.port, timeout_s=3.0))
    assert failure.kind in (FailureKind.UNAVAILABLE, FailureKind.TIMED_OUT)
    assert "health rpc" in failure.message


def test_a_server_without_the_health_service_is_said_to_be_that(net):
    server = GrpcPeer(None)
    try:
        failure = ask(net, GrpcHealth(host="127.0.0.1", port=server.port, timeout_s=15.0))
        said = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "
        assert failure.message.startswith(said)
    finally:
        server.close()


def test_a_health_status_of_a_later_protocol_is_its_number_and_words_without_end_are_shortened(net):
    server = GrpcPeer({"later": 77})
    try:
        call = GrpcHealth(host="127.0.0.1", port=server.port, service="later", timeout_s=15.0)
        assert ask(net, call) == GrpcAnswer(status="77")
        server.unknown = "words " * 1000
        failure = ask(net, GrpcHealth(host="127.0.0.1", port=server.port, service="none", timeout_s=15.0))
        assert failure.message.endswith("...")
        assert len(failure.message) < 1200
    finally:
        server.close()


def test_no_thread_is_needed_before_the_first_call_and_one_for_all(net, peer):
    names = [thread.name for thread in threading.enumerate()]
    assert "net" not in names
    for _ in range(20):
        ask(net, TcpConnect(host="127.0.0.1", port=peer.port, timeout_s=15.0))
    assert [thread.name for thread in threading.enumerate()].count("net") == 1


def test_a_closed_port_answers_at_once(net, peer):
    net.close()
    assert ask(net, get(peer.port)).kind is FailureKind.CANCELLED


def test_no_descriptor_is_left(net, peer):
    call = get(peer.port)
    perform(net, call, 30.0)
    before = descriptors()
    for _ in range(30):
        perform(net, call, 30.0)
        assert ask(net, TcpConnect(host="127.0.0.1", port=nobody(), timeout_s=15.0)).reason == UNREACHED
    # Only the server's own ends may come and go.
    assert descriptors() <= before + 5


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def nobody():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]
