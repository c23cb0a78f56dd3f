"""Whether a pod's claim fits what is left of the node (reference ``pod-lifecycle`` section 12, ``node`` section 3.8).

Capacity is what pods may have, not what the machine has. A resource that a pod does not request is never short, however
much others took of it; extended resources that the node does not know are ignored.
"""

from collections.abc import Iterable

import msgspec

from actors.rules.resources.request import Claim, HostPort, is_extended
from api.ports.node import NodeFacts

PODS = "pods"


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """One resource of which there is not enough. CPU in millicores, sizes in bytes."""

    resource: str
    asked: int
    used: int
    capacity: int

    @property
    def missing(self) -> int:
        """Return how much is missing."""
        return self.asked - (self.capacity - self.used)

    def sentence(self) -> str:
        """Return the shortage in a kubelet's words."""
        return (
            f"Node didn't have enough resource: {self.resource}, requested: {self.asked}, used: {self.used},"
            f" capacity: {self.capacity}"
        )


class ResourceSum(msgspec.Struct, frozen=True, kw_only=True):
    """The sum of some pods' claims."""

    pods: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    ephemeral_bytes: int = 0
    scalars: tuple[tuple[str, int], ...] = ()
    ports: tuple[HostPort, ...] = ()

    @staticmethod
    def of(claims: Iterable[Claim]) -> "ResourceSum":
        """Return the sum of these claims."""
        claims = tuple(claims)
        scalars: dict[str, int] = {}
        for claim in claims:
            for name, amount in claim.scalars:
                scalars[name] = scalars.get(name, 0) + amount
        return ResourceSum(
            pods=len(claims),
            cpu_milli=sum(claim.cpu_milli for claim in claims),
            memory_bytes=sum(claim.memory_bytes for claim in claims),
            ephemeral_bytes=sum(claim.ephemeral_bytes for claim in claims),
            scalars=tuple(sorted(scalars.items())),
            ports=tuple(port for claim in claims for port in claim.ports),
        )

    def plus(self, claim: Claim) -> "ResourceSum":
        """Return the load with one pod more."""
        scalars = self.scalars
        if claim.scalars:
            sums = dict(scalars)
            for name, amount in claim.scalars:
                sums[name] = sums.get(name, 0) + amount
            scalars = tuple(sorted(sums.items()))
        return ResourceSum(
            pods=self.pods + 1,
            cpu_milli=self.cpu_milli + claim.cpu_milli,
            memory_bytes=self.memory_bytes + claim.memory_bytes,
            ephemeral_bytes=self.ephemeral_bytes + claim.ephemeral_bytes,
            scalars=scalars,
            ports=(*self.ports, *claim.ports),
        )


def shortages(claim: Claim, load: ResourceSum, node: NodeFacts) -> tuple[Shortage, ...]:
    """Return what the claim lacks with this load: the number of pods, CPU, memory, disk, then the rest by name."""
    capacity, used = dict(node.allocatable_scalars), dict(load.scalars)
    rows = [
        (PODS, 1, load.pods, node.max_pods),
        ("cpu", claim.cpu_milli, load.cpu_milli, node.allocatable_cpu_milli),
        ("memory", claim.memory_bytes, load.memory_bytes, node.allocatable_memory_bytes),
        ("ephemeral-storage", claim.ephemeral_bytes, load.ephemeral_bytes, node.allocatable_ephemeral_bytes),
    ]
    rows += [
        (name, amount, used.get(name, 0), capacity.get(name, 0))
        for name, amount in claim.scalars
        if name in capacity or not is_extended(name)
    ]
    return tuple(
        Shortage(resource=name, asked=asked, used=taken, capacity=limit)
        for name, asked, taken, limit in rows
        if asked > 0 and asked > limit - taken
    )


def clashes(claim: Claim, load: ResourceSum) -> bool:
    """Return whether the claim needs a port of the node that is taken."""
    return any(mine.clashes(other) for mine in claim.ports for other in load.ports)
