"""What of the machine pods may have: its capacity without what is reserved (reference ``node`` sections 3.7 and 3.8)."""

from api.config.eviction import read_amount
from api.config.settings import Settings
from api.errors import RejectedError
from api.kube.quantity import parse

EVICTION = {"memory": "memory.available", "ephemeral-storage": "nodefs.available"}
"""Resource, and the hard threshold that is kept free of it."""


def allocatable(resource: str, capacity: int, settings: Settings) -> int:
    """Return how much of a resource pods may have. CPU in millicores, sizes in bytes.

    Raises `RejectedError` when more is reserved than there is.
    """
    if not capacity:
        # The capacity of the machine is unknown.
        return 0
    reserved = 0
    for quantities in (settings.system_reserved, settings.kube_reserved):
        amount = parse(dict(quantities).get(resource, "0"))
        reserved += amount.milli_value() if resource == "cpu" else amount.value()
    reserved += threshold(dict(settings.eviction_hard).get(EVICTION.get(resource, ""), "0"), capacity)
    if reserved > capacity:
        raise RejectedError(
            f'invalid Node Allocatable configuration. Resource "{resource}" has a reservation of {reserved} but capacity of'
            f" {capacity}. Expected capacity >= reservation."
            " Lower systemReserved, kubeReserved or evictionHard"
        )
    return capacity - reserved


def threshold(text: str, capacity: int) -> int:
    """Return a threshold in bytes; a percentage is of the capacity."""
    value = read_amount(text)
    return value.of(capacity) if value is not None else 0


def pod_limit(settings: Settings, cpus: int) -> int:
    """Return how many pods may be here at one time."""
    if settings.pods_per_core:
        return min(settings.max_pods, settings.pods_per_core * cpus)
    return settings.max_pods
