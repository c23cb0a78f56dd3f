"""Listings that are shared: who is answered by which."""

import time

import pytest

from api.errors import Failure, FailureKind, NotFoundError
from api.ports.runtime import LABEL_POD_UID
from runtime.drivers.cri.known import Known
from runtime.drivers.cri.rows import ALL, AT_ONCE, STALE_S, Rows
from runtime.wire.generated import cri_pb2 as pb

UIDS = ("a", "b", "c", "d")


class Call:
    """One listing that a test answers by hand."""

    def __init__(self, request):
        self.uid = request.filter.label_selector.get(LABEL_POD_UID)
        self.containers = isinstance(request, pb.ListContainersRequest)
        self.undone = False

    def begin(self, left_s, answer):
        self.left_s, self.answer = left_s, answer

        def undo():
            self.undone = True

        return undo


class Runtime:
    """Holds the calls and answers them in pairs."""

    def __init__(self):
        self.calls = []

    def ask(self, _rpc, request):
        self.calls.append(Call(request))
        return self.calls[-1]

    def reply(self, *uids, failure=None):
        """Answer the two oldest calls with a sandbox and a container of each of these pods."""
        for call in (self.calls.pop(0), self.calls.pop(0)):
            call.answer(None if failure else (containers if call.containers else sandboxes)(uids), failure)

    @property
    def filters(self):
        return [call.uid for call in self.calls if not call.containers]


def sandboxes(uids):
    rows = [
        pb.PodSandbox(id=f"s-{uid}", metadata=pb.PodSandboxMetadata(uid=uid), labels={LABEL_POD_UID: uid})
        for uid in uids
    ]
    return pb.ListPodSandboxResponse(items=rows)


def containers(uids):
    rows = [
        pb.Container(id=f"c-{uid}", pod_sandbox_id=f"s-{uid}", metadata=pb.ContainerMetadata(name="main"))
        for uid in uids
    ]
    return pb.ListContainersResponse(containers=rows)


@pytest.fixture
def runtime():
    return Runtime()


@pytest.fixture
def alarms():
    """Return what is to be done later: in how many seconds, and what."""
    return []


@pytest.fixture
def rows(runtime, alarms):
    known = Known(lambda *_: None, lambda _: None)
    return Rows(runtime, known, lambda seconds, then: alarms.append((seconds, then)))


@pytest.fixture
def log():
    return []


def look(rows, uid, log, left_s=10.0):
    def answer(found, failure):
        if failure is not None:
            log.append((uid, failure.kind))
        elif uid is ALL:
            log.append(("all", sorted(found)))
        else:
            log.append((uid, found.ids))

    return rows.of(uid).begin(left_s, answer)


def test_a_pod_alone_is_asked_for_alone(rows, runtime, log):
    look(rows, "a", log)
    assert runtime.filters == ["a"]
    runtime.reply("a")
    assert log == [("a", ["s-a", "c-a"])]
    look(rows, "b", log)
    assert runtime.filters == ["b"]


def test_who_comes_while_listings_are_under_way_shares_the_next_one(rows, runtime, log):
    for uid in UIDS:
        look(rows, uid, log)
    assert runtime.filters == ["a", "b"], f"{AT_ONCE} at once"
    runtime.reply("a")
    assert runtime.filters == ["b", None], "of everything, because two wait"
    look(rows, "a", log)
    runtime.reply("b")
    assert runtime.filters == [None, "a"], "what was under way answers nobody who came later"
    runtime.reply("a", "c")
    assert log == [("a", ["s-a", "c-a"]), ("b", ["s-b", "c-b"]), ("c", ["s-c", "c-c"]), ("d", [])]


def test_one_that_waits_alone_is_asked_for_alone(rows, runtime, log):
    for uid in ("a", "b", "c"):
        look(rows, uid, log)
    runtime.reply("a")
    assert runtime.filters == ["b", "c"]


def test_a_failure_is_that_of_all_who_shared_the_listing_and_the_next_one_is_begun(rows, runtime, log):
    for uid in UIDS:
        look(rows, uid, log)
    broken = Failure(kind=FailureKind.UNAVAILABLE, message="gone")
    runtime.reply(failure=broken)
    runtime.reply(failure=broken)
    runtime.reply(failure=broken)
    assert log == [(uid, FailureKind.UNAVAILABLE) for uid in UIDS]
    look(rows, "a", log)
    assert runtime.filters == ["a"]


def test_a_listing_that_cannot_be_read_holds_up_nobody(rows, runtime, log, monkeypatch):
    for uid in UIDS:
        look(rows, uid, log)
    with monkeypatch.context() as broken:
        broken.setattr(Known, "absorb_sandbox_row", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            runtime.reply("a")
    assert log == [("a", FailureKind.UNAVAILABLE)]
    assert runtime.filters == ["b", None]


def test_who_gives_up_is_told_once_and_a_listing_for_nobody_is_taken_back(rows, runtime, log):
    give_up = look(rows, "a", log)
    look(rows, "b", log)
    waits_no_more = look(rows, "c", log)
    look(rows, "d", log)
    waits_no_more()
    give_up()
    give_up()
    assert log == [("c", FailureKind.CANCELLED), ("a", FailureKind.CANCELLED)]
    assert [call.undone for call in runtime.calls] == [True, True, False, False]
    runtime.reply(failure=NotFoundError("cancelled").failure())
    assert runtime.filters == ["b", "d"]
    assert len(log) == 2


def test_no_listing_is_waited_for_longer_than_those_who_wait_may(rows, runtime, log):
    look(rows, "a", log, left_s=3.0)
    assert 2.9 < runtime.calls[0].left_s <= 3.0
    look(rows, ALL, log, left_s=1000.0)
    assert 999.9 < runtime.calls[2].left_s <= 1000.0


def test_listings_that_hang_hold_up_who_comes_later_for_a_while_only(rows, runtime, alarms, log, monkeypatch):
    for uid in UIDS:
        look(rows, uid, log)
    assert runtime.filters == ["a", "b"]
    [(seconds, go_on)] = alarms
    assert seconds == STALE_S
    go_on()
    assert runtime.filters == ["a", "b"], "they are not old enough"
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + STALE_S)
    go_on()
    assert runtime.filters == ["a", "b", None]
    look(rows, "d", log)
    assert runtime.filters == ["a", "b", None, "d"], "those that hang are not counted"
    runtime.reply("a"), runtime.reply("b")
    runtime.reply("c"), runtime.reply()
    assert log == [
        *(("a", ["s-a", "c-a"]), ("b", ["s-b", "c-b"])),
        *(("c", ["s-c", "c-c"]), ("d", []), ("d", [])),
    ]


def test_pods_without_the_label_are_found_in_listings_of_everything(rows, runtime, log):
    look(rows, ALL, log)
    runtime.calls[0].answer(
        pb.ListPodSandboxResponse(items=[pb.PodSandbox(id="s-x", metadata=pb.PodSandboxMetadata(uid="x"))]),
        None,
    )
    runtime.calls[1].answer(containers(("x",)), None)
    runtime.calls.clear()
    assert log.pop() == ("all", ["x"])
    look(rows, "x", log)
    assert runtime.filters == [None]
