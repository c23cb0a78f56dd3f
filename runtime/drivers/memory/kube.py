"""An API server in memory, as one node reaches it: the port ``kube``, and the streams ``kube.pods`` and ``kube.node``.

It survives a kill of the agent. `MemoryKube.admin` is everybody else: users, controllers, the scheduler. What goes wrong with
single requests is in `runtime.drivers.memory.kubefault`.
"""

import threading
from collections.abc import Callable

import msgspec

from api.decoding import UndecodableError, from_json
from api.errors import Failure, OperatingError
from api.ids import WallNs
from api.kube.objects.pod import Pod
from api.messages import Message
from api.ports.kube import (
    NODE,
    PODS,
    ApiNodeListed,
    ApiPodsListed,
    CreateObject,
    DeleteObject,
    GetObject,
    KubeCall,
    KubeObject,
    ObjectPath,
    PatchObject,
    ReadRuntimeClass,
    ReadServices,
    ReplaceObject,
    RuntimeClassRead,
    ServicesRead,
    WatchChecked,
)
from api.ports.port import Undo
from runtime.drivers.memory.kubemerge import Object
from runtime.drivers.memory.kuberead import handler_of, services_of
from runtime.drivers.memory.kubeserver import ADMIN, STATUS, Key, KubeServer
from runtime.drivers.memory.stream import MemoryStream

ERRORS = {kind.kind: kind for kind in OperatingError.__subclasses__()}


class LevelStream(MemoryStream):
    """A stream that begins with the level as it is."""

    def __init__(self, name: str, level: Callable[[], tuple[Message, ...]]) -> None:
        super().__init__(name)
        self._level = level

    def open(self, push: Callable[[Message], None], ended: Callable[[Failure | None], None]) -> Undo:
        """Feed `push` the level at once, and what follows."""
        close = super().open(push, ended)
        for item in self._level():
            push(item)
        return close


def at_once(then: Callable[[], None]) -> None:
    """Show a change as soon as it is made."""
    then()


class MemoryKube:
    """The port ``kube`` with a node's identity, and its streams; `soon` is given what shows a change, and calls it later."""

    name = "kube"

    def __init__(
        self, node: str, wall: Callable[[], WallNs], soon: Callable[[Callable[[], None]], None] = at_once
    ) -> None:
        self._node, self._soon = node, soon
        self._server = KubeServer(wall)
        self._lock = threading.Lock()
        self._failure: Failure | None = None
        """Of every call of this node."""
        self._blind = False
        """Whether the streams show nothing new."""
        self._watch_failure: Failure | None = None
        """Why, where they say it."""
        self._seen: dict[Key, str] = {}
        """The version of each pod of this node that the stream has shown, or that only this node made since."""
        self._pods: dict[str, Pod] = {}
        """By version: a pod that did not change is the same object in the next item."""
        self._shown_node: bytes | None = None
        self.pods = LevelStream(PODS, lambda: self._opened(self._pods_item))
        self.node = LevelStream(NODE, lambda: self._opened(self._node_item))
        self.admin = MemoryAdmin(self)

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:  # noqa: ARG002
        """Carry out a call of the port; raises an `OperatingError`."""
        match call:
            case ReadServices(namespace=namespace):
                with self._lock:
                    return ServicesRead(services=services_of(self._server, namespace))
            case ReadRuntimeClass(name=name):
                with self._lock:
                    return RuntimeClassRead(handler=handler_of(self._server, name))
            case KubeCall():
                pass
            case _:
                raise TypeError(f"the port kube takes no {type(call).__name__}")
        if self._failure is not None:
            raise ERRORS[self._failure.kind](self._failure.message, reason=self._failure.reason)
        return self.request(self._node, call)

    def request(self, who: str, call: KubeCall, *, answered: bool = True) -> KubeObject:
        """Carry out a call of this identity, and show what changed.

        A write that this node gets no answer to in time (`answered` False) is news for it, as it is for the real driver.
        """
        key = (call.path.plural, call.path.namespace, call.path.name)
        with self._lock:
            before = self._server.stored(key)
            answer = self._answer(who, call)
            after = self._server.stored(key)
            is_own = bool(who) and answered and call.path.subresource == STATUS
            if is_own and before is not None and after is not None:
                # Its own statuses are not news, unless something else changed that was not shown yet.
                self._seen |= {key: after.version} if self._seen.get(key) == before.version else {}
        self._soon(self._show)
        return KubeObject(body=answer)

    def stored(self, path: ObjectPath) -> bytes | None:
        """Return an object as it is, None when there is none."""
        found = self._server.stored((path.plural, path.namespace, path.name))
        return found.body if found is not None else None

    def bodies(self) -> tuple[bytes, ...]:
        """Return the pods that are bound to this node, by namespace and name."""
        return tuple(one.body for one in self._server.pods_of(self._node).values())

    def fail(self, failure: Failure) -> None:
        """Answer this node with a failure from now on, and show it nothing new. The administrator is not affected."""
        self._failure = failure
        self.blind(failure)

    def heal(self) -> None:
        """Answer again, and show what changed meanwhile."""
        self._failure = None
        self.relist()

    def blind(self, failure: Failure | None = None) -> None:
        """Show nothing new until `relist`: with a failure that is said, or in silence, as a watch that hangs.

        A stream that is opened meanwhile ends a silence: that is a list and a watch of their own.
        """
        self._blind, self._watch_failure = True, failure
        if failure is not None:
            for stream in (self.pods, self.node):
                stream.push(WatchChecked(failure=failure))

    def relist(self) -> None:
        """Show the whole level again: after a failure, a silence that lasted too long, or where a version is too old to go on."""
        failed, self._blind, self._watch_failure = self._watch_failure is not None, False, None
        for stream in (self.pods, self.node) if failed else ():
            stream.push(WatchChecked())
        with self._lock:
            pods, node = self._pods_item(), self._node_item()
        self.pods.push(pods)
        self.node.push(node)

    def forget_listeners(self) -> None:
        """Drop all listeners: they died."""
        for stream in (self.pods, self.node):
            stream.forget_listeners()

    def _answer(self, who: str, call: KubeCall) -> bytes:
        match call:
            case GetObject():
                return self._server.get(who, call.path)
            case CreateObject():
                return self._server.create(who, call.path, call.body)
            case ReplaceObject():
                return self._server.replace(who, call.path, call.body)
            case PatchObject():
                return self._server.patch(who, call.path, call.body)
            case DeleteObject():
                return self._server.delete(who, call.path, call.uid, call.grace_s)
            case _:
                raise TypeError(f"the port kube takes no {type(call).__name__}")

    # ------------------------------------------------------------ streams

    def _show(self) -> None:
        if self._blind:
            return
        with self._lock:
            bound = self._server.pods_of(self._node)
            changed = {key: one.version for key, one in bound.items()} != self._seen
            pods = self._pods_item() if changed else None
            shown = self._shown_node
            node = self._node_item()
        if pods is not None:
            self.pods.push(pods)
        if node.body != shown:
            self.node.push(node)

    def _opened(self, level: Callable[[], Message]) -> tuple[Message, ...]:
        if self._watch_failure is not None:
            return (WatchChecked(failure=self._watch_failure),)
        self._blind = False
        return (level(), WatchChecked())

    def _pods_item(self) -> ApiPodsListed:
        bound = self._server.pods_of(self._node)
        self._seen = {key: one.version for key, one in bound.items()}
        known, self._pods = self._pods, {}
        for one in bound.values():
            try:
                self._pods[one.version] = known.get(one.version) or from_json(one.body, Pod)
            except UndecodableError:
                # What no API server would have accepted is not listed.
                continue
        return ApiPodsListed(pods=tuple(self._pods.values()))

    def _node_item(self) -> ApiNodeListed:
        found = self._server.stored(("nodes", "", self._node))
        self._shown_node = found.body if found is not None else None
        return ApiNodeListed(body=self._shown_node)


class MemoryAdmin:
    """What everybody else does at the same server, as JSON; raises an `OperatingError`."""

    def __init__(self, kube: MemoryKube) -> None:
        self._kube = kube

    def create(self, path: ObjectPath, body: Object) -> Object:
        """Create an object in a collection."""
        return self._request(CreateObject(path=path, body=msgspec.json.encode(body)))

    def read(self, path: ObjectPath) -> Object | None:
        """Return an object, None when there is none."""
        try:
            return self._request(GetObject(path=path))
        except OperatingError as error:
            if error.reason == "NotFound":
                return None
            raise

    def patch(self, path: ObjectPath, body: Object) -> Object:
        """Merge changes into an object or its status."""
        return self._request(PatchObject(path=path, body=msgspec.json.encode(body)))

    def delete(self, path: ObjectPath, grace_s: int | None = None) -> Object:
        """Delete an object."""
        return self._request(DeleteObject(path=path, grace_s=grace_s))

    def _request(self, call: KubeCall) -> Object:
        found: Object = msgspec.json.decode(self._kube.request(ADMIN, call).body)
        return found
