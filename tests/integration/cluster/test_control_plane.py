"""The control plane that tests of a cluster's node run against: identities, faults, and a kubeconfig that the agent resolves."""

import contextlib
import socket
import ssl
import urllib.request

import pytest
from kubernetes.client import ApiException

from api.ports.kube import ObjectPath
from runtime.drivers.kubeconfig.resolve import resolve
from tests.harness.cluster.clusteradmin import ClusterAdmin, pod_body

pytestmark = [pytest.mark.real, pytest.mark.optional]

NODES = ObjectPath(plural="nodes")
PODS = ObjectPath(plural="pods", namespace="default")


def pod(name, subresource=""):
    return ObjectPath(plural="pods", namespace="default", name=name, subresource=subresource)


@pytest.fixture
def admin_of():
    with contextlib.ExitStack() as ends:
        yield lambda kubeconfig: ends.enter_context(contextlib.closing(ClusterAdmin(kubeconfig)))


def test_a_pod_that_is_bound_to_a_node_is_made_changed_and_deleted_in_two_steps(cluster_admin):
    made = cluster_admin.create(PODS, pod_body("two-steps", "elsewhere"))
    assert made["status"]["phase"] == "Pending"
    changed = cluster_admin.patch(pod("two-steps", "status"), {"status": {"phase": "Running"}})
    assert changed["status"]["phase"] == "Running"
    assert cluster_admin.delete(pod("two-steps"))["metadata"]["deletionGracePeriodSeconds"] == 30
    assert cluster_admin.read(pod("two-steps"))["metadata"]["deletionTimestamp"]
    cluster_admin.delete(pod("two-steps"), grace_s=0)
    assert cluster_admin.read(pod("two-steps")) is None


def test_a_node_may_make_itself_and_no_other(control_plane, admin_of):
    node = admin_of(control_plane.node_kubeconfig("itself"))
    assert node.create(NODES, {"metadata": {"name": "itself"}})["metadata"]["uid"]
    with pytest.raises(ApiException, match=r"(?s)403.*is not allowed to modify node"):
        node.create(NODES, {"metadata": {"name": "another"}})


def test_the_access_that_a_kubeconfig_comes_to_opens_the_server(control_plane):
    access = resolve(str(control_plane.node_kubeconfig("access")))
    context = ssl.create_default_context(cadata=access.ca.decode())
    pair = control_plane.folder / "pair.pem"
    pair.write_bytes(access.cert + access.key)
    context.load_cert_chain(pair)
    with urllib.request.urlopen(f"{access.server}/readyz", context=context, timeout=10.0) as answer:
        assert answer.read() == b"ok"


def test_paused_killed_and_stopped_it_goes_on_with_the_same_data(make_control_plane, admin_of):
    plane = make_control_plane().start()
    admin = admin_of(plane.admin_kubeconfig)
    admin.create(NODES, {"metadata": {"name": "kept"}})
    uid = admin.read(ObjectPath(plural="nodes", name="kept"))["metadata"]["uid"]

    plane.pause()
    with socket.create_connection(("127.0.0.1", plane.port), timeout=1.0) as silent:
        silent.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with pytest.raises(TimeoutError):
            silent.recv(1)
    plane.resume()
    assert admin.read(ObjectPath(plural="nodes", name="kept"))["metadata"]["uid"] == uid

    for end in (plane.kill9, plane.stop):
        end()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", plane.port), timeout=1.0)
        plane.start()
        again = admin_of(plane.admin_kubeconfig)
        assert again.read(ObjectPath(plural="nodes", name="kept"))["metadata"]["uid"] == uid
