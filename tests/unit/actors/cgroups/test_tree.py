"""What the cgroups above the pods are to be: reference ``node`` section 9.2 as rows."""

import msgspec
import pytest

from actors.cgroups.tree import groups_of
from actors.rules.resources.cgrouppath import reserved_path
from api.ports.cgroups import UNLIMITED, CgroupLimits, NodeCgroup
from api.ports.node import CgroupDriver, NodeFacts, Reservation, Reserved

GI, MI = 1 << 30, 1 << 20
KEPT = Reserved(
    system=Reservation(cpu_milli=500, memory_bytes=GI, pids=1000),
    kube=Reservation(cpu_milli=1000, memory_bytes=2 * GI, pids=500),
)
NODE = NodeFacts(
    pod_cgroups=True,
    cpu_milli=4000,
    memory_bytes=16 * GI,
    max_pids=32768,
    huge_page_sizes=(2 * MI, GI),
    huge_page_bytes=(64 * MI, 0),
    reserved=KEPT,
)


def with_reserved(**fields):
    return msgspec.structs.replace(NODE, reserved=msgspec.structs.replace(KEPT, **fields))


def test_the_pods_have_what_is_not_reserved():
    pods, burstable, besteffort = groups_of(NODE, 750)
    assert pods == NodeCgroup(
        path="/kubepods",
        limits=CgroupLimits(
            cpu_shares=2560,
            cpu_weight=98,
            memory_bytes=13 * GI,
            pids=31268,
            hugepages=(("2MB", 64 * MI), ("1GB", 0)),
        ),
    )
    assert burstable == NodeCgroup(
        path="/kubepods/burstable", limits=CgroupLimits(cpu_shares=768, cpu_weight=30)
    )
    assert besteffort == NodeCgroup(
        path="/kubepods/besteffort", limits=CgroupLimits(cpu_shares=2, cpu_weight=1)
    )


def test_where_nothing_is_enforced_for_pods_they_have_the_whole_machine():
    limits = groups_of(with_reserved(enforced=()), 0)[0].limits
    assert (limits.cpu_shares, limits.memory_bytes, limits.pids) == (4096, 16 * GI, 32768)


def test_what_the_machine_does_not_say_limits_nothing():
    bare = NodeFacts(pod_cgroups=True)
    assert groups_of(bare, 0)[0].limits == CgroupLimits(
        cpu_shares=2, cpu_weight=1, memory_bytes=UNLIMITED, pids=UNLIMITED
    )


def test_no_cgroup_is_kept_where_pods_have_none():
    assert groups_of(msgspec.structs.replace(NODE, pod_cgroups=False), 100) == ()


@pytest.mark.parametrize(
    ("driver", "root", "paths"),
    [
        (
            CgroupDriver.CGROUPFS,
            "/a/b",
            ["/a/b/kubepods", "/a/b/kubepods/burstable", "/a/b/kubepods/besteffort"],
        ),
        (
            CgroupDriver.SYSTEMD,
            "/",
            [
                "/kubepods.slice",
                "/kubepods.slice/kubepods-burstable.slice",
                "/kubepods.slice/kubepods-besteffort.slice",
            ],
        ),
    ],
)
def test_they_are_below_the_configured_root_as_the_driver_calls_them(driver, root, paths):
    node = msgspec.structs.replace(NODE, cgroup_driver=driver, cgroup_root=root)
    assert [group.path for group in groups_of(node, 0)] == paths


@pytest.mark.parametrize(
    ("form", "limits"),
    [
        ("kube-reserved", CgroupLimits(cpu_shares=1024, cpu_weight=39, memory_bytes=2 * GI, pids=500)),
        ("kube-reserved-compressible", CgroupLimits(cpu_shares=1024, cpu_weight=39)),
    ],
)
def test_a_reserved_cgroup_is_given_what_is_reserved_and_never_made(form, limits):
    node = with_reserved(kube_cgroup="/kube.slice", system_cgroup="/system", enforced=("pods", form))
    assert groups_of(node, 0)[3:] == (NodeCgroup(path="/kube.slice", limits=limits, must_exist=True),)


@pytest.mark.parametrize("form", ["system-reserved", "system-reserved-compressible"])
def test_a_reservation_without_cpu_leaves_the_share_of_its_cgroup_alone(form):
    without = Reservation(memory_bytes=GI)
    node = with_reserved(system=without, system_cgroup="/system.slice", enforced=("pods", form))
    (group,) = groups_of(node, 0)[3:]
    assert (group.limits.cpu_shares, group.limits.cpu_weight) == (0, 0)
    assert group.limits.memory_bytes == (GI if form == "system-reserved" else 0)
    none = with_reserved(
        system=Reservation(cpu_milli=0), system_cgroup="/system.slice", enforced=("pods", form)
    )
    assert groups_of(none, 0)[3].limits.cpu_shares == 2, "it was asked for"


@pytest.mark.parametrize(
    ("cgroup", "cgroupfs", "systemd"),
    [
        ("/kube-reserved", "/kube-reserved", "/kube.slice/kube-reserved.slice"),
        ("/kube-reserved.slice", "/kube-reserved.slice", "/kube.slice/kube-reserved.slice"),
        (
            "/kube.slice/kube-reserved.slice",
            "/kube.slice/kube-reserved.slice",
            "/kube.slice/kube-reserved.slice",
        ),
        ("/system.slice", "/system.slice", "/system.slice"),
    ],
)
def test_a_reserved_cgroup_is_found_by_either_of_its_names(cgroup, cgroupfs, systemd):
    assert reserved_path(cgroup, CgroupDriver.CGROUPFS) == cgroupfs
    assert reserved_path(cgroup, CgroupDriver.SYSTEMD) == systemd
