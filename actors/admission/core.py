"""AdmissionManager's decisions: which pods may run here, what each is allocated, which pods a critical one preempts.

```text
PodsToAdmit --> judged, critical priorities first --> PodsJudged, and written to the ledger --> PodsDecided
```

Level-triggered: a row has the complete state of a pod, and an answer that a row does not show as received is sent again.
"""

from collections.abc import Callable
from typing import assert_never

from msgspec.structs import replace

from actors.admission.admit import admit
from actors.admission.record import absorb_answer, recall, write_verdicts
from actors.admission.reread import absorb_read, read_node
from actors.admission.resize import resize
from actors.admission.state import AdmissionEntry, AdmissionState, Requested
from actors.admission.work import AdmissionWork
from actors.rules.nodewatch import NEVER_ASKED, follow_node
from actors.rules.resources.allocation import allocated_of
from actors.rules.resources.request import claim_of
from api import paths
from api.ids import Instant, OpId
from api.kube.objects.pod import Pod
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
"""How long until a preemption that the supervisor has not confirmed is requested again."""


def decide(
    state: AdmissionState,
    message: AdmissionMessage | KernelMessage | None,
    now: Instant,
    new_op: Callable[[], OpId],
) -> Decision[AdmissionState]:
    """Absorb a message (None: only plan again) and return what must be done."""
    work = AdmissionWork(state)
    return plan(absorb(state, work, message, now), work, now, new_op)


# ---------------------------------------------------------------- absorb


def absorb(
    state: AdmissionState, work: AdmissionWork, message: AdmissionMessage | KernelMessage | None, now: Instant
) -> AdmissionState:
    """Return what is known after `message`; decides nothing."""
    match message:
        case PodsToAdmit():
            return absorb_pods(state, work, message)
        case NodeChanged(facts=facts):
            work.room_due = work.room_due or not state.described or facts != state.node
            return replace(state, node=facts, described=True)
        case NodePressure():
            work.room_due = True
            return replace(state, pressure=message)
        case Outcome(op=op) if op == state.reading.op:
            return absorb_read(state, work, message)
        case Outcome():
            return absorb_answer(state, work, message, now)
        case Restarted(path=path) if path == paths.NODE:
            return replace(state, asking=replace(state.asking, node_at=NEVER_ASKED))
        case Restarted() | ChildDied() | Alarm() | Heard() | StreamEnded() | None:
            return state
        case _:
            assert_never(message)


def absorb_pods(state: AdmissionState, work: AdmissionWork, message: PodsToAdmit) -> AdmissionState:
    """Absorb the state of some pods or all; changes are ignored until that supervisor has sent all pods."""
    if message.epoch != state.supervisor_epoch:
        if not message.whole:
            return state
        release_verdicts(work)
        work.room_due = True
    for row in message.pods:
        absorb_row(work, row)
    for uid in message.left:
        work.drop(uid)
    if message.whole:
        here = {row.uid for row in message.pods}
        for uid in work.pods.keys() - here:
            work.drop(uid)
    return replace(state, supervisor_epoch=message.epoch, recall_due=state.recall_due or message.whole)


def release_verdicts(work: AdmissionWork) -> None:
    """Absorb that the supervisor restarted: verdicts wait to be claimed by the pods that it sends."""
    verdicts = {uid: entry.verdict for uid, entry in work.pods.items() if entry.verdict is not None}
    for uid in tuple(work.pods):
        work.drop(uid)
    if work.recalled is not None:
        work.recalled = {**work.recalled, **verdicts}


def absorb_row(work: AdmissionWork, row: PodToAdmit) -> None:
    """Absorb the state of one pod."""
    entry = work.pods.get(row.uid)
    if entry is not None and entry.row.number != row.number:
        work.drop(row.uid)
        entry = None
    if entry is None:
        work.put(AdmissionEntry(row=row, requested=requested_by(row.pod), preempted=row.preempted))
        return
    requested = entry.requested if row.pod == entry.row.pod else requested_by(row.pod)
    # What a resize gave back is free once the containers are confined by the last answer.
    held = None if row.confined >= entry.generation else entry.held
    preempted = entry.preempted or row.preempted
    sent = min(entry.sent, row.received)
    work.put(replace(entry, row=row, requested=requested, held=held, preempted=preempted, sent=sent))


def requested_by(pod: Pod | None) -> Requested | None:
    """Return what the spec of a pod requests."""
    if pod is None:
        return None
    return Requested(claim=claim_of(pod.spec), allocated=allocated_of(pod.spec))


# ---------------------------------------------------------------- plan


def plan(
    state: AdmissionState, work: AdmissionWork, now: Instant, new_op: Callable[[], OpId]
) -> Decision[AdmissionState]:
    """Return the next steps; sees no message."""
    state = replace(state, record=recall(state.record, work, now, new_op))
    node_at, asking, again_at = follow_node(paths.ADMISSION, state.asking.node_at, now, known=state.described)
    work.actions += asking
    work.wakes.append(again_at)
    state = replace(state, asking=replace(state.asking, node_at=node_at))
    claim_verdicts(state, work)
    state = admit_and_resize(replace(state, record=replace(state.record, recalled=work.recalled)), work, now)
    state = replace(state, reading=read_node(state, work, new_op))
    state = replace(state, record=write_verdicts(state.record, work, now, new_op))
    if work.judged:
        work.actions.append(Tell(to=paths.PODS, message=PodsJudged(pods=tuple(work.judged))))
    state = send_recalled(request_preemption(state, work, now), work)
    send_answers(work)
    if state.admit_at is not None:
        work.wakes.append(state.admit_at)
    wake_at = min(work.wakes, default=None)
    return Decision(state=work.settled(state), actions=tuple(work.actions), wake_at=wake_at)


def claim_verdicts(state: AdmissionState, work: AdmissionWork) -> None:
    """Give pods the verdicts of an earlier life, each once."""
    recalled = work.recalled
    if not recalled:
        return
    # A write in flight has stored nothing yet.
    kept = work.edition == state.record.written and state.record.write_op is None
    claimed = [uid for uid in recalled if uid in work.pods]
    for uid in claimed:
        entry = work.pods[uid]
        if entry.verdict is None:
            verdict = recalled[uid]
            work.answer(replace(entry, verdict=verdict, kept=kept, waits=""), verdict.allocated)
    if claimed:
        work.recalled = {uid: verdict for uid, verdict in recalled.items() if uid not in work.pods}


def admit_and_resize(state: AdmissionState, work: AdmissionWork, now: Instant) -> AdmissionState:
    """Admit and resize pods, if anything has changed on which that depends."""
    due = state.admit_at is not None and now >= state.admit_at
    if not state.is_ready or not (work.room_due or due):
        return state
    work.room_due = False
    admit(state, work, now)
    resize(state, work)
    return replace(state, admit_at=min(work.settling, default=None))


def request_preemption(state: AdmissionState, work: AdmissionWork, now: Instant) -> AdmissionState:
    """Ask the supervisor to preempt pods, again until it confirms."""
    uids = tuple(sorted(work.members["preempting"]))
    asking = state.asking
    if not uids:
        return replace(state, asking=replace(asking, preempted=())) if asking.preempted else state
    if uids != asking.preempted or now >= asking.preempt_at:
        work.actions.append(Tell(to=paths.PODS, message=PreemptPods(uids=uids)))
        asking = replace(asking, preempted=uids, preempt_at=now + REPEAT_S)
    work.wakes.append(asking.preempt_at)
    return replace(state, asking=asking)


def send_recalled(state: AdmissionState, work: AdmissionWork) -> AdmissionState:
    """Send the supervisor the verdicts that no one owns, once all pods and the ledger are known."""
    if not state.recall_due or work.recalled is None or state.supervisor_epoch is None:
        return state
    pods = tuple((uid, verdict.name) for uid, verdict in work.recalled.items())
    message = VerdictsRecalled(epoch=state.supervisor_epoch, pods=pods)
    work.actions.append(Tell(to=paths.PODS, message=message))
    return replace(state, recall_due=False)


def send_answers(work: AdmissionWork) -> None:
    """Send the supervisor the verdicts that are stored."""
    entries = work.named("unsent")
    if not entries:
        return
    message = PodsDecided(decisions=tuple(answer_of(entry) for entry in entries))
    work.actions.append(Tell(to=paths.PODS, message=message))
    for entry in entries:
        work.put(replace(entry, sent=entry.generation))


def answer_of(entry: AdmissionEntry) -> PodAdmitted | PodRefused:
    """Return the answer to the supervisor about a pod."""
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
