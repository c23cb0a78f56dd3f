"""The driver of the port ``kube`` before a server that answers as a test says: what is asked, and what each fault becomes."""

import contextlib
import json
import queue
import threading

import h11
import pytest

from api.errors import DeniedError, FailureKind, NotFoundError, RejectedError, TimedOutError, UnavailableError
from api.ports.kube import (
    ApiNodeListed,
    CreateObject,
    GetObject,
    KubeObject,
    ObjectPath,
    PatchObject,
    WatchChecked,
)
from runtime.drivers.kube import client, link, reflector, session
from runtime.net.kubeaccess import Access
from tests.harness.kubebench import NODE, POD_STATUS, Collection, event, images, page, pod, status
from tests.harness.wait import until


def test_requests_share_a_connection_and_heartbeats_have_their_own(make):
    gate = threading.Barrier(3, timeout=10.0)

    def handle(asked):
        gate.wait()
        asked.answer(body=asked.target.encode())

    bench = make(handle)
    answers = queue.SimpleQueue()
    for name, heartbeat in (("a", False), ("b", False), ("c", True)):
        call = GetObject(path=ObjectPath(plural="nodes", name=name), heartbeat=heartbeat)
        bench.driver.begin(call, 5.0, lambda result, failure: answers.put((result, failure)))
    assert {answers.get(timeout=10.0)[0].body for _ in range(3)} == {
        b"/api/v1/nodes/a", b"/api/v1/nodes/b", b"/api/v1/nodes/c"
    }  # fmt: skip
    assert len(bench.peer.connections) == 2
    assert {asked.headers["authorization"] for asked in bench.peer.requests} == {"Bearer first"}


def test_a_body_goes_out_whole_whatever_the_window(make):
    bench = make(lambda asked: asked.answer(201, asked.body[-3:]))
    call = CreateObject(path=ObjectPath(plural="nodes"), body=b"x" * 400_000 + b"end")
    assert bench.ask(call) == b"end"
    (asked,) = bench.peer.requests
    assert (asked.method, len(asked.body), asked.headers["content-type"]) == (
        "POST",
        400_003,
        "application/json",
    )


@pytest.mark.parametrize(
    ("code", "body", "kind", "reason"),
    [
        (404, status(404, "NotFound"), NotFoundError, "NotFound"),
        (403, status(403, "Forbidden"), DeniedError, "Forbidden"),
        (422, status(422, "Invalid"), RejectedError, "Invalid"),
        (429, status(429, "TooManyRequests"), UnavailableError, "TooManyRequests"),
        (500, status(500, "InternalError"), UnavailableError, "InternalError"),
        (502, b"<html>bad gateway</html>", UnavailableError, ""),
        (200, b"x" * (4 << 20), RejectedError, ""),
        (500, b"x" * (1 << 20), RejectedError, ""),
    ],
)
def test_each_answer_that_is_no_object_is_one_clear_failure(make, code, body, kind, reason):
    bench = make(lambda asked: asked.answer(code, body, media="text/html"))
    with pytest.raises(kind) as caught:
        bench.ask(GetObject(path=NODE))
    assert caught.value.reason == reason
    assert "GET nodes/n1" in str(caught.value)
    assert len(str(caught.value)) < 700


def test_what_no_api_server_answers_is_named_with_its_address(make):
    bench = make(lambda asked: asked.answer(302, b"<html>", media="text/html; charset=x"))
    with pytest.raises(
        UnavailableError, match=r"127.0.0.1.* answered 302 with text/html, as no Kubernetes API server"
    ):
        bench.ask(GetObject(path=NODE))


def test_a_refused_identity_is_looked_for_again_and_the_request_repeated(make):
    def handle(asked):
        if asked.headers["authorization"] == "Bearer first":
            asked.answer(401, status(401, "Unauthorized"))
        else:
            asked.answer(body=b"{}")

    tokens = iter(("first", "second"))
    bench = make(handle, find=lambda: Access(server=bench.peer.server, ca=bench.peer.ca, token=next(tokens)))
    bench.driver._client._identity._asked_at = float("-inf")
    with contextlib.suppress(DeniedError):
        bench.ask(GetObject(path=NODE))
    bench.driver._client._identity._asked_at = float("-inf")
    assert bench.ask(GetObject(path=NODE)) == b"{}"


def test_an_unknown_authority_is_named_with_what_to_do(make):
    bench = make(lambda asked: asked.answer(), find=lambda: Access(server=bench.peer.server))
    with pytest.raises(
        UnavailableError, match=r"not trusted: .*; set certificate-authority in the kubeconfig"
    ):
        bench.ask(GetObject(path=NODE))


def test_a_name_that_the_certificate_lacks_is_named_with_what_to_do(make):
    bench = make(
        lambda asked: asked.answer(),
        find=lambda: Access(server=bench.peer.server.replace("127.0.0.1", "localhost"), ca=bench.peer.ca),
    )
    with pytest.raises(
        UnavailableError, match=r"Hostname mismatch.*; name the server as its certificate does"
    ):
        bench.ask(GetObject(path=NODE))


def test_a_server_that_is_away_fails_at_once_and_is_found_when_it_is_back(make, tmp_path):
    bench = make(lambda asked: asked.answer(body=b"{}"))
    bench.peer.close()
    with pytest.raises(UnavailableError, match="cannot be reached: connection refused"):
        bench.ask(GetObject(path=NODE))


def test_no_answer_in_time_says_whether_the_request_was_sent(make):
    bench = make(lambda asked: None)
    with pytest.raises(TimedOutError, match=r"PATCH default/pods/a/status: .* did not answer within 0.285 s"):
        bench.ask(PatchObject(path=POD_STATUS, body=b"{}"), 0.3)
    (asked,) = bench.peer.requests
    assert asked.was_reset.wait(5.0), "the server need not go on with it"


def test_the_driver_has_answered_when_who_asked_gives_the_call_up(make):
    bench = make(lambda asked: None)
    answers = queue.SimpleQueue()
    call = GetObject(path=NODE, heartbeat=True)
    bench.driver.begin(call, 2.0, lambda result, failure: answers.put(failure))
    failure = answers.get(timeout=2.0)
    assert failure.kind is FailureKind.TIMED_OUT
    assert "GET nodes/n1" in failure.message


def test_a_request_that_is_taken_back_is_reset(make):
    bench = make(lambda asked: None)
    answers = queue.SimpleQueue()
    undo = bench.driver.begin(GetObject(path=NODE), 30.0, lambda result, failure: answers.put(failure))
    until(lambda: bench.peer.requests, "it is asked", 5.0)
    undo()
    assert answers.get(timeout=5.0).kind is FailureKind.CANCELLED
    assert bench.peer.requests[0].was_reset.wait(5.0)


def test_a_write_whose_connection_breaks_may_have_been_done_and_a_read_is_repeated(make):
    broken = threading.Event()

    def handle(asked):
        if not broken.is_set():
            broken.set()
            asked.connection.drop()
        else:
            asked.answer(body=b"{}")

    bench = make(handle)
    with pytest.raises(TimedOutError, match="closed the connection"):
        bench.ask(PatchObject(path=POD_STATUS, body=b"{}"))
    broken.clear()
    assert bench.ask(GetObject(path=NODE)) == b"{}"


def test_a_server_that_says_goodbye_gets_what_it_did_not_do_on_a_new_connection(make):
    bench = make(lambda asked: asked.answer(body=b"{}"))
    assert bench.ask(GetObject(path=NODE)) == b"{}"
    bench.peer.connections[0].go_away()
    assert bench.peer.connections[0].gone.wait(5.0)
    assert bench.ask(CreateObject(path=ObjectPath(plural="nodes"), body=b"{}")) == b"{}"
    assert len(bench.peer.connections) == 2


def test_a_quiet_server_is_asked_and_given_up_when_it_does_not_answer(make, monkeypatch):
    monkeypatch.setattr(session, "QUIET_S", 0.2)
    monkeypatch.setattr(session, "PONG_S", 0.2)
    bench = make(lambda asked: None)
    answers = queue.SimpleQueue()
    call = PatchObject(path=POD_STATUS, body=b"{}")
    bench.driver.begin(call, 30.0, lambda result, failure: answers.put(failure))
    until(lambda: bench.peer.requests, "it is asked", 5.0)
    until(lambda: bench.peer.connections[0].pings >= 2, "it is pinged, and answers", 10.0)
    bench.peer.silent = True
    failure = answers.get(timeout=10.0)
    assert failure.kind is FailureKind.TIMED_OUT
    assert "did not answer for" in failure.message


def test_two_late_heartbeats_make_a_new_connection(make):
    bench = make(lambda asked: None)
    for _ in range(client.LATE_HEARTBEATS):
        with pytest.raises(TimedOutError):
            bench.ask(GetObject(path=NODE, heartbeat=True), 0.2)
    assert bench.peer.connections[0].gone.wait(5.0)
    bench.peer.handle = lambda asked: asked.answer(body=b"{}")
    assert bench.ask(GetObject(path=NODE, heartbeat=True)) == b"{}"


def test_the_rate_holds_back_requests_and_no_heartbeat(make):
    bench = make(lambda asked: asked.answer(body=b"{}"), qps=0.5, burst=1)
    bench.ask(GetObject(path=NODE))
    with pytest.raises(UnavailableError, match="did not answer within"):
        bench.ask(GetObject(path=NODE), 0.3)
    assert bench.ask(GetObject(path=NODE, heartbeat=True), 0.5) == b"{}"


class OneByOne:
    """Serves HTTP/1 on each connection of a `KubePeer`."""

    def serve(self, sock, requests):
        machine = h11.Connection(h11.SERVER)
        while True:
            event = machine.next_event()
            if event is h11.NEED_DATA:
                machine.receive_data(sock.recv(65536))
            elif isinstance(event, h11.Request):
                requests.append(event.target)
            elif isinstance(event, h11.EndOfMessage):
                head = h11.Response(
                    status_code=200, headers=[("content-length", "2"), ("connection", "close")]
                )
                sock.sendall(
                    machine.send(head) + machine.send(h11.Data(data=b"{}")) + machine.send(h11.EndOfMessage())
                )
                return
            elif not isinstance(event, h11.Data):
                return


def test_a_server_without_http2_is_spoken_to_in_http1(make, monkeypatch):
    requests = []
    monkeypatch.setattr(
        "tests.harness.kubepeer.PeerConnection.serve",
        lambda self: OneByOne().serve(self.sock, requests),
    )
    bench = make(lambda asked: None, protocol="http/1.1")
    assert bench.ask(GetObject(path=NODE)) == b"{}"
    assert bench.ask(PatchObject(path=POD_STATUS, body=b"{}")) == b"{}"
    assert requests == [b"/api/v1/nodes/n1", b"/api/v1/namespaces/default/pods/a/status"]
    monkeypatch.setattr(link, "SESSIONS", 1)
    answers = queue.SimpleQueue()
    for _ in range(3):
        bench.driver.begin(GetObject(path=NODE), 5.0, lambda result, failure: answers.put((result, failure)))
    assert [answers.get(timeout=10.0) for _ in range(3)] == [(KubeObject(body=b"{}"), None)] * 3


# ---------------------------------------------------------------- streams


def test_pods_are_listed_in_pages_watched_and_pushed_as_whole_levels(make):
    served = Collection(page(pod("b"), more="tok+en"), page(pod("a")))
    bench = make(served)
    bench.listen(bench.driver.pods)
    assert bench.pushed.get(timeout=10.0) == WatchChecked()
    assert images(bench.next()) == {"a": "i", "b": "i"}
    assert served.lists[0].startswith("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=500")
    assert served.lists[1].endswith("&continue=tok%2Ben")
    watch = served.watch()
    assert "&resourceVersion=10" in watch.target
    assert "allowWatchBookmarks=true" in watch.target
    line = event("MODIFIED", pod("a", "11", "j"))
    watch.say(line[:20])
    watch.say(
        line[20:]
        + event("DELETED", pod("b", "12"))
        + event("BOOKMARK", {"metadata": {"resourceVersion": "20"}})
    )
    assert images(bench.next()) == {"a": "j"}
    watch.say(b"", end=True)
    assert "&resourceVersion=20" in served.watch().target, "it goes on from the bookmark"


def test_a_pod_that_did_not_change_stays_the_same_object(make):
    served = Collection(page(pod("a"), pod("b")))
    bench = make(served)
    bench.listen(bench.driver.pods)
    first = bench.next()
    served.watch().say(event("MODIFIED", pod("b", "11", "j")))
    second = bench.next()
    assert second.pods[0] is first.pods[0]
    assert second.pods[1] is not first.pods[1]


def test_what_this_node_wrote_itself_is_not_pushed(make):
    served = Collection(page(pod("a"), pod("b")))
    bench = make(served)
    bench.listen(bench.driver.pods)
    bench.next()
    watch = served.watch()
    bench.ask(PatchObject(path=POD_STATUS, body=b"{}"))
    watch.say(event("MODIFIED", pod("a", "77", phase="Running")))
    watch.say(event("BOOKMARK", {"metadata": {"resourceVersion": "78"}}))
    with pytest.raises(queue.Empty):
        bench.pushed.get(timeout=0.3)
    watch.say(event("MODIFIED", pod("b", "79", "j")))
    level = bench.next()
    assert images(level) == {"a": "i", "b": "j"}
    assert level.pods[0].status.phase == "Running", "it is known all the same"


def test_what_is_too_old_is_listed_again(make):
    served = Collection(page(pod("a")), page(pod("a", "40", "k"), version="40"))
    bench = make(served)
    bench.listen(bench.driver.pods)
    bench.next()
    served.watch().say(
        event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
    )
    assert images(bench.next()) == {"a": "k"}
    assert "&resourceVersion=40" in served.watch().target


def test_a_watch_whose_connection_ends_goes_on_from_its_last_version(make, monkeypatch):
    monkeypatch.setattr(reflector, "FIRST_S", 0.05)
    served = Collection(page(pod("a")))
    bench = make(served)
    bench.listen(bench.driver.pods)
    bench.next()
    watch = served.watch()
    watch.say(event("MODIFIED", pod("a", "15", "j")))
    assert images(bench.next()) == {"a": "j"}
    watch.connection.drop()
    assert "&resourceVersion=15" in served.watch().target
    assert len(served.lists) == 1


@pytest.mark.parametrize(
    "line", [b"{\n", b"[]\n", b'{"type":"ADDED","object":3}\n', b"[" * 50_000 + b"\n", b"x" * (4 << 20)]
)
def test_a_watch_that_sends_what_is_no_event_is_listed_again(make, monkeypatch, line):
    monkeypatch.setattr(reflector, "FIRST_S", 0.05)
    served = Collection(page(pod("a")), page(pod("a", "40", "k"), version="40"))
    bench = make(served)
    bench.listen(bench.driver.pods)
    bench.next()
    watch = served.watch()
    with contextlib.suppress(Exception):
        watch.say(line)
    assert bench.next(WatchChecked).failure is not None
    assert images(bench.next()) == {"a": "k"}


def test_a_pod_that_cannot_be_read_is_left_out_and_named(make):
    wrong = pod("b")
    wrong["spec"]["containers"] = "many"
    bench = make(Collection(page(pod("a"), wrong)))
    bench.listen(bench.driver.pods)
    assert images(bench.next()) == {"a": "i"}
    assert [text for text in bench.problems if "default/b" in text]


def test_a_list_that_is_refused_is_said_once_and_tried_again(make, monkeypatch):
    monkeypatch.setattr(reflector, "FIRST_S", 0.05)
    refused = (403, status(403, "Forbidden", "no relationship"))
    bench = make(Collection(refused, refused, page(pod("a"))))
    bench.listen(bench.driver.pods)
    failure = bench.pushed.get(timeout=10.0).failure
    assert (failure.kind, failure.message) == (FailureKind.DENIED, "list of pods: no relationship")
    assert bench.pushed.get(timeout=10.0) == WatchChecked()
    assert images(bench.next()) == {"a": "i"}


def test_the_node_comes_and_goes_as_its_bytes(make):
    body = {"kind": "Node", "metadata": {"name": "n1", "resourceVersion": "3"}}
    served = Collection(page())
    bench = make(served)
    undo = bench.listen(bench.driver.node)
    assert bench.next(ApiNodeListed).body is None
    watch = served.watch()
    watch.say(event("ADDED", body))
    assert json.loads(bench.next(ApiNodeListed).body) == body
    watch.say(event("DELETED", body))
    assert bench.next(ApiNodeListed).body is None
    undo()
    assert watch.was_reset.wait(5.0), "a closed stream leaves no watch"


def test_another_identity_takes_over_without_breaking_what_is_under_way(make, monkeypatch):
    held = queue.SimpleQueue()
    served = Collection(page(pod("a")))

    def handle(asked):
        if asked.method == "PATCH":
            held.put(asked)
        else:
            served(asked)

    tokens = iter(("first", "second"))
    bench = make(
        handle,
        find=lambda: Access(server=bench.peer.server, ca=bench.peer.ca, token=next(tokens)),
    )
    bench.listen(bench.driver.pods)
    bench.next()
    served.watch()
    answers = queue.SimpleQueue()
    bench.driver.begin(
        PatchObject(path=POD_STATUS, body=b"{}"), 20.0, lambda result, failure: answers.put((result, failure))
    )
    asked = held.get(timeout=10.0)
    bench.driver._loop.submit(bench.driver._client._identity._ask)
    assert served.watch().headers["authorization"] == "Bearer second"
    asked.answer(body=b"{}")
    assert answers.get(timeout=10.0) == (KubeObject(body=b"{}"), None)
