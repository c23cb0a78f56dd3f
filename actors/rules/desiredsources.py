"""How far a subscriber of PodConfig knows the desired pods: numbered changes, and a snapshot after a gap.

Used by PodSupervisor and MirrorManager; what the pods are is each one's own.
"""

import msgspec
from msgspec.structs import replace

from api import paths
from api.ids import Instant, Path
from api.lifecycle import Action, Tell
from api.messages.podconfig import SnapshotWanted
from api.messages.supervisor import PodOp, PodsChanged, PodsSnapshot

ASK_AGAIN_S = 5.0
"""How long a snapshot is waited for before it is requested again."""


class DesiredSources(msgspec.Struct, frozen=True, kw_only=True):
    """How far the stream of desired pods is known."""

    expected: tuple[str, ...] = ()
    """Sources that must be seen before anything is cleaned up."""
    seen: tuple[str, ...] = ()
    number: int = -1
    """Number of the last message of PodConfig; -1 before the first snapshot."""
    gap: bool = True
    """A snapshot is wanted."""
    asked_at: Instant = float("-inf")

    @property
    def all_ready(self) -> bool:
        """Return whether every source was seen; before, nothing is cleaned up."""
        return self.number >= 0 and not self.missing

    def has_answered(self, source: str) -> bool:
        """Return whether what a source does not list is wanted by nobody: a pod of no known source may be any source's."""
        known = source in self.expected and self.number >= 0
        return source in self.seen if known else self.all_ready

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the sources that were not seen yet."""
        return tuple(source for source in self.expected if source not in self.seen)


def after_snapshot(sources: DesiredSources, message: PodsSnapshot) -> DesiredSources:
    """Return how far the stream is known after a snapshot."""
    return DesiredSources(expected=sources.expected, seen=message.seen, number=message.number, gap=False)


def after_change(sources: DesiredSources, message: PodsChanged) -> tuple[DesiredSources, bool]:
    """Return how far the stream is known after a change, and whether the change counts.

    One that came before does not; a gap in the numbers makes everything since unknown. What is restored does not make
    its source seen.
    """
    if message.number <= sources.number:
        return sources, False
    if message.number != sources.number + 1 or sources.gap:
        return replace(sources, gap=True), False
    sources = replace(sources, number=message.number)
    if message.op is not PodOp.RESTORE:
        sources = replace(sources, seen=tuple(sorted({*sources.seen, message.source})))
    return sources, True


def ask_for_snapshot(
    sources: DesiredSources, me: Path, now: Instant
) -> tuple[DesiredSources, tuple[Action, ...], Instant | None]:
    """Ask PodConfig for everything when a number is missing, and return when to ask again, None when none is."""
    if not sources.gap:
        return sources, (), None
    if now < sources.asked_at + ASK_AGAIN_S:
        return sources, (), sources.asked_at + ASK_AGAIN_S
    ask = Tell(to=paths.CONFIG, message=SnapshotWanted(asked_by=me))
    return replace(sources, asked_at=now), (ask,), now + ASK_AGAIN_S
