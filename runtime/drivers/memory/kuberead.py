"""What a node reads of Services and RuntimeClasses: always listed, and as fresh as the server."""

import msgspec

from api.errors import NotFoundError
from api.ports.kube import API_SERVICE, ClusterService, ServicePort
from runtime.drivers.memory.kubeserver import KubeServer


def services_of(server: KubeServer, namespace: str) -> tuple[ClusterService, ...]:
    """Return the Services of a namespace, and that of the API server."""
    found = []
    for (_, place, name), one in server.all_of("services").items():
        if place != namespace and (place, name) != API_SERVICE:
            continue
        spec = msgspec.json.decode(one.body).get("spec", {})
        ports = tuple(
            ServicePort(name=port.get("name", ""), port=port["port"], protocol=port.get("protocol", ""))
            for port in spec.get("ports", ())
        )
        address = spec.get("clusterIP", "")
        found.append(ClusterService(namespace=place, name=name, cluster_ip=address, ports=ports))
    return tuple(found)


def handler_of(server: KubeServer, name: str) -> str:
    """Return the handler of a RuntimeClass; raises `NotFoundError`."""
    one = server.stored(("runtimeclasses", "", name))
    if one is None:
        raise NotFoundError(f'runtimeclass.node.k8s.io "{name}" not found', reason="NotFound")
    return str(msgspec.json.decode(one.body)["handler"])
