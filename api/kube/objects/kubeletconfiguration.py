"""KubeletConfiguration v1beta1: every name that Kubernetes knows, typed. What is None was not set.

Which of them this agent honours, their defaults and limits are in `api.config.knob`. The maps here are plain dicts: the object
is read once at the start, turned into `api.config.settings.Settings`, and never sent.
"""

from collections.abc import Mapping

import msgspec

from api.kube.objects.wiretype import ApiObject, Duration, IntOrString, Quantity, SecretText, Time
from api.ports.urls import shown_url


class X509Authentication(ApiObject, frozen=True, kw_only=True):
    """Who has a certificate of this authority is who it says."""

    client_ca_file: str | None = msgspec.field(name="clientCAFile", default=None)


class WebhookAuthentication(ApiObject, frozen=True, kw_only=True):
    """Tokens are reviewed by the API server."""

    enabled: bool | None = None
    cache_ttl: Duration | None = msgspec.field(name="cacheTTL", default=None)


class AnonymousAuthentication(ApiObject, frozen=True, kw_only=True):
    """Whether requests without credentials are let in."""

    enabled: bool | None = None


class KubeletAuthentication(ApiObject, frozen=True, kw_only=True):
    """Who callers of the server are."""

    x509: X509Authentication | None = None
    webhook: WebhookAuthentication | None = None
    anonymous: AnonymousAuthentication | None = None


class WebhookAuthorization(ApiObject, frozen=True, kw_only=True):
    """How long answers of the API server are cached."""

    cache_authorized_ttl: Duration | None = msgspec.field(name="cacheAuthorizedTTL", default=None)
    cache_unauthorized_ttl: Duration | None = msgspec.field(name="cacheUnauthorizedTTL", default=None)


class KubeletAuthorization(ApiObject, frozen=True, kw_only=True):
    """What callers of the server may do."""

    mode: str | None = None
    webhook: WebhookAuthorization | None = None


class MemoryReservation(ApiObject, frozen=True, kw_only=True):
    """Memory kept back on one NUMA node."""

    numa_node: int | None = None
    limits: Mapping[str, Quantity] | None = None


class MemorySwapConfiguration(ApiObject, frozen=True, kw_only=True):
    """Whether containers may swap."""

    swap_behavior: str | None = None


class VModuleItem(ApiObject, frozen=True, kw_only=True):
    """Verbosity of the source files that match a pattern."""

    file_pattern: str | None = None
    verbosity: int | None = None


class OutputRoutingOptions(ApiObject, frozen=True, kw_only=True):
    """Where lines of one log format go."""

    split_stream: bool | None = None
    info_buffer_size: Quantity | None = None


class FormatOptions(ApiObject, frozen=True, kw_only=True):
    """Options by log format."""

    text: OutputRoutingOptions | None = None
    json: OutputRoutingOptions | None = None


class LoggingConfiguration(ApiObject, frozen=True, kw_only=True):
    """How the agent logs. `flushFrequency` is a duration, or nanoseconds as a number."""

    format: str | None = None
    flush_frequency: IntOrString | None = None
    verbosity: int | None = None
    vmodule: tuple[VModuleItem, ...] | None = None
    options: FormatOptions | None = None


class ShutdownGracePeriodByPodPriority(ApiObject, frozen=True, kw_only=True):
    """Seconds that pods of at least this priority get at shutdown."""

    priority: int | None = None
    shutdown_grace_period_seconds: int | None = None


class CrashLoopBackOffConfig(ApiObject, frozen=True, kw_only=True):
    """The longest wait between restarts of a container."""

    max_container_restart_period: Duration | None = None


class Taint(ApiObject, frozen=True, kw_only=True):
    """What keeps pods off this node unless they bear it."""

    key: str | None = None
    value: str | None = None
    effect: str | None = None
    time_added: Time | None = None


class TracingConfiguration(ApiObject, frozen=True, kw_only=True):
    """Where spans go, and how many of a million."""

    endpoint: str | None = None
    sampling_rate_per_million: int | None = None


class UserNamespaces(ApiObject, frozen=True, kw_only=True):
    """How many user ids each pod with its own user namespace gets."""

    ids_per_pod: int | None = None


class KubeletConfiguration(ApiObject, frozen=True, kw_only=True):
    """The configuration file of a node agent."""

    api_version: str = msgspec.field(default_factory=lambda: "kubelet.config.k8s.io/v1beta1")
    kind: str = msgspec.field(default_factory=lambda: "KubeletConfiguration")
    enable_server: bool | None = None
    static_pod_path: str | None = None
    pod_logs_dir: str | None = None
    sync_frequency: Duration | None = None
    file_check_frequency: Duration | None = None
    http_check_frequency: Duration | None = None
    static_pod_url: str | None = msgspec.field(name="staticPodURL", default=None)
    static_pod_url_header: Mapping[str, tuple[SecretText, ...]] | None = msgspec.field(
        name="staticPodURLHeader", default=None
    )
    address: str | None = None
    port: int | None = None
    read_only_port: int | None = None
    tls_cert_file: str | None = None
    tls_private_key_file: str | None = None
    tls_cipher_suites: tuple[str, ...] | None = None
    tls_min_version: str | None = None
    tls_curve_preferences: tuple[int, ...] | None = None
    rotate_certificates: bool | None = None
    server_tls_bootstrap: bool | None = msgspec.field(name="serverTLSBootstrap", default=None)
    authentication: KubeletAuthentication | None = None
    authorization: KubeletAuthorization | None = None
    registry_pull_qps: int | None = msgspec.field(name="registryPullQPS", default=None)
    registry_burst: int | None = None
    image_pull_credentials_verification_policy: str | None = None
    preloaded_images_verification_allowlist: tuple[str, ...] | None = None
    event_record_qps: int | None = msgspec.field(name="eventRecordQPS", default=None)
    event_burst: int | None = None
    enable_debugging_handlers: bool | None = None
    enable_contention_profiling: bool | None = None
    healthz_port: int | None = None
    healthz_bind_address: str | None = None
    oom_score_adj: int | None = None
    cluster_domain: str | None = None
    cluster_dns: tuple[str, ...] | None = msgspec.field(name="clusterDNS", default=None)
    streaming_connection_idle_timeout: Duration | None = None
    node_status_update_frequency: Duration | None = None
    node_status_report_frequency: Duration | None = None
    node_lease_duration_seconds: int | None = None
    image_minimum_gc_age: Duration | None = msgspec.field(name="imageMinimumGCAge", default=None)
    image_maximum_gc_age: Duration | None = msgspec.field(name="imageMaximumGCAge", default=None)
    image_gc_high_threshold_percent: int | None = msgspec.field(
        name="imageGCHighThresholdPercent", default=None
    )
    image_gc_low_threshold_percent: int | None = msgspec.field(
        name="imageGCLowThresholdPercent", default=None
    )
    volume_stats_agg_period: Duration | None = None
    kubelet_cgroups: str | None = None
    system_cgroups: str | None = None
    cgroup_root: str | None = None
    cgroups_per_qos: bool | None = msgspec.field(name="cgroupsPerQOS", default=None)
    cgroup_driver: str | None = None
    cpu_manager_policy: str | None = None
    cpu_manager_policy_options: Mapping[str, str] | None = None
    cpu_manager_reconcile_period: Duration | None = None
    single_process_oom_kill: bool | None = msgspec.field(name="singleProcessOOMKill", default=None)
    memory_manager_policy: str | None = None
    reserved_memory: tuple[MemoryReservation, ...] | None = None
    topology_manager_policy: str | None = None
    topology_manager_scope: str | None = None
    topology_manager_policy_options: Mapping[str, str] | None = None
    qos_reserved: Mapping[str, str] | None = None
    runtime_request_timeout: Duration | None = None
    hairpin_mode: str | None = None
    max_pods: int | None = None
    pods_per_core: int | None = None
    pod_cidr: str | None = msgspec.field(name="podCIDR", default=None)
    pod_pids_limit: int | None = None
    resolv_conf: str | None = None
    run_once: bool | None = None
    cpu_cfs_quota: bool | None = msgspec.field(name="cpuCFSQuota", default=None)
    cpu_cfs_quota_period: Duration | None = msgspec.field(name="cpuCFSQuotaPeriod", default=None)
    node_status_max_images: int | None = None
    max_open_files: int | None = None
    content_type: str | None = None
    kube_api_qps: int | None = msgspec.field(name="kubeAPIQPS", default=None)
    kube_api_burst: int | None = msgspec.field(name="kubeAPIBurst", default=None)
    serialize_image_pulls: bool | None = None
    max_parallel_image_pulls: int | None = None
    eviction_hard: Mapping[str, str] | None = None
    eviction_soft: Mapping[str, str] | None = None
    eviction_soft_grace_period: Mapping[str, str] | None = None
    eviction_pressure_transition_period: Duration | None = None
    eviction_max_pod_grace_period: int | None = None
    eviction_minimum_reclaim: Mapping[str, str] | None = None
    merge_default_eviction_settings: bool | None = None
    enable_controller_attach_detach: bool | None = None
    protect_kernel_defaults: bool | None = None
    make_iptables_util_chains: bool | None = msgspec.field(name="makeIPTablesUtilChains", default=None)
    iptables_masquerade_bit: int | None = None
    iptables_drop_bit: int | None = None
    feature_gates: Mapping[str, bool] | None = None
    fail_swap_on: bool | None = None
    memory_swap: MemorySwapConfiguration | None = None
    container_log_max_size: str | None = None
    container_log_max_files: int | None = None
    container_log_max_workers: int | None = None
    container_log_monitor_interval: Duration | None = None
    config_map_and_secret_change_detection_strategy: str | None = None
    system_reserved: Mapping[str, str] | None = None
    kube_reserved: Mapping[str, str] | None = None
    system_reserved_cgroup: str | None = None
    kube_reserved_cgroup: str | None = None
    reserved_system_cpus: str | None = msgspec.field(name="reservedSystemCPUs", default=None)
    enforce_node_allocatable: tuple[str, ...] | None = None
    show_hidden_metrics_for_version: str | None = None
    allowed_unsafe_sysctls: tuple[str, ...] | None = None
    volume_plugin_dir: str | None = None
    provider_id: str | None = msgspec.field(name="providerID", default=None)
    kernel_memcg_notification: bool | None = None
    logging: LoggingConfiguration | None = None
    enable_system_log_handler: bool | None = None
    enable_system_log_query: bool | None = None
    shutdown_grace_period: Duration | None = None
    shutdown_grace_period_critical_pods: Duration | None = None
    shutdown_grace_period_by_pod_priority: tuple[ShutdownGracePeriodByPodPriority, ...] | None = None
    crash_loop_back_off: CrashLoopBackOffConfig | None = None
    enable_profiling_handler: bool | None = None
    enable_debug_flags_handler: bool | None = None
    seccomp_default: bool | None = None
    memory_throttling_factor: float | None = None
    memory_reservation_policy: str | None = None
    register_with_taints: tuple[Taint, ...] | None = None
    register_node: bool | None = None
    tracing: TracingConfiguration | None = None
    local_storage_capacity_isolation: bool | None = None
    container_runtime_endpoint: str | None = None
    image_service_endpoint: str | None = None
    fail_cgroup_v1: bool | None = None
    user_namespaces: UserNamespaces | None = None

    def __repr__(self) -> str:
        hidden = {
            "static_pod_url_header": "<hidden>",
            "static_pod_url": self.static_pod_url and shown_url(self.static_pod_url),
        }
        fields = (
            (name, hidden.get(name, getattr(self, name)))
            for name in self.__struct_fields__
            if getattr(self, name) is not None
        )
        return f"KubeletConfiguration({', '.join(f'{name}={value!r}' for name, value in fields)})"
