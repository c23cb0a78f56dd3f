"""Every field of KubeletConfiguration v1beta1: unit, default, limits, and whether this agent supports it.

The types are in `api.kube.objects.kubeletconfiguration`; a test keeps the two equal. A field that is set and not supported
is a warning with its path.
"""

from typing import Any, Final

import msgspec

from api.decoding import ready

Plain = str | int | float | bool | tuple[str, ...] | None
PORT_LIMIT = 65535
INT64_LIMIT = 2**63 - 1


class Knob(msgspec.Struct, frozen=True, kw_only=True):
    """One setting. Limits of durations are nanoseconds."""

    path: str
    """Dotted wire names: ``crashLoopBackOff.maxContainerRestartPeriod``."""
    default: Plain = None
    """The default of an unset field, as written in a file; None: no default."""
    unit: str = ""
    supported: bool = False
    low: int | float | None = None
    high: int | float | None = None
    choices: tuple[str, ...] = ()
    zero_is_unset: bool = False
    """Whether zero, or an empty string, means the default."""


def knob(path: str, default: Plain = None, unit: str = "", **more: object) -> Knob:
    """Return a knob; keeps each row of the table on one line."""
    return msgspec.convert({"path": path, "default": default, "unit": unit, **more}, ready(Knob))


SECOND = 10**9
SHORTEST = SECOND // 10
"""Shortest period of a pass over all pods, files or URLs: ten times a second."""
ZERO: Final[dict[str, Any]] = {"zero_is_unset": True}
OURS: Final[dict[str, Any]] = {"supported": True}
NOT_NEGATIVE: Final[dict[str, Any]] = {"low": 0}
PERCENT: Final[dict[str, Any]] = {"low": 0, "high": 100}
PORT: Final[dict[str, Any]] = {"low": 0, "high": PORT_LIMIT}
BIT: Final[dict[str, Any]] = {"low": 0, "high": 31}

KNOBS: Final[tuple[Knob, ...]] = (
    # Where pods come from.
    knob("staticPodPath", "", "path", **OURS),
    knob("staticPodURL", "", "URL", **OURS),
    knob("staticPodURLHeader", None, "headers", **OURS),
    knob("podLogsDir", "/var/log/pods", "path", **OURS, **ZERO),
    knob("syncFrequency", "1m", "duration", **OURS, low=SHORTEST, **ZERO),
    knob("fileCheckFrequency", "20s", "duration", **OURS, low=SHORTEST, **ZERO),
    knob("httpCheckFrequency", "20s", "duration", **OURS, low=SHORTEST, **ZERO),
    # The server.
    knob("enableServer", True),
    knob("address", "0.0.0.0", "address", **ZERO),  # noqa: S104
    knob("port", 10250, "port", low=1, high=PORT_LIMIT, **ZERO),
    knob("readOnlyPort", 0, "port", **PORT),
    knob("tlsCertFile", "", "path"),
    knob("tlsPrivateKeyFile", "", "path"),
    knob("tlsCipherSuites"),
    knob(
        "tlsMinVersion",
        "VersionTLS12",
        choices=("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"),
    ),
    knob("tlsCurvePreferences"),
    knob("rotateCertificates", False, **OURS),
    knob("serverTLSBootstrap", False),
    knob("authentication.x509.clientCAFile", "", "path"),
    knob("authentication.webhook.enabled", True),
    knob("authentication.webhook.cacheTTL", "2m", "duration", **ZERO),
    knob("authentication.anonymous.enabled", False),
    knob("authorization.mode", "Webhook", choices=("AlwaysAllow", "Webhook")),
    knob("authorization.webhook.cacheAuthorizedTTL", "5m", "duration", **ZERO),
    knob("authorization.webhook.cacheUnauthorizedTTL", "30s", "duration", **ZERO),
    knob("enableDebuggingHandlers", True),
    knob("enableContentionProfiling", False),
    knob("enableProfilingHandler", True),
    knob("enableDebugFlagsHandler", True),
    knob("enableSystemLogHandler", True),
    knob("enableSystemLogQuery", False),
    knob("streamingConnectionIdleTimeout", "4h", "duration", **ZERO),
    knob("healthzPort", 10248, "port", **OURS, **PORT),
    knob("healthzBindAddress", "127.0.0.1", "address", **OURS, **ZERO),
    # Images.
    knob("registryPullQPS", 5, "pulls per second", **OURS, **NOT_NEGATIVE),
    knob("registryBurst", 10, "pulls", **OURS, **NOT_NEGATIVE, **ZERO),
    knob(
        "imagePullCredentialsVerificationPolicy",
        "NeverVerifyPreloadedImages",
        choices=("NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify"),
    ),
    knob("preloadedImagesVerificationAllowlist"),
    knob("serializeImagePulls", True, **OURS),
    knob("maxParallelImagePulls", None, "pulls", **OURS, low=1),
    knob("imageMinimumGCAge", "2m", "duration", **OURS, **NOT_NEGATIVE, **ZERO),
    knob("imageMaximumGCAge", "0s", "duration", **OURS, **NOT_NEGATIVE),
    knob("imageGCHighThresholdPercent", 85, "percent", **OURS, **PERCENT),
    knob("imageGCLowThresholdPercent", 80, "percent", **OURS, **PERCENT),
    # The API server.
    knob("eventRecordQPS", 50, "events per second", **OURS, **NOT_NEGATIVE),
    knob("eventBurst", 100, "events", **OURS, **NOT_NEGATIVE, **ZERO),
    knob("kubeAPIQPS", 50, "requests per second", **OURS, **NOT_NEGATIVE),
    knob("kubeAPIBurst", 100, "requests", **OURS, **NOT_NEGATIVE, **ZERO),
    knob("contentType", "application/vnd.kubernetes.protobuf"),
    knob("nodeStatusUpdateFrequency", "10s", "duration", **OURS, low=SHORTEST, **ZERO),
    knob("nodeStatusReportFrequency", "5m", "duration", **OURS, low=SHORTEST, **ZERO),
    knob("nodeLeaseDurationSeconds", 40, "seconds", **OURS, low=1, **ZERO),
    knob("nodeStatusMaxImages", 50, "images", **OURS, low=-1),
    knob("registerNode", True, **OURS),
    knob("registerWithTaints", **OURS),
    knob("providerID", "", **OURS),
    knob("configMapAndSecretChangeDetectionStrategy", "Watch", choices=("Watch", "Cache", "Get")),
    knob("enableControllerAttachDetach", True, **OURS),
    # Pods.
    knob("maxPods", 110, "pods", **OURS, **NOT_NEGATIVE, **ZERO),
    knob("podsPerCore", 0, "pods per core", **OURS, **NOT_NEGATIVE),
    knob("podPidsLimit", -1, "processes", **OURS),
    knob("clusterDomain", "", **OURS),
    knob("clusterDNS", None, "addresses", **OURS),
    knob("podCIDR", "", **OURS),
    knob("resolvConf", "/etc/resolv.conf", "path", **OURS),
    knob("runOnce", False),
    knob(
        "crashLoopBackOff.maxContainerRestartPeriod",
        "300s",
        "duration",
        **OURS,
        low=SECOND,
        high=300 * SECOND,
    ),
    knob("allowedUnsafeSysctls", **OURS),
    knob("seccompDefault", False, **OURS),
    knob("featureGates"),
    knob("userNamespaces.idsPerPod", 65536, "user ids", low=65536, high=2**32 - 65536),
    # The container runtime.
    knob("containerRuntimeEndpoint", "", "endpoint", **OURS, **ZERO),
    knob("imageServiceEndpoint", "", "endpoint", **OURS),
    knob("runtimeRequestTimeout", "2m", "duration", **OURS, low=SHORTEST, **ZERO),
    knob("hairpinMode", "promiscuous-bridge", choices=("promiscuous-bridge", "hairpin-veth", "none"), **ZERO),
    knob("containerLogMaxSize", "10Mi", "quantity", **OURS, **ZERO),
    knob("containerLogMaxFiles", 5, "files", **OURS, low=2),
    knob("containerLogMaxWorkers", 1, "workers", **OURS, low=1),
    knob("containerLogMonitorInterval", "10s", "duration", **OURS, low=3 * SECOND),
    # Resources of the node.
    knob("failCgroupV1", False, **OURS),
    knob("cgroupRoot", "", "path", **OURS),
    knob("kubeletCgroups", "", "path"),
    knob("systemCgroups", "", "path"),
    knob("cgroupsPerQOS", True, **OURS),
    knob("cgroupDriver", "cgroupfs", choices=("cgroupfs", "systemd"), **OURS, **ZERO),
    knob("cpuManagerPolicy", "none", choices=("none", "static"), **ZERO),
    knob("cpuManagerPolicyOptions"),
    knob("cpuManagerReconcilePeriod", "10s", "duration", **ZERO),
    knob("memoryManagerPolicy", "None", choices=("None", "Static"), **ZERO),
    knob("reservedMemory"),
    knob(
        "topologyManagerPolicy",
        "none",
        choices=("none", "best-effort", "restricted", "single-numa-node"),
        **ZERO,
    ),
    knob("topologyManagerScope", "container", choices=("container", "pod"), **ZERO),
    knob("topologyManagerPolicyOptions"),
    knob("qosReserved"),
    knob("cpuCFSQuota", True, **OURS),
    knob("cpuCFSQuotaPeriod", "100ms", "duration", **OURS, **ZERO),
    knob("singleProcessOOMKill", **OURS),
    knob("memoryThrottlingFactor", 0.9),
    knob("memoryReservationPolicy", "None", choices=("None", "TieredReservation"), **ZERO),
    knob("failSwapOn", True),
    knob("memorySwap.swapBehavior", "", choices=("NoSwap", "LimitedSwap"), **OURS, **ZERO),
    knob("oomScoreAdj", -999, low=-1000, high=1000),
    knob("maxOpenFiles", 1_000_000, "files", low=0, high=INT64_LIMIT, **ZERO),
    knob("volumeStatsAggPeriod", "1m", "duration", **ZERO),
    knob("localStorageCapacityIsolation", True, **OURS),
    knob("systemReserved", **OURS),
    knob("kubeReserved", **OURS),
    knob("systemReservedCgroup", "", "path", **OURS),
    knob("kubeReservedCgroup", "", "path", **OURS),
    knob("reservedSystemCPUs", ""),
    knob("enforceNodeAllocatable", ("pods",), **OURS),
    knob("protectKernelDefaults", False),
    knob("makeIPTablesUtilChains", True),
    knob("iptablesMasqueradeBit", 14, "bit", **BIT),
    knob("iptablesDropBit", 15, "bit", **BIT),
    knob("kernelMemcgNotification", True, **OURS),
    knob("volumePluginDir", "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/", "path", **ZERO),
    # Eviction and shutdown.
    knob("evictionHard", **OURS),
    knob("evictionSoft", **OURS),
    knob("evictionSoftGracePeriod", **OURS),
    knob("evictionPressureTransitionPeriod", "5m", "duration", **OURS, low=0, **ZERO),
    knob("evictionMaxPodGracePeriod", 0, "seconds", **OURS, **NOT_NEGATIVE),
    knob("evictionMinimumReclaim", **OURS),
    knob("mergeDefaultEvictionSettings", False, **OURS),
    knob("shutdownGracePeriod", "0s", "duration", **NOT_NEGATIVE),
    knob("shutdownGracePeriodCriticalPods", "0s", "duration", **NOT_NEGATIVE),
    knob("shutdownGracePeriodByPodPriority"),
    # Looking in.
    knob("logging.format", "text", choices=("text", "json"), **OURS, **ZERO),
    knob("logging.flushFrequency", "5s", "duration"),
    knob("logging.verbosity", 0, "level", **OURS, **NOT_NEGATIVE),
    knob("logging.vmodule"),
    knob("logging.options.text.splitStream", False),
    knob("logging.options.text.infoBufferSize", "0", "quantity"),
    knob("logging.options.json.splitStream", False),
    knob("logging.options.json.infoBufferSize", "0", "quantity"),
    knob("tracing.endpoint", "localhost:4317", "endpoint"),
    knob("tracing.samplingRatePerMillion", 0, "spans of a million", low=0, high=1_000_000),
    knob("showHiddenMetricsForVersion", ""),
)

BY_PATH: Final = {one.path: one for one in KNOBS}
SUPPORTED: Final = frozenset(one.path for one in KNOBS if one.supported)


def default_of(path: str) -> Plain:
    """Return the default of a knob. Raises KeyError for a path that is none."""
    return BY_PATH[path].default
