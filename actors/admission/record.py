"""The verdicts in the ledger: read once at the start, written whenever they change.

One write at a time, of everything; what changes meanwhile is written right after. A ledger that takes nothing keeps no
pod from starting: its verdict counts as told when the write has failed, and is written again later.
"""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from actors.admission.state import AdmissionState
from actors.admission.turn import AdmissionTurn
from actors.admission.verdict import KEY, SECTION, Record, Verdict, decoded, encoded
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


def recall(record: Record, turn: AdmissionTurn, now: Instant, new_op: Callable[[], OpId]) -> Record:
    """Ask the ledger what was decided before, again until it has answered."""
    if record.damaged:
        damaged = LedgerDamaged(section=SECTION, whys=(record.damaged,))
        turn.actions.append(Tell(to=paths.EVENTS, message=damaged))
        record = replace(record, damaged="")
    if record.inherited or turn.recalled is not None or record.recall_op is not None:
        return record
    if now < record.recall_at:
        turn.wakes.append(record.recall_at)
        return record
    op = new_op()
    call = Recall(section=SECTION, key=KEY)
    turn.actions.append(Start(op=op, port="ledger", call=call, deadline_s=DEADLINE_S))
    return replace(record, recall_op=op)


def absorb_answer(
    state: AdmissionState, turn: AdmissionTurn, outcome: Outcome, now: Instant
) -> AdmissionState:
    """Take in how a call of the ledger ended."""
    record = state.record
    if outcome.op in record.inherited:
        left = tuple(op for op in record.inherited if op != outcome.op)
        return replace(state, record=replace(record, inherited=left))
    if outcome.op == record.recall_op:
        return replace(state, record=absorb_recall(record, turn, outcome, now), recall_due=True)
    if outcome.op == record.write_op:
        return replace(state, record=absorb_write(record, turn, outcome, now))
    return state


def absorb_recall(record: Record, turn: AdmissionTurn, outcome: Outcome, now: Instant) -> Record:
    """Take in the verdicts, or that they could not be read."""
    record = replace(record, recall_op=None)
    turn.room_due = True
    if isinstance(outcome.result, Recalled):
        recalled = decoded(outcome.result.data)
        damaged = outcome.result.damaged if recalled is not None else not_ours(SECTION, KEY)
        turn.recalled = recalled or {}
        return replace(record, problem=damaged, damaged=damaged)
    failures = record.recall_failures + 1
    why = outcome.failure.message if outcome.failure is not None else ""
    if failures >= RECALL_TRIES:
        turn.recalled = {}
    return replace(record, recall_failures=failures, recall_at=now + ASK_AGAIN_S, problem=why)


def absorb_write(record: Record, turn: AdmissionTurn, outcome: Outcome, now: Instant) -> Record:
    """Take in that the verdicts were written, or could not be: whom they name may be told of in either case."""
    for uid in record.writing_uids:
        entry = turn.pods.get(uid)
        if entry is not None and entry.verdict is not None:
            turn.put(replace(entry, kept=True))
    if outcome.failure is None:
        after = replace(record, written=record.writing, problem="")
    else:
        after = replace(record, write_at=now + WRITE_AGAIN_S, problem=outcome.failure.message)
    return replace(after, write_op=None, writing_uids=())


def keep(record: Record, turn: AdmissionTurn, now: Instant, new_op: Callable[[], OpId]) -> Record:
    """Write the verdicts where the ledger does not hold them. The write is begun before everything else of this turn."""
    if turn.recalled is None or record.inherited or record.write_op is not None:
        return record
    fresh = tuple(sorted(turn.members["unkept"]))
    if turn.edition == record.written and not fresh:
        return record
    if now < record.write_at and not fresh:
        turn.wakes.append(record.write_at)
        return record
    op = new_op()
    call = written({**turn.recalled, **verdicts_of(turn)})
    turn.actions.insert(0, Start(op=op, port="ledger", call=call, deadline_s=DEADLINE_S))
    return replace(record, write_op=op, writing=turn.edition, writing_uids=fresh)


def written(verdicts: Mapping[Uid, Verdict]) -> Remember | Forget:
    """Return the call that lets the ledger hold these verdicts; nothing is left of an entry that says nothing."""
    if not verdicts:
        return Forget(section=SECTION, key=KEY, durable=True)
    return Remember(section=SECTION, key=KEY, data=encoded(verdicts), durable=True)


def verdicts_of(turn: AdmissionTurn) -> dict[Uid, Verdict]:
    """Return what was decided on the pods that are known."""
    return {uid: entry.verdict for uid, entry in turn.pods.items() if entry.verdict is not None}
