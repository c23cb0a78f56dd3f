"""Short words for the calls of the port ``kube``: JSON in, JSON out."""

import json

import pytest

from api.ports.kube import (
    LEASES,
    CreateObject,
    DeleteObject,
    GetObject,
    KubeObject,
    ObjectPath,
    PatchObject,
    ReplaceObject,
)
from runtime.edge import perform

NODES = ObjectPath(plural="nodes")
PODS = ObjectPath(plural="pods", namespace="default")


def ask(bench, call):
    answer = perform(bench.port, call, 10.0)
    assert type(answer) is KubeObject
    return json.loads(answer.body)


def encoded(body):
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def get(bench, path):
    return ask(bench, GetObject(path=path))


def create(bench, path, body):
    return ask(bench, CreateObject(path=path, body=encoded(body)))


def replace(bench, path, body):
    return ask(bench, ReplaceObject(path=path, body=encoded(body)))


def patch(bench, path, body):
    return ask(bench, PatchObject(path=path, body=encoded(body)))


def delete(bench, path, **options):
    return ask(bench, DeleteObject(path=path, **options))


def refused(kind, reason, ask_it, *arguments, **options):
    """Assert that a request fails as this kind, for this reason of the server, and return what it says."""
    with pytest.raises(kind) as caught:
        ask_it(*arguments, **options)
    assert (type(caught.value), caught.value.reason) == (kind, reason), str(caught.value)
    return str(caught.value)


def lease_path(name="", namespace="kube-node-lease"):
    return ObjectPath(api_version=LEASES, plural="leases", namespace=namespace, name=name)


def version(body):
    return body["metadata"]["resourceVersion"]


def uid(body):
    return body["metadata"]["uid"]
