"""What each container was given of CPU and memory, which may be less than its spec asks for by now.

Desired is what the source says, allocated is what admission found room for, and what runs follows the allocated one
(reference ``pod-lifecycle`` section 14).
"""

from collections.abc import Mapping

import msgspec

from actors.rules.resources.request import CPU, MEMORY
from api.kube.objects.container import Container, ResourceRequirements
from api.kube.objects.pod import Pod, PodSpec
from api.kube.objects.strmap import StrMap
from api.messages.admission import Allocated


def allocated_of(spec: PodSpec) -> tuple[Allocated, ...]:
    """Return what a pod and its containers ask to be given; those that ask for nothing are left out."""
    whole = spec.resources or ResourceRequirements()
    rows = (
        Allocated(container="", requests=resizable(whole.requests), limits=resizable(whole.limits)),
        *(
            Allocated(
                container=one.name,
                requests=resizable(one.resources.requests),
                limits=resizable(one.resources.limits),
            )
            for one in (*spec.init_containers, *spec.containers)
        ),
    )
    return tuple(row for row in rows if row.requests or row.limits)


def resizable(quantities: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return what of a list can change while a container runs, by name."""
    return tuple(sorted((name, text) for name, text in quantities.items() if name in (CPU, MEMORY)))


def with_allocated(pod: Pod, allocated: tuple[Allocated, ...]) -> Pod:
    """Return the pod as it was last given room: the very same when it asks for just that."""
    if allocated_of(pod.spec) == allocated:
        return pod
    rows = {row.container: row for row in allocated}

    def granted(resources: ResourceRequirements, name: str) -> ResourceRequirements:
        row = rows.get(name, Allocated(container=name))
        return msgspec.structs.replace(
            resources,
            requests=with_pairs(resources.requests, row.requests),
            limits=with_pairs(resources.limits, row.limits),
        )

    def given(container: Container) -> Container:
        return msgspec.structs.replace(container, resources=granted(container.resources, container.name))

    asks = pod.spec.resources is not None or "" in rows
    spec = msgspec.structs.replace(
        pod.spec,
        resources=granted(pod.spec.resources or ResourceRequirements(), "") if asks else None,
        init_containers=tuple(given(one) for one in pod.spec.init_containers),
        containers=tuple(given(one) for one in pod.spec.containers),
    )
    return msgspec.structs.replace(pod, spec=spec)


def with_pairs(quantities: Mapping[str, str], given: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Return a list of resources with CPU and memory as they were given."""
    others = {name: text for name, text in quantities.items() if name not in (CPU, MEMORY)}
    return StrMap({**others, **dict(given)})
