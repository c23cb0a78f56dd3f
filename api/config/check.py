"""Rules of the configuration: the limits of each knob, and what must fit together."""

import posixpath
from collections.abc import Iterator
from typing import Any

import msgspec

from api import duration
from api.config.eviction import check_eviction
from api.config.knob import KNOBS, Knob
from api.kube import quantity
from api.kube.objects.kubeletconfiguration import KubeletConfiguration
from api.kube.validation import name as names
from api.kube.validation.check import Check
from api.problem import FieldProblem, joined, shown
from api.shortening import shortened

RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")
ENFORCEABLE = (
    "none",
    "pods",
    "system-reserved",
    "kube-reserved",
    "system-reserved-compressible",
    "kube-reserved-compressible",
)
CFS_PERIOD = "100ms"


def validate_configuration(config: KubeletConfiguration) -> tuple[FieldProblem, ...]:
    """Return all problems of a configuration."""
    check = Check()
    found = dict(set_fields(config))
    for knob in KNOBS:
        if knob.path in found:
            check_knob(check, knob, found[knob.path])
    check_images(check, config)
    check_node(check, config)
    check_logs(check, config)
    check_shutdown(check, config)
    check_places(check, config)
    return tuple(check.problems)


def set_fields(config: msgspec.Struct, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield path and value of each knob that is set, in the order of the type."""
    for field in msgspec.structs.fields(config):
        value = getattr(config, field.name)
        place = f"{path}.{field.encode_name}" if path else field.encode_name
        if value is None or place in ("apiVersion", "kind"):
            continue
        if isinstance(value, msgspec.Struct):
            yield from set_fields(value, place)
        else:
            yield place, value


def check_knob(check: Check, knob: Knob, value: Any) -> None:
    """Check one value against its knob's limits."""
    if knob.unit == "duration" and isinstance(value, str):
        try:
            duration.parse(value)
        except duration.DurationError:
            check.wrong(knob.path, value, "a duration with units, such as 300ms, 20s or 1m30s")
            return
    if knob.zero_is_unset and is_zero(knob, value):
        return
    if knob.choices and value not in knob.choices:
        check.wrong(knob.path, value, f"one of {', '.join(knob.choices)}")
    number = duration.parse(value) if knob.unit == "duration" and isinstance(value, str) else value
    if not isinstance(number, int | float) or isinstance(number, bool):
        return
    low, high = knob.low, knob.high
    if (low is not None and number < low) or (high is not None and number > high):
        check.wrong(knob.path, value, within(knob, low, high))


def is_zero(knob: Knob, value: Any) -> bool:
    """Return whether a value is the zero value, which means unset."""
    if knob.unit == "duration" and isinstance(value, str):
        return duration.parse(value) == 0
    return value in ("", 0) and not isinstance(value, bool)


def within(knob: Knob, low: float | None, high: float | None) -> str:
    """Describe a range, with units if any."""
    ends = [
        None if end is None else duration.write(int(end)) if knob.unit == "duration" else f"{end:.0f}"
        for end in (low, high)
    ]
    if ends[1] is None:
        return f"at least {ends[0]}"
    return f"between {ends[0]} and {ends[1]}" if ends[0] is not None else f"at most {ends[1]}"


def check_images(check: Check, config: KubeletConfiguration) -> None:
    """Check how images are pulled and removed."""
    high = 85 if config.image_gc_high_threshold_percent is None else config.image_gc_high_threshold_percent
    low = 80 if config.image_gc_low_threshold_percent is None else config.image_gc_low_threshold_percent
    if low >= high:
        check.wrong("imageGCLowThresholdPercent", low, f"less than imageGCHighThresholdPercent ({high})")
    oldest, youngest = config.image_maximum_gc_age, config.image_minimum_gc_age or "2m"
    if oldest and 0 < duration.parse(oldest) <= duration.parse(youngest):
        check.wrong("imageMaximumGCAge", oldest, f"0s or more than imageMinimumGCAge ({youngest})")
    parallel = config.max_parallel_image_pulls
    if parallel is not None and parallel > 1 and config.serialize_image_pulls:
        check.wrong("maxParallelImagePulls", parallel, "1 where serializeImagePulls is true")
    policy = config.image_pull_credentials_verification_policy
    if config.preloaded_images_verification_allowlist and policy != "NeverVerifyAllowlistedImages":
        expected = "nothing unless imagePullCredentialsVerificationPolicy is NeverVerifyAllowlistedImages"
        check.note("preloadedImagesVerificationAllowlist", "a list of images", expected)


def check_node(check: Check, config: KubeletConfiguration) -> None:
    """Check reservations and their enforcement."""
    for field, reserved in (
        ("systemReserved", config.system_reserved),
        ("kubeReserved", config.kube_reserved),
    ):
        for name, text in (reserved or {}).items():
            if name not in RESERVABLE:
                check.note(
                    joined(field, name), f"the resource {shown(name)}", f"one of {', '.join(RESERVABLE)}"
                )
            else:
                check.amount(joined(field, name), text)
    check_eviction(check, config)
    check_enforced(check, config)
    check_taints(check, config)
    check_processes(check, config)


def check_logs(check: Check, config: KubeletConfiguration) -> None:
    """Check log rotation; a negative size switches it off."""
    text = config.container_log_max_size
    if text:
        try:
            quantity.parse(text)
        except quantity.QuantityError:
            check.wrong("containerLogMaxSize", text, "a quantity of bytes, such as 10Mi")


def check_processes(check: Check, config: KubeletConfiguration) -> None:
    """Check cgroups, CPU and memory of processes."""
    if config.system_cgroups and not config.cgroup_root:
        check.required("cgroupRoot", None, "a path, since systemCgroups is set")
    if config.run_once:
        check.note("runOnce", "true", "false (use the flag --runonce)")
    period = config.cpu_cfs_quota_period
    if period and duration.parse(period) not in (0, duration.parse(CFS_PERIOD)):
        low, high = duration.UNITS["ms"], duration.SECOND
        if not (config.feature_gates or {}).get("CustomCPUCFSQuotaPeriod"):
            check.wrong(
                "cpuCFSQuotaPeriod",
                period,
                f"{CFS_PERIOD} unless the feature gate CustomCPUCFSQuotaPeriod is on",
            )
        elif not low <= duration.parse(period) <= high:
            check.wrong("cpuCFSQuotaPeriod", period, "between 1ms and 1s")
    factor = config.memory_throttling_factor
    if factor is not None and not 0 < factor <= 1:
        check.wrong("memoryThrottlingFactor", factor, "greater than 0 and at most 1")
    ids = config.user_namespaces.ids_per_pod if config.user_namespaces is not None else None
    if ids is not None and ids % 65536:
        check.wrong("userNamespaces.idsPerPod", ids, "a multiple of 65536")


def check_enforced(check: Check, config: KubeletConfiguration) -> None:
    """Check ``enforceNodeAllocatable``."""
    wanted = config.enforce_node_allocatable
    if wanted is None:
        return
    for index, name in enumerate(wanted):
        check.one_of(f"enforceNodeAllocatable[{index}]", name, ENFORCEABLE, optional=False)
    check.unique("enforceNodeAllocatable", wanted, "", "a name")
    if "none" in wanted and len(wanted) > 1:
        check.note("enforceNodeAllocatable", '"none" beside others', '"none" alone')
    for name, cgroup in (
        ("system-reserved", config.system_reserved_cgroup),
        ("kube-reserved", config.kube_reserved_cgroup),
    ):
        forms = [form for form in (name, f"{name}-compressible") if form in wanted]
        if len(forms) > 1:
            check.note("enforceNodeAllocatable", " and ".join(forms), "one of the two")
        if forms and not cgroup:
            field = "systemReservedCgroup" if name.startswith("system") else "kubeReservedCgroup"
            check.required(field, None, f"a path, since enforceNodeAllocatable has {forms[0]}")
    if config.cgroups_per_qos is False and any(name != "none" for name in wanted):
        check.note(
            "enforceNodeAllocatable", shortened(" and ".join(wanted)), '"none" where cgroupsPerQOS is false'
        )


def check_taints(check: Check, config: KubeletConfiguration) -> None:
    """Check the taints that the node registers with."""
    for index, taint in enumerate(config.register_with_taints or ()):
        path = f"registerWithTaints[{index}]"
        check.matches(f"{path}.key", taint.key or "", names.QUALIFIED)
        check.matches(f"{path}.value", taint.value or "", names.LABEL_VALUE, optional=True)
        effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
        check.one_of(f"{path}.effect", taint.effect or "", effects, optional=False)
        if taint.time_added is not None:
            check.wrong(f"{path}.timeAdded", taint.time_added, "nothing: the node sets it")


def check_shutdown(check: Check, config: KubeletConfiguration) -> None:
    """Check graceful node shutdown."""
    spans = {
        "shutdownGracePeriod": duration.parse(config.shutdown_grace_period or "0"),
        "shutdownGracePeriodCriticalPods": duration.parse(config.shutdown_grace_period_critical_pods or "0"),
    }
    for path, span in spans.items():
        if 0 < span < duration.SECOND:
            check.wrong(path, duration.write(span), "0s or at least 1s")
    if spans["shutdownGracePeriodCriticalPods"] > spans["shutdownGracePeriod"]:
        found = duration.write(spans["shutdownGracePeriodCriticalPods"])
        check.wrong("shutdownGracePeriodCriticalPods", found, "at most shutdownGracePeriod")
    if config.shutdown_grace_period_by_pod_priority and any(spans.values()):
        expected = "nothing where shutdownGracePeriod is set"
        check.note("shutdownGracePeriodByPodPriority", "a list", expected)


def check_places(check: Check, config: KubeletConfiguration) -> None:
    """Check paths, addresses and endpoints."""
    logs = config.pod_logs_dir
    if logs and not (logs.isascii() and logs.startswith("/") and posixpath.normpath(logs) == logs):
        check.wrong("podLogsDir", logs, 'an absolute path in ASCII without ".", ".." or a "/" at its end')
    for path, address in (("healthzBindAddress", config.healthz_bind_address), ("address", config.address)):
        if address and not names.is_ip(address):
            check.wrong(path, address, "an IP address")
    for path, endpoint in (
        ("containerRuntimeEndpoint", config.container_runtime_endpoint),
        ("imageServiceEndpoint", config.image_service_endpoint),
    ):
        if endpoint and endpoint != "embedded" and not endpoint.startswith(("unix:///", "/")):
            check.wrong(path, endpoint, "embedded or unix:///path")
    check_pod_settings(check, config)
    url = config.static_pod_url
    if url and not url.startswith(("http://", "https://")):
        check.note("staticPodURL", "a URL of another scheme", "an http:// or https:// URL")
    for header in config.static_pod_url_header or {}:
        check.matches("staticPodURLHeader", header, names.HTTP_TOKEN)
    if config.enable_system_log_query and config.enable_system_log_handler is False:
        check.note("enableSystemLogQuery", "true", "false where enableSystemLogHandler is false")


def check_pod_settings(check: Check, config: KubeletConfiguration) -> None:
    """Check settings of the node that apply to pods."""
    for index, server in enumerate(config.cluster_dns or ()):
        if not names.is_ip(server):
            check.wrong(f"clusterDNS[{index}]", server, "an IP address")
    check.matches("clusterDomain", (config.cluster_domain or "").rstrip("."), names.SUBDOMAIN, optional=True)
    for field, group in (
        ("cgroupRoot", config.cgroup_root),
        ("systemReservedCgroup", config.system_reserved_cgroup),
        ("kubeReservedCgroup", config.kube_reserved_cgroup),
    ):
        if group and (not group.startswith("/") or posixpath.normpath(group) != group or group[1:2] == "/"):
            check.wrong(field, group, 'an absolute path without ".", ".." or a "/" at its end')
