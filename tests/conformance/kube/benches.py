"""The API servers that the suite holds to `api.ports.kube`, each with an administrator's hands."""

import itertools
import time

import pytest

from api.ports.kube import ObjectPath
from api.ports.port import BlockingPort, Port
from runtime.drivers.kube.driver import KubeDriver
from runtime.drivers.kubeconfig.resolve import resolve
from runtime.drivers.memory.kube import MemoryKube
from tests.harness.cluster.clusteradmin import pod_body

NAMES = map(str, itertools.count(1))


class KubeBench:
    """One node's way to a server: `port` has the identity of `node`, `admin` may do everything."""

    def __init__(self, name: str, port: Port | BlockingPort, admin) -> None:
        """Take a name that no other test has, as a real server is shared, and a `ClusterAdmin` or what has its methods."""
        self.node, self.pod = f"node-{name}", f"pod-{name}"
        self.port, self.admin = port, admin

    def node_path(self, subresource: str = "") -> ObjectPath:
        return ObjectPath(plural="nodes", name=self.node, subresource=subresource)

    def pod_path(self, subresource: str = "") -> ObjectPath:
        return ObjectPath(plural="pods", namespace="default", name=self.pod, subresource=subresource)

    def make_node(self) -> dict:
        return self.admin.create(ObjectPath(plural="nodes"), {"metadata": {"name": self.node}})

    def make_pod(self, node: str = "", metadata: dict | None = None, **spec) -> dict:
        body = pod_body(self.pod, node or self.node, **spec)
        body["metadata"] |= metadata or {}
        return self.admin.create(ObjectPath(plural="pods", namespace="default"), body)


def on_server(request):
    """Return a bench on the shared control plane."""
    plane, name = request.getfixturevalue("control_plane"), next(NAMES)
    kubeconfig = str(plane.node_kubeconfig(f"node-{name}"))
    driver = KubeDriver(f"node-{name}", lambda: resolve(kubeconfig))
    request.addfinalizer(driver.close)
    return KubeBench(name, driver, request.getfixturevalue("cluster_admin"))


def in_memory(_request):
    """Return a bench on a server of its own."""
    name = next(NAMES)
    kube = MemoryKube(f"node-{name}", time.time_ns)
    return KubeBench(name, kube, kube.admin)


SERVERS = {
    "memory": pytest.param(in_memory),
    "server": pytest.param(on_server, marks=[pytest.mark.real, pytest.mark.optional]),
}
