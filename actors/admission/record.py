"""The verdicts in the ledger: read once at the start, written whenever they change.

One write at a time, of all verdicts; changes in the meantime are written right after it. A ledger that fails keeps no pod
from starting: its verdict is sent after the failed write too, and written again later.
"""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from actors.admission.state import AdmissionState
from actors.admission.verdict import KEY, SECTION, Record, Verdict, decoded, encoded
from actors.admission.work import AdmissionWork
from api import paths
from api.ids import Instant, OpId, Uid
from api.lifecycle import Start, Tell
from api.messages.events import LedgerDamaged
from api.messages.kernel import Outcome
from api.ports.ledger import Forget, Recall, Recalled, Remember, not_ours

DEADLINE_S = 15.0
ASK_AGAIN_S = 1.0
WRITE_AGAIN_S = 10.0
RECALL_TRIES = 5
"""After so many failed reads the node goes on without: a broken disk must not keep it from working."""


def recall(record: Record, work: AdmissionWork, now: Instant, new_op: Callable[[], OpId]) -> Record:
    """Read the stored verdicts, again until the ledger has answered."""
    if record.damaged:
        damaged = LedgerDamaged(section=SECTION, whys=(record.damaged,))
        work.actions.append(Tell(to=paths.EVENTS, message=damaged))
        record = replace(record, damaged="")
    if record.inherited or work.recalled is not None or record.recall_op is not None:
        return record
    if now < record.recall_at:
        work.wakes.append(record.recall_at)
        return record
    op = new_op()
    call = Recall(section=SECTION, key=KEY)
    work.actions.append(Start(op=op, port="ledger", call=call, deadline_s=DEADLINE_S))
    return replace(record, recall_op=op)


def absorb_answer(
    state: AdmissionState, work: AdmissionWork, outcome: Outcome, now: Instant
) -> AdmissionState:
    """Absorb the outcome of a ledger call."""
    record = state.record
    if outcome.op in record.inherited:
        left = tuple(op for op in record.inherited if op != outcome.op)
        return replace(state, record=replace(record, inherited=left))
    if outcome.op == record.recall_op:
        return replace(state, record=absorb_recall(record, work, outcome, now), recall_due=True)
    if outcome.op == record.write_op:
        return replace(state, record=absorb_write(record, work, outcome, now))
    return state


def absorb_recall(record: Record, work: AdmissionWork, outcome: Outcome, now: Instant) -> Record:
    """Absorb the stored verdicts, or that they could not be read."""
    record = replace(record, recall_op=None)
    work.room_due = True
    if isinstance(outcome.result, Recalled):
        recalled = decoded(outcome.result.data)
        damaged = outcome.result.damaged if recalled is not None else not_ours(SECTION, KEY)
        work.recalled = recalled or {}
        return replace(record, problem=damaged, damaged=damaged)
    failures = record.recall_failures + 1
    why = outcome.failure.message if outcome.failure is not None else ""
    if failures >= RECALL_TRIES:
        work.recalled = {}
    return replace(record, recall_failures=failures, recall_at=now + ASK_AGAIN_S, problem=why)


def absorb_write(record: Record, work: AdmissionWork, outcome: Outcome, now: Instant) -> Record:
    """Absorb the outcome of a write; its verdicts may be sent in either case."""
    for uid in record.writing_uids:
        entry = work.pods.get(uid)
        if entry is not None and entry.verdict is not None:
            work.put(replace(entry, kept=True))
    if outcome.failure is None:
        after = replace(record, written=record.writing, problem="")
    else:
        after = replace(record, write_at=now + WRITE_AGAIN_S, problem=outcome.failure.message)
    return replace(after, write_op=None, writing_uids=())


def write_verdicts(record: Record, work: AdmissionWork, now: Instant, new_op: Callable[[], OpId]) -> Record:
    """Write the verdicts if the ledger does not hold them; the write comes before all other actions."""
    if work.recalled is None or record.inherited or record.write_op is not None:
        return record
    fresh = tuple(sorted(work.members["unkept"]))
    if work.edition == record.written and not fresh:
        return record
    if now < record.write_at and not fresh:
        work.wakes.append(record.write_at)
        return record
    op = new_op()
    call = write_call({**work.recalled, **verdicts_of(work)})
    work.actions.insert(0, Start(op=op, port="ledger", call=call, deadline_s=DEADLINE_S))
    return replace(record, write_op=op, writing=work.edition, writing_uids=fresh)


def write_call(verdicts: Mapping[Uid, Verdict]) -> Remember | Forget:
    """Return the call that stores these verdicts, or removes the entry when there are none."""
    if not verdicts:
        return Forget(section=SECTION, key=KEY, durable=True)
    return Remember(section=SECTION, key=KEY, data=encoded(verdicts), durable=True)


def verdicts_of(work: AdmissionWork) -> dict[Uid, Verdict]:
    """Return the verdicts on the known pods, by UID."""
    return {uid: entry.verdict for uid, entry in work.pods.items() if entry.verdict is not None}
