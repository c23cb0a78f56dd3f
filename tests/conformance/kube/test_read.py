"""Services and RuntimeClasses, as pods see them: read from memory, and there soon after they were made."""

import pytest

from api.errors import NotFoundError
from api.ports.kube import (
    ClusterService,
    ObjectPath,
    ReadRuntimeClass,
    ReadServices,
    RuntimeClassRead,
    ServicePort,
    ServicesRead,
)
from runtime.edge import perform
from tests.harness.wait import until


def services(bench, namespace="default"):
    answer = perform(bench.port, ReadServices(namespace=namespace), 10.0)
    assert type(answer) is ServicesRead
    return {one.name: one for one in answer.services}


@pytest.fixture
def service(bench):
    name = f"service-{bench.pod}"
    path = ObjectPath(plural="services", namespace="default")
    ports = [{"name": "web", "port": 80, "protocol": "TCP"}, {"name": "dns", "port": 53, "protocol": "UDP"}]
    spec = {"clusterIP": "None", "ports": ports}
    yield bench.admin.create(path, {"metadata": {"name": name}, "spec": spec})
    bench.admin.delete(ObjectPath(plural="services", namespace="default", name=name))


def test_a_service_is_read_with_its_address_and_ports(bench, service):
    name = service["metadata"]["name"]
    assert services(bench)[name] == ClusterService(
        namespace="default",
        name=name,
        cluster_ip="None",
        ports=(
            ServicePort(name="web", port=80, protocol="TCP"),
            ServicePort(name="dns", port=53, protocol="UDP"),
        ),
    )


def test_a_service_that_comes_after_the_first_read_is_read_too(bench, request):
    before = services(bench)
    name = request.getfixturevalue("service")["metadata"]["name"]
    assert name not in before
    until(lambda: name in services(bench), "it is read", 10.0)


def test_services_of_other_namespaces_are_not_seen_but_for_the_api_server_s(bench, service):
    assert set(services(bench, "another")) <= {"kubernetes"}
    assert service["metadata"]["name"] not in services(bench, "another")


def test_a_runtime_class_stands_for_its_handler(bench):
    name = f"class-{bench.pod}"
    path = ObjectPath(api_version="node.k8s.io/v1", plural="runtimeclasses")
    bench.admin.create(path, {"metadata": {"name": name}, "handler": "kata-fc"})
    assert perform(bench.port, ReadRuntimeClass(name=name), 10.0) == RuntimeClassRead(handler="kata-fc")


def test_a_runtime_class_that_is_not_there_is_not_found(bench):
    with pytest.raises(NotFoundError, match="nowhere"):
        perform(bench.port, ReadRuntimeClass(name="nowhere"), 10.0)
