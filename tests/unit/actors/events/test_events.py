"""Pages of events: what is counted, combined, kept, written and forgotten."""

import itertools
import re

import msgspec
import pytest

from actors.events.core import CLAIM_S, KEEP_S, WRITE_S, begin, decide, unwritten
from actors.events.record import SIMILAR_LIMIT
from actors.events.state import EVENT_LIMIT, RECORD_LIMIT, EventsState, PodEvents, rows
from actors.rules.eventobject import COMBINED, event_object
from api import paths
from api.errors import Failure, FailureKind
from api.ids import Uid
from api.lifecycle import Start, Tell
from api.messages.events import EventSeen, KeepEvents, LedgerDamaged, ReleaseEvents
from api.messages.kernel import Alarm, Outcome
from api.ports.ledger import Forget, RecallAll, RecalledAll, Remember, not_ours

NS = 1_000_000_000
WALL = 1_700_000_000 * NS
U1, U2 = Uid("u1"), Uid("u2")


def seen(message="Container started", at=0.0, uid=U1, reason="Started", times=1, path=""):
    return EventSeen(
        uid=uid,
        namespace="default",
        pod=f"web-{uid}",
        at=WALL + int(at * NS),
        kind="Normal",
        reason=reason,
        message=message,
        field_path=path,
        times=times,
    )


class Recorder:
    """A recorder that is told messages, with a ledger that answers when the test says so."""

    def __init__(self, *, entries=(), recall=True, followers=()):
        self.followers, self.sent = followers, []
        self.ops = itertools.count(1)
        self.calls = []
        self.wake_at = None
        self.state = EventsState(node_name="n1")
        self.take(begin(self.state, 0.0, WALL, lambda: next(self.ops)))
        if recall:
            self.answer(RecalledAll(entries=tuple(entries)))

    def take(self, decision):
        self.state, self.wake_at = decision.state, decision.wake_at
        self.calls += [(one.op, one.call) for one in decision.actions if isinstance(one, Start)]
        self.sent += [(one.to, one.message) for one in decision.actions if isinstance(one, Tell)]

    def tell(self, message, now=0.0):
        wall = WALL + int(now * NS)
        self.take(decide(self.state, message, now, wall, lambda: next(self.ops), self.followers))

    def look(self, now):
        self.tell(Alarm(at=now), now)

    def answer(self, result=None, failure=None, now=0.0):
        op, call = self.calls.pop(0)
        self.tell(
            Outcome(
                op=op, call=type(call).__name__, result=result, failure=failure, started_at=now, ended_at=now
            ),
            now,
        )
        return call

    def said(self, uid=None):
        return [(row.message, row.count) for row in rows(self.state, uid)]


def stored(*events, **fields):
    """Return a page as the ledger holds it."""
    recorder = Recorder()
    for event in events:
        recorder.tell(event)
    record = recorder.state.entries[U1].record
    return msgspec.msgpack.encode(msgspec.structs.replace(record, **fields))


def test_an_equal_event_is_counted_with_its_first_and_last_time():
    recorder = Recorder()
    recorder.tell(seen(at=1))
    recorder.tell(seen("other", at=2))
    recorder.tell(seen(at=5, times=2), 5.0)
    assert recorder.said() == [("other", 1), ("Container started", 3)]
    row = rows(recorder.state)[-1]
    assert (row.first_at, row.at) == (WALL + NS, WALL + 5 * NS)


def test_the_same_words_about_another_container_are_another_event():
    recorder = Recorder()
    recorder.tell(seen(path="spec.containers{a}"))
    recorder.tell(seen(path="spec.containers{b}"))
    assert recorder.said() == [("Container started", 1)] * 2


def test_too_many_messages_of_one_reason_are_combined_into_one():
    recorder = Recorder()
    for number in range(SIMILAR_LIMIT + 3):
        recorder.tell(seen(f"try {number}", at=number), float(number))
    said = recorder.said()
    assert len(said) == SIMILAR_LIMIT + 1
    assert said[-1] == (f"{COMBINED}try {SIMILAR_LIMIT + 2}", 3)
    recorder.tell(seen("another reason", reason="Killing"))
    recorder.tell(seen("much later", at=2000))
    assert {("another reason", 1), ("much later", 1)} <= set(recorder.said())


def test_a_page_keeps_what_happened_last_and_no_more():
    recorder = Recorder()
    for number in range(EVENT_LIMIT + 5):
        recorder.tell(seen(f"e{number}", reason=f"R{number}", at=number))
    assert len(recorder.said()) == EVENT_LIMIT
    assert recorder.said()[0] == ("e5", 1)


def test_a_page_is_written_after_a_while_and_once_for_all_that_happened_meanwhile():
    recorder = Recorder()
    recorder.tell(seen(), 3.0)
    assert (recorder.calls, recorder.wake_at) == ([], 3.0 + WRITE_S)
    recorder.tell(seen("other"), 9.0)
    recorder.look(3.0 + WRITE_S)
    call = recorder.answer(now=14.0)
    assert isinstance(call, Remember)
    assert (call.section, call.key, call.durable) == ("events", U1, False)
    assert [e.message for e in msgspec.msgpack.decode(call.data, type=PodEvents).events] == [
        "Container started",
        "other",
    ]
    recorder.look(60.0)
    assert recorder.calls == []


def test_one_page_is_written_at_a_time_and_what_changes_meanwhile_again_later():
    recorder = Recorder()
    recorder.tell(seen(), 0.0)
    recorder.tell(seen(uid=U2), 1.0)
    recorder.look(30.0)
    assert [call.key for _, call in recorder.calls] == [U1]
    recorder.tell(seen("more"), 31.0)
    recorder.answer(now=32.0)
    assert [call.key for _, call in recorder.calls] == [U2]
    recorder.answer(now=33.0)
    assert (recorder.calls, recorder.wake_at) == ([], 30.0 + WRITE_S)
    recorder.look(40.0)
    assert [call.key for _, call in recorder.calls] == [U1]


def test_a_write_that_failed_is_tried_again_and_not_at_once():
    recorder = Recorder()
    recorder.tell(seen(), 0.0)
    recorder.look(10.0)
    recorder.answer(failure=Failure(kind=FailureKind.UNAVAILABLE, message="disk full"), now=11.0)
    assert (recorder.calls, recorder.wake_at) == ([], 20.0)
    recorder.look(20.0)
    assert [call.key for _, call in recorder.calls] == [U1]


def test_what_the_last_life_of_the_agent_saw_is_counted_on():
    data = stored(seen(at=-100, times=4), seen("old", at=-90))
    recorder = Recorder(recall=False)
    assert [type(call) for _, call in recorder.calls] == [RecallAll]
    recorder.tell(seen(at=1))
    recorder.answer(RecalledAll(entries=((U1, data), ("u9", b"nonsense"))))
    assert recorder.said() == [("old", 1), ("Container started", 5)]
    assert rows(recorder.state)[-1].first_at == WALL - 100 * NS


def test_what_of_the_ledger_cannot_be_read_is_a_fact_about_the_node():
    recorder = Recorder(recall=False)
    recorder.answer(RecalledAll(entries=(("u9", b"nonsense"),), damaged=(("u1", "events/u1 is damaged"),)))
    recorder.tell(LedgerDamaged(section="admission", whys=("admission/verdicts is damaged",)), 2.0)
    facts = [(fact.reason, fact.type, fact.message) for fact in recorder.state.node_events]
    assert facts == [
        ("LedgerDamaged", "Warning", "events/u1 is damaged"),
        ("LedgerDamaged", "Warning", not_ours("events", "u9")),
        ("LedgerDamaged", "Warning", "admission/verdicts is damaged"),
    ]


def test_a_ledger_that_does_not_answer_is_asked_again_and_events_are_kept_meanwhile():
    recorder = Recorder(recall=False)
    recorder.answer(failure=Failure(kind=FailureKind.UNAVAILABLE, message="no"))
    recorder.tell(seen(), 1.0)
    assert (recorder.calls, recorder.wake_at) == ([], 10.0)
    recorder.look(10.0)
    assert [type(call) for _, call in recorder.calls] == [RecallAll]
    assert recorder.said() == [("Container started", 1)]


def test_the_events_of_a_pod_that_is_gone_are_written_soon_kept_for_an_hour_and_then_forgotten():
    recorder = Recorder()
    recorder.tell(seen(), 0.0)
    recorder.tell(ReleaseEvents(uid=U1), 1.0)
    assert isinstance(recorder.answer(now=1.5), Remember)
    assert recorder.said() == [("Container started", 1)]
    recorder.look(KEEP_S - 1.0)
    assert recorder.calls == []
    assert recorder.wake_at == pytest.approx(KEEP_S + 1.0)
    recorder.look(KEEP_S + 1.0)
    assert isinstance(recorder.answer(now=KEEP_S + 1.0), Forget)
    assert (recorder.said(), dict(recorder.state.entries)) == ([], {})


def test_a_pod_that_nothing_happened_to_leaves_no_page():
    recorder = Recorder()
    recorder.tell(KeepEvents(uid=U1, namespace="default", pod="web"), 0.0)
    recorder.look(60.0)
    assert recorder.calls == []
    recorder.tell(ReleaseEvents(uid=U1), 61.0)
    assert dict(recorder.state.entries) == {}


def test_a_page_that_no_pod_claims_is_given_up_and_one_that_is_claimed_is_not():
    recorder = Recorder(entries=((U1, stored(seen(at=-9000))), (U2, stored(seen(at=-9000)))))
    recorder.tell(KeepEvents(uid=U2, namespace="default", pod="web"), 5.0)
    recorder.look(CLAIM_S)
    while recorder.calls:
        recorder.answer(now=CLAIM_S)
    recorder.look(CLAIM_S + KEEP_S)
    call = recorder.answer(now=CLAIM_S + KEEP_S)
    assert isinstance(call, Forget)
    assert set(recorder.state.entries) == {U2}


def test_a_pod_that_comes_back_under_its_uid_keeps_its_page():
    recorder = Recorder(entries=((U1, stored(seen(at=-9000), gone_at=WALL - 60 * NS)),))
    recorder.tell(KeepEvents(uid=U1, namespace="default", pod="web"), 1.0)
    assert recorder.state.entries[U1].record.gone_at is None
    recorder.look(2.0 * KEEP_S)
    assert not any(isinstance(call, Forget) for _, call in recorder.calls)


def test_of_too_many_pods_that_are_gone_the_oldest_are_forgotten():
    recorder = Recorder()
    for number in range(RECORD_LIMIT + 2):
        uid = Uid(f"g{number:04}")
        recorder.tell(seen(uid=uid), float(number) / 100)
        recorder.tell(ReleaseEvents(uid=uid), float(number) / 100)
        while recorder.calls:
            recorder.answer(now=float(number) / 100)
    assert not {"g0000", "g0001"} & set(recorder.state.entries)
    assert len(recorder.state.entries) == RECORD_LIMIT


def test_an_orderly_end_writes_what_is_not_written_and_nothing_else():
    recorder = Recorder(entries=((U2, stored(seen(at=-50))),))
    recorder.tell(seen(), 1.0)
    [call] = unwritten(recorder.state, WALL + NS)
    assert (call.key, call.durable) == (U1, False)
    assert unwritten(EventsState(), WALL) == ()


def test_an_event_is_shown_as_kubernetes_writes_it():
    recorder = Recorder()
    recorder.tell(seen(path="spec.containers{a}", times=2))
    event = event_object(rows(recorder.state)[0])
    assert re.fullmatch(r"web-u1\.[0-9a-f]{16}", event.metadata.name)
    assert (event.metadata.namespace, event.count, event.type) == ("default", 2, "Normal")
    about = event.involved_object
    assert (about.kind, about.name, about.uid, about.field_path) == (
        "Pod",
        "web-u1",
        "u1",
        "spec.containers{a}",
    )
    assert (event.source.component, event.source.host) == ("kubelet", "n1")
    assert event.first_timestamp == "2023-11-14T22:13:20Z"


def test_each_event_goes_to_the_followers_as_it_is_counted():
    recorder = Recorder(followers=(paths.APIEVENTS,))
    for at in (0.0, 5.0):
        recorder.tell(seen(path="spec.containers{a}", times=2), at)
    assert [(to, message.event.count) for to, message in recorder.sent] == [
        (paths.APIEVENTS, 2),
        (paths.APIEVENTS, 4),
    ]
    assert recorder.sent[-1][1].event == rows(recorder.state)[0]


def test_a_damaged_ledger_goes_to_the_followers_as_an_event_of_the_node():
    recorder = Recorder(followers=(paths.APIEVENTS,))
    recorder.tell(LedgerDamaged(section="somewhere", whys=("one is lost",)))
    [(_, message)] = recorder.sent
    assert (message.event.pod, message.event.reason) == ("node/n1", "LedgerDamaged")
