"""Crash-loop back-off: how long an exited container waits before its next start.

The rule is the kubelet's (reference ``pod-lifecycle`` section 7): waits of 0, 10, 20, 40 ... up to the limit, measured
from the exit, whatever the exit code; forgotten when the container ran for ten minutes beyond its last wait. Unlike the
kubelet's, ours is remembered in the ledger, and says which start it has already been counted for, so that an agent
killed in between does not count it twice.

An entry holds for the image and the resources that earned it: a corrected container begins anew, and a restart that gives
it other resources is no crash.
"""

import hashlib

import msgspec

from actors.rules.retry import RetryPolicy
from api.ids import WallNs
from api.kube.objects.container import Container, EphemeralContainer

FIRST_S = 10.0
FORGET_AFTER_S = 600.0
NS = 1_000_000_000


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """The back-off of one container of one pod."""

    container: str
    delay_s: float
    """How long after its next exit the container waits."""
    updated_at: WallNs
    for_attempt: int
    """The start that this entry was last counted for."""
    key: str = ""
    """Of the container that earned it; empty, as before keys were written: of any."""


def backoff_key(container: Container | EphemeralContainer) -> str:
    """Return what tells a container from one of the same name that must not wait for it: 16 hex digits."""
    told = msgspec.json.encode((container.image, container.resources), order="sorted")
    return hashlib.blake2b(told, digest_size=8).hexdigest()


def wait_s(entry: Backoff | None, finished_at: WallNs, wall: WallNs, next_attempt: int) -> float:
    """Return the seconds until the container may start again, 0 when it may now.

    A wall clock that jumped backwards makes ages negative: they count as 0.
    """
    if entry is None or entry.for_attempt >= next_attempt or forgotten(entry, finished_at, wall):
        return 0.0
    age_s = max(0, wall - finished_at) / NS
    return max(0.0, entry.delay_s - age_s)


def forgotten(entry: Backoff, finished_at: WallNs, wall: WallNs) -> bool:
    """Tell whether the container ran so long since that its history no longer counts.

    An end in the future is one before the clock was set back: taken as it is, it would make a hot loop of restarts.
    """
    return (min(finished_at, wall) - entry.updated_at) / NS > FORGET_AFTER_S


def counted(
    entry: Backoff | None,
    container: Container | EphemeralContainer,
    finished_at: WallNs,
    wall: WallNs,
    attempt: int,
    limit_s: float,
) -> Backoff:
    """Return the entry that counts the start number `attempt`; counting one start twice changes nothing."""
    if entry is not None and entry.for_attempt >= attempt:
        return entry
    policy = RetryPolicy(base_s=FIRST_S, limit_s=limit_s)
    if entry is None or forgotten(entry, finished_at, wall):
        delay_s = policy.wait_s(1)
    else:
        delay_s = policy.wait_after_s(entry.delay_s)
    return Backoff(
        container=container.name,
        delay_s=delay_s,
        updated_at=wall,
        for_attempt=attempt,
        key=backoff_key(container),
    )
