"""What containers of a pod share with each other and with the host, and the names that they know, on a real containerd."""

from pathlib import Path

import pytest

from tests.harness.agent.agent import NODE
from tests.harness.agent.node import container

pytestmark = pytest.mark.real
FOREVER = "exec sleep 1000000"
KINDS = ("pid", "ipc", "net", "uts", "mnt")


def namespaces(pid):
    """Return which namespaces a process is in."""
    return {kind: str(Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in KINDS}


def of_pod(node, name):
    """Return which namespaces the main process of each container is in."""
    mains = node.until(lambda: len(node.mains(name)) == 2 and node.mains(name), "both run")
    return {container: namespaces(pid) for container, (pid, _) in mains.items()}


def pair(node, name, **spec):
    """Run a pod with two containers."""
    node.put_pod(name, container("a", FOREVER), container("b", FOREVER), **spec)
    node.start()
    node.until_running(name)
    found, host = of_pod(node, name), namespaces("self")
    return found["a"], found["b"], host


def test_containers_share_network_and_ipc_and_nothing_of_the_host(node):
    one, other, host = pair(node, "own")
    assert (one["net"], one["ipc"]) == (other["net"], other["ipc"])
    assert one["pid"] != other["pid"]
    assert not set(one.values()) & set(host.values())


def test_a_shared_process_namespace_is_the_pods_and_not_the_hosts(node):
    one, other, host = pair(node, "shared", shareProcessNamespace=True)
    assert one["pid"] == other["pid"] != host["pid"]
    [(pid, _), *_] = node.mains("shared").values()
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    inside = next(line for line in lines if line.startswith("NSpid:")).split()[-1]
    assert inside != "1", "the sandbox's own process is the first one"


def test_the_hosts_processes_and_ipc_are_given_to_a_pod_that_asks_for_them(node):
    one, other, host = pair(node, "host", hostPID=True, hostIPC=True)
    assert one["pid"] == other["pid"] == host["pid"]
    assert one["ipc"] == other["ipc"] == host["ipc"]
    assert one["net"] == other["net"] != host["net"]


def test_a_pod_knows_the_aliases_that_it_was_given(node):
    aliases = [{"ip": "192.0.2.77", "hostnames": ["db", "db.example.org"]}]
    node.put_pod("named", container("main", f"cat /etc/hosts; {FOREVER}"), hostAliases=aliases)
    node.start()
    node.until_running("named")
    lines = node.until(lambda: (said := node.printed("named")) and len(said[0]) > 4 and said[0], "it spoke")
    assert "192.0.2.77\tdb\tdb.example.org" in lines
    assert f"{node.address('named')}\tnamed-{NODE}" in lines


def test_a_pod_may_be_called_by_its_full_name(make_node, containerd):
    node = make_node(containerd, clusterDomain="cluster.example")
    script = f"hostname; cat /proc/sys/kernel/hostname; {FOREVER}"
    node.put_pod("web", container("main", script), hostname="one", subdomain="group", setHostnameAsFQDN=True)
    node.start()
    node.until_running("web")
    lines = node.until(lambda: (said := node.printed("web")) and len(said[0]) == 2 and said[0], "it spoke")
    assert set(lines) == {"one.group.default.svc.cluster.example"}
