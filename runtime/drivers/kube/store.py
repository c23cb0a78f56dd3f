"""What reflectors keep of the objects that they list and watch, and how it is sent as a whole level."""

import re
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec
from msgspec.structs import replace

from api.decoding import UndecodableError, from_json
from api.kube.objects.pod import Pod
from api.messages import Message
from api.ports.kube import ApiNodeListed, ApiPodsListed
from api.shortening import shortened

PODS_LIMIT = 10_000
"""Some twenty times what any node runs."""
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
"""What the API lets a pod be named, and more than it lets a namespace be (RFC 1123): it goes into paths."""

Key = tuple[str, str]
"""Namespace and name."""


class ListedMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What of an object's metadata its place and its version are read from."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
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
        self._statuses: list[str] = []
        """Versions since the last level in which nothing but a status is new: this node may have written it."""
        self._must_send = False

    def set_all(self, objects: tuple[bytes, ...]) -> None:
        """Take these for all that there is.

        A pod that did not change stays the object that it was, one that cannot be read any more what it was.
        """
        before, self._pods = self._pods, {}
        for body in objects:
            pod = self._decoded(body) or self._known(body, before)
            if pod is None or self._is_full(pod):
                continue
            old = before.get(key_of(pod))
            self._pods[key_of(pod)] = old if old is not None and is_same(old, pod) else pod
        self._must_send = True

    def put(self, body: bytes) -> None:
        """Take in that a pod was added or changed."""
        pod = self._decoded(body)
        if pod is None or self._is_full(pod):
            return
        key = key_of(pod)
        old = self._pods.get(key)
        if old is not None and is_same(old, pod):
            return
        self._pods[key] = pod
        if old is not None and without_status(old) == without_status(pod):
            self._statuses.append(version_of(pod))
        else:
            self._must_send = True

    def remove(self, body: bytes) -> None:
        """Take in that a pod is gone."""
        try:
            meta = from_json(body, ListedObject).metadata
        except UndecodableError:
            return
        if self._pods.pop((meta.namespace, meta.name), None) is not None:
            self._must_send = True

    def news(self) -> Message | None:
        """Return all pods, None where nothing changed but statuses that this node wrote."""
        # Looked at only now: the answer to a write may come after the event.
        must_send = self._must_send or not all(map(self._is_own, self._statuses))
        self._statuses, self._must_send = [], False
        if not must_send:
            return None
        return ApiPodsListed(pods=tuple(pod for _, pod in sorted(self._pods.items())))

    def _decoded(self, body: bytes) -> Pod | None:
        try:
            pod = from_json(body, Pod)
        except UndecodableError as error:
            self._problem(f"{name_in(body)}: {error}")
            return None
        meta = pod.metadata
        if SUBDOMAIN.fullmatch(meta.name) and SUBDOMAIN.fullmatch(meta.namespace):
            return pod
        self._problem(
            f"pod {shortened(meta.namespace)!r}/{shortened(meta.name)!r}: no object may have this name"
        )
        return None

    def _known(self, body: bytes, before: Mapping[Key, Pod]) -> Pod | None:
        """Return what a pod was that cannot be read any more: it is not gone, and must not be ended for that."""
        try:
            meta = from_json(body, ListedObject).metadata
        except UndecodableError:
            return None
        old = before.get((meta.namespace, meta.name))
        return old if old is not None and old.metadata.uid == meta.uid else None

    def _is_full(self, pod: Pod) -> bool:
        """Return whether this is one pod more than there is room for."""
        if len(self._pods) < PODS_LIMIT or key_of(pod) in self._pods:
            return False
        self._problem(f"pod {pod.metadata.namespace}/{pod.metadata.name}: there are {PODS_LIMIT} already")
        return True


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


def is_same(one: Pod, other: Pod) -> bool:
    """Return whether two are the same version of the same pod."""
    return (one.metadata.uid, version_of(one)) == (other.metadata.uid, version_of(other))


def without_status(pod: Pod) -> tuple[object, ...]:
    """Return what a write of the status leaves as it is."""
    return pod.spec, replace(pod.metadata, resource_version="", managed_fields=())


def name_in(body: bytes) -> str:
    """Return what an object that cannot be decoded is called, as far as that can be read."""
    try:
        meta = from_json(body, ListedObject).metadata
    except UndecodableError:
        return "a pod without a name"
    return f"pod {shortened(meta.namespace)}/{shortened(meta.name)}"
