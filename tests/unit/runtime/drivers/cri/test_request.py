"""Specs become the runtime's requests, field by field."""

import pytest
from google.protobuf import json_format
from msgspec.structs import replace

from api.errors import RejectedError
from api.ports.confinement import (
    Device,
    Dns,
    IdMapping,
    Mount,
    MountPropagation,
    NamespaceMode,
    Namespaces,
    PortMapping,
    ProfileKind,
    Protocol,
    Resources,
    Security,
    SecurityProfile,
    SeLinux,
)
from api.ports.runtime import LABEL_POD_UID, ContainerSpec, EnvironmentVariable, SandboxSpec
from runtime.drivers.cri import annotation
from runtime.drivers.cri.request import container_config, sandbox_config

SANDBOX = SandboxSpec(
    uid="u-1",
    name="web",
    namespace="shop",
    attempt=2,
    labels=(("app", "web"), (LABEL_POD_UID, "u-1")),
    annotations=(("note", "x"),),
    hostname="web-host",
    log_directory="/var/log/pods/shop_web_u-1",
    dns=Dns(servers=("10.0.0.10",), searches=("shop.svc.cluster.local",), options=("ndots:5",)),
    ports=(PortMapping(protocol=Protocol.UDP, container_port=53, host_port=5353, host_ip="127.0.0.1"),),
    cgroup_parent="/kubepods/podu-1",
    sysctls=(("net.core.somaxconn", "1024"),),
    namespaces=Namespaces(pid=NamespaceMode.POD, ipc=NamespaceMode.NODE),
    security=Security(seccomp=SecurityProfile(kind=ProfileKind.RUNTIME_DEFAULT), supplemental_groups=(7,)),
    user=0,
)


def as_json(message):
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def test_a_sandbox_is_asked_for_with_everything_in_its_spec():
    made = as_json(sandbox_config(SANDBOX))
    notes = made["annotations"]
    assert notes.pop(annotation.SPEC) == annotation.digest(SANDBOX)
    assert notes.pop(annotation.NETWORK) == annotation.OWN_NETWORK
    assert notes.pop(annotation.ADDED) == "io.kubernetes.pod.name,io.kubernetes.pod.namespace"
    assert made == {
        "metadata": {"name": "web", "uid": "u-1", "namespace": "shop", "attempt": 2},
        "hostname": "web-host",
        "log_directory": "/var/log/pods/shop_web_u-1",
        "dns_config": {
            "servers": ["10.0.0.10"],
            "searches": ["shop.svc.cluster.local"],
            "options": ["ndots:5"],
        },
        "port_mappings": [
            {"protocol": "UDP", "container_port": 53, "host_port": 5353, "host_ip": "127.0.0.1"}
        ],
        "labels": {
            "app": "web",
            "io.kubernetes.pod.uid": "u-1",
            "io.kubernetes.pod.name": "web",
            "io.kubernetes.pod.namespace": "shop",
        },
        "annotations": {"note": "x"},
        "linux": {
            "cgroup_parent": "/kubepods/podu-1",
            "sysctls": {"net.core.somaxconn": "1024"},
            "security_context": {
                "namespace_options": {"ipc": "NODE", "userns_options": {"mode": "NODE"}},
                "run_as_user": {},
                "supplemental_groups": ["7"],
                "seccomp": {},
            },
        },
    }


def test_empty_dns_is_sent_because_an_absent_one_means_the_hosts():
    plain = SandboxSpec(uid="u", name="p", namespace="n", attempt=0, log_directory="/l")
    assert sandbox_config(plain).HasField("dns_config")
    assert sandbox_config(plain).linux.security_context.HasField("namespace_options")
    assert sandbox_config(plain).linux.security_context.HasField("seccomp")


def test_a_pod_on_the_hosts_network_has_no_hostname_of_its_own():
    spec = SandboxSpec(
        uid="u", name="p", namespace="n", attempt=0, log_directory="/l", hostname="h", host_network=True
    )
    made = sandbox_config(spec)
    assert (made.hostname, made.linux.security_context.namespace_options.network) == ("", 2)


@pytest.mark.parametrize("host", [False, True])
def test_whether_a_sandbox_is_on_the_hosts_network_can_be_read_back_from_it(host):
    made = sandbox_config(replace(SANDBOX, host_network=host))
    assert annotation.host_network(made.annotations) is host


def test_of_a_sandbox_of_another_agent_nothing_is_known_of_its_network():
    assert annotation.host_network({}) is None
    assert annotation.host_network({annotation.NETWORK: "moon"}) is None


CONTAINER = ContainerSpec(
    name="main",
    attempt=3,
    image="sha256:" + "ab" * 32,
    image_asked="shop/web:1",
    command=("/bin/web",),
    args=("-v",),
    working_dir="/srv",
    env=(EnvironmentVariable("B", "2"), EnvironmentVariable("A", "\u00fc")),
    labels=(("io.kubernetes.container.name", "main"),),
    annotations=(("io.kubernetes.container.hash", "1f"),),
    log_path="main/3.log",
    stdin=True,
    stdin_once=True,
    tty=True,
    user_name="app",
    group=7,
    namespaces=Namespaces(
        pid=NamespaceMode.TARGET,
        target_id="containerd://" + "cd" * 32,
        users=(IdMapping(host_id=65536, length=65536),),
    ),
    security=Security(
        read_only_root=True,
        no_new_privileges=True,
        add_capabilities=("NET_ADMIN",),
        drop_capabilities=("ALL",),
        strict_groups=True,
        selinux=SeLinux(level="s0:c1"),
        seccomp=SecurityProfile(kind=ProfileKind.LOCALHOST, ref="/profiles/a.json"),
        apparmor=SecurityProfile(kind=ProfileKind.LOCALHOST, ref="web"),
        masked_paths=("/proc/kcore",),
        readonly_paths=("/proc/sys",),
    ),
    resources=Resources(
        cpu_period_us=100000,
        cpu_quota_us=50000,
        cpu_shares=102,
        memory_limit_bytes=1 << 20,
        oom_score_adj=999,
        hugepage_limits=(("2MB", 0),),
        unified=(("memory.oom.group", "1"),),
    ),
    mounts=(
        Mount(
            container_path="/data",
            host_path="/srv/data",
            read_only=True,
            propagation=MountPropagation.HOST_TO_CONTAINER,
        ),
        Mount(container_path="/model", image="shop/model:2", image_sub_path="x"),
    ),
    devices=(Device(container_path="/dev/x", host_path="/dev/sdx"),),
    cdi_devices=("vendor.test/gpu=0",),
    stop_signal="SIGUSR1",
)


def test_a_container_is_asked_for_with_everything_in_its_spec():
    made = as_json(container_config(CONTAINER, SANDBOX))
    assert made["annotations"].pop(annotation.SPEC) == annotation.digest(CONTAINER)
    mapping = [{"host_id": 65536, "length": 65536}]
    assert made.pop("linux") == {
        "resources": {
            "cpu_period": "100000",
            "cpu_quota": "50000",
            "cpu_shares": "102",
            "memory_limit_in_bytes": "1048576",
            "oom_score_adj": "999",
            "hugepage_limits": [{"page_size": "2MB"}],
            "unified": {"memory.oom.group": "1"},
        },
        "security_context": {
            "capabilities": {"add_capabilities": ["NET_ADMIN"], "drop_capabilities": ["ALL"]},
            "namespace_options": {
                "pid": "TARGET",
                "target_id": "cd" * 32,
                "userns_options": {"uids": mapping, "gids": mapping},
            },
            "selinux_options": {"level": "s0:c1"},
            "run_as_username": "app",
            "run_as_group": {"value": "7"},
            "readonly_rootfs": True,
            "apparmor_profile": "localhost/web",
            "no_new_privs": True,
            "masked_paths": ["/proc/kcore"],
            "readonly_paths": ["/proc/sys"],
            "seccomp": {"profile_type": "Localhost", "localhost_ref": "/profiles/a.json"},
            "apparmor": {"profile_type": "Localhost", "localhost_ref": "web"},
            "supplemental_groups_policy": "Strict",
        },
    }
    shifted = {"uidMappings": mapping, "gidMappings": mapping}
    assert made["mounts"] == [
        {
            "container_path": "/data",
            "host_path": "/srv/data",
            "readonly": True,
            "propagation": "PROPAGATION_HOST_TO_CONTAINER",
            **shifted,
        },
        {"container_path": "/model", "image": {"image": "shop/model:2"}, "image_sub_path": "x", **shifted},
    ]
    assert made["image"] == {"image": "sha256:" + "ab" * 32, "user_specified_image": "shop/web:1"}
    assert (made["command"], made["args"], made["working_dir"]) == (["/bin/web"], ["-v"], "/srv")
    assert made["stop_signal"] == "SIGUSR1"
    assert made["devices"] == [{"container_path": "/dev/x", "host_path": "/dev/sdx", "permissions": "mrw"}]
    assert made["CDI_devices"] == [{"name": "vendor.test/gpu=0"}]
    assert (made["stdin"], made["stdin_once"], made["tty"]) == (True, True, True)
    assert made["metadata"] == {"name": "main", "attempt": 3}


def test_the_environment_keeps_its_order_and_is_bytes():
    envs = container_config(CONTAINER, SANDBOX).envs
    assert [(one.key, one.value) for one in envs] == [("B", b"2"), ("A", b"\xc3\xbc")]


def test_a_number_goes_before_a_users_name():
    spec = ContainerSpec(name="c", attempt=0, image="i", log_path="l", user=0, user_name="app")
    made = container_config(spec, SANDBOX).linux.security_context
    assert (made.HasField("run_as_user"), made.run_as_user.value, made.run_as_username) == (True, 0, "")


def test_a_container_is_in_its_sandboxs_network():
    on_host = SandboxSpec(uid="u", name="p", namespace="n", attempt=0, log_directory="/l", host_network=True)
    spec = ContainerSpec(name="c", attempt=0, image="i", log_path="l")
    assert container_config(spec, on_host).linux.security_context.namespace_options.network == 2


def test_a_profile_that_is_no_files_has_no_reference():
    security = Security(seccomp=SecurityProfile(kind=ProfileKind.UNCONFINED, ref="/left/over"))
    spec = ContainerSpec(name="c", attempt=0, image="i", log_path="l", security=security)
    assert container_config(spec, SANDBOX).linux.security_context.seccomp.localhost_ref == ""


def test_a_signal_without_such_a_name_is_refused():
    spec = ContainerSpec(name="c", attempt=0, image="i", log_path="l", stop_signal="SIGNOTHING")
    with pytest.raises(RejectedError) as refused:
        container_config(spec, SANDBOX)
    assert "container c" in str(refused.value)
    assert "SIGNOTHING" in str(refused.value)
