"""Garbage collection: what runtime, ledger or disk hold of pods that no source wants gets an entry, and is removed."""

from collections.abc import Callable

from msgspec.structs import replace

from actors.supervisor.admission import forget_recalled
from actors.supervisor.kill import removal
from actors.supervisor.state import MEMO_SECTION, STATUS_SECTION, Desired, PodEntry, SupervisorState
from actors.supervisor.work import Work
from api.ids import Instant, OpId, Uid
from api.lifecycle import Start
from api.messages.kernel import Outcome
from api.messages.pod import KillCause
from api.messages.supervisor import RuntimePresence
from api.ports.ledger import RecallAll, RecalledAll
from api.ports.podfiles import ListPodFolders, PodFolders

DEADLINE_S = 30.0
PERIOD_S = 300.0
"""Between searches for what pods that no one owns left on disk: repairs a lost `ForgetPodStatus` and a failed look."""


def collect_garbage(
    state: SupervisorState, work: Work, now: Instant, new_op: Callable[[], OpId]
) -> SupervisorState:
    """Once all sources were seen, and then from time to time, look for what no one owns in the ledger and on disk."""
    garbage = state.garbage
    if not state.sources.all_ready or garbage.calls:
        return state
    if now < garbage.next_at:
        work.wakes.append(garbage.next_at)
        return state
    calls = (
        ("ledger", RecallAll(section=MEMO_SECTION, only_look=True)),
        ("ledger", RecallAll(section=STATUS_SECTION, only_look=True)),
        ("podfiles", ListPodFolders()),
    )
    starts = tuple(Start(op=new_op(), port=port, call=call, deadline_s=DEADLINE_S) for port, call in calls)
    work.actions += starts
    ops = tuple(start.op for start in starts)
    after = replace(garbage, calls=ops, next_at=now + PERIOD_S, failed=False)
    return replace(state, garbage=after)


def absorb_garbage(state: SupervisorState, outcome: Outcome) -> SupervisorState:
    """Take in of which UIDs there is something in the ledger or on disk."""
    garbage = state.garbage
    if outcome.op not in garbage.calls:
        return state
    found: tuple[Uid, ...] = ()
    whole = not garbage.failed
    match outcome.result:
        case RecalledAll(entries=entries, damaged=damaged):
            # What is damaged is there too: the pod's actor reads it, and says what was lost.
            found = (*(Uid(key) for key, _ in entries), *(Uid(key) for key, _ in damaged if key))
            whole = whole and all(key for key, _ in damaged)
        case PodFolders(uids=uids):
            found = uids
        case _:
            # A failed search is no reason to stop: what is left there is found by the next one.
            whole = False
    left = tuple(op for op in garbage.calls if op != outcome.op)
    found = tuple(sorted({*garbage.found, *found}))
    remains = frozenset(found) if whole and not left else garbage.remains
    after = replace(garbage, calls=left, found=found, failed=not whole, remains=remains)
    return replace(state, garbage=after, due=replace(state.due, strays=True))


def find_orphans(state: SupervisorState, work: Work) -> SupervisorState:
    """Make an entry for what runs here and no source wants; list what is another agent's."""
    runtime, ready = state.runtime, state.sources.all_ready
    listed = runtime.listed
    if listed is None or not work.strays_due:
        return state
    work.strays_due = False
    foreign, strays = [], []
    for presence in runtime.strays:
        if presence.uid in work.entries or not runtime.covers(presence.uid):
            continue
        strays.append(presence)
        if not presence.ours and not state.take_over:
            foreign.append(presence)
            continue
        if presence.loose and presence.uid not in runtime.loose:
            # Sandboxes and containers are listed side by side: another agent's pod may have begun in between.
            continue
        named = work.names.get(f"{presence.name}_{presence.namespace}", ())
        rival = work.entries[named[0]] if named else None
        replaced = rival is not None and rival.desired.pod is not None and rival.is_static
        if replaced or state.sources.has_answered(presence.source):
            cause = KillCause.REPLACED if replaced else KillCause.ORPHAN
            state = adopt_orphan(state, work, presence.uid, presence.name, presence.namespace, cause)
    if ready:
        state = find_leavings(state, work)
    return replace(state, runtime=replace(state.runtime, foreign=tuple(foreign), strays=tuple(strays)))


def with_dropped(state: SupervisorState, work: Work) -> tuple[RuntimePresence, ...]:
    """Return the strays with what the runtime shows of pods that have no entry any more."""
    if state.runtime.listed is None or not work.dropped:
        return state.runtime.strays
    shown = state.runtime.listed.by_uid
    return (*state.runtime.strays, *(shown[uid] for uid in work.dropped if uid in shown))


def find_leavings(state: SupervisorState, work: Work) -> SupervisorState:
    """Add an entry for a pod that no source lists and the runtime does not show: only ledger or folders have it.

    A verdict is durable before its pod's actor does anything, so what an earlier life decided tells of each beginning.
    """
    for uid, full_name in state.link.recalled.items():
        if uid not in work.entries:
            namespace, _, name = full_name.partition("/")
            state = adopt_orphan(forget_recalled(state, uid), work, uid, name, namespace)
    if state.garbage.calls:
        return state
    for uid in state.garbage.found:
        if uid not in work.entries and uid not in state.runtime.ended:
            state = adopt_orphan(state, work, uid, str(uid), "")
    return replace(state, garbage=replace(state.garbage, found=()))


def adopt_orphan(
    state: SupervisorState,
    work: Work,
    uid: Uid,
    name: str,
    namespace: str,
    cause: KillCause = KillCause.ORPHAN,
) -> SupervisorState:
    """Add an entry for a pod that no source lists, to end it with its own grace, which its actor finds out."""
    entry = PodEntry(
        uid=uid,
        name=name,
        namespace=namespace,
        number=state.next_order,
        desired=Desired(order=state.next_order),
        kill=removal(uid, cause),
    )
    work.put(entry)
    return replace(state, next_order=state.next_order + 1)
