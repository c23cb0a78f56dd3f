"""Wall clock instants as Kubernetes writes them: RFC 3339 in UTC."""

from datetime import UTC, datetime
from functools import lru_cache

from api.ids import WallNs

NS = 1_000_000_000


def rfc3339(at: WallNs) -> str:
    """Return the instant to the second, ``2006-01-02T15:04:05Z``: Kubernetes' Time."""
    return written(at // NS)


@lru_cache(maxsize=4096)
def written(seconds: int) -> str:
    """Return a second as it is written; the same few are asked for with every status that is composed."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_nano(at: WallNs) -> str:
    """Return the instant with nine digits of fraction, as log lines and annotations carry it."""
    return f"{rfc3339(at)[:-1]}.{at % NS:09d}Z"


def wall_ns(text: str) -> WallNs:
    """Return the instant of an RFC 3339 text, to the microsecond; raise ValueError for anything else."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return int(moment.timestamp() * 1_000_000) * 1000
