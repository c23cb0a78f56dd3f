"""Variables of Services: as Kubernetes and Docker's links name them, and below what a container defines itself."""

import pytest
from msgspec.structs import replace

from actors.pod.spec.environment import environment
from actors.pod.spec.lookup import service_variables
from api.kube.objects.container import Container, EnvVar
from api.ports.kube import ClusterService, ServicePort
from api.ports.node import NodeFacts
from tests.unit.actors.pods import wanted

WEB = ClusterService(
    namespace="default",
    name="my-web",
    cluster_ip="10.96.0.9",
    ports=(ServicePort(name="http-main", port=80, protocol="TCP"), ServicePort(port=53, protocol="UDP")),
)
MASTER = ClusterService(
    namespace="default",
    name="kubernetes",
    cluster_ip="10.96.0.1",
    ports=(ServicePort(name="https", port=443),),
)
MASTER_VARIABLES = {
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
    "KUBERNETES_SERVICE_PORT_HTTPS": "443",
    "KUBERNETES_PORT": "tcp://10.96.0.1:443",
    "KUBERNETES_PORT_443_TCP": "tcp://10.96.0.1:443",
    "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
    "KUBERNETES_PORT_443_TCP_PORT": "443",
    "KUBERNETES_PORT_443_TCP_ADDR": "10.96.0.1",
}


def service(name="web", namespace="default", address="10.96.0.9", *ports):
    return ClusterService(namespace=namespace, name=name, cluster_ip=address, ports=ports)


def test_a_service_has_the_variables_of_a_kubelet_and_of_docker_s_links():
    assert service_variables(wanted("a"), (WEB,)) == {
        "MY_WEB_SERVICE_HOST": "10.96.0.9",
        "MY_WEB_SERVICE_PORT": "80",
        "MY_WEB_SERVICE_PORT_HTTP_MAIN": "80",
        "MY_WEB_PORT": "tcp://10.96.0.9:80",
        "MY_WEB_PORT_80_TCP": "tcp://10.96.0.9:80",
        "MY_WEB_PORT_80_TCP_PROTO": "tcp",
        "MY_WEB_PORT_80_TCP_PORT": "80",
        "MY_WEB_PORT_80_TCP_ADDR": "10.96.0.9",
        "MY_WEB_PORT_53_UDP": "udp://10.96.0.9:53",
        "MY_WEB_PORT_53_UDP_PROTO": "udp",
        "MY_WEB_PORT_53_UDP_PORT": "53",
        "MY_WEB_PORT_53_UDP_ADDR": "10.96.0.9",
    }


def test_every_pod_sees_the_api_server_and_others_only_of_its_namespace_where_it_wants_them():
    elsewhere = service("far", "other")
    everything = (WEB, MASTER, elsewhere)
    assert service_variables(wanted("a", enable_service_links=False), everything) == MASTER_VARIABLES
    linked = service_variables(wanted("a"), everything)
    assert linked.items() >= MASTER_VARIABLES.items()
    assert "MY_WEB_PORT" in linked
    assert not any(name.startswith("FAR") for name in linked)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_service_of_the_namespace_wins_over_the_api_server_s(order):
    pod = wanted("a")
    pod = replace(pod, metadata=replace(pod.metadata, namespace="own"))
    own = service("kubernetes", pod.metadata.namespace, "10.96.7.7")
    master = service("kubernetes", "default", "10.96.0.1")
    found = service_variables(pod, [(own, master)[index] for index in order])
    assert found["KUBERNETES_SERVICE_HOST"] == "10.96.7.7"


@pytest.mark.parametrize("address", ["", "None"])
def test_a_service_without_an_address_has_none(address):
    assert service_variables(wanted("a"), (service("web", "default", address, ServicePort(port=1)),)) == {}


def test_an_address_of_ipv6_stands_in_brackets_where_a_port_follows():
    found = service_variables(wanted("a"), (service("web", "default", "fd00::1", ServicePort(port=1)),))
    assert found["WEB_PORT"] == "tcp://[fd00::1]:1"
    assert found["WEB_SERVICE_HOST"] == found["WEB_PORT_1_TCP_ADDR"] == "fd00::1"


def test_what_a_container_defines_comes_first_and_may_refer_to_services():
    variables = (
        EnvVar(name="URL", value="http://$(MY_WEB_SERVICE_HOST)/$(LATER)"),
        EnvVar(name="MY_WEB_SERVICE_PORT", value="mine"),
        EnvVar(name="PORT", value="$(MY_WEB_SERVICE_PORT)"),
    )
    container = Container(name="a", env=variables)
    found = environment(container, wanted(container), NodeFacts(), (), (WEB,))
    assert [one.name for one in found][:3] == ["URL", "MY_WEB_SERVICE_PORT", "PORT"]
    values = {one.name: one.value for one in found}
    assert values["URL"] == "http://10.96.0.9/$(LATER)"
    assert values["PORT"] == values["MY_WEB_SERVICE_PORT"] == "mine"
    assert values["MY_WEB_SERVICE_HOST"] == "10.96.0.9"
    assert len(found) == len(values)
