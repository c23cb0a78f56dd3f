"""The agent's settings: configuration file, flags and machine, merged and validated as a whole.

```text
file --+-- relative paths made absolute (against the file's folder) --+
flags -+--------------------------------------------- flags win ------+--> rules --> Settings, or every problem at once
machine (root or not, host name, folders) ----------------------------+
```
"""

import posixpath
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from api import duration
from api.config.check import set_fields, validate_configuration
from api.config.cluster import EXTERNAL, ClusterSettings
from api.config.eviction import eviction_hard_of, policy_of
from api.config.knob import SUPPORTED, default_of
from api.config.node import read_labels, read_node_ips, read_taints, reserved_of, taints_of
from api.eviction import EvictionPolicy
from api.kube.objects.kubeletconfiguration import (
    CrashLoopBackOffConfig,
    KubeletConfiguration,
    LoggingConfiguration,
)
from api.kube.quantity import QuantityError, parse
from api.kube.scheme import SCHEME
from api.kube.validation import name as names
from api.ports.images import PULL_LIMIT_S
from api.ports.manifests import Problem
from api.ports.node import NodeTaint, Reservation, Reserved
from api.ports.urls import shown_url
from api.problem import UNSET, FieldProblem, shown

EMBEDDED = "embedded"
"""The endpoint that names the built-in container runtime."""

PATHS = (
    "staticPodPath",
    "podLogsDir",
    "tlsCertFile",
    "tlsPrivateKeyFile",
    "resolvConf",
    "volumePluginDir",
    "authentication.x509.clientCAFile",
)
"""Paths in the file that may be relative to the file's own folder."""

ROOT_DIR = "/var/lib/nodeagent"
LOGS_DIR = "/var/log/pods"
CERTIFICATES = "pki"
"""Folder of certificates, under the root directory."""
LINKS = "containers"
"""Folder of links to container logs, next to the folder of pod logs: ``/var/log/containers``."""


def shown_setting(name: str, value: object) -> str:
    """Return a setting without secrets."""
    return repr(shown_url(value) if name == "manifest_url" and isinstance(value, str) and value else value)


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of the machine and the process that settings depend on."""

    is_root: bool
    hostname: str
    state_home: str
    """Where a user keeps state: ``$XDG_STATE_HOME``, else ``~/.local/state``. Absolute."""
    working_directory: str
    """Absolute; paths given as flags are relative to it."""


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """Flags of ``run``; None and empty values were not given."""

    config: str = ""
    kubeconfig: str = ""
    bootstrap_kubeconfig: str = ""
    cert_dir: str = ""
    root_dir: str = ""
    hostname_override: str | None = None
    pod_manifest_path: str | None = None
    manifest_url: str | None = None
    manifest_url_header: tuple[str, ...] = ()
    """Each ``NAME=VALUE``; values are secret."""
    container_runtime_endpoint: str | None = None
    image_service_endpoint: str | None = None
    healthz_port: int | None = None
    log_format: str | None = None
    verbosity: int | None = None
    allow_host_image: bool = False
    take_over: bool = False
    sandbox_image: str | None = None
    node_labels: str = ""
    """``key=value`` with commas between."""
    node_ip: str = ""
    """One address, or one of each family with a comma between."""
    register_node: bool | None = None
    provider_id: str | None = None
    cloud_provider: str = ""
    register_with_taints: str | None = None
    """``key=value:Effect`` with commas between."""

    def __repr__(self) -> str:
        shown_fields = (
            f"{name}={shown_setting(name, getattr(self, name))}"
            for name in self.__struct_fields__
            if name != "manifest_url_header"
        )
        return f"Flags({', '.join(shown_fields)}, manifest_url_header=<hidden>)"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the agent. Paths are absolute, durations are seconds."""

    root_dir: str
    node_name: str
    cluster: ClusterSettings = ClusterSettings()
    pod_manifest_path: str = ""
    """A folder or a file; empty for none."""
    manifest_url: str = ""
    manifest_url_headers: tuple[tuple[str, str], ...] = ()
    """Sorted pairs; values are secret. A header given twice occurs twice."""
    file_check_s: float
    http_check_s: float
    sync_s: float
    runtime_endpoint: str
    """``embedded`` or ``unix:///path``."""
    image_endpoint: str
    runtime_request_timeout_s: float
    pod_logs_dir: str
    log_max_size_bytes: int = 10 << 20
    """A container log above this size is rotated; negative: never."""
    log_max_files: int = 5
    """Log files of one container, including the current one."""
    log_max_workers: int = 1
    log_monitor_s: float = 10.0
    max_pods: int
    pods_per_core: int = 0
    """0: no limit by the number of cores."""
    system_reserved: tuple[tuple[str, str], ...] = ()
    """By resource, as written."""
    kube_reserved: tuple[tuple[str, str], ...] = ()
    eviction_hard: tuple[tuple[str, str], ...] = ()
    """By signal: a quantity or a percentage, as written."""
    eviction: EvictionPolicy = EvictionPolicy()
    """Thresholds and their settings."""
    kernel_memory_events: bool = True
    """Whether the kernel notifies of memory thresholds between two readings of usage."""
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    node_labels: tuple[tuple[str, str], ...] = ()
    """In addition to those of every node."""
    taints: tuple[NodeTaint, ...] = ()
    max_container_backoff_s: float
    healthz_address: str
    healthz_port: int
    """0: none."""
    fail_cgroup_v1: bool
    log_format: str
    verbosity: int
    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = ""
    pod_cidr: str = ""
    """The addresses of pods of an agent on its own; in a cluster the Node says them."""
    resolv_conf: str = "/etc/resolv.conf"
    """Empty: pods do not get the node's resolver file."""
    seccomp_default: bool = False
    cgroup_root: str = "/"
    cgroup_driver: str = "cgroupfs"
    """Used when the runtime does not report its driver."""
    cgroups_per_qos: bool = True
    pod_pids_limit: int = -1
    """Not positive: none."""
    reserved: Reserved = Reserved()
    cpu_cfs_quota: bool = True
    cpu_cfs_period_us: int = 100_000
    single_process_oom_kill: bool | None = None
    """None: False on cgroup version 2, True on version 1."""
    limited_swap: bool = False
    allow_host_image: bool = False
    take_over: bool = False
    image_gc_high_percent: int = 85
    """Usage of the image file system that starts the removal of unused images; 100: never."""
    image_gc_low_percent: int = 80
    image_min_gc_age_s: float = 120.0
    image_max_gc_age_s: float = 0.0
    """0: no image is removed for its age."""
    image_pulls_at_once: int | None = 1
    """None: no limit."""
    registry_pull_qps: int = 5
    """Average pulls per second; 0: no limit."""
    registry_burst: int = 10
    image_pull_deadline_s: float = PULL_LIMIT_S
    """A pull that takes longer fails and is retried."""
    sandbox_image: str = ""
    """Never removed, like the images that the runtime pins."""

    @property
    def container_links_dir(self) -> str:
        """Return the folder of links to container logs, next to the folder of pod logs."""
        return posixpath.join(posixpath.dirname(self.pod_logs_dir), LINKS)

    def __repr__(self) -> str:
        fields = (
            f"{name}={'<hidden>' if name == 'manifest_url_headers' else shown_setting(name, getattr(self, name))}"
            for name in self.__struct_fields__
        )
        return f"Settings({', '.join(fields)})"


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of reading the configuration: settings, or every problem; warnings in either case."""

    settings: Settings | None = None
    problems: tuple[Problem, ...] = ()
    """Each message begins with ``invalid configuration:``."""
    warnings: tuple[Problem, ...] = ()


FLAG_OF = {
    "staticPodPath": "--pod-manifest-path",
    "staticPodURL": "--manifest-url",
    "staticPodURLHeader": "--manifest-url-header",
    "containerRuntimeEndpoint": "--container-runtime-endpoint",
    "imageServiceEndpoint": "--image-service-endpoint",
    "healthzPort": "--healthz-port",
    "logging.format": "--log-format",
    "logging.verbosity": "--v",
}


def configure(document: bytes | None, flags: Flags, machine: Machine) -> Configured:
    """Merge a configuration file, flags and the machine into settings.

    `document` is the file `flags.config` as compact JSON, None when there is none. Never raises.
    """
    config = KubeletConfiguration()
    problems: tuple[FieldProblem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    source = flags.config or "configuration"
    if document is not None:
        folder = posixpath.dirname(absolute(flags.config, machine))
        raw = with_absolute_paths(document, folder)
        decoded = SCHEME.decode(raw, source, kinds=("KubeletConfiguration",))
        problems = unknown_problems(raw, source)
        if not isinstance(decoded.object, KubeletConfiguration):
            # An unreadable field does not hide the problems of others.
            problems += SCHEME.read(raw, source, kinds=("KubeletConfiguration",)).problems
            return Configured(problems=located(problems, source, frozenset()))
        config = decoded.object
        warnings = unsupported(config, source)
    config, overridden, bad_flags = with_flags(config, flags, machine)
    problems += validate_configuration(config)
    settings, own = settings_of(config, flags, machine)
    everything = located(problems, source, overridden) + located_flags(bad_flags + own)
    return Configured(settings=None if everything else settings, problems=everything, warnings=warnings)


def located(
    problems: tuple[FieldProblem, ...], source: str, overridden: frozenset[str]
) -> tuple[Problem, ...]:
    """Return problems of fields, each with its file or flag."""
    return tuple(
        Problem(
            where=f"{FLAG_OF[one.path]}" if one.path in overridden else one.at(source).where,
            message=f"invalid configuration: {one}",
        )
        for one in problems
    )


def located_flags(problems: tuple[FieldProblem, ...]) -> tuple[Problem, ...]:
    """Return problems of flags."""
    return tuple(Problem(where=one.path, message=f"invalid configuration: {one.text()}") for one in problems)


def unknown_problems(raw: bytes | dict[str, Any], source: str) -> tuple[FieldProblem, ...]:
    """Return a problem for each field that v1beta1 does not have."""
    decoded = SCHEME.decode(raw, source, kinds=("KubeletConfiguration",))
    return tuple(
        FieldProblem(
            path=field.path,
            found="an unknown field",
            expected=f"{UNSET} (did you mean {field.suggestion!r}?)" if field.suggestion else UNSET,
        )
        for field in decoded.unknown_fields
    )


UNSUPPORTED = "not supported yet, ignored"


def unsupported(config: KubeletConfiguration, source: str) -> tuple[Problem, ...]:
    """Return a warning for each field that is set and not supported yet, or only in part."""
    return tuple(
        Problem(where=f"{source}: {path}", message=UNSUPPORTED)
        for path, _ in set_fields(config)
        if path not in SUPPORTED
    )


# paths


def absolute(path: str, machine: Machine) -> str:
    """Return a path as seen from the working directory, without dots."""
    return posixpath.normpath(posixpath.join(machine.working_directory, path))


def with_absolute_paths(document: bytes, folder: str) -> bytes | dict[str, Any]:
    """Return the file's data with relative paths joined to its folder; data that is not an object is unchanged."""
    try:
        raw = msgspec.json.decode(document)
    except msgspec.DecodeError:
        return document
    if not isinstance(raw, dict):
        return document
    for path in PATHS:
        *outer, last = path.split(".")
        place: Any = raw
        for name in outer:
            place = place.get(name) if isinstance(place, dict) else None
        value = place.get(last) if isinstance(place, dict) else None
        if isinstance(place, dict) and isinstance(value, str) and value and not value.startswith("/"):
            place[last] = posixpath.normpath(posixpath.join(folder, value))
    return raw


# flags


def with_flags(
    config: KubeletConfiguration, flags: Flags, machine: Machine
) -> tuple[KubeletConfiguration, frozenset[str], tuple[FieldProblem, ...]]:
    """Return the configuration with the flags applied, the fields they set, and the problems of invalid flags."""
    changes: dict[str, Any] = {}
    given: set[str] = set()

    def lay(path: str, field: str, value: object) -> None:
        if value is not None:
            changes[field] = value
            given.add(path)

    manifests = flags.pod_manifest_path
    lay("staticPodPath", "static_pod_path", absolute(manifests, machine) if manifests else manifests)
    lay("staticPodURL", "static_pod_url", flags.manifest_url)
    lay("containerRuntimeEndpoint", "container_runtime_endpoint", flags.container_runtime_endpoint)
    lay("imageServiceEndpoint", "image_service_endpoint", flags.image_service_endpoint)
    lay("healthzPort", "healthz_port", flags.healthz_port)
    if flags.log_format is not None or flags.verbosity is not None:
        logging = config.logging or LoggingConfiguration()
        if flags.log_format is not None:
            logging = replace(logging, format=flags.log_format)
            given.add("logging.format")
        if flags.verbosity is not None:
            logging = replace(logging, verbosity=flags.verbosity)
            given.add("logging.verbosity")
        changes["logging"] = logging
    headers, problems = read_headers(flags.manifest_url_header)
    lay("staticPodURLHeader", "static_pod_url_header", headers or None)
    return replace(config, **changes), frozenset(given), problems


def read_headers(texts: tuple[str, ...]) -> tuple[dict[str, tuple[str, ...]], tuple[FieldProblem, ...]]:
    """Read headers of the form ``NAME=VALUE``; no problem repeats one, since it may be secret."""
    headers: dict[str, tuple[str, ...]] = {}
    problems = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not names.HTTP_TOKEN.accepts(name.strip()):
            found = "a value without a valid header name before '='"
            problems.append(FieldProblem(path="--manifest-url-header", found=found, expected="NAME=VALUE"))
            continue
        headers[name.strip()] = (*headers.get(name.strip(), ()), value.strip())
    return headers, tuple(problems)


# settings


def seconds(text: str | None, path: str) -> float:
    """Return a duration in seconds; unset and zero mean the default."""
    return duration.parse_seconds(text or "0") or duration.parse_seconds(str(default_of(path)))


def number(value: int | None, path: str) -> int:
    """Return a number; unset means the default, zero is zero."""
    return int(str(default_of(path))) if value is None else value


def size(text: str | None, path: str) -> int:
    """Return a quantity in bytes; unset, zero and an invalid one (a problem of its own) mean the default."""
    default = parse(str(default_of(path))).value()
    try:
        return parse(text or "0").value() or default
    except QuantityError:
        return default


def settings_of(
    config: KubeletConfiguration, flags: Flags, machine: Machine
) -> tuple[Settings, tuple[FieldProblem, ...]]:
    """Return the settings of a complete configuration, and problems of the flags."""
    problems: list[FieldProblem] = []
    given = flags.hostname_override
    node_name = (machine.hostname if given is None else given).strip().lower()
    if not names.SUBDOMAIN.accepts(node_name):
        where = "--hostname-override"
        problems.append(FieldProblem(path=where, found=shown(node_name), expected=names.SUBDOMAIN.expected))
    endpoint = config.container_runtime_endpoint or ""
    if not endpoint and (flags.config or flags.kubeconfig):
        where = "containerRuntimeEndpoint (--container-runtime-endpoint)"
        expected = "embedded or unix:///path, since --config or --kubeconfig is set"
        problems.append(FieldProblem(path=where, found=UNSET, expected=expected))
    root_dir = root_of(flags, machine)
    pod_logs_dir = config.pod_logs_dir or (LOGS_DIR if machine.is_root else posixpath.join(root_dir, "logs"))
    logging = config.logging or LoggingConfiguration()
    back_off = (config.crash_loop_back_off or CrashLoopBackOffConfig()).max_container_restart_period
    headers = config.static_pod_url_header or {}
    labels, bad_labels = read_labels(flags.node_labels)
    taints, bad_taints = read_taints(flags.register_with_taints or "")
    node_ips, bad_ips = read_node_ips(flags.node_ip)
    problems += (*bad_labels, *bad_taints, *bad_ips, *cluster_problems(flags))
    settings = Settings(
        root_dir=root_dir,
        node_name=node_name,
        cluster=cluster_of(config, flags, machine, node_ips),
        pod_manifest_path=config.static_pod_path or "",
        manifest_url=config.static_pod_url or "",
        manifest_url_headers=tuple(
            sorted((name, value) for name, values in headers.items() for value in values)
        ),
        file_check_s=seconds(config.file_check_frequency, "fileCheckFrequency"),
        http_check_s=seconds(config.http_check_frequency, "httpCheckFrequency"),
        sync_s=seconds(config.sync_frequency, "syncFrequency"),
        runtime_endpoint=endpoint or EMBEDDED,
        image_endpoint=config.image_service_endpoint or endpoint or EMBEDDED,
        runtime_request_timeout_s=seconds(config.runtime_request_timeout, "runtimeRequestTimeout"),
        pod_logs_dir=pod_logs_dir,
        log_max_size_bytes=size(config.container_log_max_size, "containerLogMaxSize"),
        log_max_files=config.container_log_max_files or number(None, "containerLogMaxFiles"),
        log_max_workers=config.container_log_max_workers or number(None, "containerLogMaxWorkers"),
        log_monitor_s=seconds(config.container_log_monitor_interval, "containerLogMonitorInterval"),
        max_pods=config.max_pods or number(None, "maxPods"),
        pods_per_core=config.pods_per_core or 0,
        system_reserved=reserved_of(config.system_reserved),
        kube_reserved=reserved_of(config.kube_reserved),
        eviction_hard=eviction_hard_of(config, defaults=bool(flags.config)),
        eviction=policy_of(config, defaults=bool(flags.config), spares_static=bool(flags.kubeconfig)),
        allowed_unsafe_sysctls=config.allowed_unsafe_sysctls or (),
        node_labels=labels,
        taints=taints if flags.register_with_taints is not None else taints_of(config),
        max_container_backoff_s=seconds(back_off, "crashLoopBackOff.maxContainerRestartPeriod"),
        healthz_address=config.healthz_bind_address or str(default_of("healthzBindAddress")),
        healthz_port=number(None, "healthzPort") if config.healthz_port is None else config.healthz_port,
        fail_cgroup_v1=bool(config.fail_cgroup_v1),
        log_format=logging.format or str(default_of("logging.format")),
        verbosity=logging.verbosity or 0,
        cluster_dns=config.cluster_dns or (),
        pod_cidr=config.pod_cidr or "",
        cluster_domain=(config.cluster_domain or "").rstrip("."),
        resolv_conf=str(default_of("resolvConf")) if config.resolv_conf is None else config.resolv_conf,
        seccomp_default=bool(config.seccomp_default),
        cgroup_root=config.cgroup_root or "/",
        cgroup_driver=config.cgroup_driver or str(default_of("cgroupDriver")),
        cgroups_per_qos=config.cgroups_per_qos is not False,
        pod_pids_limit=max(config.pod_pids_limit or -1, -1),
        reserved=enforced_of(config),
        cpu_cfs_quota=config.cpu_cfs_quota is not False,
        cpu_cfs_period_us=round(seconds(config.cpu_cfs_quota_period, "cpuCFSQuotaPeriod") * 1_000_000),
        # Off by default in a kubelet, on by default here.
        kernel_memory_events=config.kernel_memcg_notification is not False,
        single_process_oom_kill=config.single_process_oom_kill,
        limited_swap=bool(config.memory_swap and config.memory_swap.swap_behavior == "LimitedSwap"),
        allow_host_image=flags.allow_host_image,
        take_over=flags.take_over,
        image_gc_high_percent=number(config.image_gc_high_threshold_percent, "imageGCHighThresholdPercent"),
        image_gc_low_percent=number(config.image_gc_low_threshold_percent, "imageGCLowThresholdPercent"),
        image_min_gc_age_s=seconds(config.image_minimum_gc_age, "imageMinimumGCAge"),
        image_max_gc_age_s=seconds(config.image_maximum_gc_age, "imageMaximumGCAge"),
        image_pulls_at_once=pulls_at_once(config),
        registry_pull_qps=number(None, "registryPullQPS")
        if config.registry_pull_qps is None
        else config.registry_pull_qps,
        registry_burst=config.registry_burst or number(None, "registryBurst"),
        sandbox_image=flags.sandbox_image or "",
    )
    return settings, tuple(problems)


def cluster_of(
    config: KubeletConfiguration, flags: Flags, machine: Machine, node_ips: tuple[str, ...]
) -> ClusterSettings:
    """Return the settings of a node of a cluster."""
    update_s = seconds(config.node_status_update_frequency, "nodeStatusUpdateFrequency")
    report_s = seconds(config.node_status_report_frequency, "nodeStatusReportFrequency")
    if is_given(config.node_status_update_frequency) and not is_given(config.node_status_report_frequency):
        # As in a kubelet: who only says how often the status is computed means how often it is reported.
        report_s = update_s
    register = config.register_node is not False if flags.register_node is None else flags.register_node
    duration_s = config.node_lease_duration_seconds
    return ClusterSettings(
        kubeconfig=absolute(flags.kubeconfig, machine) if flags.kubeconfig else "",
        bootstrap_kubeconfig=absolute(flags.bootstrap_kubeconfig, machine)
        if flags.bootstrap_kubeconfig
        else "",
        cert_dir=absolute(flags.cert_dir or posixpath.join(root_of(flags, machine), CERTIFICATES), machine)
        if flags.kubeconfig
        else "",
        rotate_certificates=bool(config.rotate_certificates),
        register_node=register,
        provider_id=config.provider_id or "" if flags.provider_id is None else flags.provider_id,
        external_cloud=flags.cloud_provider == EXTERNAL,
        node_ips=node_ips,
        controller_attach=config.enable_controller_attach_detach is not False,
        status_update_s=update_s,
        status_report_s=report_s,
        status_max_images=number(config.node_status_max_images, "nodeStatusMaxImages"),
        lease_duration_s=duration_s or number(None, "nodeLeaseDurationSeconds"),
        event_qps=number(config.event_record_qps, "eventRecordQPS"),
        event_burst=config.event_burst or number(None, "eventBurst"),
        api_qps=number(config.kube_api_qps, "kubeAPIQPS"),
        api_burst=config.kube_api_burst or number(None, "kubeAPIBurst"),
    )


def is_given(text: str | None) -> bool:
    """Return whether a duration is set, and not to zero, which means its default."""
    return duration.parse_seconds(text or "0") != 0


def cluster_problems(flags: Flags) -> tuple[FieldProblem, ...]:
    """Return problems of the flags of a node of a cluster."""
    problems = []
    if flags.cloud_provider not in ("", EXTERNAL):
        expected = f"{EXTERNAL}, or nothing"
        problems.append(
            FieldProblem(path="--cloud-provider", found=shown(flags.cloud_provider), expected=expected)
        )
    if flags.bootstrap_kubeconfig and not flags.kubeconfig:
        expected = "--kubeconfig as well: the file that is written once the node has a certificate"
        found = shown(flags.bootstrap_kubeconfig)
        problems.append(FieldProblem(path="--bootstrap-kubeconfig", found=found, expected=expected))
    if flags.register_node and not flags.kubeconfig:
        expected = "--kubeconfig as well: it says which API server the node is to be registered with"
        problems.append(FieldProblem(path="--register-node", found="true", expected=expected))
    return tuple(problems)


def enforced_of(config: KubeletConfiguration) -> Reserved:
    """Return the reservations and which of them are enforced (none without cgroups per QoS)."""
    enforced = ("pods",) if config.enforce_node_allocatable is None else config.enforce_node_allocatable
    return Reserved(
        system=reservation_of(config.system_reserved or {}),
        kube=reservation_of(config.kube_reserved or {}),
        enforced=()
        if config.cgroups_per_qos is False
        else tuple(name for name in enforced if name != "none"),
        system_cgroup=config.system_reserved_cgroup or "",
        kube_cgroup=config.kube_reserved_cgroup or "",
    )


def reservation_of(amounts: Mapping[str, str]) -> Reservation:
    """Return a parsed reservation; an invalid quantity is left out (a problem of its own)."""
    found = {}
    for name, text in amounts.items():
        try:
            found[name] = parse(text)
        except QuantityError:
            continue
    return Reservation(
        cpu_milli=found["cpu"].milli_value() if "cpu" in found else None,
        memory_bytes=found["memory"].value() if "memory" in found else 0,
        ephemeral_bytes=found["ephemeral-storage"].value() if "ephemeral-storage" in found else 0,
        pids=found["pid"].value() if "pid" in found else 0,
    )


def pulls_at_once(config: KubeletConfiguration) -> int | None:
    """Return how many images are pulled in parallel; None: no limit.

    As in a kubelet, a limit of more than one also switches serialized pulls off.
    """
    if config.serialize_image_pulls is None:
        return config.max_parallel_image_pulls or 1
    return 1 if config.serialize_image_pulls else config.max_parallel_image_pulls


def root_of(flags: Flags, machine: Machine) -> str:
    """Return the root directory: the flag's, else the system's for root, else the user's own."""
    if flags.root_dir:
        return absolute(flags.root_dir, machine)
    return ROOT_DIR if machine.is_root else posixpath.join(machine.state_home, "nodeagent")
