"""Each part of a node's status, as a kubelet sets it (specification 3.4 to 3.12)."""

import itertools

import pytest
from msgspec.structs import replace

from actors.nodestatus.address import PROVIDED_IP, with_addresses
from actors.nodestatus.capacity import with_capacity
from actors.nodestatus.compose import composed
from actors.nodestatus.condition import TEXT_LIMIT, TEXTS, why_not_ready, with_pressure, with_ready
from actors.nodestatus.info import names_of, with_features, with_images, with_info
from actors.nodestatus.patch import patch_between
from actors.nodestatus.state import NodeStatusSettings, NodeStatusState
from api.eviction import Pressure
from api.kube.objects.meta import ObjectMeta
from api.kube.objects.node import Node, NodeAddress, NodeCondition, NodeStatus
from api.messages.nodestatus import PlegHealthSeen
from api.ports.images import ImageRow
from tests.unit.actors.nodestatus.hand import HEALTHY, INFO, LISTED, MACHINE, WALL

AT, EARLIER = "2024-01-02T00:00:00Z", "2024-01-01T00:00:00Z"
FULL = {"cpu": "2", "memory": "4Gi", "pods": "110", "ephemeral-storage": "1Gi"}


def node(**status):
    return Node(metadata=ObjectMeta(name="n1"), status=NodeStatus(**status))


def settings(**more):
    return NodeStatusSettings(node_name="n1", **more)


def rows(found):
    return [(one.type, one.address) for one in found.status.addresses]


# addresses


@pytest.mark.parametrize(
    ("node_ips", "machine_ips", "found"),
    [
        ((), ("192.0.2.1",), ("192.0.2.1",)),
        (("192.0.2.9",), ("192.0.2.1",), ("192.0.2.9",)),
        (("192.0.2.9", "2001:db8::9"), ("192.0.2.1",), ("192.0.2.9", "2001:db8::9")),
        ((), ("192.0.2.1", "2001:db8::1"), ("192.0.2.1",)),
        (("::",), ("192.0.2.1", "2001:db8::1"), ("2001:db8::1",)),
        (("0.0.0.0",), ("2001:db8::1", "192.0.2.1"), ("192.0.2.1",)),
        ((), ("127.0.0.1", "192.0.2.1"), ("192.0.2.1",)),
    ],
)
def test_addresses_are_the_configured_ones_else_the_machines_own(node_ips, machine_ips, found):
    made, trouble = with_addresses(node(), settings(node_ips=node_ips), replace(MACHINE, ips=machine_ips))
    assert not trouble
    assert rows(made) == [*(("InternalIP", ip) for ip in found), ("Hostname", "n1")]


@pytest.mark.parametrize(
    ("node_ips", "text"),
    [
        (("127.0.0.1",), "failed to validate nodeIP: nodeIP can't be loopback address"),
        (("224.0.0.1",), "failed to validate nodeIP: nodeIP can't be a multicast address"),
        (("169.254.0.1",), "failed to validate nodeIP: nodeIP can't be a link-local unicast address"),
        (("192.0.2.1", "::1"), "failed to validate secondaryNodeIP: nodeIP can't be loopback address"),
        (("nonsense",), "failed to validate nodeIP: 'nonsense' is no IP address"),
    ],
)
def test_an_address_that_no_node_can_have_leaves_the_addresses_as_they_were(node_ips, text):
    known = node(addresses=(NodeAddress(type="InternalIP", address="192.0.2.7"),))
    assert with_addresses(known, settings(node_ips=node_ips), MACHINE) == (known, text)


def test_a_machine_without_an_address_says_what_to_do():
    made, trouble = with_addresses(node(), settings(), replace(MACHINE, ips=("127.0.0.1",)))
    assert made == node()
    assert trouble.startswith("can't get ip address of node n1. error: ")
    assert "--node-ip" in trouble


def test_with_an_external_cloud_its_addresses_stay_and_without_one_given_there_is_only_the_hostname():
    cloud = settings(external_cloud=True)
    assert rows(with_addresses(node(), cloud, MACHINE)[0]) == [("Hostname", "n1")]
    known = node(addresses=(NodeAddress(type="ExternalIP", address="203.0.113.1"),))
    made, _ = with_addresses(known, settings(external_cloud=True, node_ips=("192.0.2.9",)), MACHINE)
    assert rows(made) == [("ExternalIP", "203.0.113.1")]
    assert made.metadata.annotations == {PROVIDED_IP: "192.0.2.9"}
    assert with_addresses(made, settings(), MACHINE)[0].metadata.annotations == {}


# capacity


def test_capacity_and_allocatable_are_written_as_kubernetes_does():
    machine = replace(
        MACHINE,
        huge_page_sizes=(2 << 20,),
        huge_page_bytes=(64 << 20,),
        allocatable_scalars=(("hugepages-2Mi", 64 << 20),),
    )
    status = with_capacity(node(), machine).status
    assert status.capacity == {
        "cpu": "2", "memory": "4Gi", "pods": "110", "ephemeral-storage": "97656250Ki", "hugepages-2Mi": "64Mi",
    }  # fmt: skip
    assert status.allocatable == {
        "cpu": "1900m", "memory": "3996Mi", "pods": "110", "ephemeral-storage": "89999999999", "hugepages-2Mi": "64Mi",
    }  # fmt: skip


def test_what_others_advertise_stays_and_huge_pages_that_are_gone_go():
    known = node(
        capacity={"example.com/gpu": "2", "hugepages-1Gi": "1Gi", "cpu": "2000m"},
        allocatable={
            "example.com/gpu": "1",
            "example.com/lost": "3",
            "hugepages-1Gi": "1Gi",
            "attachable-volumes-x": "9",
        },
    )
    status = with_capacity(known, MACHINE).status
    assert (status.capacity["example.com/gpu"], status.allocatable["example.com/gpu"]) == ("2", "2")
    assert status.capacity["cpu"] == "2000m", "an equal amount keeps its text"
    assert "hugepages-1Gi" not in status.capacity
    assert "hugepages-1Gi" not in status.allocatable
    assert "example.com/lost" not in status.allocatable
    assert status.allocatable["attachable-volumes-x"] == "9"


def test_a_file_system_of_unknown_size_is_left_out_and_makes_the_node_not_ready():
    made = with_capacity(node(), replace(MACHINE, ephemeral_bytes=0))
    assert (
        why_not_ready(made, HEALTHY, LISTED, 5.0) == "missing node capacity for resources: ephemeral-storage"
    )
    text = "missing node capacity for resources: cpu, memory, pods, ephemeral-storage"
    assert why_not_ready(node(), HEALTHY, LISTED, 5.0) == text


# conditions


@pytest.mark.parametrize(("kind", "status"), list(TEXTS))
def test_each_pressure_has_its_texts_and_its_event(kind, status):
    reason, message, event = TEXTS[kind, status]
    made, happened = with_pressure(node(), kind, (kind,) if status == "True" else (), AT)
    assert made.status.conditions == (
        NodeCondition(
            type=kind.value,
            status=status,
            reason=reason,
            message=message,
            last_heartbeat_time=AT,
            last_transition_time=AT,
        ),
    )
    assert [(one.type, one.reason, one.message) for one in happened] == [
        ("Normal", event, f"Node n1 status is now: {event}")
    ]


def test_the_texts_of_the_pressures_are_the_ones_of_a_kubelet():
    assert TEXTS[Pressure.MEMORY, "True"][0] == "KubeletHasInsufficientMemory"
    assert TEXTS[Pressure.DISK, "False"] == (
        "KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure",
    )  # fmt: skip
    assert TEXTS[Pressure.PID, "False"][1] == "kubelet has sufficient PID available"


def test_a_pressure_that_stays_only_has_a_new_heartbeat_and_one_that_was_unknown_is_a_change():
    known, _ = with_pressure(node(), Pressure.DISK, (), EARLIER)
    made, happened = with_pressure(known, Pressure.DISK, (), AT)
    assert happened == ()
    assert (
        made.status.conditions[0].last_heartbeat_time,
        made.status.conditions[0].last_transition_time,
    ) == (AT, EARLIER)
    unknown = replace(known.status.conditions[0], status="Unknown", reason="NodeStatusUnknown")
    made, happened = with_pressure(node(conditions=(unknown,)), Pressure.DISK, (), AT)
    assert made.status.conditions[0].reason == "KubeletHasNoDiskPressure"
    assert [one.reason for one in happened] == ["NodeHasNoDiskPressure"]


def test_ready_keeps_the_time_of_its_last_change_and_only_a_change_is_an_event():
    first, happened = with_ready(node(capacity=FULL), HEALTHY, LISTED, 5.0, EARLIER)
    assert happened == (), "a condition that was not there has not changed"
    same, happened = with_ready(first, HEALTHY, LISTED, 5.0, AT)
    ready = same.status.conditions[0]
    assert (ready.status, ready.reason, ready.message) == (
        "True",
        "KubeletReady",
        "kubelet is posting ready status",
    )
    assert (ready.last_heartbeat_time, ready.last_transition_time, happened) == (AT, EARLIER, ())
    lost, happened = with_ready(same, HEALTHY, None, 5.0, AT)
    assert (lost.status.conditions[0].reason, lost.status.conditions[0].last_transition_time) == (
        "KubeletNotReady",
        AT,
    )
    assert [one.reason for one in happened] == ["NodeNotReady"]
    _, happened = with_ready(lost, HEALTHY, LISTED, 5.0, AT)
    assert [one.reason for one in happened] == ["NodeReady"]


NEVER = float("-inf")
NOT_READY = replace(INFO, ready=False, detail="it starts")
NO_NETWORK = replace(
    INFO,
    network_ready=False,
    network_condition="NetworkReady=false reason:NetworkPluginNotReady message:no cni",
)


@pytest.mark.parametrize(
    ("health", "pleg", "text"),
    [
        ({}, LISTED, ""),
        ({"ready_until": 71.0}, LISTED, ""),
        ({"ready_until": 70.0}, LISTED, "container runtime is down"),
        (
            {"runtime": None, "is_answering": False, "ready_until": NEVER},
            LISTED,
            "[container runtime status check may not have completed yet, network state unknown]",
        ),
        ({}, None, "PLEG is not healthy: pleg has yet to be successful"),
        ({}, PlegHealthSeen(is_healthy=False), "PLEG is not healthy: pleg has yet to be successful"),
        (
            {},
            PlegHealthSeen(is_healthy=False, listed_at=-85.5),
            "PLEG is not healthy: pleg was last seen active 3m5s ago; threshold is 3m0s",
        ),
        (
            {"runtime": NOT_READY, "ready_until": 99.0},
            LISTED,
            "container runtime not ready: RuntimeReady=false reason: message:it starts",
        ),
        (
            {"runtime": replace(NOT_READY, ready_condition="<nil>"), "ready_until": 10.0},
            LISTED,
            "[container runtime is down, container runtime not ready: <nil>]",
        ),
        (
            {"runtime": NO_NETWORK},
            LISTED,
            "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:no cni",
        ),
    ],
)
def test_why_a_node_is_not_ready_is_said_in_the_words_of_a_kubelet(health, pleg, text):
    assert why_not_ready(node(capacity=FULL), replace(HEALTHY, **health), pleg, 100.0) == text


def test_a_runtime_that_says_much_is_cut_short():
    health = replace(HEALTHY, runtime=replace(NOT_READY, detail="x" * 100_000))
    assert len(why_not_ready(node(capacity=FULL), health, LISTED, 5.0)) < TEXT_LIMIT + 100


# info, images, features


def test_the_node_info_is_that_of_machine_and_runtime():
    info = with_info(node(), replace(HEALTHY, machine=replace(MACHINE, swap_bytes=1024))).status.node_info
    assert (info.machine_id, info.system_uuid, info.boot_id) == ("m", "s", "b1")
    assert (info.kernel_version, info.os_image) == ("6.1.0", "Debian")
    assert (info.operating_system, info.architecture) == ("linux", "amd64")
    assert (info.container_runtime_version, info.kubelet_version) == ("containerd://2.1.0", "v1.36.0")
    assert (info.kube_proxy_version, info.swap.capacity) == ("", 1024)
    down = with_info(node(), replace(HEALTHY, is_answering=False)).status.node_info
    assert (down.container_runtime_version, down.swap) == ("containerd://Unknown", None)


@pytest.mark.parametrize(("most", "ids"), [(-1, "cba"), (2, "cb"), (0, "")])
def test_images_are_the_largest_first_digests_before_tags(most, ids):
    images = [
        ImageRow(id="a", names=("t:a",), size_bytes=1),
        ImageRow(id="b", names=("t:b",), size_bytes=5),
        ImageRow(id="c", names=("t:c",), size_bytes=5),
    ]
    for order in itertools.permutations(images):
        found = with_images(node(), order, most).status.images
        assert [one.names[0] for one in found] == [f"t:{one}" for one in ids]
    row = ImageRow(id="x", names=("t:1", "t:2", "t:3", "t:4", "r@sha256:1", "r@sha256:2"))
    assert names_of(row) == ("r@sha256:1", "r@sha256:2", "t:1", "t:2", "t:3")


def test_handlers_are_in_order_and_stay_while_the_runtime_has_never_answered():
    made = with_features(node(), HEALTHY)
    assert [one.name for one in made.status.runtime_handlers] == ["", "runc"]
    assert made.status.features.supplemental_groups_policy is False
    assert made.status.declared_features == ("RestartAllContainersOnContainerExits",)
    assert with_features(made, replace(HEALTHY, runtime=None)) == made


# the whole, and the patch

KNOWN = NodeStatusState(settings=settings(), pleg=LISTED)


def test_a_status_composed_again_changes_nothing_but_heartbeats():
    first = composed(KNOWN, HEALTHY, node(), 5.0, WALL)
    again = composed(KNOWN, HEALTHY, first.node, 15.0, WALL + 10 * 10**9)
    assert first.is_changed
    assert not again.is_changed
    assert patch_between(first.node, first.node) == {}
    changed = patch_between(first.node, again.node)
    assert set(changed) == {"status"}
    assert set(changed["status"]) == {"conditions"}
    assert all(set(one) == {"type", "lastHeartbeatTime"} for one in changed["status"]["conditions"])
    assert [one.type for one in first.node.status.conditions] == [
        "MemoryPressure",
        "DiskPressure",
        "PIDPressure",
        "Ready",
    ]


def test_conditions_of_others_stay_in_their_place_and_are_not_in_the_patch():
    foreign = NodeCondition(type="NetworkUnavailable", status="False", reason="Route")
    original = node(conditions=(foreign,))
    made = composed(KNOWN, HEALTHY, original, 5.0, WALL)
    assert made.node.status.conditions[0] == foreign
    types = [one["type"] for one in patch_between(original, made.node)["status"]["conditions"]]
    assert "NetworkUnavailable" not in types


def test_addresses_are_replaced_as_a_whole_where_there_were_others():
    one, two = (NodeAddress(type="InternalIP", address=ip) for ip in ("192.0.2.1", "2001:db8::1"))
    assert patch_between(node(), node(addresses=(one,)))["status"]["addresses"] == [
        {"type": "InternalIP", "address": "192.0.2.1"}
    ]
    assert patch_between(node(addresses=(one,)), node(addresses=(one, two)))["status"]["addresses"] == [
        {"type": "InternalIP", "address": "192.0.2.1"},
        {"type": "InternalIP", "address": "2001:db8::1"},
        {"$patch": "replace"},
    ]


def test_a_reboot_is_one_event():
    before = composed(KNOWN, HEALTHY, node(), 5.0, WALL).node
    machine = replace(MACHINE, identity=replace(MACHINE.identity, boot_id="b2"))
    made = composed(KNOWN, replace(HEALTHY, machine=machine), before, 5.0, WALL)
    assert [(one.type, one.reason, one.message) for one in made.status_events] == [
        ("Warning", "Rebooted", "Node n1 has been rebooted, boot id: b2")
    ]
    said = replace(KNOWN, is_reboot_reported=True)
    assert composed(said, replace(HEALTHY, machine=machine), before, 5.0, WALL).status_events == ()
