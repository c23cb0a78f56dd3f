"""What the supervisor asks for admission: the page of verdicts, which it also writes, and what the node is.

One write at a time, of everything; what changes meanwhile is written right after. A ledger that takes nothing keeps no
pod from starting: its verdict counts as told when the write has failed, and is written again later.
"""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from actors.rules.nodewatch import follow_node
from actors.supervisor.state import PodEntry, SupervisorState, with_entries
from actors.supervisor.verdict import KEY, SECTION, Verdict, decoded, encoded
from actors.supervisor.work import Work
from api import paths
from api.ids import Instant, OpId, Uid
from api.lifecycle import Start, Tell
from api.messages.events import LedgerDamaged
from api.messages.kernel import Outcome
from api.ports.ledger import Forget, Recall, Recalled, Remember, not_ours
from api.ports.node import NodeFacts

DEADLINE_S = 15.0
ASK_AGAIN_S = 1.0
WRITE_AGAIN_S = 10.0
RECALL_TRIES = 5
"""After so many failed reads the node goes on without: a broken disk must not keep it from working."""


def consult(state: SupervisorState, work: Work, now: Instant, new_op: Callable[[], OpId]) -> SupervisorState:
    """Ask the ledger what was decided before, and follow what the node is."""
    book = state.book
    asked_at, asking, again_at = follow_node(paths.PODS, book.node_asked_at, now, known=book.described)
    work.actions += asking
    work.wakes.append(again_at)
    book = replace(book, node_asked_at=asked_at)
    if book.damaged:
        damaged = LedgerDamaged(section=SECTION, whys=(book.damaged,))
        work.actions.append(Tell(to=paths.EVENTS, message=damaged))
        book = replace(book, damaged="")
    if book.inherited:
        return replace(state, book=book)
    if book.recalled is None and book.recall_op is None:
        if now < book.recall_at:
            work.wakes.append(book.recall_at)
        else:
            op = new_op()
            call = Recall(section=SECTION, key=KEY)
            work.actions.append(Start(op=op, port="ledger", call=call, deadline_s=DEADLINE_S))
            book = replace(book, recall_op=op)
    return replace(state, book=book)


def absorb_answer(state: SupervisorState, outcome: Outcome, now: Instant) -> SupervisorState:
    """Take in how a call of this module ended; others are none of its business."""
    book = state.book
    if outcome.op in book.inherited:
        left = tuple(op for op in book.inherited if op != outcome.op)
        return replace(state, book=replace(book, inherited=left))
    if outcome.op == book.recall_op:
        return absorb_recall(state, outcome, now)
    if outcome.op == book.write_op:
        return absorb_write(state, outcome, now)
    return state


def absorb_node(state: SupervisorState, facts: NodeFacts) -> SupervisorState:
    """Take in what the node is; when it has changed every wanted pod is told."""
    book = state.book
    if book.described and facts == state.node:
        return state
    told = [
        replace(one, desired=replace(one.desired, revision=one.desired.revision + 1))
        for one in (state.entries.values() if book.described else ())
        if one.desired.pod is not None
    ]
    after = replace(state, node=facts, book=replace(book, described=True), due=replace(state.due, room=True))
    return with_entries(after, told)


def absorb_recall(state: SupervisorState, outcome: Outcome, now: Instant) -> SupervisorState:
    """Take in the page, or that it could not be read."""
    book = replace(state.book, recall_op=None)
    if isinstance(outcome.result, Recalled):
        recalled = decoded(outcome.result.data)
        damaged = outcome.result.damaged if recalled is not None else not_ours(SECTION, KEY)
        book = replace(book, recalled=recalled or {}, problem=damaged, damaged=damaged)
    else:
        failures = book.recall_failures + 1
        why = outcome.failure.message if outcome.failure is not None else ""
        book = replace(book, recall_failures=failures, recall_at=now + ASK_AGAIN_S, problem=why)
        if failures >= RECALL_TRIES:
            book = replace(book, recalled={})
    return replace(state, book=book, due=replace(state.due, room=True, strays=True))


def absorb_write(state: SupervisorState, outcome: Outcome, now: Instant) -> SupervisorState:
    """Take in that the page was written, or could not be: whom it names may be told in either case."""
    book = state.book
    written = (state.entries.get(uid) for uid in book.writing_uids)
    kept = [
        replace(one, admission=replace(one.admission, kept=True))
        for one in written
        if one is not None and one.admission.verdict is not None
    ]
    if outcome.failure is None:
        after = replace(book, written=book.writing, problem="")
    else:
        after = replace(book, write_at=now + WRITE_AGAIN_S, problem=outcome.failure.message)
    return with_entries(replace(state, book=replace(after, write_op=None, writing_uids=())), kept)


def keep(state: SupervisorState, work: Work, now: Instant, new_op: Callable[[], OpId]) -> SupervisorState:
    """Write the page where it is not as it should be. The write is begun before everything else of this step."""
    book = state.book
    if book.recalled is None or book.inherited or book.write_op is not None or book.edition == book.written:
        return state
    fresh = tuple(sorted(work.members["unkept"]))
    if now < book.write_at and not fresh:
        work.wakes.append(book.write_at)
        return state
    op = new_op()
    call = page_write({**book.recalled, **verdicts_of(work.entries)})
    work.actions.insert(0, Start(op=op, port="ledger", call=call, deadline_s=DEADLINE_S))
    return replace(state, book=replace(book, write_op=op, writing=book.edition, writing_uids=fresh))


def page_write(verdicts: Mapping[Uid, Verdict]) -> Remember | Forget:
    """Return the call that lets the ledger hold these verdicts; nothing is left of a page that says nothing."""
    if not verdicts:
        return Forget(section=SECTION, key=KEY, durable=True)
    return Remember(section=SECTION, key=KEY, data=encoded(verdicts), durable=True)


def verdicts_of(entries: Mapping[Uid, PodEntry]) -> dict[Uid, Verdict]:
    """Return what was decided on those in entry."""
    return {
        uid: entry.admission.verdict for uid, entry in entries.items() if entry.admission.verdict is not None
    }
