"""What a pod asks of its node: the sums over its containers, and the claim that admission counts.

Rules of Kubernetes (reference ``runtime-cri`` section 6, ``pod-lifecycle`` section 12): regular containers and sidecars
add up, plain init containers run one by one beside the sidecars before them, what the pod asks for as a whole wins,
overhead comes on top.
"""

from collections.abc import Iterator, Mapping

import msgspec

from api.kube.objects.container import Container
from api.kube.objects.pod import Pod, PodSpec
from api.kube.quantity import ZERO, Amount, parse

CRITICAL_PRIORITY = 2_000_000_000
CLASSES = {"system-cluster-critical": CRITICAL_PRIORITY, "system-node-critical": CRITICAL_PRIORITY + 1000}
"""Priority classes that every cluster has. No API server resolves them for a static pod that states no number."""
SOURCE = "kubernetes.io/config.source"
MIRROR = "kubernetes.io/config.mirror"
ANY_ADDRESS = "0.0.0.0"  # noqa: S104  # a port that names no address takes it on every one
CPU, MEMORY, EPHEMERAL = "cpu", "memory", "ephemeral-storage"

Amounts = dict[str, Amount]


class HostPort(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A port of the node that a container takes."""

    port: int
    protocol: str = "TCP"
    address: str = ANY_ADDRESS

    def clashes(self, other: "HostPort") -> bool:
        """Return whether both cannot be had at one time."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return ANY_ADDRESS in (self.address, other.address) or self.address == other.address


class Claim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a pod takes of its node for as long as its containers may run; fixed when it is admitted."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    ephemeral_bytes: int = 0
    scalars: tuple[tuple[str, int], ...] = ()
    """Every other resource, by name, ascending: huge pages, extended resources."""
    ports: tuple[HostPort, ...] = ()

    def amount(self, resource: str) -> int:
        """Return how much of a resource it takes: millicores, bytes, pieces; of ``pods`` it is one."""
        match resource:
            case "pods":
                return 1
            case "cpu":
                return self.cpu_milli
            case "memory":
                return self.memory_bytes
            case "ephemeral-storage":
                return self.ephemeral_bytes
            case _:
                return dict(self.scalars).get(resource, 0)


def claim_of(spec: PodSpec) -> Claim:
    """Return what a pod with this spec takes of its node."""
    total = added(pod_total(spec, "requests"), amounts(spec.overhead))
    return Claim(
        cpu_milli=total.get(CPU, ZERO).milli_value(),
        memory_bytes=total.get(MEMORY, ZERO).value(),
        ephemeral_bytes=total.get(EPHEMERAL, ZERO).value(),
        scalars=tuple(
            (name, amount.value())
            for name, amount in sorted(total.items())
            if name not in (CPU, MEMORY, EPHEMERAL) and amount.nanos > 0
        ),
        ports=tuple(sorted(set(host_ports(spec)))),
    )


def host_ports(spec: PodSpec) -> Iterator[HostPort]:
    """Yield the node's ports that the pod's containers and sidecars take."""
    sidecars = (one for one in spec.init_containers if one.restart_policy == "Always")
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port > 0:
                yield HostPort(
                    port=port.host_port,
                    protocol=port.protocol or "TCP",
                    address=port.host_ip or ANY_ADDRESS,
                )


def pod_total(spec: PodSpec, which: str) -> Amounts:
    """Return the largest sum that runs at one time: all regular ones with the sidecars, or one init with those before it.

    `which` is ``requests`` or ``limits``. What the pod asks for as a whole wins.
    """
    running: Amounts = {}
    for one in spec.containers:
        running = added(running, asked(one, which))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for one in spec.init_containers:
        own = added(sidecars, asked(one, which))
        if one.restart_policy == "Always":
            sidecars = own
        peak = {name: max(own.get(name, ZERO), peak.get(name, ZERO)) for name in {**own, **peak}}
    running = added(running, sidecars)
    total = {name: max(running.get(name, ZERO), peak.get(name, ZERO)) for name in {**running, **peak}}
    whole = amounts(getattr(spec.resources, which)) if spec.resources is not None else {}
    return {**total, **whole}


def asked(container: Container, which: str) -> Amounts:
    """Return a container's requests or limits as numbers."""
    return amounts(getattr(container.resources, which))


def amounts(quantities: Mapping[str, str]) -> Amounts:
    """Return a list of resources as numbers."""
    return {name: parse(text) for name, text in quantities.items()}


def added(one: Amounts, other: Amounts) -> Amounts:
    """Return the sum of two lists of resources."""
    return {name: one.get(name, ZERO) + other.get(name, ZERO) for name in {**one, **other}}


def is_extended(resource: str) -> bool:
    """Return whether a resource is an extended one: its name has a domain, not Kubernetes' own and not a quota's."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def is_static(pod: Pod) -> bool:
    """Return whether the pod comes from a file or URL of this node."""
    return pod.metadata.annotations.get(SOURCE, "api") != "api"


def is_critical(pod: Pod) -> bool:
    """Return whether the node depends on the pod: static and mirror pods, and the highest priorities."""
    return is_static(pod) or MIRROR in pod.metadata.annotations or is_of_critical_priority(pod)


def is_of_critical_priority(pod: Pod) -> bool:
    """Return whether the pod has one of the priorities that are kept for what the cluster cannot do without."""
    return priority_of(pod) >= CRITICAL_PRIORITY


def priority_of(pod: Pod) -> int:
    """Return the pod's priority: the number that it states, of a static pod else that of a class that every cluster has, else 0."""
    if pod.spec.priority is not None:
        return pod.spec.priority
    return CLASSES.get(pod.spec.priority_class_name, 0) if is_static(pod) else 0
