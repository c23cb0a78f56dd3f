"""What cgroups are given: the tables of reference ``node`` section 9.3, and what holds for any number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.rules.resources.cgrouppath import PODS, path_of
from actors.rules.resources.cgroupvalue import (
    MAX_SHARES,
    page_name,
    quota_of,
    shares_of,
    slice_quota_of,
    weight_of,
)
from api.ports.node import CgroupDriver

UID = "b5b6a5c0-1111-2222-3333-444455556666"


@pytest.mark.parametrize(
    ("milli", "shares", "weight"),
    [
        (0, 2, 1),
        (1, 2, 1),
        (2, 2, 1),
        (3, 3, 1),
        (100, 102, 4),
        (1000, 1024, 39),
        (2000, 2048, 79),
        (256_000, 262_144, 10_000),
        (999_999, 262_144, 10_000),
    ],
)
def test_a_request_of_cpu_in_shares_and_weight(milli, shares, weight):
    assert shares_of(milli) == shares
    assert weight_of(shares) == weight


@given(st.integers(2, MAX_SHARES))
def test_a_weight_grows_with_the_shares_that_it_is_made_from(shares):
    weight = weight_of(shares)
    assert 1 <= weight <= 10_000
    assert weight_of(shares) <= weight_of(shares + 1)


@pytest.mark.parametrize(
    ("milli", "period", "quota"),
    [
        (0, 100_000, 0),
        (1, 100_000, 1000),
        (10, 100_000, 1000),
        (11, 100_000, 1100),
        (1500, 100_000, 150_000),
        (500, 50_000, 25_000),
    ],
)
def test_a_limit_of_cpu_as_a_quota(milli, period, quota):
    assert quota_of(milli, period) == quota


@pytest.mark.parametrize(
    ("quota", "rounded"), [(-1, -1), (0, 0), (1000, 1000), (1100, 2000), (50_000, 50_000), (50_001, 51_000)]
)
def test_a_slice_has_its_quota_in_hundredths_of_a_cpu(quota, rounded):
    assert slice_quota_of(quota, 100_000) == rounded


@given(st.integers(1000, 10**7), st.integers(1000, 10**6))
def test_a_slices_quota_is_never_below_what_its_containers_are_given(quota, period):
    assert 0 <= slice_quota_of(quota, period) - quota <= period // 100 + 1


@pytest.mark.parametrize(
    ("size", "name"), [(64 << 10, "64KB"), (2 << 20, "2MB"), (1 << 30, "1GB"), (1000, "1000B")]
)
def test_sizes_of_pages(size, name):
    assert page_name(size) == name


@pytest.mark.parametrize(
    ("parts", "cgroupfs", "systemd"),
    [
        ([], "/", "/"),
        ([PODS], "/kubepods", "/kubepods.slice"),
        ([PODS, "burstable"], "/kubepods/burstable", "/kubepods.slice/kubepods-burstable.slice"),
        (["foo", PODS], "/foo/kubepods", "/foo.slice/foo-kubepods.slice"),
        (["kube-reserved"], "/kube-reserved", "/kube_reserved.slice"),
        (["system.slice"], "/system.slice", "/system.slice"),
        (
            [PODS, "besteffort", f"pod{UID}"],
            f"/kubepods/besteffort/pod{UID}",
            f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID.replace('-', '_')}.slice",
        ),
        (
            [PODS, f"pod{UID}"],
            f"/kubepods/pod{UID}",
            f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice",
        ),
    ],
)
def test_a_cgroup_has_the_name_that_its_driver_gives_it(parts, cgroupfs, systemd):
    assert path_of(parts, CgroupDriver.CGROUPFS) == cgroupfs
    assert path_of(parts, CgroupDriver.SYSTEMD) == systemd
