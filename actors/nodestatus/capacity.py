"""Capacity and what of it pods may have (specification 3.7, 3.8): our own keys only, quantities as Kubernetes writes them."""

from collections.abc import Mapping

from msgspec.structs import replace

from api.kube.objects.node import Node
from api.kube.objects.strmap import StrMap
from api.kube.quantity import NANO, Amount, Notation, QuantityError, parse
from api.ports.node import NodeFacts

HUGE_PAGES = "hugepages-"
MILLI = NANO // 1000


def with_capacity(node: Node, machine: NodeFacts) -> Node:
    """Return the Node with capacity and allocatable of this machine; what others advertise stays."""
    known, given = node.status.capacity, node.status.allocatable
    capacity = merged(known, capacity_of(machine))
    own = allocatable_of(machine)
    # What another advertises can be had in full; an extended resource that is advertised no longer cannot be had at all.
    foreign = {key: parsed(text) for key, text in capacity.items() if key not in own}
    kept = {key: text for key, text in given.items() if key in capacity or not is_extended(key)}
    allocatable = merged(kept, {**foreign, **own})
    return replace(node, status=replace(node.status, capacity=capacity, allocatable=allocatable))


def capacity_of(machine: NodeFacts) -> dict[str, Amount]:
    """Return what the machine has; a file system whose size is not known is left out."""
    sizes = zip(machine.huge_page_sizes, machine.huge_page_bytes, strict=False)
    found = {
        "cpu": Amount(machine.cpu_milli * MILLI),
        "memory": in_bytes(machine.memory_bytes),
        "pods": Amount(machine.max_pods * NANO),
        **{f"{HUGE_PAGES}{in_bytes(size)}": in_bytes(total) for size, total in sizes},
    }
    if machine.ephemeral_bytes:
        found["ephemeral-storage"] = in_bytes(machine.ephemeral_bytes)
    return found


def allocatable_of(machine: NodeFacts) -> dict[str, Amount]:
    """Return what of the machine pods may have."""
    found = {
        "cpu": Amount(machine.allocatable_cpu_milli * MILLI),
        "memory": in_bytes(machine.allocatable_memory_bytes),
        "pods": Amount(machine.max_pods * NANO),
        **{name: in_bytes(total) for name, total in machine.allocatable_scalars},
    }
    if machine.ephemeral_bytes:
        found["ephemeral-storage"] = in_bytes(machine.allocatable_ephemeral_bytes)
    return found


def in_bytes(count: int) -> Amount:
    """Return so many bytes."""
    return Amount(count * NANO, Notation.BINARY)


def merged(known: Mapping[str, str], own: Mapping[str, Amount | None]) -> StrMap:
    """Return what is known with our own amounts; an equal one keeps its text, and sizes of huge pages that are gone go."""
    found = {key: text for key, text in known.items() if key in own or not key.startswith(HUGE_PAGES)}
    for key, amount in own.items():
        if amount is not None and parsed(found.get(key, "")) != amount:
            found[key] = str(amount)
    return StrMap(found)


def parsed(text: str) -> Amount | None:
    """Return an amount, None for what is none."""
    try:
        return parse(text)
    except QuantityError:
        return None


def is_extended(resource: str) -> bool:
    """Return whether this is a resource that Kubernetes itself knows nothing of, such as ``example.com/gpu``."""
    domain, slash, _ = resource.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def without_extended(node: Node) -> Node:
    """Return the Node with nothing left of each extended resource: who offers it says so again after a restart (2.4)."""
    status = node.status
    lost = {key: "0" for key in status.capacity if is_extended(key)}
    return replace(
        node,
        status=replace(
            status,
            capacity=StrMap({**status.capacity, **lost}),
            allocatable=StrMap({**status.allocatable, **lost}),
        ),
    )
