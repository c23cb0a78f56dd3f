"""What of Services and RuntimeClasses is kept, and how reads of them are answered."""

from typing import Annotated

import msgspec

from api.decoding import from_json
from api.errors import Failure, FailureKind
from api.ports.kube import (
    API_SERVICE,
    ClusterService,
    ReadRuntimeClass,
    RuntimeClassRead,
    ServicePort,
    ServicesRead,
)
from runtime.drivers.kube.store import Key, ListedMeta

SERVICES = "/api/v1/services?"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses?"
PORTS_LIMIT = 1000


class WirePort(msgspec.Struct, frozen=True, kw_only=True):
    """A port as it is in JSON."""

    name: str = ""
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 0
    protocol: str = ""


class WireSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What of a Service's spec is kept."""

    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    ports: tuple[WirePort, ...] | None = None


class WireService(msgspec.Struct, frozen=True, kw_only=True):
    """A Service as it is in JSON."""

    metadata: ListedMeta = ListedMeta()
    spec: WireSpec = WireSpec()


class WireRuntimeClass(msgspec.Struct, frozen=True, kw_only=True):
    """A RuntimeClass as it is in JSON."""

    handler: str


def service_in(body: bytes) -> ClusterService:
    """Return what is kept of a Service; raises `UndecodableError`."""
    found = from_json(body, WireService)
    return ClusterService(
        namespace=found.metadata.namespace,
        name=found.metadata.name,
        cluster_ip=found.spec.cluster_ip,
        ports=tuple(
            ServicePort(name=one.name, port=one.port, protocol=one.protocol)
            for one in (found.spec.ports or ())[:PORTS_LIMIT]
        ),
    )


def handler_in(body: bytes) -> str:
    """Return the handler of a RuntimeClass; raises `UndecodableError`."""
    return from_json(body, WireRuntimeClass).handler


def services_read(services: dict[Key, ClusterService], namespace: str) -> ServicesRead:
    """Return the Services that a pod of this namespace may see."""
    found = sorted(key for key in services if key[0] == namespace or key == API_SERVICE)
    return ServicesRead(services=tuple(services[key] for key in found))


def runtime_class_read(handlers: dict[Key, str], call: ReadRuntimeClass) -> RuntimeClassRead | Failure:
    """Return the handler of a RuntimeClass, or that there is none."""
    handler = handlers.get(("", call.name))
    if handler is None:
        message = f'runtimeclass.node.k8s.io "{call.name}" not found'
        return Failure(kind=FailureKind.NOT_FOUND, message=message, reason="NotFound")
    return RuntimeClassRead(handler=handler)
