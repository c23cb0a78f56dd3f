"""Which images go, in which order, and why each of the others stays: pure, for the manager and for dry runs."""

from collections.abc import Mapping

import msgspec

from actors.imagegc.disk import people, span
from actors.imagegc.inspection import Inventory
from actors.imagegc.reference import is_sandbox_image
from actors.imagegc.state import ImageGCPolicy, ImageRecord
from api.ids import Instant
from api.ports.images import ImageRow
from api.shown.introspection import ImageDecision, ImageVerdict

SHOWN_USERS = 3


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """What a round is after."""

    everything: bool = False
    need_bytes: int = 0
    """Space to make; sizes are what the runtime says, so this is measured again after each removal."""
    since: Instant = float("inf")
    """Start of the round: an image seen used since then stays."""
    spared: Mapping[str, ImageVerdict] = {}
    wanted: Mapping[str, tuple[str, ...]] = {}
    """Image id -> pods that want it, where that is known beforehand; the image puller knows in any case."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on every image; those to be removed come first, in the order of their going."""

    verdicts: tuple[ImageVerdict, ...]
    too_young: tuple[Instant, ...] = ()
    """When those become old enough that are spared for their age only, ascending."""

    young_bytes: int = 0
    """Their sizes in sum."""

    @property
    def next(self) -> ImageVerdict | None:
        """Return what is to go first."""
        first = self.verdicts[0] if self.verdicts else None
        return first if first is not None and first.decision is ImageDecision.REMOVE else None


def remember(records: Mapping[str, ImageRecord], seen: Inventory, now: Instant) -> Mapping[str, ImageRecord]:
    """Return the records after an inspection: new images begin, used ones are used now, gone ones are forgotten."""
    return {
        image.id: ImageRecord(
            first_detected=old.first_detected if (old := records.get(image.id)) else now,
            last_used=now if image.id in seen.users else old.last_used if old else None,
        )
        for image in seen.images
    }


def judge(
    seen: Inventory, records: Mapping[str, ImageRecord], policy: ImageGCPolicy, goal: Goal, now: Instant
) -> Judgement:
    """Return what is to become of each image. Candidates go least recently used first, never used ones before those."""
    removed: list[ImageVerdict] = []
    kept: list[ImageVerdict] = []
    young: list[Instant] = []
    freed = young_bytes = 0
    for image in sorted(seen.images, key=lambda image: rank(image, records[image.id])):
        record = records[image.id]
        if image.id in goal.spared:
            kept.append(goal.spared[image.id])
            continue
        why_kept = reason_to_keep(image, seen, policy, goal)
        unused_s = now - max(record.first_detected, record.last_used or record.first_detected)
        old_enough_at = record.first_detected + policy.min_age_s
        if not why_kept and record.last_used is not None and record.last_used > goal.since:
            why_kept = "in use when this round began"
        if not why_kept and now < old_enough_at:
            young.append(old_enough_at)
            young_bytes += max(0, image.size_bytes)
            left = span(old_enough_at - now)
            why_kept = (
                f"unused, but younger than imageMinimumGCAge ({span(policy.min_age_s)}); can go in {left}"
            )
        since = (
            f"unused for {span(unused_s)}"
            if record.last_used is not None
            else f"never used in {span(unused_s)}"
        )
        why = ""
        if why_kept:
            pass
        elif 0 < policy.max_age_s < unused_s:
            why = f"{since}, longer than imageMaximumGCAge ({span(policy.max_age_s)})"
        elif goal.everything:
            why = since
        elif freed < goal.need_bytes:
            why = f"{since}; {people(goal.need_bytes - freed)} must become free"
        else:
            why_kept = f"{since}; there is space enough"
        if why:
            freed += max(0, image.size_bytes)
        (removed if why else kept).append(
            verdict(image, ImageDecision.REMOVE if why else ImageDecision.KEEP, why or why_kept)
        )
    kept.sort(key=lambda row: (row.names[:1], row.id))
    return Judgement(verdicts=(*removed, *kept), too_young=tuple(sorted(young)), young_bytes=young_bytes)


def rank(image: ImageRow, record: ImageRecord) -> tuple[float, float, int, str]:
    """Return the place of an image among those to go: of equally old ones the largest first, so that fewer must go."""
    last_used = float("-inf") if record.last_used is None else record.last_used
    return (last_used, record.first_detected, -image.size_bytes, image.id)


def reason_to_keep(image: ImageRow, seen: Inventory, policy: ImageGCPolicy, goal: Goal) -> str:
    """Return why an image stays whatever its age, empty when nothing holds it."""
    if users := seen.users.get(image.id):
        return f"used by {listed(users)}"
    if image.pinned:
        return "pinned by the runtime"
    if is_sandbox_image(image, policy.sandbox_image):
        return "sandboxes are made from it"
    if pods := goal.wanted.get(image.id):
        return f"wanted by {listed(pods)}"
    return ""


def listed(names: tuple[str, ...]) -> str:
    """Return names as a list of which the end may be left out."""
    more = len(names) - SHOWN_USERS
    return ", ".join(names[:SHOWN_USERS]) + (f" and {more} more" if more > 0 else "")


def verdict(image: ImageRow, decision: ImageDecision, reason: str) -> ImageVerdict:
    """Return a verdict on an image."""
    return ImageVerdict(
        id=image.id, names=image.names, size_bytes=image.size_bytes, decision=decision, reason=reason
    )
