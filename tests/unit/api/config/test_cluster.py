"""The settings of a node of a cluster, from file and flags."""

import json

import pytest

from api.config.cluster import ClusterSettings
from api.config.settings import Flags, Machine, configure

ROOT = Machine(is_root=True, hostname="n1", state_home="/s", working_directory="/here")
HEAD = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


def outcome(flags=None, **fields):
    flags = {"config": "/c.yaml", "container_runtime_endpoint": "embedded", **(flags or {})}
    return configure(json.dumps({**HEAD, **fields}).encode(), Flags(**flags), ROOT)


def cluster(flags=None, **fields):
    found = outcome(flags, **fields)
    assert found.problems == ()
    assert found.warnings == ()
    return found.settings.cluster


def problems(**flags):
    found = outcome(flags)
    assert found.settings is None
    return [(one.where, one.message) for one in found.problems]


def test_without_any_the_defaults_are_those_of_a_kubelet():
    found = cluster()
    assert found == ClusterSettings()
    assert (found.status_update_s, found.status_report_s, found.status_max_images) == (10.0, 300.0, 50)
    assert (found.lease_duration_s, found.register_node, found.controller_attach) == (40, True, True)


def test_every_field_of_the_file_counts():
    found = cluster(
        registerNode=False, providerID="cloud://1", enableControllerAttachDetach=False, nodeStatusUpdateFrequency="5s",
        nodeStatusReportFrequency="1m", nodeStatusMaxImages=-1, nodeLeaseDurationSeconds=80,
    )  # fmt: skip
    assert found == ClusterSettings(
        register_node=False,
        provider_id="cloud://1",
        controller_attach=False,
        status_update_s=5.0,
        status_report_s=60.0,
        status_max_images=-1,
        lease_duration_s=80,
    )


def test_flags_win_over_the_file():
    flags = {"kubeconfig": "k", "register_node": True, "provider_id": "p", "cloud_provider": "external"}
    found = cluster(flags, registerNode=False, providerID="cloud://1")
    assert (found.kubeconfig, found.register_node, found.provider_id) == ("/here/k", True, "p")
    assert found.external_cloud


def test_certificates_are_kept_under_the_root_directory_and_not_rotated_unless_that_is_said():
    found = cluster({"kubeconfig": "k"})
    assert (found.cert_dir, found.bootstrap_kubeconfig) == ("/var/lib/nodeagent/pki", "")
    assert not found.rotate_certificates
    flags = {"kubeconfig": "k", "bootstrap_kubeconfig": "b", "cert_dir": "certificates"}
    found = cluster(flags, rotateCertificates=True)
    assert (found.cert_dir, found.bootstrap_kubeconfig) == ("/here/certificates", "/here/b")
    assert found.rotate_certificates


def test_a_bootstrap_needs_a_kubeconfig_to_write():
    ((where, message),) = problems(bootstrap_kubeconfig="/b")
    assert where == "--bootstrap-kubeconfig"
    assert "--kubeconfig as well" in message


@pytest.mark.parametrize(
    ("fields", "report_s"),
    [
        ({"nodeStatusUpdateFrequency": "20s"}, 20.0),
        ({"nodeStatusUpdateFrequency": "0s"}, 300.0),
        ({"nodeStatusUpdateFrequency": "20s", "nodeStatusReportFrequency": "1m"}, 60.0),
        ({"nodeStatusReportFrequency": "1m"}, 60.0),
    ],
)
def test_who_only_says_how_often_a_status_is_computed_means_how_often_it_is_reported(fields, report_s):
    assert cluster(**fields).status_report_s == report_s


@pytest.mark.parametrize(
    ("text", "ips", "primary"),
    [
        ("", (), ""),
        ("192.0.2.1", ("192.0.2.1",), "192.0.2.1"),
        (" 192.0.2.1 , 2001:DB8::1 ", ("192.0.2.1", "2001:db8::1"), "192.0.2.1"),
        ("::", ("::",), ""),
        ("0.0.0.0", ("0.0.0.0",), ""),
    ],
)
def test_the_nodes_addresses_are_one_or_one_of_each_family(text, ips, primary):
    found = cluster({"node_ip": text})
    assert (found.node_ips, found.primary_ip) == (ips, primary)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nonsense", "an IP address"),
        ("192.0.2.1,192.0.2.2", "either a single IP or a dual-stack pair of IPs"),
        ("192.0.2.1,2001:db8::1,2001:db8::2", "either a single IP or a dual-stack pair of IPs"),
        ("0.0.0.0,2001:db8::1", "without '0.0.0.0' or '::'"),
    ],
)
def test_other_addresses_are_refused(text, expected):
    ((where, message),) = problems(node_ip=text)
    assert where == "--node-ip"
    assert expected in message


def test_flags_that_say_nothing_are_refused():
    ((where, message),) = problems(cloud_provider="aws")
    assert (where, "external" in message) == ("--cloud-provider", True)
    ((where, message),) = problems(register_node=True)
    assert (where, "--kubeconfig" in message) == ("--register-node", True)
    assert cluster({"register_node": False}).register_node is False
