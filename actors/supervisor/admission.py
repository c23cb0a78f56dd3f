"""What the supervisor and AdmissionManager say to each other: a row of each pod, and what was decided on it.

Rows of pods that changed are sent at the end of a turn; all rows once a minute, to a new incarnation of admission, and, ever
more slowly, while something is not answered.
"""

from msgspec.structs import replace

from actors.rules.retry import RetryPolicy
from actors.supervisor.gate import by_uid, may_start
from actors.supervisor.standing import ENDED, OVER, is_fresh, is_to_stop
from actors.supervisor.state import (
    AdmissionLink,
    Asked,
    Decided,
    Judged,
    NotAsked,
    PodEntry,
    Preemption,
    Quarantined,
    Stopping,
    SupervisorState,
    with_entries,
)
from actors.supervisor.work import Work
from api import paths
from api.ids import Instant, Uid
from api.kube.objects.pod import Pod
from api.lifecycle import Tell
from api.messages.admission import PodsToAdmit, PodToAdmit
from api.messages.pod import KillCause, KillPod
from api.messages.supervisor import (
    PodAdmitted,
    PodLife,
    PodRefused,
    PodsDecided,
    PodsJudged,
    PreemptPods,
    VerdictsRecalled,
)

REPEAT_S = 5.0
"""How long an answer is waited for before all rows are sent again; each further time twice as long, up to a resync."""
TERMINAL = ("Succeeded", "Failed")
PREEMPTING = "Preempting"
PREEMPTED = "Preempted in order to admit critical pod"


# ---------------------------------------------------------------- what is said


def row_of(entry: PodEntry) -> PodToAdmit:
    """Return what admission must know of a pod."""
    desired, life, state = entry.desired, entry.reported.life, entry.admission
    wanted = desired.pod is not None and entry.kill is None and not isinstance(entry.actor, Stopping)
    holds = isinstance(state, Decided) and isinstance(state.answer, PodAdmitted) and state.answer.holds
    return PodToAdmit(
        uid=entry.uid,
        number=entry.number,
        name=f"{entry.namespace}/{entry.name}",
        order=desired.order,
        pod=desired.pod,
        static=entry.is_static,
        open=wanted and not isinstance(state, NotAsked),
        settled=isinstance(state, Asked) and state.settled,
        silent=life in (None, PodLife.RECALLING),
        ending=desired.pod is None or is_to_stop(entry) or life is PodLife.TERMINATING,
        ended=life in ENDED,
        stoppable=not isinstance(entry.actor, Quarantined),
        preempted=entry.preemption is not None,
        confined=entry.reported.confined if holds else -1,
    )


def with_received(entry: PodEntry) -> PodToAdmit:
    """Return a pod's row with the answer that was received last."""
    state = entry.admission
    received = state.answer.generation if isinstance(state, Decided) else -1
    return replace(row_of(entry), received=received)


def send_rows(state: SupervisorState, work: Work, now: Instant) -> SupervisorState:
    """Send admission the rows of the pods that changed, or of all when that is due."""
    link = state.link
    unanswered = bool(work.members["unanswered"]) or not link.ready
    if link.whole_due or now >= due_at(state, link, unanswered=unanswered):
        rows = tuple(with_received(entry) for entry in work.entries.values())
        message = PodsToAdmit(epoch=state.epoch, whole=True, pods=rows)
        tries = link.tries + 1 if unanswered else 0
        link = replace(link, whole_due=False, whole_at=now, sent_at=now, tries=tries)
        work.actions.append(Tell(to=paths.ADMISSION, message=message))
    else:
        changed = [(uid, work.entries.get(uid)) for uid in work.changed_rows(row_of)]
        if changed:
            rows = tuple(with_received(entry) for _, entry in changed if entry is not None)
            left = tuple(uid for uid, entry in changed if entry is None)
            message = PodsToAdmit(epoch=state.epoch, pods=rows, left=left)
            link = replace(link, sent_at=now, tries=0)
            work.actions.append(Tell(to=paths.ADMISSION, message=message))
    work.wakes.append(due_at(state, link, unanswered=unanswered))
    return replace(state, link=link)


def due_at(state: SupervisorState, link: AdmissionLink, *, unanswered: bool) -> Instant:
    """Return when all rows are due again."""
    resync_at = link.whole_at + state.resync_s
    if not unanswered:
        return resync_at
    pause_s = RetryPolicy(base_s=REPEAT_S, limit_s=state.resync_s).wait_s(link.tries + 1)
    return min(resync_at, max(link.whole_at + pause_s, link.sent_at + REPEAT_S))


def ask(state: SupervisorState, entry: PodEntry, work: Work) -> PodEntry:
    """Return the entry of a wanted pod that nothing was decided on, asked for as far as it can be admitted now."""
    pod = entry.desired.pod
    if pod is None or isinstance(entry.admission, Judged | Decided):
        return entry
    known = state.runtime.listed is not None and state.node.known
    free = not entry.is_static or entry.has_actor or may_start(state, entry, work)
    asked = Asked(settled=is_settled(state, entry, pod)) if known and free else NotAsked()
    return entry if asked == entry.admission else replace(entry, admission=asked)


def is_settled(state: SupervisorState, entry: PodEntry, pod: Pod) -> bool:
    """Tell whether a pod runs, has ended or must end: nothing is decided on it any more.

    One that is being brought up was admitted, though that may be written nowhere: its actor was told so, and lives on.
    """
    over = pod.status.phase in TERMINAL or pod.metadata.deletion_timestamp is not None
    told = entry.reported.life in (PodLife.SYNCING, *OVER)
    return over or told or runs(state, entry.uid)


def runs(state: SupervisorState, uid: Uid) -> bool:
    """Tell whether the runtime shows something of the pod alive, as of a listing that says something about it."""
    listed = state.runtime.listed
    if listed is None or listed.as_of <= state.runtime.ended.get(uid, float("-inf")):
        return False
    shown = by_uid(listed).get(uid)
    return shown is not None and shown.alive and (shown.ours or state.take_over)


# ---------------------------------------------------------------- what is heard


def absorb_answer(
    state: SupervisorState, message: PodsDecided | PodsJudged | VerdictsRecalled | PreemptPods
) -> SupervisorState:
    """Take in what admission says."""
    match message:
        case PodsDecided(decisions=decisions):
            return absorb_decisions(state, decisions)
        case PodsJudged(pods=pods):
            found = ((state.entries.get(uid), number) for uid, number in pods)
            judged = [
                replace(entry, admission=Judged())
                for entry, number in found
                if entry is not None and entry.number == number and isinstance(entry.admission, Asked)
            ]
            return with_entries(state, judged)
        case VerdictsRecalled(epoch=epoch, pods=pods):
            if epoch != state.epoch:
                return state
            link = replace(state.link, ready=True, recalled=dict(pods))
            return replace(state, link=link, due=replace(state.due, strays=True))
        case PreemptPods(uids=uids):
            named = (state.entries.get(uid) for uid in uids)
            victims = [
                replace(entry, preemption=Preemption(message=preemption_of(entry.uid)))
                for entry in named
                if entry is not None and entry.preemption is None
            ]
            return with_entries(state, victims)


def absorb_decisions(
    state: SupervisorState, decisions: tuple[PodAdmitted | PodRefused, ...]
) -> SupervisorState:
    """Take in answers: the newest about the pod that was asked for holds."""
    after, recalled = [], dict(state.link.recalled)
    for answer in decisions:
        entry = state.entries.get(answer.uid)
        if entry is None or entry.number != answer.number:
            continue
        recalled.pop(answer.uid, None)
        before = entry.admission.answer if isinstance(entry.admission, Decided) else None
        if before is not None and answer.generation <= before.generation:
            continue
        # What was known to be fresh stays so, whoever began again since.
        fresh = answer.fresh or is_fresh(entry)
        decided = replace(entry, admission=Decided(answer=answer, fresh=fresh))
        if before is not None and says(before) != says(answer):
            revision = entry.desired.revision + 1
            decided = replace(decided, desired=replace(entry.desired, revision=revision))
        after.append(decided)
    if len(recalled) != len(state.link.recalled):
        state = replace(state, link=replace(state.link, recalled=recalled))
    return with_entries(state, after)


def says(answer: PodAdmitted | PodRefused) -> tuple[object, ...]:
    """Return what of an answer a pod's actor must know."""
    if isinstance(answer, PodRefused):
        return (answer.refusal,)
    return (answer.allocated, answer.resize)


def preemption_of(uid: Uid) -> KillPod:
    """Return the kill of a pod that must make room."""
    return KillPod(
        uid=uid,
        cause=KillCause.PREEMPTED,
        evict=True,
        reason=PREEMPTING,
        message=PREEMPTED,
        asked_by=paths.PODS,
    )


def lost_admission(state: SupervisorState) -> SupervisorState:
    """Take in that admission has begun again: it is sent everything."""
    return replace(state, link=replace(state.link, ready=False, whole_due=True, tries=0))
