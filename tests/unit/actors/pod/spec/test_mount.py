"""Mounts, devices, ports, the downward API, and last words."""

import msgspec
import pytest

from actors.pod.spec.containerconfig import container_files, container_spec, sandbox_spec
from actors.pod.spec.ending import cut_message, termination_message, termination_message_call
from actors.pod.spec.mount import VolumePath, clean
from actors.pod.spec.problem import ConfigProblem
from api.ports.confinement import Device, Mount, MountPropagation
from api.ports.node import NodeFacts, NodeFiles
from api.ports.podfiles import ReadEnding
from api.ports.runtime import ANNOTATION_TERMINATION_PATH, ANNOTATION_TERMINATION_POLICY, RuntimeHandler
from tests.unit.actors.pods import from_fields, instance

IPS = ("10.0.0.7",)
ABLE = NodeFacts(
    confined=True,
    root_dir="/r",
    ips=("192.0.2.10",),
    handlers=(RuntimeHandler(name="", recursive_read_only_mounts=True),),
)
WEAK = msgspec.structs.replace(ABLE, handlers=())
VOLUMES = (
    VolumePath(volume="v", host_path="/h/v"),
    VolumePath(volume="ro", host_path="/h/ro", read_only=True),
)


def pod_of(container=None, others=(), **spec):
    return from_fields(container or {}, *others, labels={"UPPER": "x"}, **spec)


def made(pod, node=ABLE, ips=IPS, **more):
    return container_spec(pod, pod.spec.containers[0], 0, node, ips=ips, **{"volumes": VOLUMES, **more})


def mounted(mount, node=ABLE):
    found = made(pod_of({"volumeMounts": [{"name": "v", "mountPath": "/m", **mount}]}), node)
    return found if isinstance(found, ConfigProblem) else found.mounts[0]


@pytest.mark.parametrize(
    ("mode", "able", "outcome"),
    [
        # Read-write; read-only with propagation; read-only where the runtime can; where it cannot.
        ("", True, (False, False, False, False)),
        ("Disabled", True, (False, False, False, False)),
        ("IfPossible", True, ("error", "error", True, False)),
        ("Enabled", True, ("error", "error", True, "error")),
    ],
)
def test_mounts_below_a_read_only_mount(mode, able, outcome):
    cases = (
        ({}, ABLE),
        ({"readOnly": True, "mountPropagation": "HostToContainer"}, ABLE),
        ({"readOnly": True, "mountPropagation": "None"}, ABLE),
        ({"readOnly": True}, WEAK),
    )
    found = [mounted({"recursiveReadOnly": mode, **fields}, node) for fields, node in cases]
    shown = tuple("error" if isinstance(m, ConfigProblem) else m.recursive_read_only for m in found)
    assert shown == outcome


@pytest.mark.parametrize(
    ("mount", "expected"),
    [
        ({}, Mount(container_path="/m", host_path="/h/v")),
        ({"mountPath": "m"}, Mount(container_path="/m", host_path="/h/v")),
        ({"readOnly": True}, Mount(container_path="/m", host_path="/h/v", read_only=True)),
        ({"name": "ro"}, Mount(container_path="/m", host_path="/h/ro", read_only=True)),
        (
            {"mountPropagation": "HostToContainer"},
            Mount(container_path="/m", host_path="/h/v", propagation=MountPropagation.HOST_TO_CONTAINER),
        ),
        (
            {"mountPropagation": "Bidirectional"},
            Mount(container_path="/m", host_path="/h/v", propagation=MountPropagation.BIDIRECTIONAL),
        ),
    ],
)
def test_a_volume_in_a_container(mount, expected):
    assert mounted(mount) == expected


def test_what_is_not_there_or_not_known_is_refused():
    assert mounted({"name": "x"}).message == 'cannot find volume "x" to mount into container "c"'
    assert "unknown mountPropagation" in mounted({"mountPropagation": "Odd"}).message
    assert 'unknown recursive read-only mode "Odd"' in mounted({"recursiveReadOnly": "Odd"}).message
    found = made(pod_of({"volumeDevices": [{"name": "x", "devicePath": "/dev/x"}]}))
    assert found.message == 'cannot find volume "x" to map into container "c"'


def test_block_volumes_are_devices():
    devices = [{"name": "v", "devicePath": "/dev/a"}, {"name": "ro", "devicePath": "/dev/b"}]
    assert made(pod_of({"volumeDevices": devices})).devices == (
        Device(container_path="/dev/a", host_path="/h/v"),
        Device(container_path="/dev/b", host_path="/h/ro", permissions="r"),
    )


def test_volumes_come_first_then_hosts_then_last_words():
    paths = [
        m.container_path for m in made(pod_of({"volumeMounts": [{"name": "v", "mountPath": "/m"}]})).mounts
    ]
    assert paths == ["/m", "/etc/hosts", "/dev/termination-log"]


@pytest.mark.parametrize(
    ("container", "spec", "ips", "managed"),
    [
        ({}, {}, IPS, True),
        ({}, {}, (), False),
        ({}, {"hostNetwork": True}, (), True),
        ({"volumeMounts": [{"name": "v", "mountPath": "/etc/hosts"}]}, {}, IPS, False),
        ({"volumeMounts": [{"name": "v", "mountPath": "/etc//hosts/"}]}, {}, IPS, False),
        ({"volumeMounts": [{"name": "v", "mountPath": "/etc"}]}, {}, IPS, True),
    ],
)
def test_when_the_hosts_file_is_ours_it_is_mounted_and_written(container, spec, ips, managed):
    pod = pod_of(container, **spec)
    mounts = made(pod, ips=ips).mounts
    assert (Mount(container_path="/etc/hosts", host_path="/r/pods/u1/etc-hosts") in mounts) is managed
    files = container_files(pod, pod.spec.containers[0], 4, ABLE, NodeFiles(), ips)
    assert (files.hosts is not None) is managed
    assert (files.container, files.attempt, files.ending) == ("c", 4, True)


def test_on_a_node_with_selinux_our_own_files_are_relabelled():
    mounts = made(pod_of(), msgspec.structs.replace(ABLE, selinux=True)).mounts
    assert [m.selinux_relabel for m in mounts] == [True, True]


def test_plain_processes_have_no_files_of_their_own():
    plain = NodeFacts()
    pod = pod_of()
    assert container_files(pod, pod.spec.containers[0], 0, plain, NodeFiles(), IPS) is None
    assert made(pod, plain).mounts == ()


@pytest.mark.parametrize(
    ("path", "cleaned"),
    [("dev/log/", "/dev/log"), ("/a//b/../c", "/a/c"), ("//x", "/x"), ("/", "/"), ("../../x", "/x")],
)
def test_termination_paths_are_cleaned(path, cleaned):
    assert clean(path) == cleaned
    found = made(pod_of({"terminationMessagePath": path}))
    assert found.mounts[-1].container_path == cleaned
    assert dict(found.annotations)[ANNOTATION_TERMINATION_PATH] == path


@pytest.mark.parametrize(
    ("ports", "kept"),
    [
        ([{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}], [0]),
        ([{"containerPort": 1}, {"containerPort": 1}], [0]),
        ([{"containerPort": 1}, {"containerPort": 1, "protocol": "UDP"}], [0, 1]),
        ([{"containerPort": 1}, {"containerPort": 1, "hostPort": 1}], [0, 1]),
        ([{"containerPort": 1, "hostIP": "::"}, {"containerPort": 1, "hostIP": "0.0.0.0"}], [0, 1]),
        ([{"name": "a", "containerPort": 1}, {"containerPort": 1}], [0, 1]),
    ],
)
def test_ports_that_are_alike_within_a_container_count_once(ports, kept):
    other = {"name": "d", "image": "x", "ports": [{"containerPort": 1}]}
    found = sandbox_spec(pod_of({"ports": ports}, [other]), 0, ABLE).ports
    assert len(found) == len(kept) + 1
    for index, mapping in zip(kept, found, strict=False):
        asked = ports[index]
        assert (mapping.container_port, mapping.protocol) == (
            asked["containerPort"],
            asked.get("protocol", "TCP"),
        )
        assert (mapping.host_port, mapping.host_ip) == (asked.get("hostPort", 0), asked.get("hostIP", ""))


# downward API


def value_of(source, pod=None, ips=IPS, node=ABLE, resources=None):
    pod = pod or pod_of({"env": [{"name": "A", "valueFrom": source}], "resources": resources or {}})
    found = made(pod, node, ips)
    return found.message if isinstance(found, ConfigProblem) else found.env[0].value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.labels['UPPER']", "x"),
        ("metadata.annotations['none']", ""),
        ("spec.nodeName", ""),
        ("status.podIP", "10.0.0.7"),
        ("metadata.labels", "unsupported fieldPath: metadata.labels"),
        ("status.phase", "unsupported fieldPath: status.phase"),
        ("", "unsupported fieldPath: "),
    ],
)
def test_fields_of_the_pod(path, value):
    assert value_of({"fieldRef": {"fieldPath": path}}) == value


def test_a_pod_without_addresses_yet_has_an_empty_one():
    assert value_of({"fieldRef": {"fieldPath": "status.podIP"}}, ips=()) == ""


NODE = msgspec.structs.replace(
    ABLE,
    allocatable_cpu_milli=1500,
    allocatable_memory_bytes=1000,
    allocatable_ephemeral_bytes=500,
)


@pytest.mark.parametrize(
    ("resources", "resource", "divisor", "value"),
    [
        ({"limits": {"cpu": "250m"}}, "limits.cpu", "", "1"),
        ({"limits": {"cpu": "250m"}}, "limits.cpu", "0", "1"),
        ({"limits": {"cpu": "250m"}}, "limits.cpu", "1m", "250"),
        ({"limits": {"memory": "1Mi"}}, "limits.memory", "1Ki", "1024"),
        ({"limits": {"memory": "1025"}}, "limits.memory", "1Ki", "2"),
        ({}, "limits.cpu", "", "2"),
        ({}, "limits.cpu", "1m", "1500"),
        ({}, "limits.memory", "", "1000"),
        ({"limits": {"memory": "0"}}, "limits.memory", "", "1000"),
        ({}, "limits.ephemeral-storage", "", "500"),
        ({}, "requests.cpu", "", "0"),
        ({}, "limits.hugepages-2Mi", "", "0"),
        ({"limits": {"hugepages-2Mi": "4Mi"}}, "requests.hugepages-2Mi", "1Mi", "4"),
        ({}, "limits.example.com/gpu", "", "unsupported container resource: limits.example.com/gpu"),
        ({}, "cpu", "", "unsupported container resource: cpu"),
    ],
)
def test_resources_of_a_container(resources, resource, divisor, value):
    source = {"resourceFieldRef": {"resource": resource, "divisor": divisor}}
    assert value_of(source, node=NODE, resources=resources) == value


def test_resources_of_another_container_are_found_by_its_name():
    source = {"resourceFieldRef": {"resource": "requests.memory", "containerName": "d"}}
    other = {"name": "d", "image": "x", "resources": {"requests": {"memory": "7"}}}
    env = {"env": [{"name": "A", "valueFrom": source}]}
    assert value_of({}, pod_of(env, [other])) == "7"
    assert value_of({}, pod_of(env)) == "container d not found"


def test_a_source_that_is_not_honoured_is_refused():
    assert "is not supported" in value_of({"secretKeyRef": {"name": "s", "key": "k"}})


# last words


def ended(
    code=1,
    reason="Error",
    policy="File",
    path="/dev/termination-log",
    state="exited",
    log="/l/n_p_u1/a/0.log",
):
    annotations = ((ANNOTATION_TERMINATION_PATH, path), (ANNOTATION_TERMINATION_POLICY, policy))
    return instance(
        "a", state, code=code, reason=reason, annotations=annotations, termination_log="/r/t", log_path=log
    )


FALLS = "FallbackToLogsOnError"


@pytest.mark.parametrize(
    ("asked", "call"),
    [
        ({}, ("/r/t", False)),
        ({"state": "running"}, None),
        ({"path": ""}, None),
        ({"policy": FALLS}, ("/r/t", True)),
        ({"policy": FALLS, "code": 0}, ("/r/t", False)),
        ({"policy": FALLS, "reason": "ContainerCannotRun"}, ("/r/t", False)),
        ({"policy": FALLS, "path": ""}, ("", True)),
        ({"policy": FALLS, "log": ""}, ("/r/t", False)),
        ({"policy": "odd"}, ("/r/t", False)),
    ],
)
def test_when_last_words_are_read_and_whether_the_log_stands_in(asked, call):
    found = termination_message_call("u1", ended(**asked))
    if call is None:
        assert found is None
    else:
        path, falls = call
        log = "/l/n_p_u1/a/0.log" if falls else ""
        assert found == ReadEnding(
            uid="u1", container="a", termination_log=path, log_path=log, fall_back=falls
        )


@pytest.mark.parametrize(
    ("runtime", "left", "both"),
    [("", "", ""), ("a", "", "a"), ("", "b", "b"), ("a", "b", "a: b")],
)
def test_what_the_runtime_says_and_what_was_left_are_joined(runtime, left, both):
    assert termination_message(runtime, left) == both


def test_messages_of_many_containers_share_the_room():
    assert len(cut_message("x" * 20_000, 1)) == 12_288
    assert len(cut_message("x" * 20_000, 5)) == 2457
    assert cut_message("\u00fc" * 10_000, 3) == "\u00fc" * 2048
    assert cut_message("\u00fc" * 10_000, 5) == "\u00fc" * 1228
    assert cut_message("short", 0) == "short"
