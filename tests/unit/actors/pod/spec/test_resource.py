"""Resources: the vectors of reference ``runtime-cri`` section 24, and what holds for any amount."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.pod.spec.cgroup import cgroup_parent
from actors.pod.spec.resource import (
    container_resources,
    is_critical,
    oom_score_adj,
    page_name,
    pod_total,
    quota_us,
    shares_of,
)
from api.ports.node import NodeFacts
from tests.unit.actors.pods import from_fields

GI = 1 << 30
UID = "b5b6a5c0-1111-2222-3333-444455556666"
NODE = NodeFacts(confined=True, memory_bytes=16 * GI, cgroup_version=2, swap_controller=True)


def pod_of(*resources, annotations=None, inits=(), **spec):
    containers = ({"name": f"c{n}", "resources": one} for n, one in enumerate(resources))
    return from_fields(*containers, uid=UID, annotations=annotations, initContainers=list(inits), **spec)


def needs(pod, node=NODE, index=0):
    return container_resources(pod, pod.spec.containers[index], node)


def with_node(**fields):
    return msgspec.structs.replace(NODE, **fields)


@pytest.mark.parametrize(
    ("milli", "shares"),
    [(0, 2), (1, 2), (100, 102), (250, 256), (1500, 1536), (2000, 2048), (300_000, 262_144)],
)
def test_cpu_shares(milli, shares):
    assert shares_of(milli) == shares


@pytest.mark.parametrize(("milli", "quota"), [(0, 0), (5, 1000), (10, 1000), (100, 10_000), (1500, 150_000)])
def test_cpu_quota(milli, quota):
    assert quota_us(milli, NODE) == quota
    assert quota_us(milli, with_node(cpu_cfs_quota=False)) == 0


@given(st.integers(0, 10**7), st.integers(1000, 10**6))
def test_shares_and_quota_grow_with_what_is_asked_for_and_stay_within_what_the_kernel_takes(milli, period):
    node = with_node(cpu_cfs_period_us=period)
    assert 2 <= shares_of(milli) <= shares_of(milli + 1) <= 262_144
    assert quota_us(milli, node) <= quota_us(milli + 1, node)
    assert quota_us(milli + 1, node) >= 1000


def test_what_is_limited_and_not_requested_counts_as_requested():
    assert needs(pod_of({"limits": {"cpu": "500m"}})).cpu_shares == 512
    assert needs(pod_of({"limits": {"cpu": "500m"}, "requests": {"cpu": "0"}})).cpu_shares == 2


@pytest.mark.parametrize(("request_", "adj"), [("0", 999), ("1Gi", 938), ("8Gi", 500), ("16Gi", 3), ("99Gi", 3)])  # fmt: skip
def test_oom_score_of_a_burstable_container(request_, adj):
    pod = pod_of({"requests": {"memory": request_, "cpu": "1"}})
    assert oom_score_adj(pod, pod.spec.containers[0], NODE) == adj


def test_oom_score_of_guaranteed_best_effort_and_node_critical_pods():
    best = pod_of({})
    sure = pod_of({"limits": {"cpu": "1", "memory": "1Gi"}})
    assert [oom_score_adj(p, p.spec.containers[0], NODE) for p in (best, sure)] == [1000, -997]
    named = {"priorityClassName": "system-node-critical"}
    for pod, adj in (
        (pod_of({}, **named), 1000),
        (pod_of({}, priority=2_000_001_000, **named), -997),
        (pod_of({}, priority=2_000_001_000, priorityClassName="system-cluster-critical"), 1000),
        (pod_of({}, annotations={"kubernetes.io/config.source": "file"}, **named), -997),
    ):
        assert oom_score_adj(pod, pod.spec.containers[0], NODE) == adj


def test_an_unknown_node_memory_divides_nothing():
    pod = pod_of({"requests": {"memory": "1Gi"}})
    assert oom_score_adj(pod, pod.spec.containers[0], NodeFacts()) == 999


@given(st.integers(0, 40 * GI), st.integers(0, 40 * GI), st.integers(1, 64 * GI))
def test_a_sidecar_is_never_killed_before_the_regular_containers(own, regular, memory):
    node = with_node(memory_bytes=memory)
    side = {
        "name": "s",
        "image": "x",
        "restartPolicy": "Always",
        "resources": {"requests": {"memory": str(own)}},
    }
    pod = pod_of({"requests": {"memory": str(regular), "cpu": "1"}}, inits=[side])
    sidecar = oom_score_adj(pod, pod.spec.init_containers[0], node)
    assert sidecar <= oom_score_adj(pod, pod.spec.containers[0], node)
    assert 3 <= sidecar <= 999


def test_what_the_pod_requests_as_a_whole_is_shared_by_its_containers():
    pod = pod_of({"requests": {"memory": "1Gi"}}, {}, resources={"requests": {"memory": "5Gi", "cpu": "1"}})
    # Each has (5 - 1) / 2 GiB more than it asks for itself.
    assert [oom_score_adj(pod, c, NODE) for c in pod.spec.containers] == [
        1000 - 1000 * 3 // 16,
        1000 - 1000 * 2 // 16,
    ]


def test_what_a_container_leaves_open_is_limited_as_the_pod_is():
    pod = pod_of({"limits": {"memory": "1Gi"}}, {}, resources={"limits": {"memory": "4Gi", "cpu": "2"}})
    first, second = (needs(pod, index=n) for n in (0, 1))
    assert (first.memory_limit_bytes, first.cpu_quota_us) == (GI, 200_000)
    assert (second.memory_limit_bytes, second.cpu_quota_us) == (4 * GI, 200_000)


LIMITED = {"limited_swap": True, "swap_bytes": 4 * GI}


@pytest.mark.parametrize(
    ("node", "resources", "spec", "swap"),
    [
        ({}, {"requests": {"memory": "1Gi"}}, {}, "0"),
        (LIMITED, {"requests": {"memory": "1Gi"}}, {}, "268435456"),
        (LIMITED, {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}, {}, "268435456"),
        (LIMITED, {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}, {}, "0"),
        (LIMITED, {"requests": {"cpu": "1"}}, {}, "0"),
        (LIMITED, {}, {}, "0"),
        (LIMITED, {"requests": {"memory": "1Gi"}}, {"priority": 2_000_000_000}, "0"),
        (LIMITED, {"limits": {"cpu": "1", "memory": "1Gi"}}, {}, "0"),
    ],
)
def test_swap_on_version_2(node, resources, spec, swap):
    found = needs(pod_of(resources, **spec), with_node(**node))
    assert dict(found.unified) == {"memory.swap.max": swap}
    assert found.memory_swap_limit_bytes == 0


@pytest.mark.parametrize(
    ("node", "both", "unified"),
    [
        ({"cgroup_version": 1, "swap_controller": True}, GI, ()),
        ({"cgroup_version": 1, "swap_controller": True, **LIMITED}, GI, ()),
        ({"cgroup_version": 1, "swap_controller": False}, 0, ()),
        ({"cgroup_version": 2, "swap_controller": False}, 0, ()),
        ({"cgroup_version": 0, "swap_controller": False, "group_oom_kill": True}, 0, ()),
        ({"cgroup_version": 2, "swap_controller": False, "group_oom_kill": True}, 0, (("memory.oom.group", "1"),)),
    ],
)  # fmt: skip
def test_unified_files_are_for_version_2_and_swap_is_for_who_counts_it(node, both, unified):
    found = needs(pod_of({"limits": {"memory": "1Gi"}, "requests": {"memory": "0"}}), with_node(**node))
    assert (found.memory_swap_limit_bytes, found.unified) == (both, unified)


@pytest.mark.parametrize(
    ("annotations", "spec", "critical"),
    [
        ({}, {}, False),
        ({"kubernetes.io/config.source": "file"}, {}, True),
        ({"kubernetes.io/config.source": "api"}, {}, False),
        ({"kubernetes.io/config.mirror": "x"}, {}, True),
        ({}, {"priority": 1_999_999_999}, False),
        ({}, {"priority": 2_000_000_000}, True),
    ],
)
def test_who_is_critical(annotations, spec, critical):
    assert is_critical(pod_of({}, annotations=annotations, **spec)) is critical


@pytest.mark.parametrize(
    ("size", "name"),
    [(2 << 20, "2MB"), (1 << 30, "1GB"), (64 << 10, "64KB"), (512 << 20, "512MB"), (16 << 30, "16GB")],
)
def test_page_sizes_have_the_names_of_cgroups(size, name):
    assert page_name(size) == name


def test_each_page_size_of_the_node_has_one_limit():
    node = with_node(huge_page_sizes=(64 << 10, 2 << 20, 1 << 30))
    pod = pod_of({"limits": {"hugepages-2Mi": "6Mi", "hugepages-1Gi": "1Gi", "cpu": "1", "memory": "1"}})
    assert needs(pod, node).hugepage_limits == (("64KB", 0), ("2MB", 6 << 20), ("1GB", GI))


@pytest.mark.parametrize(
    ("regular", "inits", "total"),
    [
        (["100m", "200m"], [], 300),
        (["100m"], [("500m", "")], 500),
        (["100m"], [("500m", "Always")], 600),
        (["100m"], [("50m", "Always"), ("500m", "")], 550),
        (["700m"], [("500m", ""), ("50m", "Always"), ("60m", "")], 750),
    ],
)
def test_a_pod_needs_the_most_that_runs_at_one_time(regular, inits, total):
    pod = pod_of(
        *({"requests": {"cpu": cpu}} for cpu in regular),
        inits=[
            {
                "name": f"i{n}",
                "image": "x",
                "restartPolicy": policy,
                "resources": {"requests": {"cpu": cpu}},
            }
            for n, (cpu, policy) in enumerate(inits)
        ],
    )
    assert pod_total(pod.spec, "requests")["cpu"].milli_value() == total


BURSTABLE = {"requests": {"cpu": "1"}}
GUARANTEED = {"limits": {"cpu": "1", "memory": "1Gi"}}
ESCAPED = UID.replace("-", "_")


@pytest.mark.parametrize(
    ("resources", "node", "path"),
    [
        (BURSTABLE, {"cgroup_driver": "systemd"}, f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{ESCAPED}.slice"),
        (GUARANTEED, {"cgroup_driver": "systemd"}, f"/kubepods.slice/kubepods-pod{ESCAPED}.slice"),
        ({}, {}, f"/kubepods/besteffort/pod{UID}"),
        (GUARANTEED, {"cgroup_root": "/a/b-c"}, f"/a/b-c/kubepods/pod{UID}"),
        (GUARANTEED, {"cgroup_root": "/a/b-c", "cgroup_driver": "systemd"}, f"/a.slice/a-b_c.slice/a-b_c-kubepods.slice/a-b_c-kubepods-pod{ESCAPED}.slice"),
        (BURSTABLE, {"cgroups_per_qos": False}, ""),
        (BURSTABLE, {"cgroups_per_qos": False, "cgroup_root": "/a"}, "/a"),
        (BURSTABLE, {"cgroups_per_qos": False, "cgroup_root": "/a", "cgroup_driver": "systemd"}, "/a.slice"),
    ],
)  # fmt: skip
def test_the_cgroup_of_a_pod(resources, node, path):
    facts = msgspec.convert({**msgspec.to_builtins(NODE), **node}, NodeFacts)
    assert cgroup_parent(pod_of(resources), facts) == path


def test_quality_of_service_is_what_the_pod_as_a_whole_asks_for():
    whole = {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    assert cgroup_parent(pod_of(BURSTABLE, **whole), NODE) == f"/kubepods/pod{UID}"
