"""The Lease of coordination.k8s.io/v1: a holder that says from time to time that it is there."""

import msgspec

from api.kube.objects.meta import ObjectMeta
from api.kube.objects.wiretype import ApiObject, Time


class LeaseSpec(ApiObject, frozen=True, kw_only=True):
    """Who holds it, since when, and how long a renewal counts."""

    acquire_time: Time | None = None
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    preferred_holder: str | None = None
    renew_time: Time | None = None
    strategy: str | None = None


class NodeLease(ApiObject, frozen=True, kw_only=True):
    """A Lease; that of a node is in the namespace ``kube-node-lease``."""

    api_version: str = msgspec.field(default_factory=lambda: "coordination.k8s.io/v1")
    kind: str = msgspec.field(default_factory=lambda: "Lease")
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: LeaseSpec = LeaseSpec()
