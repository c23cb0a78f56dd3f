"""Lists and watches of the driver of the port ``kube`` when a server is slow, confused or hostile."""

import json
import queue
import time

import pytest

from api.errors import FailureKind
from api.ports.kube import PatchObject, WatchChecked
from runtime.drivers.kube import reflector, store
from tests.harness.kubebench import POD_STATUS, Collection, event, images, page, pod, status


def test_a_watch_that_the_server_does_not_end_is_opened_again(make, monkeypatch):
    monkeypatch.setattr(reflector, "WATCH_S", (0, 0))
    monkeypatch.setattr(reflector, "OVERDUE_S", 0.3)
    monkeypatch.setattr(reflector, "FIRST_S", 0.05)
    served = Collection(page(pod("a")))
    bench = make(served)
    bench.listen(bench.driver.pods)
    bench.next()
    silent = served.watch()
    served.watch().say(event("MODIFIED", pod("a", "12", "j")))
    assert images(bench.next()) == {"a": "j"}
    assert silent.was_reset.wait(5.0)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"kind": "Status", "status": "Success", "metadata": {"resourceVersion": "3"}},
        {"kind": "PodList", "metadata": {}, "items": []},
        {"kind": "PodList", "metadata": {"resourceVersion": "1 HTTP/1.1\r\nx: y"}, "items": []},
        {"kind": "PodList", "metadata": {"resourceVersion": "7"}},
    ],
)
def test_what_is_no_list_takes_no_pod_away(make, monkeypatch, answer):
    monkeypatch.setattr(reflector, "FIRST_S", 0.05)
    served = Collection(page(pod("a")), json.dumps(answer).encode(), page(pod("a", "9", "k"), version="9"))
    bench = make(served)
    bench.listen(bench.driver.pods)
    assert images(bench.next()) == {"a": "i"}
    served.watch().say(event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"}))
    failure = bench.next(WatchChecked).failure
    assert failure.kind is FailureKind.REJECTED
    assert "sent no list" in failure.message
    assert images(bench.next()) == {"a": "k"}, "no empty level in between"


def test_a_list_of_nothing_is_a_level(make):
    bench = make(
        Collection(
            json.dumps({"kind": "PodList", "metadata": {"resourceVersion": "3"}, "items": None}).encode()
        )
    )
    bench.listen(bench.driver.pods)
    assert bench.next().pods == ()


def test_pages_without_an_end_are_given_up(make, monkeypatch):
    monkeypatch.setattr(reflector, "LIST_LIMIT_BYTES", 4_000)
    served = Collection(page(pod("a"), more="more"))
    bench = make(served)
    bench.listen(bench.driver.pods)
    failure = bench.next(WatchChecked).failure
    assert failure.kind is FailureKind.REJECTED
    assert "is bigger than" in failure.message


@pytest.mark.parametrize("code", [400, 504])
def test_a_version_that_the_server_cannot_watch_from_is_listed_again(make, monkeypatch, code):
    monkeypatch.setattr(reflector, "FIRST_S", 0.05)
    served = Collection(page(pod("a"), version="900"), page(pod("a", "5", "k"), version="5"))

    def handle(asked):
        if "&resourceVersion=900" in asked.target:
            asked.answer(code, status(code, "Timeout", "Too large resource version: 900, current: 5"))
        else:
            served(asked)

    bench = make(handle)
    bench.listen(bench.driver.pods)
    assert images(bench.next()) == {"a": "i"}
    assert images(bench.next()) == {"a": "k"}
    assert "&resourceVersion=5" in served.watch().target


@pytest.mark.parametrize("what", ["list", "watch"])
def test_a_server_that_is_busy_says_for_how_long(make, monkeypatch, what):
    monkeypatch.setattr(reflector, "FIRST_S", 0.02)
    served, refused = Collection(page(pod("a"))), []

    def handle(asked):
        if ("watch=true" in asked.target) == (what == "watch") and not refused:
            refused.append(time.monotonic())
            asked.answer(429, status(429, "TooManyRequests"), headers=[("retry-after", "1")])
        else:
            served(asked)

    bench = make(handle)
    bench.listen(bench.driver.pods)
    served.watch()
    assert time.monotonic() - refused[0] >= 0.95


@pytest.mark.parametrize("said", ["", "-1", "9" * 400, "Wed, 21 Oct 2026 07:28:00 GMT", "1.5"])
def test_a_wait_that_is_no_number_is_not_waited(make, monkeypatch, said):
    monkeypatch.setattr(reflector, "FIRST_S", 0.02)
    served, refused = Collection(page(pod("a"))), []

    def handle(asked):
        if not refused:
            refused.append(asked)
            asked.answer(429, status(429, "TooManyRequests"), headers=[("retry-after", said)])
        else:
            served(asked)

    bench = make(handle)
    bench.listen(bench.driver.pods)
    assert images(bench.next()) == {"a": "i"}


def marked(body, **metadata):
    body["metadata"] |= metadata
    return body


def test_a_change_of_another_is_pushed_though_this_node_wrote_right_after_it(make, monkeypatch):
    monkeypatch.setattr(reflector, "GATHER_S", 0.3)
    served = Collection(page(pod("a")))
    bench = make(served)
    bench.listen(bench.driver.pods)
    bench.next()
    watch = served.watch()
    bench.ask(PatchObject(path=POD_STATUS, body=b"{}"))
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    watch.say(
        event("MODIFIED", marked(pod("a", "76"), **deleted))
        + event("MODIFIED", marked(pod("a", "77", phase="Running"), **deleted))
    )
    (one,) = bench.next().pods
    assert (one.metadata.resource_version, bool(one.metadata.deletion_timestamp)) == ("77", True)


def test_a_write_that_changed_nothing_does_not_make_the_version_before_it_our_own(make):
    served = Collection(page(pod("a")))
    bench = make(served)
    bench.listen(bench.driver.pods)
    bench.next()
    watch = served.watch()
    # The answer shows version 77, which another made: his event comes only now.
    bench.ask(PatchObject(path=POD_STATUS, body=b"{}"))
    watch.say(event("MODIFIED", pod("a", "77", image="j")))
    assert images(bench.next()) == {"a": "j"}


def test_a_version_that_is_known_is_not_pushed_again(make):
    served = Collection(page(pod("a"), version="1"))
    bench = make(served)
    bench.listen(bench.driver.pods)
    first = bench.next()
    watch = served.watch()
    watch.say(event("ADDED", pod("a")))
    with pytest.raises(queue.Empty):
        bench.pushed.get(timeout=0.2)
    watch.say(event("ADDED", pod("b", "2")))
    assert bench.next().pods[0] is first.pods[0]


def test_a_pod_that_cannot_be_read_any_more_stays_as_it_was(make):
    wrong = pod("a", "40")
    wrong["spec"]["containers"] = "many"
    served = Collection(page(pod("a"), pod("b")), page(wrong, version="40"))
    bench = make(served)
    bench.listen(bench.driver.pods)
    bench.next()
    served.watch().say(event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"}))
    assert images(bench.next()) == {"a": "i"}
    assert [text for text in bench.problems if "default/a" in text]


@pytest.mark.parametrize(
    ("name", "namespace"), [("../../etc", "default"), ("a", ".."), ("", "default"), ("a", "")]
)
def test_a_pod_whose_name_no_path_may_have_is_left_out(make, name, namespace):
    bench = make(Collection(page(pod("b"), marked(pod("x"), name=name, namespace=namespace))))
    bench.listen(bench.driver.pods)
    assert images(bench.next()) == {"b": "i"}
    assert len(bench.problems) == 1


def test_pods_without_number_are_left_out(make, monkeypatch):
    monkeypatch.setattr(store, "PODS_LIMIT", 2)
    served = Collection(page(pod("a"), pod("b")))
    bench = make(served)
    bench.listen(bench.driver.pods)
    bench.next()
    watch = served.watch()
    watch.say(event("ADDED", pod("c", "11")) + event("DELETED", pod("a", "12")))
    assert images(bench.next()) == {"b": "i"}
    assert [text for text in bench.problems if "default/c" in text]
