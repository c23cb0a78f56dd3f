"""The port ``kube`` and its streams, on one thread that starts with the first use."""

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from urllib.parse import quote

import msgspec

from api.decoding import UndecodableError, from_json
from api.errors import Failure, FailureKind
from api.messages import Message
from api.ports.kube import (
    NODE,
    PODS,
    ClusterService,
    CreateObject,
    DeleteObject,
    GetObject,
    KubeCall,
    KubeObject,
    PatchObject,
    ReadRuntimeClass,
    ReadServices,
    ReplaceObject,
    RuntimeClassRead,
)
from api.ports.port import Done, Undo
from runtime.drivers.kube.client import ApiClient, ApiRequest
from runtime.drivers.kube.identity import Renewed
from runtime.drivers.kube.objectcache import ObjectCache
from runtime.drivers.kube.reflector import Reflector
from runtime.drivers.kube.service import (
    RUNTIME_CLASSES,
    SERVICES,
    handler_in,
    runtime_class_read,
    service_in,
    services_read,
)
from runtime.drivers.kube.store import Key, ListedObject, NodeStore, PodStore, Store
from runtime.net.kubeaccess import Access
from runtime.net.loop import Loop, OnBug

QPS, BURST = 50.0, 100
OBJECT_LIMIT_BYTES = 3 << 20
OWN_VERSIONS = 4096
"""So many of the newest versions of pods that this node wrote are known as its own."""
PATIENCE_S = 1.0
IN_TIME = 0.95
"""This share of a call's deadline is the server's: who asked gives the call up at the deadline, and this driver, which
knows what was asked where and counts late heartbeats, must have answered by then."""
JSON = "application/json"
MERGE = "application/strategic-merge-patch+json"

Log = Callable[[str], None]


class KubeDriver:
    """One API server. `find` blocks until it is known where that is and who we are.

    `problem` is called with what is left out, `renewed` when who we are changed, or could not be found out again.
    `qps`: requests a second, 0 for no limit.
    """

    name = "kube"

    def __init__(
        self,
        node_name: str,
        find: Callable[[], Access],
        *,
        qps: float = QPS,
        burst: int = BURST,
        on_bug: OnBug | None = None,
        problem: Log = lambda _: None,
        renewed: Renewed = lambda _: None,
    ) -> None:
        self._loop = Loop("kube", on_bug=on_bug)
        self._client = ApiClient(self._loop, find, qps, burst, renewed)
        self._own = OwnVersions()
        node = quote(node_name, safe="")
        self.pods = KubeStream(
            PODS,
            self._loop,
            self._client,
            "pods",
            f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}&",
            lambda: PodStore(self._own.has, problem),
        )
        self.node = KubeStream(
            NODE,
            self._loop,
            self._client,
            f"the Node {node_name}",
            f"/api/v1/nodes?fieldSelector=metadata.name%3D{node}&",
            NodeStore,
        )
        self._services = ObjectCache(self._client, "services", SERVICES, service_in, problem)
        self._handlers = ObjectCache(self._client, "RuntimeClasses", RUNTIME_CLASSES, handler_in, problem)

    def begin(self, call: msgspec.Struct, deadline_s: float, done: Done) -> Undo:
        """Start a call."""
        match call:
            case ReadServices():
                return self._submit(lambda: self._read_services(call, deadline_s * IN_TIME, done), done)
            case ReadRuntimeClass():
                return self._submit(lambda: self._read_class(call, deadline_s * IN_TIME, done), done)
            case KubeCall():
                return self._begin_request(call, deadline_s * IN_TIME, done)
            case _:
                raise TypeError(f"the port kube takes no {type(call).__name__}")

    def _read_services(self, call: ReadServices, within_s: float, done: Done) -> None:
        def answered(found: dict[Key, ClusterService] | None, failure: Failure | None) -> None:
            done(services_read(found, call.namespace) if found is not None else None, failure)

        self._services.read(answered, within_s, at_once=call.at_once, in_outage=call.in_outage)

    def _read_class(self, call: ReadRuntimeClass, within_s: float, done: Done) -> None:
        def answered(found: dict[Key, str] | None, failure: Failure | None) -> None:
            read = runtime_class_read(found, call) if found is not None else failure
            if isinstance(read, RuntimeClassRead):
                done(read, None)
            else:
                done(None, read)

        self._handlers.read(answered, within_s)

    def _submit(self, work: Callable[[], None], done: Done) -> Undo:
        if not self._loop.submit(work):
            done(None, Failure(kind=FailureKind.CANCELLED, message="the agent is stopping"))
        return lambda: None

    def _begin_request(self, call: KubeCall, deadline_s: float, done: Done) -> Undo:
        method, content_type, body = request_of(call)
        counts = isinstance(call, PatchObject) and call.path.plural == "pods"

        def answered(answer: bytes | None, failure: Failure | None) -> None:
            if answer is None:
                done(None, failure)
                return
            if counts:
                self._own.add(answer)
            done(KubeObject(body=answer), None)

        request = ApiRequest(
            self._client,
            method=method,
            target=call.path.url(),
            what=f"{method} {call.path.brief()}",
            answered=answered,
            content_type=content_type,
            body=body,
            heartbeat=call.heartbeat,
            own_rate=call.own_rate,
            deadline_s=deadline_s,
            limit_bytes=OBJECT_LIMIT_BYTES,
        )
        self._submit(request.start, done)
        return partial(submit, self._loop, request.cancel)

    def rest(self) -> None:
        """Let go of connections on which nothing is under way; the next request makes another one."""
        submit(self._loop, self._client.renew)

    def close(self) -> None:
        """End all calls, streams and connections."""
        over = threading.Event()

        def end() -> None:
            self._services.close()
            self._handlers.close()
            self._client.close()
            over.set()

        if self._loop.submit(end):
            over.wait(PATIENCE_S)
        self._loop.stop(PATIENCE_S)


class KubeStream:
    """A stream of the port: each opening lists again."""

    def __init__(
        self,
        name: str,
        loop: Loop,
        client: ApiClient,
        what: str,
        target: str,
        store: Callable[[], Store],
    ) -> None:
        self.name = name
        self._loop, self._client, self._what, self._target, self._store = loop, client, what, target, store

    def open(self, push: Callable[[Message], None], ended: Callable[[Failure | None], None]) -> Undo:
        """Begin to feed `push`; it never ends by itself, unless the driver is closed."""
        reflector = Reflector(self._client, self._what, self._target, self._store(), push)
        if not self._loop.submit(reflector.open):
            ended(Failure(kind=FailureKind.CANCELLED, message="the agent is stopping"))
        return partial(submit, self._loop, reflector.close)


class OwnVersions:
    """The newest versions of objects that this node made by writing them."""

    def __init__(self) -> None:
        self._order: deque[str] = deque()
        self._versions: set[str] = set()

    def add(self, body: bytes) -> None:
        """Take in the answer to a write."""
        try:
            version = from_json(body, ListedObject).metadata.resource_version
        except UndecodableError:
            return
        if not version or version in self._versions:
            return
        self._versions.add(version)
        self._order.append(version)
        if len(self._order) > OWN_VERSIONS:
            self._versions.discard(self._order.popleft())

    def has(self, version: str) -> bool:
        """Return whether this node made a version."""
        return version in self._versions


def submit(loop: Loop, work: Callable[[], None]) -> None:
    """Have work done on the loop's thread, unless it has ended."""
    loop.submit(work)


def request_of(call: KubeCall) -> tuple[str, str, bytes]:
    """Return method, content type and body."""
    match call:
        case GetObject():
            return "GET", "", b""
        case CreateObject(body=body):
            return "POST", JSON, body
        case ReplaceObject(body=body):
            return "PUT", JSON, body
        case PatchObject(body=body):
            return "PATCH", MERGE, body
        case DeleteObject():
            options: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
            if call.grace_s is not None:
                options["gracePeriodSeconds"] = call.grace_s
            if call.uid:
                options["preconditions"] = {"uid": call.uid}
            return "DELETE", JSON, msgspec.json.encode(options)
        case _:
            raise TypeError(f"the port kube takes no {type(call).__name__}")
