"""The port ``kube``: the objects of one Kubernetes API server, by calls, and by streams that bring whole levels.

Failures: 404 is ``NotFound``; 409 ``Conflict`` or ``AlreadyExists``, as the server's reason says; 401 and 403 ``Denied``; 400,
405, 413, 415 and 422 ``Rejected``; 429 and 5xx ``Unavailable``, but 504, and no answer within the deadline, ``TimedOut``, after
which a write may have been done. `Failure.reason` is the reason of the server's Status: ``Forbidden``, ``Invalid`` ...

Streams, each opened by one actor, reopened by the driver itself for as long as they are open:

```text
kube.pods       ApiPodsListed      every pod that is bound to this node
kube.node       ApiNodeListed      this node's own Node
```
"""

from urllib.parse import quote

import msgspec

from api.errors import Failure
from api.kube.objects.pod import Pod
from api.messages import Message
from api.ports.call import HostCall

PODS, NODE = "kube.pods", "kube.node"
CORE, LEASES = "v1", "coordination.k8s.io/v1"
API_SERVICE = ("default", "kubernetes")
"""Namespace and name of the API server's own Service, which every pod sees."""


class ObjectPath(msgspec.Struct, frozen=True, kw_only=True):
    """Where an object, or the collection that it is created in, is served."""

    api_version: str = CORE
    """As in an object: ``v1``, or group and version."""
    plural: str
    namespace: str = ""
    """Empty for an object of the cluster."""
    name: str = ""
    """Empty for the collection."""
    subresource: str = ""

    def url(self) -> str:
        """Return the path of the URL. A pod's spec may name anything: what no name has is escaped."""
        root = "/api/v1" if self.api_version == CORE else f"/apis/{self.api_version}"
        place = ("namespaces", self.namespace) if self.namespace else ()
        words = (word for word in (*place, self.plural, self.name, self.subresource) if word)
        return "/".join((root, *(quote(word, safe="") for word in words)))

    def words(self) -> str:
        """Return resource, name and subresource, as people write them."""
        return "/".join(word for word in (self.plural, self.name, self.subresource) if word)

    def brief(self) -> str:
        """Return one line for traces."""
        return f"{self.namespace}/{self.words()}" if self.namespace else self.words()


class KubeCall(HostCall, frozen=True, kw_only=True):
    """One request about an object."""

    path: ObjectPath
    heartbeat: bool = False
    """On the connection of heartbeats, which no other request delays and no rate limits."""
    own_rate: bool = False
    """Sent at once: the rate of these requests is limited by who makes them."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"{type(self).__name__} {self.path.brief()}"


class KubeBody(KubeCall, frozen=True, kw_only=True):
    """A request that carries JSON, which traces do not show: it may hold what a Secret holds."""

    body: bytes

    def __repr__(self) -> str:
        return f"{self.brief()} ({len(self.body)} bytes)"


class GetObject(KubeCall, frozen=True, kw_only=True):
    """GET, from the server's quorum -> KubeObject."""


class CreateObject(KubeBody, frozen=True, kw_only=True):
    """POST to a collection, or to a subresource -> KubeObject."""


class ReplaceObject(KubeBody, frozen=True, kw_only=True):
    """PUT -> KubeObject."""


class PatchObject(KubeBody, frozen=True, kw_only=True):
    """PATCH, a strategic merge -> KubeObject."""


class DeleteObject(KubeCall, frozen=True, kw_only=True):
    """DELETE -> KubeObject, which is the object itself where it stays for a while, or a Status."""

    uid: str = ""
    """Only the object with this UID; empty for any."""
    grace_s: int | None = None
    """None for the object's own."""


class KubeObject(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An object as the server has it now, in JSON."""

    body: bytes

    def __repr__(self) -> str:
        return f"KubeObject({len(self.body)} bytes)"


class ReadServices(HostCall, frozen=True, kw_only=True):
    """The Services that a pod of this namespace may see -> ServicesRead.

    Answered from memory: the driver lists and watches them from the first read on. ``Unavailable`` until they were listed.
    """

    namespace: str
    at_once: bool = False
    """Do not wait for the first list: none are as good as those that are not known yet."""
    in_outage: bool = False
    """Wait for it, but not while the API server cannot be reached: none are then better than no container."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ReadServices {self.namespace}"


class ServicePort(msgspec.Struct, frozen=True, kw_only=True):
    """A port of a Service."""

    name: str = ""
    port: int
    protocol: str = ""
    """Empty: TCP."""


class ClusterService(msgspec.Struct, frozen=True, kw_only=True):
    """What of a Service a pod may see."""

    namespace: str
    name: str
    cluster_ip: str = ""
    """``None`` or empty for one without an address of its own."""
    ports: tuple[ServicePort, ...] = ()


class ServicesRead(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The Services of a namespace and that of the API server, ascending by namespace and name."""

    services: tuple[ClusterService, ...] = ()


class ReadRuntimeClass(HostCall, frozen=True, kw_only=True):
    """A RuntimeClass -> RuntimeClassRead, from memory as Services; ``NotFound`` where there is none."""

    name: str

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ReadRuntimeClass {self.name}"


class RuntimeClassRead(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What a RuntimeClass stands for."""

    handler: str


class ApiPodsListed(Message, frozen=True, kw_only=True):
    """An item of ``kube.pods``: all pods that are bound to this node, ascending by namespace and name.

    Sent when one came, went or changed; not when what changed is only what this node itself wrote in a status. A pod that did not
    change is the very same object as in the item before.
    """

    pods: tuple[Pod, ...] = ()

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ApiPodsListed pods={len(self.pods)}"

    def conflation_key(self) -> str | None:
        """Keep the newest."""
        return "pods"


class ApiNodeListed(Message, frozen=True, kw_only=True):
    """An item of ``kube.node``: this node's Node as JSON, None while the server has none."""

    body: bytes | None = None

    def brief(self) -> str:
        """Return one line for traces."""
        return f"ApiNodeListed {'absent' if self.body is None else f'{len(self.body)} bytes'}"

    def conflation_key(self) -> str | None:
        """Keep the newest."""
        return "node"


class WatchChecked(Message, frozen=True, kw_only=True):
    """An item of each stream: whether its list and watch work now, sent when that changes. What was listed stands meanwhile."""

    failure: Failure | None = None

    def brief(self) -> str:
        """Return one line for traces."""
        return f"WatchChecked {self.failure.brief() if self.failure else 'works'}"

    def conflation_key(self) -> str | None:
        """Keep the newest."""
        return "watch"
