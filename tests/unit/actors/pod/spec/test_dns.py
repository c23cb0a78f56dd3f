"""Names: resolver policies and limits, host names, the hosts file."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.pod.spec.containerconfig import container_files, sandbox_spec, sandbox_warnings
from actors.pod.spec.dns import resolver, within_limits
from actors.pod.spec.hostname import host_name, hosts_text, sandbox_hostname
from actors.pod.spec.problem import ConfigProblem, Unfit
from api.ports.confinement import Dns
from api.ports.manifests import Problem
from api.ports.node import NodeFacts, NodeFiles, ResolverFile, parse_resolver
from tests.unit.actors.pods import from_fields

NODE = NodeFacts(
    confined=True, ips=("192.0.2.10",), cluster_dns=("10.96.0.10",), cluster_domain="cluster.local"
)
HOST = ResolverFile(servers=("192.0.2.53",), searches=("example.org",), options=("timeout:1",))
FILES = NodeFiles(resolver=HOST, hosts="192.0.2.10\tnode")
CLUSTER = (
    ("10.96.0.10",),
    ("n.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.org"),
    ("ndots:5",),
)
NODES_OWN = (("192.0.2.53",), ("example.org",), ("timeout:1",))


def pod_of(name="web", **spec):
    return from_fields({}, name=name, **spec)


def lists(found):
    return (found.dns.servers, found.dns.searches, found.dns.options)


@pytest.mark.parametrize(
    ("policy", "on_host", "expected"),
    [
        ("ClusterFirst", False, CLUSTER),
        ("ClusterFirst", True, NODES_OWN),
        ("ClusterFirstWithHostNet", False, CLUSTER),
        ("ClusterFirstWithHostNet", True, CLUSTER),
        ("Default", False, NODES_OWN),
        ("Default", True, NODES_OWN),
        ("None", False, ((), (), ())),
        ("None", True, ((), (), ())),
    ],
)
def test_each_policy(policy, on_host, expected):
    found = resolver(pod_of(dnsPolicy=policy, hostNetwork=on_host), NODE, FILES)
    assert lists(found) == expected
    assert found.warnings == ()


def test_without_a_cluster_domain_only_the_nodes_domains_are_searched():
    node = msgspec.structs.replace(NODE, cluster_domain="")
    assert resolver(pod_of(), node, FILES).dns.searches == ("example.org",)


def test_cluster_first_without_a_server_falls_back_and_says_so():
    node = msgspec.structs.replace(NODE, cluster_dns=())
    found = resolver(pod_of(), node, FILES)
    assert lists(found) == NODES_OWN
    assert [one.reason for one in found.warnings] == ["MissingClusterDNS"]
    assert resolver(pod_of(dnsPolicy="Default"), node, FILES).warnings == ()


@pytest.mark.parametrize(
    ("ips", "server"), [((), "127.0.0.1"), (("192.0.2.1",), "127.0.0.1"), (("2001:db8::1",), "::1")]
)
def test_without_a_resolver_file_the_loopback_answers(ips, server):
    node = msgspec.structs.replace(NODE, resolv_conf="", ips=ips)
    nothing = NodeFiles(resolver=None)
    assert lists(resolver(pod_of(dnsPolicy="Default"), node, nothing)) == ((server,), (".",), ())
    assert lists(resolver(pod_of(), node, nothing))[1] == CLUSTER[1][:3]


def test_a_resolver_file_that_cannot_be_read_keeps_only_who_needs_it_from_starting():
    problem = Problem(where="/etc/resolv.conf", message="Permission denied")
    broken = NodeFiles(resolver=None, problems=(problem,))
    for policy in ("Default", "ClusterFirst"):
        made = sandbox_spec(pod_of(dnsPolicy=policy), 0, NODE, broken)
        assert isinstance(made, ConfigProblem)
        assert made.reason == "CreatePodSandboxError"
        assert "/etc/resolv.conf: Permission denied" in made.message
        assert sandbox_warnings(pod_of(dnsPolicy=policy), NODE, broken) == ()
    own = pod_of(dnsPolicy="None", dnsConfig={"nameservers": ["10.0.0.1"]})
    assert sandbox_spec(own, 0, NODE, broken).dns == Dns(servers=("10.0.0.1",))


def test_a_bad_line_of_the_resolver_file_is_told():
    read = parse_resolver("nameserver\nnameserver 192.0.2.1\n", "/etc/resolv.conf")
    found = resolver(pod_of(dnsPolicy="Default"), NODE, NodeFiles(resolver=read))
    assert found.dns.servers == ("192.0.2.1",)
    assert [(w.reason, w.message.split(":")[1]) for w in found.warnings] == [("DNSConfigForming", "1")]


@pytest.mark.parametrize(
    ("text", "servers", "searches", "options"),
    [
        ("", (), (), ()),
        ("nameserver 1.1.1.1\nnameserver  2.2.2.2 rest\n", ("1.1.1.1", "2.2.2.2"), (), ()),
        ("domain a.example\nsearch b.example\nsearch c.example. . d.example\n", (), ("c.example", "d.example"), ()),
        ("# nameserver 1.1.1.1\n; search x\n  #x\noptions ndots:1\noptions rotate debug", (), (), ("ndots:1", "rotate", "debug")),
        ("search\n", (), (), ()),
        ("search a.example\nsearch\n", (), (), ()),
        ("sortlist 1.2.3.4\nnameserver fe80::1%eth0\n", ("fe80::1%eth0",), (), ()),
    ],
)  # fmt: skip
def test_a_resolver_file_is_read_as_a_kubelet_reads_it(text, servers, searches, options):
    found = parse_resolver(text, "f")
    assert (found.servers, found.searches, found.options, found.problems) == (
        servers,
        searches,
        options,
        (),
    )


def test_what_the_pod_adds_comes_after_and_its_options_win():
    config = {
        "nameservers": ["10.96.0.10", "10.0.0.9"],
        "searches": ["example.org", "x.example"],
        "options": [
            {"name": "edns0"},
            {"name": "ndots", "value": "1"},
            {"name": "timeout", "value": "9"},
        ],
    }
    found = resolver(pod_of(dnsConfig=config), NODE, FILES)
    assert lists(found) == (
        ("10.96.0.10", "10.0.0.9"),
        (*CLUSTER[1], "x.example"),
        ("ndots:1", "edns0", "timeout:9"),
    )


def test_lists_that_are_too_long_are_cut_with_a_warning():
    found = within_limits(Dns(servers=("1", "2", "3", "4"), searches=tuple(f"s{n}" for n in range(33))))
    assert found.dns.servers == ("1", "2", "3")
    assert found.dns.searches == tuple(f"s{n}" for n in range(32))
    assert [one.reason for one in found.warnings] == ["DNSConfigForming"] * 2
    assert found.warnings[0].message.endswith("the applied nameserver line is: 1 2 3")
    assert within_limits(Dns(searches=("a" * 254, "b"))).dns.searches == ("b",)


@given(st.lists(st.text("abc.", min_size=1, max_size=300), max_size=50), st.lists(st.text("12.", min_size=1), max_size=6))  # fmt: skip
def test_no_resolver_is_ever_over_the_limits_and_nothing_is_cut_without_a_word(searches, servers):
    given_dns = Dns(servers=tuple(servers), searches=tuple(searches))
    found = within_limits(given_dns)
    assert len(found.dns.servers) <= 3
    assert len(found.dns.searches) <= 32
    assert len(" ".join(found.dns.searches)) <= 2048
    assert all(len(one) <= 253 for one in found.dns.searches)
    assert (found.dns == given_dns) == (found.warnings == ())


# what a pod is called


@pytest.mark.parametrize(
    ("spec", "host", "domain"),
    [
        ({}, "web", ""),
        ({"hostname": "h"}, "h", ""),
        ({"hostname": "h", "subdomain": "s"}, "h", "s.n.svc.cluster.local"),
        ({"subdomain": "s"}, "web", "s.n.svc.cluster.local"),
        ({"hostnameOverride": "over.example.org", "subdomain": "s", "hostname": "h"}, "over.example.org", ""),
        ({"hostnameOverride": "o" * 70}, "o" * 63, ""),
        ({"name": "x" * 62 + "-yz"}, "x" * 62, ""),
        ({"name": "a.b"}, "a.b", ""),
    ],
)
def test_what_a_pod_is_called(spec, host, domain):
    found = host_name(pod_of(**spec), NODE)
    assert (found.host, found.domain) == (host, domain)


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ({}, "web"),
        ({"subdomain": "s"}, "web"),
        ({"subdomain": "s", "setHostnameAsFQDN": True}, "web.s.n.svc.cluster.local"),
        ({"setHostnameAsFQDN": True}, "web"),
        ({"hostNetwork": True, "hostname": "h"}, ""),
    ],
)
def test_the_host_name_of_a_sandbox(spec, shown):
    assert sandbox_hostname(pod_of(**spec), NODE) == shown


@pytest.mark.parametrize("length", [64 - len(".s.n.svc.cluster.local"), 65 - len(".s.n.svc.cluster.local")])
def test_a_full_name_of_64_characters_is_the_longest(length):
    pod = pod_of(hostname="h" * length, subdomain="s", setHostnameAsFQDN=True)
    if length + len(".s.n.svc.cluster.local") <= 64:
        assert len(sandbox_hostname(pod, NODE)) == 64
    else:
        with pytest.raises(Unfit, match="is too long"):
            sandbox_hostname(pod, NODE)


@pytest.mark.parametrize("spec", [{"hostname": "a.b"}, {"hostname": "-a"}, {"subdomain": "A"}, {"name": "..."}])  # fmt: skip
def test_a_name_that_cannot_be_one_is_a_problem_not_a_crash(spec):
    pod = pod_of(**spec)
    made = sandbox_spec(pod, 0, NODE, FILES)
    assert isinstance(made, ConfigProblem)
    assert made.reason == "CreatePodSandboxError"
    files = container_files(pod, pod.spec.containers[0], 0, NODE, FILES, ("10.0.0.1",))
    assert isinstance(files, ConfigProblem)
    assert files.reason == "CreateContainerConfigError"


def test_without_a_cluster_domain_a_name_has_no_trailing_dot():
    node = msgspec.structs.replace(NODE, cluster_domain="")
    assert host_name(pod_of(subdomain="s"), node).full == "web.s.n.svc"


def test_the_hosts_file_on_the_hosts_network_is_the_nodes_own_with_the_pods_additions():
    pod = pod_of(hostNetwork=True, hostAliases=[{"ip": "192.0.2.9", "hostnames": ["a", "b"]}])
    assert hosts_text(pod, NODE, FILES, ()) == (
        "# Kubernetes-managed hosts file (host network).\n192.0.2.10\tnode\n"
        "\n# Entries added by HostAliases.\n192.0.2.9\ta\tb\n"
    )
