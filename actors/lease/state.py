"""What LeaseManager knows: the Node that owns the lease, the lease as it was last seen, and the request in flight."""

from enum import StrEnum

import msgspec

from actors.rules.retry import Retry
from api.errors import Failure
from api.ids import Instant, OpId, WallNs
from api.kube.objects.lease import NodeLease

NEVER = float("-inf")


class LeaseSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator says of the lease."""

    node_name: str
    duration_s: int = 40
    """How long a renewal counts; it is renewed four times as often."""


class LeaseStep(StrEnum):
    """What the request in flight is for."""

    READ = "read the lease"
    CREATE = "create the lease"
    RENEW = "renew the lease"


class LeaseExchange(msgspec.Struct, frozen=True, kw_only=True):
    """The request in flight: at most one."""

    op: OpId
    step: LeaseStep


class LeaseState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that LeaseManager knows."""

    settings: LeaseSettings
    asked_at: Instant = NEVER
    """When the Node was asked for."""
    owner: str | None = None
    """UID of the Node, empty while the server has none: then nothing is written. None: not known yet."""
    lease: NodeLease | None = None
    """As an answer showed it last, to write from; None: it is read first."""
    is_absent: bool = False
    """Whether the server has none, as it said last: it is created."""
    exchange: LeaseExchange | None = None
    due_at: Instant = NEVER
    """Of the next renewal."""
    attempts: int = 0
    """Renewals that failed since the last pause."""
    retry: Retry = Retry()
    """Of reading and creating it."""
    renewals: int = 0
    renewed_at: Instant | None = None
    last: WallNs = 0
    """The latest renewal that was sent, or seen."""
    failure: Failure | None = None
    """Of the last request; None where it went well."""
