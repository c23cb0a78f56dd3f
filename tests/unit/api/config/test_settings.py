"""Configuration: file, flags and machine together; every problem at once, every field that is not supported told."""

import json

import pytest
from msgspec import inspect

from api.config.knob import BY_PATH, KNOBS, SUPPORTED
from api.config.settings import PATHS, Flags, Machine, configure
from api.kube.objects.kubeletconfiguration import KubeletConfiguration
from api.ports.node import Reservation, Reserved

ROOT = Machine(is_root=True, hostname="Node-1", state_home="/home/r/.local/state", working_directory="/here")
USER = Machine(is_root=False, hostname="box", state_home="/home/u/.local/state", working_directory="/home/u")
HEAD = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
ENDPOINT = "unix:///run/containerd/containerd.sock"


def document(**fields):
    """Return a configuration file as compact JSON."""
    return json.dumps({**HEAD, "containerRuntimeEndpoint": ENDPOINT, **fields}).encode()


def configured(flags=None, machine=ROOT, **fields):
    """Return the outcome of a file at /etc/agent/config.yaml."""
    flags = flags or Flags(config="/etc/agent/config.yaml")
    return configure(document(**fields), flags, machine)


def messages(outcome):
    """Return the messages of all problems without their common beginning."""
    assert outcome.settings is None
    for problem in outcome.problems:
        assert problem.message.startswith("invalid configuration: ")
    return [problem.message.removeprefix("invalid configuration: ") for problem in outcome.problems]


def leaves(cls, path=""):
    """Return the path of each field that is not an object."""
    found = []
    for field in inspect.type_info(cls).fields:
        place = f"{path}.{field.encode_name}" if path else field.encode_name
        members = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
        structs = [one for one in members if isinstance(one, inspect.StructType)]
        found.extend(leaves(structs[0].cls, place) if structs else [place])
    return found


def test_every_field_has_a_knob_and_every_knob_a_field():
    assert sorted(set(leaves(KubeletConfiguration)) - {"apiVersion", "kind"}) == sorted(BY_PATH)
    assert len(KNOBS) == len(BY_PATH)
    assert set(PATHS) <= set(BY_PATH)


def test_every_default_is_within_its_own_limits():
    settings = {}
    for knob in KNOBS:
        if knob.default not in (None, ""):
            place = settings
            *outer, last = knob.path.split(".")
            for name in outer:
                place = place.setdefault(name, {})
            place[last] = knob.default
    settings.pop("maxParallelImagePulls", None)
    outcome = configured(**settings)
    assert outcome.problems == ()


def test_without_file_and_flags_the_built_in_runtime_runs_in_the_users_own_folder():
    settings = configure(None, Flags(), USER).settings
    assert settings.runtime_endpoint == settings.image_endpoint == "embedded"
    assert settings.root_dir == "/home/u/.local/state/nodeagent"
    assert settings.pod_logs_dir == "/home/u/.local/state/nodeagent/logs"
    assert (settings.healthz_address, settings.healthz_port) == ("127.0.0.1", 10248)
    assert (settings.sync_s, settings.file_check_s, settings.http_check_s) == (60, 20, 20)
    assert (settings.max_pods, settings.runtime_request_timeout_s, settings.max_container_backoff_s) == (
        110,
        120,
        300,
    )
    assert settings.fail_cgroup_v1 is False
    assert (settings.log_format, settings.verbosity) == ("text", 0)


def test_root_keeps_its_state_where_the_system_does():
    settings = configure(None, Flags(), ROOT).settings
    assert (settings.root_dir, settings.pod_logs_dir) == ("/var/lib/nodeagent", "/var/log/pods")
    assert settings.node_name == "node-1"


def test_the_honoured_fields_of_a_file_become_settings():
    outcome = configured(
        staticPodPath="/etc/pods",
        staticPodURL="https://example.com/pods",
        staticPodURLHeader={"X-B": ["2", "1"], "X-A": ["3"]},
        podLogsDir="/logs",
        syncFrequency="2m",
        fileCheckFrequency="1s",
        httpCheckFrequency="2s",
        healthzPort=0,
        healthzBindAddress="::1",
        runtimeRequestTimeout="1m30s",
        crashLoopBackOff={"maxContainerRestartPeriod": "10s"},
        failCgroupV1=True,
        logging={"format": "json", "verbosity": 4},
    )
    assert outcome.problems == ()
    assert outcome.warnings == ()
    settings = outcome.settings
    assert settings.pod_manifest_path == "/etc/pods"
    assert settings.manifest_url == "https://example.com/pods"
    assert settings.manifest_url_headers == (("X-A", "3"), ("X-B", "1"), ("X-B", "2"))
    assert settings.pod_logs_dir == "/logs"
    assert (settings.sync_s, settings.file_check_s, settings.http_check_s) == (120, 1, 2)
    assert (settings.healthz_address, settings.healthz_port) == ("::1", 0)
    assert (settings.runtime_request_timeout_s, settings.max_container_backoff_s) == (90, 10)
    assert settings.fail_cgroup_v1
    assert (settings.log_format, settings.verbosity) == ("json", 4)
    assert settings.runtime_endpoint == ENDPOINT


def test_zero_means_the_default_where_kubernetes_says_so():
    settings = configured(syncFrequency="0s", maxPods=0, podLogsDir="").settings
    assert (settings.sync_s, settings.max_pods, settings.pod_logs_dir) == (60, 110, "/var/log/pods")


def test_relative_paths_are_relative_to_the_files_folder_and_flags_to_the_working_directory():
    settings = configured(staticPodPath="pods", podLogsDir="../logs/").settings
    assert (settings.pod_manifest_path, settings.pod_logs_dir) == ("/etc/agent/pods", "/etc/logs")
    flags = Flags(config="conf/agent.yaml", pod_manifest_path="manifests", root_dir="state")
    settings = configured(flags, staticPodPath="pods").settings
    assert (settings.pod_manifest_path, settings.root_dir) == ("/here/manifests", "/here/state")
    assert (
        configured(Flags(config="conf/agent.yaml"), staticPodPath="pods").settings.pod_manifest_path
        == "/here/conf/pods"
    )


def test_flags_win_over_the_file():
    flags = Flags(
        config="/c.yaml",
        healthz_port=1,
        log_format="json",
        verbosity=2,
        manifest_url="http://b",
        manifest_url_header=("X-A=1=2", "X-A=0"),
        container_runtime_endpoint="embedded",
        hostname_override=" Other ",
        allow_host_image=True,
        take_over=True,
    )
    settings = configured(
        flags, healthzPort=2, staticPodURL="http://a", logging={"format": "text", "verbosity": 9}
    ).settings
    assert (settings.healthz_port, settings.log_format, settings.verbosity) == (1, "json", 2)
    assert settings.manifest_url == "http://b"
    assert settings.manifest_url_headers == (("X-A", "0"), ("X-A", "1=2"))
    assert (settings.runtime_endpoint, settings.node_name) == ("embedded", "other")
    assert settings.allow_host_image
    assert settings.take_over


def test_a_field_that_is_not_honoured_yet_is_a_warning_with_its_path():
    outcome = configured(
        evictionHard={"memory.available": "5%"},
        authentication={"anonymous": {"enabled": False}},
        oomScoreAdj=3,
    )
    assert outcome.settings is not None
    assert [one.where for one in outcome.warnings] == [
        "/etc/agent/config.yaml: authentication.anonymous.enabled",
        "/etc/agent/config.yaml: oomScoreAdj",
    ]


def test_a_field_that_does_not_exist_is_an_error_with_its_path():
    outcome = configured(maxpods=3, logging={"colour": True})
    assert [problem.where for problem in outcome.problems] == [
        "/etc/agent/config.yaml: maxpods",
        "/etc/agent/config.yaml: logging.colour",
    ]
    assert "did you mean 'maxPods'?" in outcome.problems[0].message


def test_all_problems_are_told_at_once_those_of_flags_by_the_flag():
    flags = Flags(
        config="/c.yaml", healthz_port=70000, hostname_override="a_b", manifest_url_header=("secret",)
    )
    outcome = configured(flags, maxPods=-1, syncFrequency="1ms", imageGCHighThresholdPercent=50)
    found = {problem.where for problem in outcome.problems}
    assert found == {
        "/c.yaml: maxPods",
        "/c.yaml: syncFrequency",
        "/c.yaml: imageGCLowThresholdPercent",
        "--healthz-port",
        "--hostname-override",
        "--manifest-url-header",
    }


def test_type_errors_hide_no_rule_that_is_broken_elsewhere():
    assert messages(configured(maxPods="many", port=70000, syncFrequency="5")) == [
        'maxPods: must be an integer, not "many"',
        'syncFrequency: must be a duration with units, such as 300ms, 20s or 1m30s, not "5"',
        "port: must be between 1 and 65535, not 70000",
    ]


def test_the_runtime_must_be_named_when_a_file_or_a_control_plane_is():
    for flags in (Flags(config="/c.yaml"), Flags(kubeconfig="/k")):
        raw = json.dumps(HEAD).encode() if flags.config else None
        assert "embedded or unix:///path" in messages(configure(raw, flags, ROOT))[0]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"healthzPort": -1}, "healthzPort: must be between 0 and 65535, not -1"),
        ({"nodeLeaseDurationSeconds": -1}, "nodeLeaseDurationSeconds: must be at least 1, not -1"),
        ({"kubeAPIQPS": -1}, "kubeAPIQPS: must be at least 0, not -1"),
        ({"oomScoreAdj": -1001}, "oomScoreAdj: must be between -1000 and 1000, not -1001"),
        ({"nodeStatusMaxImages": -2}, "nodeStatusMaxImages: must be at least -1, not -2"),
        ({"hairpinMode": "x"}, 'hairpinMode: must be one of promiscuous-bridge, hairpin-veth, none, not "x"'),
        ({"crashLoopBackOff": {"maxContainerRestartPeriod": "301s"}}, 'crashLoopBackOff.maxContainerRestartPeriod: must be between 1s and 5m0s, not "301s"'),
        ({"containerLogMonitorInterval": "2s"}, 'containerLogMonitorInterval: must be at least 3s, not "2s"'),
        ({"containerLogMaxSize": "big"}, 'containerLogMaxSize: must be a quantity of bytes, such as 10Mi, not "big"'),
        ({"containerLogMaxFiles": 1}, "containerLogMaxFiles: must be at least 2, not 1"),
        ({"serializeImagePulls": True, "maxParallelImagePulls": 2}, "maxParallelImagePulls: must be 1 where serializeImagePulls is true, not 2"),
        ({"imageMaximumGCAge": "1m"}, 'imageMaximumGCAge: must be 0s or more than imageMinimumGCAge (2m), not "1m"'),
        ({"runOnce": True}, "runOnce: must be false (use the flag --runonce), not true"),
        ({"cpuCFSQuotaPeriod": "10ms"}, 'cpuCFSQuotaPeriod: must be 100ms unless the feature gate CustomCPUCFSQuotaPeriod is on, not "10ms"'),
        ({"shutdownGracePeriod": "10s", "shutdownGracePeriodCriticalPods": "20s"}, 'shutdownGracePeriodCriticalPods: must be at most shutdownGracePeriod, not "20s"'),
        ({"shutdownGracePeriod": "500ms"}, 'shutdownGracePeriod: must be 0s or at least 1s, not "500ms"'),
        ({"kubeReserved": {"gpu": "1"}}, 'kubeReserved.gpu: must be one of cpu, memory, ephemeral-storage, pid, not the resource "gpu"'),
        ({"enforceNodeAllocatable": ["none", "pods"]}, 'enforceNodeAllocatable: must be "none" alone, not "none" beside others'),
        ({"enforceNodeAllocatable": ["kube-reserved"]}, "kubeReservedCgroup: required: a path, since enforceNodeAllocatable has kube-reserved"),
        ({"evictionSoft": {"memory.available": "1Gi"}}, "evictionSoftGracePeriod.memory.available: required: a duration, since evictionSoft has this signal"),
        ({"memoryThrottlingFactor": 1.5}, "memoryThrottlingFactor: must be greater than 0 and at most 1, not 1.5"),
        ({"userNamespaces": {"idsPerPod": 65537}}, "userNamespaces.idsPerPod: must be a multiple of 65536, not 65537"),
        ({"registerWithTaints": [{"key": "a", "effect": "x"}]}, 'registerWithTaints[0].effect: must be one of NoSchedule, PreferNoSchedule, NoExecute, not "x"'),
        ({"healthzBindAddress": "localhost"}, 'healthzBindAddress: must be an IP address, not "localhost"'),
        ({"containerRuntimeEndpoint": "tcp://x"}, 'containerRuntimeEndpoint: must be embedded or unix:///path, not "tcp://x"'),
        ({"podLogsDir": "/lögs"}, 'podLogsDir: must be an absolute path in ASCII without ".", ".." or a "/" at its end, not "/lögs"'),
        ({"clusterDNS": ["10.0.0.10", "dns"]}, 'clusterDNS[1]: must be an IP address, not "dns"'),
        ({"clusterDomain": "a_b"}, 'clusterDomain: must be a DNS name: at most 253 lower case letters, digits, \'-\' and \'.\', each part beginning and ending with a letter or digit, not "a_b"'),
        ({"cgroupRoot": "pods/"}, 'cgroupRoot: must be an absolute path without ".", ".." or a "/" at its end, not "pods/"'),
        ({"staticPodURL": "ftp://secret@x"}, "staticPodURL: must be an http:// or https:// URL, not a URL of another scheme"),
        ({"systemCgroups": "/a"}, "cgroupRoot: required: a path, since systemCgroups is set"),
        ({"enableSystemLogQuery": True, "enableSystemLogHandler": False}, "enableSystemLogQuery: must be false where enableSystemLogHandler is false, not true"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_told(fields, expected):
    assert messages(configured(**fields)) == [expected]


def test_a_file_of_another_kind_is_told():
    outcome = configure(b'{"apiVersion":"v1","kind":"Pod"}', Flags(config="/c.yaml"), ROOT)
    assert messages(outcome) == [
        "kind: must be KubeletConfiguration (kubelet.config.k8s.io/v1beta1), not Pod (v1)"
    ]


def test_header_values_never_show():
    flags = Flags(config="/c.yaml", manifest_url_header=("Token=hunter2", "hunter2"))
    outcome = configured(flags, staticPodURLHeader={"A": ["hunter2"], "B": [7], "C": "hunter2"})
    assert "hunter2" not in repr(flags)
    assert "hunter2" not in repr(outcome)
    good = configured(Flags(config="/c.yaml", manifest_url_header=("Token=hunter2",)))
    assert "hunter2" not in repr(good)
    assert good.settings.manifest_url_headers == (("Token", "hunter2"),)


def test_when_images_are_collected_is_as_the_file_says_and_as_a_kubelet_has_it_otherwise():
    plain = configure(None, Flags(), ROOT).settings
    assert (plain.image_gc_high_percent, plain.image_gc_low_percent) == (85, 80)
    assert (plain.image_min_gc_age_s, plain.image_max_gc_age_s, plain.sandbox_image) == (120.0, 0.0, "")
    flags = Flags(config="/c.yaml", sandbox_image="my.local/pause:1")
    told = configured(
        flags,
        imageGCHighThresholdPercent=100,
        imageGCLowThresholdPercent=0,
        imageMinimumGCAge="30s",
        imageMaximumGCAge="48h",
        containerRuntimeEndpoint="embedded",
    ).settings
    assert (told.image_gc_high_percent, told.image_gc_low_percent) == (100, 0)
    assert (told.image_min_gc_age_s, told.image_max_gc_age_s) == (30.0, 172_800.0)
    assert told.sandbox_image == "my.local/pause:1"


def test_what_is_kept_from_pods_and_what_of_it_is_enforced():
    plain = configure(None, Flags(), ROOT).settings
    assert (plain.pod_pids_limit, plain.reserved) == (-1, Reserved())
    assert configured(podPidsLimit=0).settings.pod_pids_limit == -1
    assert configured(cgroupsPerQOS=False).settings.reserved.enforced == ()
    assert configured(enforceNodeAllocatable=["none"]).settings.reserved.enforced == ()
    told = configured(
        podPidsLimit=100,
        systemReserved={"cpu": "500m", "memory": "1Gi", "pid": "1k"},
        kubeReserved={"cpu": "1", "ephemeral-storage": "2Gi"},
        kubeReservedCgroup="/kube.slice",
        enforceNodeAllocatable=["pods", "kube-reserved-compressible"],
    ).settings
    assert told.pod_pids_limit == 100
    assert told.reserved == Reserved(
        system=Reservation(cpu_milli=500, memory_bytes=1 << 30, pids=1000),
        kube=Reservation(cpu_milli=1000, ephemeral_bytes=2 << 30),
        enforced=("pods", "kube-reserved-compressible"),
        kube_cgroup="/kube.slice",
    )


def test_what_is_honoured_is_what_the_settings_take():
    assert {
        "staticPodPath", "staticPodURL", "staticPodURLHeader", "podLogsDir", "syncFrequency", "fileCheckFrequency",
        "httpCheckFrequency", "healthzPort", "healthzBindAddress", "runtimeRequestTimeout",
        "crashLoopBackOff.maxContainerRestartPeriod", "containerRuntimeEndpoint", "failCgroupV1", "imageServiceEndpoint",
        "logging.format", "logging.verbosity", "clusterDNS", "clusterDomain", "resolvConf", "seccompDefault",
        "cgroupRoot", "cgroupDriver", "cgroupsPerQOS", "cpuCFSQuota", "cpuCFSQuotaPeriod", "singleProcessOOMKill",
        "podPidsLimit", "systemReserved", "kubeReserved", "systemReservedCgroup", "kubeReservedCgroup",
        "enforceNodeAllocatable",
        "memorySwap.swapBehavior", "imageMinimumGCAge", "imageMaximumGCAge",
        "imageGCHighThresholdPercent", "imageGCLowThresholdPercent", "containerLogMaxSize", "containerLogMaxFiles",
        "containerLogMaxWorkers", "containerLogMonitorInterval",
        "serializeImagePulls", "maxParallelImagePulls", "registryPullQPS", "registryBurst",
        "maxPods", "podsPerCore", "allowedUnsafeSysctls", "registerWithTaints",
        "evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim",
        "evictionPressureTransitionPeriod", "evictionMaxPodGracePeriod", "mergeDefaultEvictionSettings",
        "localStorageCapacityIsolation", "kernelMemcgNotification",
        "nodeStatusUpdateFrequency", "nodeStatusReportFrequency", "nodeStatusMaxImages", "nodeLeaseDurationSeconds",
        "podCIDR", "eventRecordQPS", "eventBurst", "kubeAPIQPS", "kubeAPIBurst",
        "registerNode", "providerID", "enableControllerAttachDetach", "rotateCertificates",
    } == SUPPORTED  # fmt: skip


def test_what_shapes_containers_becomes_settings():
    plain = configured().settings
    assert (plain.resolv_conf, plain.cgroup_root, plain.cgroup_driver) == (
        "/etc/resolv.conf",
        "/",
        "cgroupfs",
    )
    assert (plain.cpu_cfs_quota, plain.cpu_cfs_period_us, plain.cgroups_per_qos) == (True, 100_000, True)
    assert (plain.single_process_oom_kill, plain.limited_swap, plain.seccomp_default) == (None, False, False)
    settings = configured(
        clusterDNS=["10.0.0.10", "fd00::a"],
        clusterDomain="cluster.local.",
        resolvConf="",
        seccompDefault=True,
        cgroupRoot="/a/b",
        cgroupDriver="systemd",
        cgroupsPerQOS=False,
        enforceNodeAllocatable=["none"],
        cpuCFSQuota=False,
        cpuCFSQuotaPeriod="20ms",
        featureGates={"CustomCPUCFSQuotaPeriod": True},
        singleProcessOOMKill=False,
        memorySwap={"swapBehavior": "LimitedSwap"},
    ).settings
    assert settings.cluster_dns == ("10.0.0.10", "fd00::a")
    assert (settings.cluster_domain, settings.resolv_conf) == ("cluster.local", "")
    assert (settings.cgroup_root, settings.cgroup_driver, settings.cgroups_per_qos) == (
        "/a/b",
        "systemd",
        False,
    )
    assert (settings.cpu_cfs_quota, settings.cpu_cfs_period_us) == (False, 20_000)
    assert (settings.seccomp_default, settings.single_process_oom_kill, settings.limited_swap) == (
        True,
        False,
        True,
    )


def test_the_rotation_of_logs_is_set_with_a_kubelets_words():
    plain = configured().settings
    assert (plain.log_max_size_bytes, plain.log_max_files) == (10 << 20, 5)
    assert (plain.log_max_workers, plain.log_monitor_s) == (1, 10.0)
    words = {
        "containerLogMaxSize": "1Mi",
        "containerLogMaxFiles": 2,
        "containerLogMaxWorkers": 3,
        "containerLogMonitorInterval": "3s",
    }
    settings = configured(**words).settings
    assert (settings.log_max_size_bytes, settings.log_max_files) == (1 << 20, 2)
    assert (settings.log_max_workers, settings.log_monitor_s) == (3, 3.0)
    assert configured(containerLogMaxSize="-1").settings.log_max_size_bytes < 0


def test_links_to_logs_are_made_beside_the_pods_logs():
    assert configured().settings.container_links_dir == "/var/log/containers"
    assert configured(podLogsDir="/data/logs/pods").settings.container_links_dir == "/data/logs/containers"
    own = configure(None, Flags(), USER).settings
    assert own.container_links_dir == "/home/u/.local/state/nodeagent/containers"


@pytest.mark.parametrize(
    ("fields", "at_once"),
    [
        ({}, 1),
        ({"serializeImagePulls": True}, 1),
        ({"serializeImagePulls": True, "maxParallelImagePulls": 1}, 1),
        ({"serializeImagePulls": False}, None),
        ({"serializeImagePulls": False, "maxParallelImagePulls": 4}, 4),
        ({"maxParallelImagePulls": 4}, 4),
    ],
)
def test_images_are_pulled_one_at_a_time_unless_told_otherwise(fields, at_once):
    assert configured(**fields).settings.image_pulls_at_once == at_once


def test_the_rate_of_pulls_is_the_kubelets_unless_told_otherwise():
    settings = configured().settings
    assert (settings.registry_pull_qps, settings.registry_burst) == (5, 10)
    settings = configured(registryPullQPS=0, registryBurst=0).settings
    assert (settings.registry_pull_qps, settings.registry_burst) == (0, 10)


def test_pulls_one_after_the_other_and_several_at_once_exclude_each_other():
    told = messages(configured(serializeImagePulls=True, maxParallelImagePulls=2))
    assert any("maxParallelImagePulls" in one for one in told)


def test_what_the_node_keeps_and_is_called_becomes_settings():
    plain = configured().settings
    assert plain.eviction_hard == (("memory.available", "100Mi"), ("nodefs.available", "10%"))
    assert (plain.pods_per_core, plain.system_reserved, plain.node_labels, plain.taints) == (0, (), (), ())
    settings = configured(
        Flags(
            config="/c",
            container_runtime_endpoint="embedded",
            node_labels="disk=ssd, example.com/row=7,empty=",
        ),
        podsPerCore=4,
        systemReserved={"memory": "1Gi", "cpu": "100m"},
        evictionHard={"nodefs.available": "5%"},
        allowedUnsafeSysctls=["kernel.msg*"],
        registerWithTaints=[{"key": "a", "effect": "NoExecute"}],
    ).settings
    assert settings.node_labels == (("disk", "ssd"), ("empty", ""), ("example.com/row", "7"))
    assert settings.system_reserved == (("cpu", "100m"), ("memory", "1Gi"))
    assert settings.eviction_hard == (("nodefs.available", "5%"),), "one that is named leaves no default"
    assert (settings.pods_per_core, settings.allowed_unsafe_sysctls) == (4, ("kernel.msg*",))
    assert [(one.key, one.effect) for one in settings.taints] == [("a", "NoExecute")]
    merged = configured(evictionHard={"nodefs.available": "5%"}, mergeDefaultEvictionSettings=True).settings
    assert merged.eviction_hard == (("memory.available", "100Mi"), ("nodefs.available", "5%"))


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("node_labels", "no spaces=here"),
        ("node_labels", "kubernetes.io/role=master"),
        ("node_labels", "sub.k8s.io/x=y"),
        ("register_with_taints", "key=value"),
        ("register_with_taints", "key=value:Never"),
    ],
)
def test_labels_and_taints_that_a_node_cannot_have_are_refused(flag, text):
    flags = Flags(config="/c", container_runtime_endpoint="embedded", **{flag: text})
    [problem] = configured(flags).problems
    assert problem.where == f"--{flag.replace('_', '-')}"


@pytest.mark.parametrize(
    "key", ["node.kubernetes.io/x", "a.kubelet.kubernetes.io/x", "topology.kubernetes.io/zone"]
)
def test_a_node_may_give_itself_these_labels(key):
    flags = Flags(config="/c", container_runtime_endpoint="embedded", node_labels=f"{key}=1")
    assert configured(flags).settings.node_labels == ((key, "1"),)


def test_the_flag_for_taints_wins_over_the_file():
    flags = Flags(config="/c", container_runtime_endpoint="embedded", register_with_taints="b=c:NoSchedule")
    [taint] = configured(flags, registerWithTaints=[{"key": "a", "effect": "NoExecute"}]).settings.taints
    assert (taint.key, taint.value, taint.effect) == ("b", "c", "NoSchedule")


def test_a_threshold_that_is_none_is_a_problem():
    [problem] = configured(evictionHard={"memory.available": "a lot"}).problems
    assert "evictionHard" in problem.where


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({}, True), ({"kernelMemcgNotification": True}, True), ({"kernelMemcgNotification": False}, False)],
)
def test_the_kernel_tells_of_memory_unless_that_is_switched_off(fields, expected):
    outcome = configured(**fields)
    assert outcome.warnings == ()
    assert outcome.settings.kernel_memory_events is expected
