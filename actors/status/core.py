"""StatusManager's decisions: one writer of each pod's status, newest wins, one write of a pod at a time.

Changes of a moment are written together until the pod runs; a change during a write causes another write right after
it. Terminal statuses are written at once and durably: an exit code that was published once is never lost again. What
replaces or removes them is durable too: a static pod comes back under its UID, and must not be given the end of its
earlier life by a power failure. Standalone, the ledger is where statuses are kept; a later issue sends them to an API
server as well.
"""

from collections.abc import Callable
from typing import assert_never

import msgspec
from msgspec.structs import replace

from actors.rules.agenda import Entry
from actors.rules.container.ownership import say_the_same
from actors.status.state import SECTION, StatusState, Version
from api.errors import FailureKind
from api.ids import Instant, OpId, Uid
from api.kube.objects.podstatus import PodStatus
from api.lifecycle import Action, Decision, Start
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.status import ForgetPodStatus, PodStatusComposed, StatusMessage
from api.ports.ledger import Forget, Remember

DEADLINE_S = 30.0
RETRY_S = 1.0
RETRY_LIMIT_S = 60.0
ROOM_RETRY_LIMIT_S = 2.0
"""The same where the disk is full: what is cleared to make room are records of how pods ended, so that their statuses must
be written as soon as there is some."""
GATHER_S = 10.0
"""For how long changes of a pod that does not run yet are gathered: most run by then, and their status is written once.

What runs is written at once: that it is ready must outlive the agent."""
PENDING = "Pending"
TERMINAL = ("Succeeded", "Failed")


def decide(
    before: StatusState, message: StatusMessage | KernelMessage, now: Instant, new_op: Callable[[], OpId]
) -> Decision[StatusState]:
    """Take in a message and write what is not stored yet."""
    return plan(absorb(before, message, now), now, new_op)


def absorb(state: StatusState, message: StatusMessage | KernelMessage, now: Instant) -> StatusState:
    """Return what is known after `message`."""
    match message:
        case PodStatusComposed():
            return composed(state, message, now)
        case ForgetPodStatus(uid=uid):
            # An unknown one may still be in the ledger, from an earlier life of the agent.
            unknown = Version(uid=uid, namespace="", name="", status=PodStatus())
            version = state.versions.get(uid, unknown)
            return with_version(state, replace(version, forgotten=True, retry_at=now, due_at=now))
        case Outcome():
            return written(state, message, now)
        case Alarm() | Restarted() | ChildDied() | Heard() | StreamEnded():
            return state
        case _:
            assert_never(message)


def composed(state: StatusState, message: PodStatusComposed, now: Instant) -> StatusState:
    """Take in a status: an equal one is no new version."""
    old = state.versions.get(message.uid)
    due_at = now + GATHER_S if message.status.phase == PENDING else now
    fresh = Version(
        uid=message.uid,
        namespace=message.namespace,
        name=message.name,
        status=message.status,
        finished=message.finished,
        due_at=due_at,
    )
    if old is None:
        return with_version(state, fresh)
    if not old.forgotten and say_the_same(old.status, message.status) and old.finished == message.finished:
        # What others wrote may have changed: it is not for us to publish.
        return with_version(state, replace(old, status=message.status))
    version = old.version + 1
    again = replace(
        old,
        status=message.status,
        finished=message.finished,
        version=version,
        forgotten=False,
        anew=version if old.forgotten else old.anew,
        due_at=min(due_at, old.due_at) if old.is_dirty else due_at,
    )
    return with_version(state, again)


def written(state: StatusState, outcome: Outcome, now: Instant) -> StatusState:
    """Take in that a write ended."""
    uid = state.writing.get(outcome.op)
    if uid is None:
        return state
    writing = dict(state.writing)
    del writing[outcome.op]
    state = replace(state, writing=writing)
    version = replace(state.versions[uid], writing=None)
    if outcome.failure is not None:
        failures = version.failures + 1
        limit_s = ROOM_RETRY_LIMIT_S if outcome.failure.kind is FailureKind.EXHAUSTED else RETRY_LIMIT_S
        wait_s = min(RETRY_S * 2 ** min(failures - 1, 8), limit_s)
        return with_version(state, replace(version, failures=failures, retry_at=now + wait_s))
    if outcome.call == Forget.__name__:
        if version.forgotten:
            versions = dict(state.versions)
            del versions[uid]
            return replace(state, versions=versions)
        return with_version(state, replace(version, stored=0, failures=0))
    return with_version(state, replace(version, stored=version.writing_version, failures=0))


def plan(state: StatusState, now: Instant, new_op: Callable[[], OpId]) -> Decision[StatusState]:
    """Start a write for each pod whose newest status is not stored: of those that changed or are due."""
    found, agenda = state.agenda.due(now)
    actions: list[Action] = []
    entries: list[Entry] = []
    changed: dict[Uid, Version] = {}
    writing: dict[OpId, Uid] = {}
    for uid in dict.fromkeys((*state.touched, *(uid for _, uid in found))):
        version = state.versions.get(uid)
        write_at = version.write_at if version is not None else None
        if version is None or write_at is None:
            continue
        if now < write_at:
            entries.append((write_at, uid))
            continue
        op = new_op()
        actions.append(Start(op=op, port="ledger", call=write_of(version), deadline_s=DEADLINE_S))
        changed[uid] = replace(version, writing=op, writing_version=version.version)
        writing[op] = uid
    if changed:
        versions, calls = {**state.versions, **changed}, {**state.writing, **writing}
        state = replace(state, versions=versions, writing=calls)
    wake_at, agenda = agenda.plus(entries).first(lambda entry: stands(state, entry))
    state = replace(state, touched=(), agenda=agenda)
    return Decision(state=state, actions=tuple(actions), wake_at=wake_at)


def stands(state: StatusState, entry: Entry) -> bool:
    """Tell whether a status is still to be written when the agenda says."""
    version = state.versions.get(entry[1])
    return version is not None and version.write_at == entry[0]


def unwritten(state: StatusState) -> tuple[Remember | Forget, ...]:
    """Return the calls that write everything that is not written: for an orderly end."""
    return tuple(write_of(version) for version in state.versions.values() if version.is_dirty)


def write_of(version: Version) -> Remember | Forget:
    """Return the call that brings the ledger up to date for one pod."""
    if version.forgotten:
        return Forget(section=SECTION, key=version.uid, durable=True)
    return Remember(
        section=SECTION,
        key=version.uid,
        data=msgspec.msgpack.encode(version.status),
        durable=version.status.phase in TERMINAL or version.stored < version.anew,
    )


def with_version(state: StatusState, version: Version) -> StatusState:
    """Return the state with this version in place of the pod's last."""
    versions = {**state.versions, version.uid: version}
    return replace(state, versions=versions, touched=(*state.touched, version.uid))
