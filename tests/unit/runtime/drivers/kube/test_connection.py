"""Connections of the driver of the port ``kube``: what a server, or the way to it, may do to them."""

import contextlib
import queue
import socket
import ssl
import threading
import time

import h2.events
import h11
import hyperframe.frame
import pytest

from api.errors import FailureKind, RejectedError, UnavailableError
from api.ports.kube import CreateObject, GetObject, KubeObject, ObjectPath, PatchObject, WatchChecked
from runtime.drivers.kube import identity, link, session
from runtime.drivers.kube.goodbye import GoodbyeError, Goodbyes
from runtime.drivers.kube.identity import Identity
from runtime.drivers.kube.tls import settings_of
from runtime.net.kubeaccess import Access
from runtime.net.resolver import Address
from tests.harness.kubebench import NODE, POD_STATUS, Collection, event, images, page, pod
from tests.harness.kubepeer import PeerConnection, make_certificate
from tests.harness.wait import until


def begun(bench, call, deadline_s=20.0):
    answers = queue.SimpleQueue()
    bench.driver.begin(call, deadline_s, lambda result, failure: answers.put((result, failure)))
    return answers


# ---------------------------------------------------------------- HTTP/2


def test_a_server_that_says_goodbye_answers_what_it_was_asked_before(make):
    held = queue.SimpleQueue()
    bench = make(held.put)
    answers = begun(bench, PatchObject(path=POD_STATUS, body=b"x" * 100_000))
    asked = held.get(timeout=10.0)
    asked.connection.retire()
    bench.peer.handle = lambda later: later.answer(body=b"2")
    until(
        lambda: bench.ask(GetObject(path=NODE)) and len(bench.peer.connections) == 2, "a new connection", 5.0
    )
    asked.answer(body=b"1" * 200_000)
    assert answers.get(timeout=10.0) == (KubeObject(body=b"1" * 200_000), None)
    assert asked.connection.gone.wait(5.0), "a connection without requests is closed"


def test_a_write_that_the_server_did_not_take_on_is_sent_again(make):
    def handle(asked):
        if len(bench.peer.connections) == 1:
            asked.connection.retire(last=0)
        else:
            asked.answer(body=asked.body)

    bench = make(handle)
    assert bench.ask(PatchObject(path=POD_STATUS, body=b"12")) == b"12"


def test_a_write_that_the_server_never_takes_on_is_unavailable(make):
    bench = make(lambda asked: asked.connection.refuse(asked.stream))
    with pytest.raises(
        UnavailableError, match=r"PATCH default/pods/a/status: .* did not take the request on"
    ):
        bench.ask(PatchObject(path=POD_STATUS, body=b"{}"))
    assert len(bench.peer.requests) == 4


def test_a_watch_goes_on_where_the_server_moves_its_clients_to(make):
    served = Collection(page(pod("a")))
    bench = make(served)
    bench.listen(bench.driver.pods)
    assert bench.pushed.get(timeout=10.0) == WatchChecked()
    bench.next()
    served.watch().connection.retire(last=0)
    served.watch().say(event("MODIFIED", pod("a", "11", "j")))
    assert images(bench.pushed.get(timeout=10.0)) == {"a": "j"}, "nothing failed"
    assert len(served.lists) == 1


GOAWAY = hyperframe.frame.GoAwayFrame(0, last_stream_id=7, additional_data=b"why" * 30).serialize()
PING = hyperframe.frame.PingFrame(0, opaque_data=b"12345678").serialize()


@pytest.mark.parametrize("size", [1, 2, 7, 9, 10, 1000])
def test_goodbyes_are_found_wherever_the_bytes_are_cut(size):
    data = PING + GOAWAY + PING + PING + GOAWAY
    splitter, rest, found = Goodbyes(), b"", []
    for at in range(0, len(data), size):
        other, last = splitter.split(data[at : at + size])
        rest += other
        found += last
    assert (rest, found) == (PING * 3, [7, 7])


def test_a_goodbye_that_is_too_short_ends_the_connection():
    with pytest.raises(GoodbyeError):
        Goodbyes().split(b"\0\0\4\7\0\0\0\0\0" + b"\0" * 4)


def test_an_answer_before_the_end_of_the_request_leaves_no_stream_behind(make, monkeypatch):
    take = PeerConnection.take

    def early(self, event):
        if isinstance(event, h2.events.DataReceived):
            return
        take(self, event)
        if isinstance(event, h2.events.RequestReceived):
            self.asked[event.stream_id].answer(201, b"{}")

    monkeypatch.setattr(PeerConnection, "take", early)
    bench = make(lambda asked: None)
    for _ in range(3):
        bench.ask(CreateObject(path=ObjectPath(plural="nodes"), body=b"x" * 20_000))
    bench.ask(CreateObject(path=ObjectPath(plural="nodes"), body=b"x" * 200_000))
    (one,) = bench.driver._client._main._sessions
    assert one._protocol._h2.open_outbound_streams == 0


def test_hundreds_of_requests_wait_for_the_first_connection(make, monkeypatch):
    monkeypatch.setattr("runtime.drivers.kube.http2.AT_ONCE", 400)
    monkeypatch.setattr(PeerConnection, "MAY_ASK_AT_ONCE", 400)
    bench = make(lambda asked: asked.answer(body=asked.target.encode()), qps=10_000, burst=10_000)
    waiting = [
        begun(bench, GetObject(path=ObjectPath(plural="nodes", name=f"n{number}"))) for number in range(400)
    ]
    for number, answers in enumerate(waiting):
        assert answers.get(timeout=20.0)[0].body == f"/api/v1/nodes/n{number}".encode()
    assert len(bench.peer.connections) == 1


def test_a_slow_watch_does_not_hold_up_other_answers(make):
    held = queue.SimpleQueue()

    def handle(asked):
        if "first" in asked.target:
            asked.answer(body=b"x" * 10, end=False)
            held.put(asked)
        else:
            asked.answer(body=b"y" * (2 << 20))

    bench = make(handle)
    answers = begun(bench, GetObject(path=ObjectPath(plural="nodes", name="first")))
    asked = held.get(timeout=10.0)
    for _ in range(12):
        assert len(bench.ask(GetObject(path=NODE))) == 2 << 20
    asked.say(b"z", end=True)
    assert answers.get(timeout=10.0)[0].body == b"x" * 10 + b"z"


def test_a_server_that_reads_nothing_and_asks_for_answers_is_left(make, monkeypatch):
    monkeypatch.setattr(session, "OUT_LIMIT_BYTES", 64 << 10)
    pings = PING * 2_000

    def handle(asked):
        with asked.connection.lock:
            while True:
                asked.connection.sock.sendall(pings)

    bench = make(handle)
    _, failure = begun(bench, PatchObject(path=POD_STATUS, body=b"{}"), 60.0).get(timeout=60.0)
    assert (failure.kind, "reads nothing" in failure.message) == (FailureKind.TIMED_OUT, True)


def test_a_server_that_ends_tls_without_hanging_up_is_left(make):
    bench = make(lambda asked: asked.answer(body=b"{}"))
    bench.ask(GetObject(path=NODE))
    sock = bench.peer.connections[0].sock

    def close_notify():
        with contextlib.suppress(OSError):
            sock.unwrap()

    threading.Thread(target=close_notify, daemon=True).start()
    until(lambda: not bench.driver._client._main._sessions, "the connection is left", 5.0)
    bench.ask(GetObject(path=NODE))
    assert len(bench.peer.connections) == 2


# ---------------------------------------------------------------- HTTP/1


def test_connections_of_http1_make_room_for_who_waits(make, monkeypatch):
    monkeypatch.setattr(link, "SESSIONS", 2)
    gates = {b"1": threading.Event(), b"2": threading.Event(), b"3": threading.Event()}
    seen = queue.SimpleQueue()

    def serve(self):
        machine = h11.Connection(h11.SERVER)
        while (event := machine.next_event()) is h11.NEED_DATA:
            machine.receive_data(self.sock.recv(65536))
        name = event.target[-1:]
        seen.put(name)
        gates[name].wait(20.0)
        head = h11.Response(status_code=200, headers=[("content-length", "2"), ("connection", "close")])
        self.sock.sendall(machine.send(head) + machine.send(h11.Data(data=b"{}")))

    monkeypatch.setattr(PeerConnection, "serve", serve)
    bench = make(lambda asked: None, protocol="http/1.1")
    # Tickets would come at any time, and each reception gives who waits another chance.
    bench.peer._tls.num_tickets = 0
    waiting = [begun(bench, GetObject(path=ObjectPath(plural="nodes", name=str(n)))) for n in (1, 2, 3)]
    assert {seen.get(timeout=10.0), seen.get(timeout=10.0)} == {b"1", b"2"}
    gates[b"1"].set()
    gates[b"3"].set()
    assert waiting[0].get(timeout=10.0)[1] is None
    assert waiting[2].get(timeout=10.0)[1] is None, "it does not wait for the newest connection"
    gates[b"2"].set()
    assert waiting[1].get(timeout=10.0)[1] is None


# ---------------------------------------------------------------- rate


def test_requests_whose_time_is_over_take_nothing_from_the_rate(make):
    bench = make(lambda asked: asked.answer(body=b"{}"), qps=4.0, burst=1)
    waiting = [begun(bench, GetObject(path=NODE), 0.2) for _ in range(40)]
    kinds = [answers.get(timeout=10.0)[1] for answers in waiting]
    assert kinds[0] is None
    assert kinds[-1].kind is FailureKind.UNAVAILABLE
    assert bench.ask(GetObject(path=NODE), 3.0) == b"{}"


# ---------------------------------------------------------------- the way


def test_an_address_that_swallows_packets_does_not_keep_the_next_from_being_tried(make, monkeypatch):
    monkeypatch.setattr(session, "ADDRESS_S", 0.3)
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        bench = make(
            lambda asked: asked.answer(body=b"{}"),
            find=lambda: Access(
                server=bench.peer.server.replace("127.0.0.1", "api.test"),
                ca=bench.peer.ca,
                server_name="127.0.0.1",
            ),
        )
        port = int(bench.peer.server.rpartition(":")[2])
        addresses = (
            Address(socket.AF_INET, full.getsockname()),
            Address(socket.AF_INET, ("127.0.0.1", port)),
        )
        monkeypatch.setattr(
            bench.driver._client._main._resolver, "ask", lambda host, port, found: found(addresses, "")
        )
        assert bench.ask(GetObject(path=NODE), 8.0) == b"{}"


# ---------------------------------------------------------------- identity


class Alarms:
    """Takes the place of a loop: what is to be done later is done when the test says."""

    def __init__(self):
        self.later, self.work = [], queue.SimpleQueue()

    def after(self, seconds, then):
        self.later.append((seconds, then))

    def submit(self, work):
        self.work.put(work)
        return True

    def ring(self):
        due, self.later = self.later, []
        for _, then in due:
            then()
            with contextlib.suppress(queue.Empty):
                self.work.get(timeout=0.2)()

    def settle(self):
        self.work.get(timeout=5.0)()


def test_an_identity_is_found_out_again_once_however_often_it_was_asked_for():
    alarms, asked = Alarms(), []
    access = Access(server="https://127.0.0.1", token="t", expires_at=time.time() + 300)

    def find():
        asked.append(1)
        return access

    known = Identity(alarms, find, lambda: None, lambda _: None)
    for _ in range(3):
        known._ask()
        alarms.settle()
    assert len(asked) == 3
    alarms.ring()
    assert len(asked) == 4


def test_an_identity_that_could_not_be_found_out_again_is_looked_for_soon():
    alarms, failing = Alarms(), [False]

    def find():
        if failing[0]:
            raise RejectedError("the plugin failed")
        return Access(server="https://127.0.0.1", token="t", expires_at=time.time() + 300)

    known = Identity(alarms, find, lambda: None, lambda _: None)
    known._ask()
    alarms.settle()
    failing[0] = True
    alarms.ring()
    assert [seconds for seconds, _ in alarms.later] == [identity.AGAIN_S]


def test_authorities_that_do_not_fit_are_read_again(make, monkeypatch, tmp_path):
    monkeypatch.setattr(identity, "AGAIN_S", 0.0)
    (tmp_path / "other").mkdir()
    other, found = make_certificate(tmp_path / "other"), []

    def find():
        found.append(1)
        return Access(server=bench.peer.server, ca=other if len(found) == 1 else bench.peer.ca)

    bench = make(lambda asked: asked.answer(body=b"{}"), find=find)

    def works():
        with contextlib.suppress(UnavailableError):
            return bench.ask(GetObject(path=NODE), 2.0)

    assert until(works, "the authorities are read again", 10.0) == b"{}"


def test_authorities_may_have_comments_in_any_language(tmp_path):
    ca = make_certificate(tmp_path)
    settings = settings_of(Access(server="https://127.0.0.1", ca="# Behörde des Clusters\n".encode() + ca))
    assert settings.verify_mode is ssl.CERT_REQUIRED
    assert len(settings.get_ca_certs()) == 1


def test_a_name_that_no_certificate_can_have_is_refused_with_the_setting_that_has_it():
    with pytest.raises(RejectedError, match="tls-server-name"):
        settings_of(Access(server="https://127.0.0.1", server_name=".example", insecure=True))


# ---------------------------------------------------------------- paths


def test_a_name_of_a_pod_that_is_no_name_stays_one_word_of_the_path(make):
    bench = make(lambda asked: asked.answer(body=asked.target.encode()))
    path = ObjectPath(plural="secrets", namespace="a/../b", name="x y?z\r\n#é")
    assert (
        bench.ask(GetObject(path=path)) == b"/api/v1/namespaces/a%2F..%2Fb/secrets/x%20y%3Fz%0D%0A%23%C3%A9"
    )
    path = ObjectPath(
        api_version="coordination.k8s.io/v1", plural="leases", namespace="kube-node-lease", name="n.1"
    )
    assert path.url() == "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n.1"
