"""Fixtures of private control planes, for every folder of tests."""

import contextlib

import pytest

from api.ports.kube import ObjectPath
from tests.harness.cluster.clusteradmin import ClusterAdmin
from tests.harness.cluster.controlplane import CONTROLLERS, ControlPlane, assets
from tests.harness.wait import until


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory):
    """Return a control plane for all tests that leave it running; the namespace default has its ServiceAccount."""
    plane = ControlPlane(tmp_path_factory.mktemp("plane-"), assets())
    with contextlib.ExitStack() as ends:
        ends.callback(plane.clean_up)
        plane.start()
        admin = ends.enter_context(contextlib.closing(ClusterAdmin(plane.admin_kubeconfig)))
        admin.make_namespace("default")
        yield plane


@pytest.fixture
def make_control_plane(tmp_path):
    """Return a function that makes control planes of a test's own, not started yet."""
    with contextlib.ExitStack() as ends:

        def make():
            plane = ControlPlane(tmp_path / f"plane-{len(made)}", assets())
            made.append(plane)
            ends.callback(plane.clean_up)
            return plane

        made = []
        yield make


@pytest.fixture(scope="session")
def full_control_plane(tmp_path_factory):
    """Return a control plane of today with controller manager and scheduler."""
    programs = assets(*CONTROLLERS)
    plane = ControlPlane(tmp_path_factory.mktemp("full-plane-"), programs, controllers=True)
    with contextlib.ExitStack() as ends:
        ends.callback(plane.clean_up)
        plane.start()
        admin = ends.enter_context(contextlib.closing(ClusterAdmin(plane.admin_kubeconfig)))
        account = ObjectPath(plural="serviceaccounts", namespace="default", name="default")
        until(lambda: admin.read(account), "the namespace has its ServiceAccount", 30.0)
        yield plane


@pytest.fixture(scope="session")
def cluster_admin(control_plane):
    """Return the administrator of the shared control plane."""
    with contextlib.closing(ClusterAdmin(control_plane.admin_kubeconfig)) as admin:
        yield admin
