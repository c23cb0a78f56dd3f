"""The pages of usage and metrics: the standard JSON, and text that a Prometheus parser reads."""

import json

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from actors.oom.state import OomCount
from actors.views.metrics import (
    OPERATIONS,
    actor_families,
    disk_families,
    hop_families,
    oom_families,
    pod_families,
    round_families,
    usage_families,
)
from actors.views.summary import summary
from api.ports.images import AnyImageCall
from api.ports.runtime import RuntimeCall, RuntimeContainer, RuntimeContainerState, RuntimePod
from api.shown.introspection import HOP_BOUNDS_S, Hop, HopRow, KernelRow
from api.shown.metric import Family, MetricKind, Sample, histogram, render
from api.usage import FsUsage, InterfaceUsage, NetworkUsage, Process, SwapUsage, VolumeUsage, share_of
from tests.harness.world.window import ACTORS, USED, WALL

FS = FsUsage(
    at=WALL,
    capacity_bytes=100,
    available_bytes=40,
    used_bytes=50,
    inodes=20,
    inodes_free=5,
    inodes_used=15,
)


def read(families):
    """Return what a Prometheus server would: name -> {labels: value}."""
    page = render(families).decode()
    return {
        sample.name: {
            tuple(sorted(other.labels.items())): other.value
            for family in text_string_to_metric_families(page)
            for other in family.samples
            if other.name == sample.name
        }
        for found in text_string_to_metric_families(page)
        for sample in found.samples
    }


def full():
    pods = tuple(
        replace(
            pod,
            network=NetworkUsage(
                at=WALL, interfaces=(InterfaceUsage(name="eth0", rx_bytes=5), InterfaceUsage(name="x"))
            ),
            volumes=(VolumeUsage(name="cache", kind="empty-dir", fs=share_of(FS, WALL, 7, 2)),),
            ephemeral=share_of(FS, WALL, 9, 3),
            swap=SwapUsage(at=WALL, usage_bytes=4, available_bytes=6),
            containers=tuple(
                replace(c, logs=share_of(FS, WALL, 5, 1), rootfs=share_of(FS, WALL, 4, 2), started_at=WALL)
                for c in pod.containers
            ),
        )
        for pod in USED.pods
    )
    node = replace(
        USED.node, fs=FS, image_fs=FS, pids_at=WALL, started_at=WALL, system=(Process(name="kubelet"),)
    )
    return replace(USED, pods=pods, node=node)


def test_usage_has_a_kubelets_names_labels_and_the_time_of_its_sample():
    page = render(usage_families(full())).decode()
    found = read(usage_families(full()))
    assert found["node_cpu_usage_seconds_total"] == {(): 90.0}
    assert found["node_memory_working_set_bytes"] == {(): 2 << 30}
    labels = (("container", "nginx"), ("namespace", "default"), ("pod", "web-node1"))
    assert found["container_memory_working_set_bytes"] == {labels: 64 << 20}
    assert found["pod_cpu_usage_seconds_total"] == {labels[1:]: 5.0}
    assert found["container_start_time_seconds"] == {labels: WALL / 1e9}
    assert found["resource_scrape_error"] == {(): 0}
    timed = [line for line in page.splitlines() if line.startswith("pod_cpu")]
    assert all(line.endswith(f" {WALL // 1_000_000}") for line in timed)


def test_what_is_not_known_has_no_sample():
    found = read(usage_families(USED))
    assert not any("loop-node1" in str(rows) for rows in found.values())
    assert "node_swap_usage_bytes" not in found


def test_before_the_first_round_only_the_failure_is_told():
    assert read(usage_families(None)) == {"resource_scrape_error": {(): 1}}


def test_a_prometheus_parser_reads_the_whole_page():
    hops = (
        HopRow(hop=Hop.MAILBOX, name="PodActor", counts=(3, 2, *([0] * (len(HOP_BOUNDS_S) - 1))), sum_s=0.5),
        HopRow(
            hop=Hop.HANDLER,
            name="PodActor",
            counts=(4, *([0] * len(HOP_BOUNDS_S))),
            sum_s=0.25,
            endings=(("restarted", 2),),
        ),
        HopRow(
            hop=Hop.OPERATION,
            name="runtime",
            call="StartContainer",
            counts=(0, 0, 0, 1, *([0] * (len(HOP_BOUNDS_S) - 4)), 2),
            sum_s=99.0,
            endings=(("TimedOut", 2), ("ok", 1)),
        ),
        HopRow(
            hop=Hop.OPERATION,
            name="images",
            call="PullImage",
            counts=(7, *([0] * len(HOP_BOUNDS_S))),
            sum_s=1.0,
            endings=(("Denied", 1), ("ok", 6)),
        ),
    )
    container = RuntimeContainer(
        id="x",
        sandbox_id="y",
        name="c",
        attempt=0,
        image="i",
        state=RuntimeContainerState.RUNNING,
        created_at=1,
    )
    pods = (RuntimePod(uid="u", name="p", namespace="n", containers=(container,)),)
    families = [
        *usage_families(full()),
        *disk_families(full()),
        *round_families(full(), 0.25, 105.0),
        *pod_families("node1", pods, 7),
        *actor_families(ACTORS, KernelRow(actors=3, handled=9)),
        *oom_families(pods, ()),
        *hop_families(hops, (("full", 3),)),
    ]
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    found = read(families)
    assert found["nodeagent_mailbox_wait_seconds_bucket"][(("class", "PodActor"), ("le", "0.0005"))] == 5
    assert found["nodeagent_mailbox_wait_seconds_sum"] == {(("class", "PodActor"),): 0.5}
    call = (("call", "StartContainer"), ("port", "runtime"))
    assert found["nodeagent_operation_seconds_bucket"][(*call[:1], ("le", "+Inf"), *call[1:])] == 3
    assert found["nodeagent_operation_seconds_bucket"][(*call[:1], ("le", "30.0"), *call[1:])] == 1
    assert found["nodeagent_operation_seconds_count"][(("call", "PullImage"), ("port", "images"))] == 7
    assert found["kubelet_runtime_operations_total"][(("operation_type", "pull_image"),)] == 7
    assert found["kubelet_runtime_operations_errors_total"] == {
        (("operation_type", "start_container"),): 2,
        (("operation_type", "pull_image"),): 1,
    }
    assert found["nodeagent_actor_restarts_total"] == {(("class", "PodActor"),): 2}
    assert found["nodeagent_dead_letters_total"] == {(("reason", "full"),): 3}
    assert found["kubelet_running_containers"][(("container_state", "running"),)] == 1
    assert found["kubelet_running_containers"][(("container_state", "exited"),)] == 0
    assert found["nodeagent_filesystem_available_bytes"][(("filesystem", "nodefs"),)] == 40
    assert found["nodeagent_usage_age_seconds"] == {(): 5.0}
    assert found["nodeagent_mailbox_high_water"][(("class", "PodSupervisor"),)] == 3


def test_kills_are_told_of_containers_that_there_are_also_when_there_were_none():
    rows = [
        RuntimeContainer(
            id=n,
            sandbox_id="y",
            name=n,
            attempt=0,
            image="i",
            state=RuntimeContainerState.EXITED,
            created_at=1,
        )
        for n in ("main", "main", "side")
    ]
    pods = (RuntimePod(uid="u", name="p", namespace="n", containers=tuple(rows)),)
    oom_counts = (
        OomCount(uid="u", namespace="n", pod="p", container="main", kills=3),
        OomCount(uid="gone", namespace="n", pod="gone", container="main", kills=9),
    )
    found = read(oom_families(pods, oom_counts))
    place = (("namespace", "n"), ("pod", "p"))
    assert found == {
        "container_oom_events_total": {
            (("container", "main"), *place): 3,
            (("container", "side"), *place): 0,
        }
    }


def test_labels_and_help_are_quoted():
    odd = 'a"b\\c\nd'
    family = Family(name="x", kind=MetricKind.GAUGE, help="two\nlines", samples=(Sample(1.5, (("k", odd),)),))
    [found] = text_string_to_metric_families(render([family]).decode())
    assert found.samples[0].labels == {"k": odd}
    assert found.samples[0].value == 1.5


def test_a_histogram_is_cumulative():
    samples = histogram((), (1.0, 2.0), (5, 0, 2), 9.0)
    assert [s.value for s in samples] == [5, 5, 7, 9.0, 7]


def test_a_kubelets_names_of_calls_are_of_calls_that_there_are():
    assert set(OPERATIONS) <= {call.__name__ for call in (RuntimeCall | AnyImageCall).__args__}
    assert len(set(OPERATIONS.values())) == len(OPERATIONS)


def test_the_summary_is_a_kubelets_json_and_leaves_out_what_is_not_known():
    shown = json.loads(summary(full(), short=False))
    node = shown["node"]
    assert node["nodeName"] == "node1"
    assert node["memory"] == {
        "time": "2026-05-28T20:26:40Z",
        "usageBytes": 3 << 30,
        "workingSetBytes": 2 << 30,
    }
    assert node["cpu"]["usageNanoCores"] == 1_500_000_000
    assert node["fs"]["inodesUsed"] == 15
    assert node["runtime"]["imageFs"]["capacityBytes"] == 100
    assert node["rlimit"] == {"time": "2026-05-28T20:26:40Z", "maxpid": 32768, "curproc": 321}
    loop, web = shown["pods"]
    assert "cpu" not in loop
    assert "memory" not in loop
    assert loop["containers"] == []
    assert web["podRef"] == {"name": "web-node1", "namespace": "default", "uid": USED.pods[1].uid}
    assert web["network"]["name"] == "eth0"
    assert web["network"]["rxBytes"] == 5
    assert len(web["network"]["interfaces"]) == 2
    assert web["volume"][0]["name"] == "cache"
    assert web["volume"][0]["usedBytes"] == 7
    assert web["ephemeral-storage"]["usedBytes"] == 9
    assert web["process_stats"] == {"process_count": 3}
    assert web["containers"][0]["rootfs"]["inodesUsed"] == 2
    assert web["swap"] == {"time": "2026-05-28T20:26:40Z", "swapAvailableBytes": 6, "swapUsageBytes": 4}


def test_the_short_form_has_no_disk_and_no_network():
    shown = json.loads(summary(full(), short=True))
    assert set(shown["node"]) == {"nodeName", "systemContainers", "startTime", "cpu", "memory"}
    [web] = shown["pods"]
    assert set(web) == {"podRef", "cpu", "memory", "swap", "containers"}
    assert set(web["containers"][0]) == {"name", "startTime", "memory"}


@pytest.mark.parametrize("value", [0, 5, 0.25, 1e20, -3])
def test_numbers_survive(value):
    [found] = text_string_to_metric_families(
        render([Family(name="x", kind=MetricKind.GAUGE, help="h", samples=(Sample(value),))]).decode()
    )
    assert found.samples[0].value == value
