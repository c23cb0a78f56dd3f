"""How long a failed pull waits: 10 s, doubled by each failure up to 300 s, forgotten 600 s after the last one.

The rule is the kubelet's (reference ``runtime-cri`` section 14.2), per pod and image.
"""

from collections.abc import Mapping

from actors.images.state import PullBackoff
from actors.rules.retry import Retry, RetryPolicy
from api.ids import Instant, Uid

RETRY = RetryPolicy(base_s=10.0, limit_s=300.0)
FORGET_AFTER_S = 600.0

Backoffs = Mapping[tuple[Uid, str], PullBackoff]


def counted(backoffs: Backoffs, uid: Uid, image: str, reason: str, message: str, now: Instant) -> Backoffs:
    """Return the table after one more failure."""
    old = known(backoffs, uid, image, now)
    entry = PullBackoff(
        uid=uid,
        image=image,
        retry=(Retry() if old is None else old.retry).after(now, RETRY),
        failed_at=now,
        reason=reason,
        message=message,
    )
    return {**backoffs, (uid, image): entry}


def known(backoffs: Backoffs, uid: Uid, image: str, now: Instant) -> PullBackoff | None:
    """Return the failures of an image for a pod, None when there are none that still count."""
    entry = backoffs.get((uid, image))
    return None if entry is None or now - entry.failed_at > FORGET_AFTER_S else entry


def waits(backoffs: Backoffs, uid: Uid, image: str, now: Instant) -> PullBackoff | None:
    """Return the failures because of which an image is not pulled yet, None when it may be."""
    entry = known(backoffs, uid, image, now)
    return None if entry is None or now >= entry.retry.at else entry


def pruned(backoffs: Backoffs, now: Instant) -> Backoffs:
    """Return the table without what is forgotten."""
    if all(now - entry.failed_at <= FORGET_AFTER_S for entry in backoffs.values()):
        return backoffs
    return {key: entry for key, entry in backoffs.items() if now - entry.failed_at <= FORGET_AFTER_S}
