"""What the configuration says of evictions, in numbers; and what is wrong with it, each with its path."""

import json

import pytest

from api.config.settings import Flags, Machine, configure
from api.eviction import EvictionPolicy, Observation, Quantity, Signal, Threshold, is_met

ROOT = Machine(is_root=True, hostname="n1", state_home="/s", working_directory="/")
MI, GI = 1 << 20, 1 << 30


def outcome(flags=None, **fields):
    """Return what a configuration of these fields comes to."""
    document = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **fields}
    flags = flags or Flags(config="/c", container_runtime_endpoint="embedded")
    return configure(json.dumps(document).encode(), flags, ROOT)


def policy(**fields):
    """Return the policy of a configuration."""
    return outcome(**fields).settings.eviction


def written(policy):
    """Return thresholds as short as a table needs them."""
    return [
        (
            one.signal.value,
            one.value.amount or f"{one.value.percent:g}%",
            one.grace_s,
            one.reclaim.amount or one.reclaim.percent,
        )
        for one in policy.thresholds
    ]


DEFAULTS = [
    ("memory.available", 100 * MI, 0, None),
    ("nodefs.available", "10%", 0, None),
    ("nodefs.inodesFree", "5%", 0, None),
    ("imagefs.available", "15%", 0, None),
    ("imagefs.inodesFree", "5%", 0, None),
]
PODS = ("allocatableMemory.available", 100 * MI, 0, None)


@pytest.mark.parametrize(
    ("fields", "thresholds"),
    [
        ({}, [*DEFAULTS, PODS]),
        ({"enforceNodeAllocatable": ["none"]}, DEFAULTS),
        ({"cgroupsPerQOS": False, "enforceNodeAllocatable": ["none"]}, DEFAULTS),
        ({"evictionHard": {}}, []),
        ({"evictionHard": {"pid.available": "100"}}, [("pid.available", 100, 0, None)]),
        (
            {"evictionHard": {"memory.available": "1Gi"}, "mergeDefaultEvictionSettings": True},
            [("memory.available", GI, 0, None), *DEFAULTS[1:], ("allocatableMemory.available", GI, 0, None)],
        ),
        ({"evictionHard": {"nodefs.available": "0%", "imagefs.available": "100%"}}, []),
        (
            {
                "evictionHard": {"nodefs.available": "5%"},
                "evictionSoft": {"nodefs.available": "10.5%", "memory.available": "2Gi"},
                "evictionSoftGracePeriod": {"nodefs.available": "1m30s", "memory.available": "0s", "pid.available": "1s"},
                "evictionMinimumReclaim": {"nodefs.available": "500Mi", "memory.available": "10%"},
            },
            [
                ("nodefs.available", "5%", 0, 500 * MI),
                ("nodefs.available", "10.5%", 90, 500 * MI),
                ("memory.available", 2 * GI, 0, 10.0),
            ],
        ),
        ({"evictionHard": {"containerfs.available": "5%"}}, []),
    ],
)  # fmt: skip
def test_thresholds_are_what_the_configuration_says(fields, thresholds):
    assert written(policy(**fields)) == thresholds


def test_flags_alone_set_no_threshold_and_keep_nothing_for_one():
    settings = outcome(Flags(container_runtime_endpoint="embedded")).settings
    assert settings.eviction == EvictionPolicy()
    assert settings.eviction_hard == ()


def test_spans_and_switches_become_settings():
    assert (policy().transition_s, policy().max_pod_grace_s, policy().local_limits) == (300.0, 0, True)
    given = policy(
        evictionPressureTransitionPeriod="20s",
        evictionMaxPodGracePeriod=7,
        localStorageCapacityIsolation=False,
    )
    assert (given.transition_s, given.max_pod_grace_s, given.local_limits) == (20.0, 7, False)
    assert policy(evictionPressureTransitionPeriod="0s").transition_s == 300.0, "zero is unset"
    assert not given.spares_static
    with_server = Flags(config="/c", container_runtime_endpoint="embedded", kubeconfig="/k")
    assert outcome(with_server).settings.eviction.spares_static


AMOUNT = "a quantity such as 100Mi or a percentage such as 10%"


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"evictionHard": {"memory.available": "a lot"}}, f'evictionHard.memory.available: must be {AMOUNT} (between 0% and 100%), not "a lot"'),
        ({"evictionHard": {"memory.available": "101%"}}, f'evictionHard.memory.available: must be {AMOUNT} (between 0% and 100%), not "101%"'),
        ({"evictionSoft": {"memory.available": "-1%"}, "evictionSoftGracePeriod": {"memory.available": "1s"}}, f'evictionSoft.memory.available: must be {AMOUNT} (between 0% and 100%), not "-1%"'),
        ({"evictionHard": {"memory.available": "5Mi%"}}, f'evictionHard.memory.available: must be {AMOUNT} (between 0% and 100%), not "5Mi%"'),
        ({"evictionHard": {"memory.available": "0"}}, f'evictionHard.memory.available: must be {AMOUNT} (0% switches a threshold off), not "0"'),
        ({"evictionHard": {"disk.free": "1Gi"}}, "evictionHard.disk.free: must be one of memory.available, allocatableMemory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, pid.available, not the signal disk.free"),
        ({"evictionSoft": {"nodefs.available": "1Gi"}}, "evictionSoftGracePeriod.nodefs.available: required: a duration, since evictionSoft has this signal"),
        ({"evictionSoftGracePeriod": {"nodefs.available": "-1s"}}, 'evictionSoftGracePeriod.nodefs.available: must be a duration that is not negative, not "-1s"'),
        ({"evictionSoftGracePeriod": {"nodefs.available": "soon"}}, 'evictionSoftGracePeriod.nodefs.available: must be a duration with units, such as 30s or 1m30s, not "soon"'),
        ({"evictionMinimumReclaim": {"nodefs.available": "0%"}}, f'evictionMinimumReclaim.nodefs.available: must be 0, {AMOUNT}, not "0%"'),
        ({"evictionMinimumReclaim": {"nodefs.available": "-5"}}, f'evictionMinimumReclaim.nodefs.available: must be 0, {AMOUNT}, not "-5"'),
        ({"evictionMaxPodGracePeriod": -1}, "evictionMaxPodGracePeriod: must be at least 0, not -1"),
        ({"evictionPressureTransitionPeriod": "-5m"}, 'evictionPressureTransitionPeriod: must be at least 0s, not "-5m"'),
    ],
)  # fmt: skip
def test_each_wrong_setting_is_told_with_its_path(fields, wrong):
    found = outcome(**fields)
    assert found.settings is None
    assert [one.message for one in found.problems] == [f"invalid configuration: {wrong}"]


def test_every_wrong_threshold_is_told_at_once():
    found = outcome(
        evictionHard={"memory.available": "x", "nodefs.available": "200%"},
        evictionSoft={"pid.available": "1"},
    )
    assert len(found.problems) == 3


@pytest.mark.parametrize(
    ("value", "available", "met"),
    [
        (Quantity(amount=100), 99, True),
        (Quantity(amount=100), 100, False),
        (Quantity(percent=10.0), 99, True),
        (Quantity(percent=10.0), 100, False),
    ],
)
def test_a_threshold_is_met_when_less_is_available(value, available, met):
    seen = Observation(signal=Signal.MEMORY, available=available, capacity=1000, as_of=0.0)
    assert is_met(Threshold(signal=Signal.MEMORY, value=value), seen) is met


def test_pressure_is_over_once_the_minimum_reclaim_is_there_too():
    threshold = Threshold(signal=Signal.MEMORY, value=Quantity(amount=100), reclaim=Quantity(percent=5.0))
    for available, met in ((149, True), (150, False)):
        seen = Observation(signal=Signal.MEMORY, available=available, capacity=1000, as_of=0.0)
        assert is_met(threshold, seen, with_reclaim=True) is met


def test_percentages_are_counted_in_single_precision():
    assert Quantity(percent=10.0).of(10_000_000_000) == 1_000_000_014
