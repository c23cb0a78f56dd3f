"""What reflectors keep of the objects that they list and watch, and how it is sent as a whole level."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from api.decoding import UndecodableError, from_json
from api.kube.objects.pod import Pod
from api.messages import Message
from api.ports.kube import ApiNodeListed, ApiPodsListed

Key = tuple[str, str]
"""Namespace and name."""


class ListedMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What of an object's metadata its place and its version are read from."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class ListedObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object whose kind does not matter."""

    metadata: ListedMeta = ListedMeta()


class Store(Protocol):
    """The objects of one collection."""

    def set_all(self, objects: tuple[bytes, ...]) -> None:
        """Take these for all that there is."""

    def put(self, body: bytes) -> None:
        """Take in that an object was added or changed."""

    def remove(self, body: bytes) -> None:
        """Take in that an object is gone."""

    def news(self) -> Message | None:
        """Return the level to send, None where nothing changed that must be sent; what it shows counts as sent."""


class PodStore:
    """Pods, of which those are not sent that changed only by what this node wrote itself."""

    def __init__(self, is_own: Callable[[str], bool], problem: Callable[[str], None]) -> None:
        """`is_own` tells whether this node made a resource version, `problem` is called with why a pod is left out."""
        self._is_own, self._problem = is_own, problem
        self._pods: dict[Key, Pod] = {}
        self._changed: dict[Key, str] = {}
        """What changed since the last level, and the version that it has; empty for what came or went."""
        self._must_send = False

    def set_all(self, objects: tuple[bytes, ...]) -> None:
        """Take these for all that there is; a pod that did not change stays the object that it was."""
        before, self._pods = self._pods, {}
        for body in objects:
            pod = self._decoded(body)
            if pod is not None:
                key = key_of(pod)
                old = before.get(key)
                same = old is not None and version_of(old) == version_of(pod)
                self._pods[key] = old if old is not None and same else pod
        self._must_send = True

    def put(self, body: bytes) -> None:
        """Take in that a pod was added or changed."""
        pod = self._decoded(body)
        if pod is None:
            return
        key = key_of(pod)
        old = self._pods.get(key)
        is_new = old is None or old.metadata.uid != pod.metadata.uid
        self._pods[key] = pod
        self._changed[key] = "" if is_new or self._changed.get(key) == "" else version_of(pod)

    def remove(self, body: bytes) -> None:
        """Take in that a pod is gone."""
        try:
            meta = from_json(body, ListedObject).metadata
        except UndecodableError:
            return
        if self._pods.pop((meta.namespace, meta.name), None) is not None:
            self._changed[meta.namespace, meta.name] = ""

    def news(self) -> Message | None:
        """Return all pods, None where only this node's own writes changed them."""
        foreign = any(not version or not self._is_own(version) for version in self._changed.values())
        self._changed.clear()
        if not (foreign or self._must_send):
            return None
        self._must_send = False
        return ApiPodsListed(pods=tuple(pod for _, pod in sorted(self._pods.items())))

    def _decoded(self, body: bytes) -> Pod | None:
        try:
            return from_json(body, Pod)
        except UndecodableError as error:
            self._problem(f"{name_in(body)}: {error}")
            return None


class NodeStore:
    """The one Node of this name, as JSON."""

    def __init__(self) -> None:
        self._body: bytes | None = None
        self._must_send = False

    def set_all(self, objects: tuple[bytes, ...]) -> None:
        """Take the one, or that there is none."""
        self._body, self._must_send = (objects[0] if objects else None), True

    def put(self, body: bytes) -> None:
        """Take in that it was made or changed."""
        self._body, self._must_send = body, True

    def remove(self, body: bytes) -> None:
        """Take in that it is gone."""
        del body
        self._body, self._must_send = None, True

    def news(self) -> Message | None:
        """Return it, None where it did not change."""
        must_send, self._must_send = self._must_send, False
        return ApiNodeListed(body=self._body) if must_send else None


def key_of(pod: Pod) -> Key:
    """Return the pod's place."""
    return pod.metadata.namespace, pod.metadata.name


def version_of(pod: Pod) -> str:
    """Return which version of the pod this is."""
    return pod.metadata.resource_version


def name_in(body: bytes) -> str:
    """Return what an object that cannot be decoded is called, as far as that can be read."""
    try:
        meta = from_json(body, ListedObject).metadata
    except UndecodableError:
        return "a pod without a name"
    return f"pod {meta.namespace}/{meta.name}"
