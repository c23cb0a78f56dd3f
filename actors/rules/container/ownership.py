"""Whose a pod's status is: the part that the agent alone writes, and what others write beside it.

Reference ``pod-lifecycle`` sections 10.4 and 11.1.
"""

import msgspec

from api.kube.objects.podstatus import PodStatus

DISRUPTION = "DisruptionTarget"
"""A condition that the agent shares with every other writer that may end a pod."""
BY_KUBELET = "TerminationByKubelet"
"""The reason of that condition where the agent set it."""
OWNED = frozenset(
    {
        "AllContainersRestarting",
        "ContainersReady",
        "Initialized",
        "PodReadyToStartContainers",
        "PodResizeInProgress",
        "PodResizePending",
        "PodScheduled",
        "Ready",
    }
)
"""Types that only the agent writes; any other belongs to another writer and is kept unchanged."""


def own_part(status: PodStatus) -> PodStatus:
    """Return what of a status the agent answers for, in one order: two that say the same are equal."""
    mine = (one for one in status.conditions if one.type in OWNED or one.type == DISRUPTION)
    return msgspec.structs.replace(
        status,
        conditions=tuple(sorted(mine, key=lambda one: one.type)),
        container_statuses=tuple(sorted(status.container_statuses, key=lambda one: one.name)),
        ephemeral_container_statuses=tuple(
            sorted(status.ephemeral_container_statuses, key=lambda one: one.name)
        ),
        resource_claim_statuses=(),
        nominated_node_name="",
    )


def say_the_same(one: PodStatus, other: PodStatus) -> bool:
    """Return whether two statuses differ in nothing that the agent answers for."""
    return one == other or own_part(one) == own_part(other)
