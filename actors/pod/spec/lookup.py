"""What of the cluster's objects a pod's containers are made from: Services as variables, and the handler of a RuntimeClass.

Reference ``runtime-cri`` section 16.3, service links.
"""

from collections.abc import Iterable

import msgspec

from api.kube.objects.pod import Pod
from api.ports.kube import API_SERVICE, ClusterService


class Lookups(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of the cluster for a pod; nothing in an agent on its own."""

    services: tuple[ClusterService, ...] = ()
    handler: str | None = None
    """Of the pod's RuntimeClass; None: the class is not looked up, and has the name of its handler."""


NO_LOOKUPS = Lookups()


def service_variables(pod: Pod, services: Iterable[ClusterService]) -> dict[str, str]:
    """Return the variables of the Services that the pod sees: of its namespace where it wants them, and the API server's."""
    seen: dict[str, ClusterService] = {}
    for one in services:
        if one.namespace == pod.metadata.namespace and pod.spec.enable_service_links is not False:
            seen[one.name] = one
        elif (one.namespace, one.name) == API_SERVICE:
            seen.setdefault(one.name, one)
    values: dict[str, str] = {}
    for _, one in sorted(seen.items()):
        values |= variables_of(one)
    return values


def variables_of(service: ClusterService) -> dict[str, str]:
    """Return the variables of one Service: as Kubernetes names its address, and as Docker's links named each port's."""
    if service.cluster_ip in ("", "None"):
        return {}
    name = service.name.upper().replace("-", "_")
    values = {f"{name}_SERVICE_HOST": service.cluster_ip}
    if not service.ports:
        return values
    values[f"{name}_SERVICE_PORT"] = str(service.ports[0].port)
    values |= {
        f"{name}_SERVICE_PORT_{one.name.upper().replace('-', '_')}": str(one.port)
        for one in service.ports
        if one.name
    }
    host = f"[{service.cluster_ip}]" if ":" in service.cluster_ip else service.cluster_ip
    for index, one in enumerate(service.ports):
        protocol = one.protocol or "TCP"
        url = f"{protocol.lower()}://{host}:{one.port}"
        prefix = f"{name}_PORT_{one.port}_{protocol.upper()}"
        values |= {f"{name}_PORT": url} if index == 0 else {}
        values |= {
            prefix: url,
            f"{prefix}_PROTO": protocol.lower(),
            f"{prefix}_PORT": str(one.port),
            f"{prefix}_ADDR": service.cluster_ip,
        }
    return values
