"""Eviction as the configuration words it: read into a policy, and everything that is wrong with it.

```text
evictionHard, evictionSoft     signal: 100Mi or 10%      exactly 0% or 100%: no threshold
evictionSoftGracePeriod        signal: 1m30s             each soft threshold needs one
evictionMinimumReclaim         signal: 0, 500Mi or 5%    for hard and soft of that signal
```

Reference ``node`` section 6.2. The defaults count for a node with a configuration file that names no hard threshold; one
that runs by flags alone has none at all.
"""

import re
from collections.abc import Iterator, Mapping

from api import duration
from api.eviction import EvictionPolicy, Quantity, Signal, Threshold
from api.kube import quantity
from api.kube.objects.kubeletconfiguration import KubeletConfiguration
from api.kube.validation.check import Check
from api.shortening import shortened

EVICTION_HARD = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}
"""Hard thresholds of a node that configures none."""

KEPT = ("memory.available", "nodefs.available")
"""Thresholds that reduce allocatable: memory, and the file system of the root directory."""
IGNORED = ("containerfs.available", "containerfs.inodesFree")
"""Signals that are derived from others; the configuration does not set them."""
NONE = ("0%", "100%")
"""Values that switch a threshold off."""
PERCENT = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+", re.ASCII)
AMOUNT = "a quantity such as 100Mi or a percentage such as 10%"
TRANSITION = "5m"

Pairs = tuple[tuple[str, str], ...]


def hard_set(config: KubeletConfiguration, *, defaults: bool = True) -> Mapping[str, str]:
    """Return the hard thresholds in effect, as written; `defaults`: whether a node that configures none has the defaults."""
    named = config.eviction_hard
    if named is None:
        return EVICTION_HARD if defaults else {}
    return {**EVICTION_HARD, **named} if config.merge_default_eviction_settings else named


def eviction_hard_of(config: KubeletConfiguration, *, defaults: bool = True) -> Pairs:
    """Return the hard thresholds that reduce allocatable."""
    effective = hard_set(config, defaults=defaults)
    return tuple(
        (signal, effective[signal])
        for signal in KEPT
        if signal in effective and effective[signal] not in NONE
    )


def policy_of(
    config: KubeletConfiguration, *, defaults: bool = True, spares_static: bool = False
) -> EvictionPolicy:
    """Return the eviction policy of a configuration; invalid entries are left out (`check_eviction` reports them)."""
    hard = tuple(thresholds(hard_set(config, defaults=defaults), {}, config.eviction_minimum_reclaim or {}))
    soft = tuple(
        thresholds(
            config.eviction_soft or {},
            config.eviction_soft_grace_period or {},
            config.eviction_minimum_reclaim or {},
        )
    )
    enforced = ("pods",) if config.enforce_node_allocatable is None else config.enforce_node_allocatable
    above_pods = config.cgroups_per_qos is not False and "pods" in enforced
    cloned = tuple(
        Threshold(signal=Signal.PODS_MEMORY, value=one.value, reclaim=one.reclaim)
        for one in hard
        if one.signal is Signal.MEMORY and above_pods
    )
    return EvictionPolicy(
        thresholds=(*hard, *cloned, *soft),
        transition_s=seconds(config.eviction_pressure_transition_period) or seconds(TRANSITION),
        max_pod_grace_s=config.eviction_max_pod_grace_period or 0,
        local_limits=config.local_storage_capacity_isolation is not False,
        spares_static=spares_static,
    )


def thresholds(
    named: Mapping[str, str], grace: Mapping[str, str], reclaim: Mapping[str, str]
) -> Iterator[Threshold]:
    """Yield the thresholds of a set; those with an invalid signal, value or grace period are left out."""
    for signal, text in named.items():
        value = read_amount(text)
        if signal not in tuple(Signal) or value is None or text in NONE:
            continue
        yield Threshold(
            signal=Signal(signal),
            value=value,
            grace_s=seconds(grace.get(signal)),
            reclaim=read_amount(reclaim.get(signal, "0")) or Quantity(),
        )


def seconds(text: str | None) -> float:
    """Return a duration in seconds; 0 for an unset or invalid one."""
    try:
        return duration.parse_seconds(text or "0")
    except duration.DurationError:
        return 0.0


def read_amount(text: str) -> Quantity | None:
    """Parse a quantity or a percentage; None for an invalid or negative one, or one above 100%."""
    if text.endswith("%"):
        number = text.removesuffix("%")
        if PERCENT.fullmatch(number) is None or not 0 <= float(number) <= 100:
            return None
        return Quantity(percent=float(number))
    try:
        amount = quantity.parse(text)
    except quantity.QuantityError:
        return None
    return Quantity(amount=amount.value()) if amount.nanos >= 0 else None


# ---------------------------------------------------------------- validation


def check_eviction(check: Check, config: KubeletConfiguration) -> None:
    """Note all problems of the eviction fields."""
    for field, named in (("evictionHard", config.eviction_hard), ("evictionSoft", config.eviction_soft)):
        for signal, text in (named or {}).items():
            check_threshold(check, f"{field}.{shortened(signal)}", signal, text)
    grace = config.eviction_soft_grace_period or {}
    for signal in config.eviction_soft or {}:
        if signal not in grace:
            check.required(
                f"evictionSoftGracePeriod.{shortened(signal)}",
                None,
                "a duration, since evictionSoft has this signal",
            )
    for signal, text in grace.items():
        check_grace(check, signal, text)
    for signal, text in (config.eviction_minimum_reclaim or {}).items():
        path = f"evictionMinimumReclaim.{shortened(signal)}"
        if is_signal(check, path, signal):
            value = read_amount(text)
            if value is None or value.percent == 0:
                check.wrong(path, text, f"0, {AMOUNT}")


def check_threshold(check: Check, path: str, signal: str, text: str) -> None:
    """Check one threshold: its signal and its value."""
    if not is_signal(check, path, signal):
        return
    value = read_amount(text)
    if value is None:
        check.wrong(path, text, f"{AMOUNT} (between 0% and 100%)")
    elif value.percent is None and value.amount <= 0:
        check.wrong(path, text, f"{AMOUNT} (0% switches a threshold off)")


def is_signal(check: Check, path: str, signal: str) -> bool:
    """Return whether a signal is valid; note a problem when it is not."""
    if signal in (*Signal, *IGNORED):
        return True
    expected = f"one of {', '.join(signal for signal in Signal)}"
    check.note(path, f"the signal {shortened(signal)}", expected)
    return False


def check_grace(check: Check, signal: str, text: str) -> None:
    """Check the grace period of a soft threshold."""
    path = f"evictionSoftGracePeriod.{shortened(signal)}"
    if not is_signal(check, path, signal):
        return
    try:
        span = duration.parse(text)
    except duration.DurationError:
        check.wrong(path, text, "a duration with units, such as 30s or 1m30s")
        return
    if span < 0:
        check.wrong(path, text, "a duration that is not negative")
