"""What the API source knows: the last level of the API server, who lacks it, and its checkpoint in the ledger."""

import hashlib
from collections.abc import Mapping

import msgspec

from actors.rules.retry import Retry
from actors.rules.subscription import Subscription
from api.errors import Failure
from api.ids import Instant, OpId, Path, Uid
from api.kube.objects.pod import Pod
from api.ports.manifests import Problem
from api.shown.introspection import SourceRow

API = "api"
SECTION = "apipods"
"""Of the ledger: the last level, one pod an entry, as JSON; keys are those of `entry_key`."""


class ApiLevel(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server listed last."""

    pods: tuple[Pod, ...] = ()
    """To run: each with the annotation of its source."""
    mirrors: tuple[Pod, ...] = ()
    ignored: tuple[Problem, ...] = ()
    origins: Mapping[Uid, tuple[Pod, Pod]] = {}
    """By UID: the pod as it was listed, and what was made of it, which stays the same object while the first does."""


class CheckpointEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What the ledger holds of one pod."""

    digest: str
    pod: Pod | None = None
    """The object that the digest is of; None for one of an earlier life of the agent."""


class UnwrittenPod(msgspec.Struct, frozen=True, kw_only=True):
    """A ledger entry to write; `entry` None: to remove."""

    uid: Uid
    entry: CheckpointEntry | None
    data: bytes = b""

    def __repr__(self) -> str:
        return f"UnwrittenPod({self.uid}, {len(self.data)} bytes)"


class CheckpointWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A ledger call in flight."""

    op: OpId
    uid: Uid
    entry: CheckpointEntry | None


class CheckpointUnread(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The ledger is to say what the API server listed before the agent started; nothing is written before.

    What is written without knowing what is there would leave entries of pods that are gone.
    """

    op: OpId | None = None
    """None: to be asked."""
    inherited: tuple[OpId, ...] = ()
    """Calls of an earlier incarnation: it is asked when they have ended, which may be writes."""
    problem: str = ""
    """Why it could not be read the last time."""
    retry: Retry = Retry()


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The ledger has answered, well or not; changes are written to it, gathered."""

    restored: tuple[Pod, ...] = ()
    """What it held."""
    problem: str = ""
    """What of it could not be read, or written."""
    lost: tuple[str, ...] = ()
    """Unreadable entries, to be reported as events of the node."""
    stored: Mapping[Uid, CheckpointEntry] = {}
    unwritten: tuple[UnwrittenPod, ...] = ()
    """Of the round of writes that has begun."""
    writes: tuple[CheckpointWrite, ...] = ()
    write_at: Instant | None = None
    """When the next round begins; None: nothing has changed."""
    retry: Retry = Retry()


class ApiSourceState(msgspec.Struct, frozen=True, kw_only=True):
    """All that the API source knows."""

    server: str
    """URL of the API server, for people."""
    config: Path
    followers: tuple[Path, ...]
    """Who gets `ApiPodsSeen`."""
    checkpoint: CheckpointUnread | Checkpoint
    subscription: Subscription = Subscription()
    level: ApiLevel | None = None
    """None before the first list."""
    unsent: tuple[Path, ...] = ()
    """Who lacks the last level, or the restored one."""
    repeat_at: Instant = float("inf")
    """When the level is sent again though it did not change."""
    failure: Failure | None = None
    """Why list or watch do not work now."""


def entry_key(uid: Uid) -> str:
    """Return the ledger key of a pod: a UID from a server may contain characters that a key may not."""
    return hashlib.sha256(uid.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def rows(state: ApiSourceState) -> tuple[SourceRow, ...]:
    """Return what became of the API server's list, and each pod in it."""
    level, checkpoint = state.level, state.checkpoint
    restored = checkpoint.restored if isinstance(checkpoint, Checkpoint) else ()
    status = "accepted" if level is not None else "waiting"
    said = []
    if state.failure is not None:
        status = "unreachable"
        said.append(state.failure.message)
    if level is None:
        kept = f": the {len(restored)} pods of the last list before the agent started are kept"
        said.append(f"has not listed its pods yet{kept if restored else ''}")
    elif state.failure is not None:
        said.append("the pods of its last list are kept")
    if state.subscription.why and not state.subscription.is_open:
        said.append(state.subscription.why)
    if checkpoint.problem:
        said.append(checkpoint.problem)
    top = SourceRow(source=API, where=state.server, status=status, problems=tuple(said))
    ignored = tuple(
        SourceRow(source=API, where=one.where, status="ignored", problems=(one.message,))
        for one in (level.ignored if level is not None else ())
    )
    pods = level.pods if level is not None else restored
    accepted = tuple(
        SourceRow(
            source=API,
            where=state.server,
            status="accepted",
            pod=f"{pod.metadata.namespace}/{pod.metadata.name}",
        )
        for pod in pods
    )
    return (top, *accepted, *ignored)
