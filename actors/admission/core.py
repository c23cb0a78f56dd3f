"""AdmissionManager's decisions: which pods may run here, what each gets, whom a critical one needs stopped.

```text
PodsToAdmit --> judged, critical priorities first --> PodsJudged, and written to the ledger --> PodsDecided
```

Level-triggered: rows say the whole truth of a pod, and an answer that a row does not show as received is sent again.
"""

from collections.abc import Callable
from typing import assert_never

from msgspec.structs import replace

from actors.admission.admit import admit
from actors.admission.record import absorb_answer, keep, recall
from actors.admission.resize import resize
from actors.admission.state import AdmissionEntry, AdmissionState
from actors.admission.turn import AdmissionTurn
from actors.rules.nodewatch import NEVER_ASKED, follow_node
from api import paths
from api.ids import Instant, OpId
from api.lifecycle import Decision, Tell
from api.messages.admission import AdmissionMessage, NodePressure, PodsToAdmit, PodToAdmit
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.node import NodeChanged
from api.messages.supervisor import (
    PodAdmitted,
    PodRefused,
    PodsDecided,
    PodsJudged,
    PreemptPods,
    VerdictsRecalled,
)

REPEAT_S = 5.0
"""How long a preemption waits to be known to the supervisor before it is named again."""


def decide(
    state: AdmissionState,
    message: AdmissionMessage | KernelMessage | None,
    now: Instant,
    new_op: Callable[[], OpId],
) -> Decision[AdmissionState]:
    """Take in a message (None: only look again) and do what is not done yet."""
    turn = AdmissionTurn(state)
    return plan(absorb(state, turn, message, now), turn, now, new_op)


# ---------------------------------------------------------------- absorb


def absorb(
    state: AdmissionState, turn: AdmissionTurn, message: AdmissionMessage | KernelMessage | None, now: Instant
) -> AdmissionState:
    """Return what is known after `message`; decides nothing."""
    match message:
        case PodsToAdmit():
            return absorb_pods(state, turn, message)
        case NodeChanged(facts=facts):
            turn.room_due = turn.room_due or not state.described or facts != state.node
            return replace(state, node=facts, described=True)
        case NodePressure():
            turn.room_due = True
            return replace(state, pressure=message)
        case Outcome():
            return absorb_answer(state, turn, message, now)
        case Restarted(path=path) if path == paths.NODE:
            return replace(state, asking=replace(state.asking, node_at=NEVER_ASKED))
        case Restarted() | ChildDied() | Alarm() | Heard() | StreamEnded() | None:
            return state
        case _:
            assert_never(message)


def absorb_pods(state: AdmissionState, turn: AdmissionTurn, message: PodsToAdmit) -> AdmissionState:
    """Take in the truth about some pods or all; changes say nothing before all pods of that supervisor were heard of."""
    if message.epoch != state.supervisor_epoch:
        if not message.whole:
            return state
        disown(turn)
        turn.room_due = True
    for row in message.pods:
        absorb_row(turn, row)
    for uid in message.left:
        turn.drop(uid)
    if message.whole:
        here = {row.uid for row in message.pods}
        for uid in turn.pods.keys() - here:
            turn.drop(uid)
    return replace(state, supervisor_epoch=message.epoch, recall_due=state.recall_due or message.whole)


def disown(turn: AdmissionTurn) -> None:
    """Take in that the supervisor begins again: what was decided waits to be claimed by the pods that it names."""
    verdicts = {uid: entry.verdict for uid, entry in turn.pods.items() if entry.verdict is not None}
    for uid in tuple(turn.pods):
        turn.drop(uid)
    if turn.recalled is not None:
        turn.recalled = {**turn.recalled, **verdicts}


def absorb_row(turn: AdmissionTurn, row: PodToAdmit) -> None:
    """Take in the truth about one pod."""
    entry = turn.pods.get(row.uid)
    if entry is not None and entry.row.number != row.number:
        turn.drop(row.uid)
        entry = None
    if entry is None:
        turn.put(AdmissionEntry(row=row, preempted=row.preempted))
        return
    # What its containers gave back is free once they are confined by what was answered last.
    held = None if row.confined >= entry.generation else entry.held
    preempted = entry.preempted or row.preempted
    turn.put(replace(entry, row=row, held=held, preempted=preempted, sent=min(entry.sent, row.received)))


# ---------------------------------------------------------------- plan


def plan(
    state: AdmissionState, turn: AdmissionTurn, now: Instant, new_op: Callable[[], OpId]
) -> Decision[AdmissionState]:
    """Do whatever is not done yet; sees no message."""
    state = replace(state, record=recall(state.record, turn, now, new_op))
    node_at, asking, again_at = follow_node(paths.ADMISSION, state.asking.node_at, now, known=state.described)
    turn.actions += asking
    turn.wakes.append(again_at)
    state = replace(state, asking=replace(state.asking, node_at=node_at))
    claim_verdicts(state, turn)
    state = let_in(replace(state, record=replace(state.record, recalled=turn.recalled)), turn, now)
    state = replace(state, record=keep(state.record, turn, now, new_op))
    if turn.judged:
        turn.actions.append(Tell(to=paths.PODS, message=PodsJudged(pods=tuple(turn.judged))))
    state = say_what_is_recalled(name_preempted(state, turn, now), turn)
    send_answers(turn)
    if state.admit_at is not None:
        turn.wakes.append(state.admit_at)
    wake_at = min(turn.wakes, default=None)
    return Decision(state=turn.settled(state), actions=tuple(turn.actions), wake_at=wake_at)


def claim_verdicts(state: AdmissionState, turn: AdmissionTurn) -> None:
    """Give pods that are known again the verdicts of an earlier life, each once."""
    recalled = turn.recalled
    if not recalled:
        return
    # Of what is being written nothing is kept yet.
    kept = turn.edition == state.record.written and state.record.write_op is None
    claimed = [uid for uid in recalled if uid in turn.pods]
    for uid in claimed:
        entry = turn.pods[uid]
        if entry.verdict is None:
            verdict = recalled[uid]
            turn.answer(replace(entry, verdict=verdict, kept=kept, waits=""), verdict.allocated)
    if claimed:
        turn.recalled = {uid: verdict for uid, verdict in recalled.items() if uid not in turn.pods}


def let_in(state: AdmissionState, turn: AdmissionTurn, now: Instant) -> AdmissionState:
    """Decide who is admitted and who is resized, where something has changed on which that depends."""
    due = state.admit_at is not None and now >= state.admit_at
    if not state.is_ready or not (turn.room_due or due):
        return state
    turn.room_due = False
    admit(state, turn, now)
    resize(state, turn)
    return replace(state, admit_at=min(turn.settling, default=None))


def name_preempted(state: AdmissionState, turn: AdmissionTurn, now: Instant) -> AdmissionState:
    """Name those who must make room to the supervisor, again until it knows."""
    uids = tuple(sorted(turn.members["preempting"]))
    asking = state.asking
    if not uids:
        return replace(state, asking=replace(asking, preempted=())) if asking.preempted else state
    if uids != asking.preempted or now >= asking.preempt_at:
        turn.actions.append(Tell(to=paths.PODS, message=PreemptPods(uids=uids)))
        asking = replace(asking, preempted=uids, preempt_at=now + REPEAT_S)
    turn.wakes.append(asking.preempt_at)
    return replace(state, asking=asking)


def say_what_is_recalled(state: AdmissionState, turn: AdmissionTurn) -> AdmissionState:
    """Tell the supervisor which verdicts no one owns, once all pods and the ledger are known."""
    if not state.recall_due or turn.recalled is None or state.supervisor_epoch is None:
        return state
    pods = tuple((uid, verdict.name) for uid, verdict in turn.recalled.items())
    message = VerdictsRecalled(epoch=state.supervisor_epoch, pods=pods)
    turn.actions.append(Tell(to=paths.PODS, message=message))
    return replace(state, recall_due=False)


def send_answers(turn: AdmissionTurn) -> None:
    """Send the supervisor what was decided and is remembered."""
    entries = turn.named("unsent")
    if not entries:
        return
    message = PodsDecided(decisions=tuple(answer_of(entry) for entry in entries))
    turn.actions.append(Tell(to=paths.PODS, message=message))
    for entry in entries:
        turn.put(replace(entry, sent=entry.generation))


def answer_of(entry: AdmissionEntry) -> PodAdmitted | PodRefused:
    """Return what the supervisor is told of a pod."""
    verdict, row = entry.verdict, entry.row
    assert verdict is not None
    assert row.pod is not None
    if verdict.refusal is not None:
        return PodRefused(
            uid=row.uid,
            number=row.number,
            generation=entry.generation,
            fresh=entry.fresh,
            refusal=verdict.refusal,
        )
    return PodAdmitted(
        uid=row.uid,
        number=row.number,
        generation=entry.generation,
        fresh=entry.fresh,
        allocated=verdict.allocated,
        asked=entry.asked,
        resize=entry.resize,
        holds=entry.held is not None,
    )
