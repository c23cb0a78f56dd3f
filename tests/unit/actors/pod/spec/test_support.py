"""Nothing that a pod asks for is dropped: what is not honoured is named."""

import msgspec
import pytest

from actors.pod.spec.support import CONFINED, SUPPORTED, refused_host_image, unsupported_paths
from api.kube.objects.pod import Container, EphemeralContainer, Pod, PodSpec
from api.kube.poddefault import default_pod
from api.ports.runtime import HOST_IMAGE


def asks(container=None, *, confined=False, **spec):
    raw = {"spec": {"containers": [{"name": "a", "image": "x", **(container or {})}], **spec}}
    return unsupported_paths(default_pod(msgspec.convert(raw, Pod)), confined=confined)


def test_a_defaulted_plain_pod_asks_for_nothing_that_is_not_honoured():
    assert asks() == ()
    assert (
        asks({"ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "1"}]}, hostNetwork=True) == ()
    )


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ({"initContainers": [{"name": "i", "image": "x"}]}, ()),
        (
            {
                "initContainers": [
                    {
                        "name": "i",
                        "image": "x",
                        "restartPolicy": "Always",
                        "securityContext": {"windowsOptions": {"hostProcess": True}},
                    }
                ]
            },
            ("spec.initContainers[0].securityContext.windowsOptions",),
        ),
        ({"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]}, ()),
        (
            {"volumes": [{"name": "v", "emptyDir": {"medium": "HugePages"}}]},
            ("spec.volumes[0].emptyDir.medium",),
        ),
        (
            {
                "volumes": [
                    {"name": "v", "secret": {"secretName": "s"}},
                    {"name": "w", "hostPath": {"path": "/"}},
                ]
            },
            ("spec.volumes[0].secret",),
        ),
        ({"hostUsers": False}, ("spec.hostUsers",)),
        ({"hostUsers": True}, ()),
        ({"activeDeadlineSeconds": 5}, ()),
        ({"securityContext": {"fsGroup": 0}}, ("spec.securityContext.fsGroup",)),
        ({"securityContext": {"runAsUser": 0}}, ()),
        ({"dnsPolicy": "None"}, ("spec.dnsPolicy",)),
        ({"shareProcessNamespace": True}, ("spec.shareProcessNamespace",)),
        ({"shareProcessNamespace": False}, ()),
        ({"nodeSelector": {"a": "b"}}, ()),
        ({"serviceAccountName": "robot"}, ("spec.serviceAccount", "spec.serviceAccountName")),
    ],
)
def test_each_field_of_a_pod_that_is_not_honoured_is_named_with_its_path(spec, paths):
    assert asks(**spec) == paths


@pytest.mark.parametrize("confined", [False, True])
def test_limits_of_local_storage_and_extended_resources_are_honoured_on_every_runtime(confined):
    limits = {"ephemeral-storage": "1Gi", "example.com/gpu": "1"}
    container = {"resources": {"limits": limits, "requests": limits}}
    assert asks(container, confined=confined, overhead=limits) == ()
    assert asks(confined=confined, initContainers=[{"name": "i", "image": "x", **container}]) == ()


@pytest.mark.parametrize(
    ("container", "path"),
    [
        ({"lifecycle": {"stopSignal": "SIGINT"}}, "lifecycle.stopSignal"),
        (
            {"env": [{"name": "A"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
            "env[1].valueFrom.secretKeyRef",
        ),
        ({"envFrom": [{"prefix": "x"}]}, "envFrom"),
        ({"resources": {"limits": {"cpu": "1"}}}, "resources.limits.cpu"),
        ({"securityContext": {"capabilities": {"drop": ["ALL"]}}}, "securityContext.capabilities"),
        ({"securityContext": {"privileged": True}}, "securityContext.privileged"),
        ({"stdin": True}, "stdin"),
        ({"terminationMessagePolicy": "FallbackToLogsOnError"}, "terminationMessagePolicy"),
        ({"volumeDevices": [{"name": "v", "devicePath": "/v"}]}, "volumeDevices"),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}]},
            "volumeMounts[0].mountPropagation",
        ),
    ],
)
def test_each_field_of_a_container_that_is_not_honoured_is_named_with_its_path(container, path):
    assert asks(container) == (f"spec.containers[0].{path}",)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (
            {
                "initContainers": [
                    {"name": "i", "image": "x", "securityContext": {"windowsOptions": {"hostProcess": True}}}
                ]
            },
            "spec.initContainers[0].securityContext.windowsOptions",
        ),
        ({"volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]}, "spec.volumes[0].nfs"),
        (
            {"volumes": [{"name": "v", "emptyDir": {"medium": "HugePages"}}]},
            "spec.volumes[0].emptyDir.medium",
        ),
        ({"hostUsers": False}, "spec.hostUsers"),
        ({"resources": {"claims": [{"name": "gpu"}]}}, "spec.resources.claims"),
        ({"overhead": {"hugepages-2Mi": "2Mi"}}, "spec.overhead.hugepages-2Mi"),
        (
            {"securityContext": {"windowsOptions": {"hostProcess": True}}},
            "spec.securityContext.windowsOptions",
        ),
    ],
)
def test_what_is_not_honoured_even_where_containers_are_confined_is_named(spec, path):
    assert asks(confined=True, **spec) == (path,)


@pytest.mark.parametrize(
    ("container", "path"),
    [
        ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}, "env[0].valueFrom.secretKeyRef"),
        ({"resources": {"limits": {"kubernetes.io/gpu": "1"}}}, "resources.limits[kubernetes.io/gpu]"),
        ({"volumeDevices": [{"name": "v", "devicePath": "/v"}]}, "volumeDevices"),
    ],
)  # fmt: skip
def test_what_of_a_container_is_not_honoured_even_where_it_is_confined_is_named(container, path):
    assert asks(container, confined=True) == (f"spec.containers[0].{path}",)


def test_where_containers_are_confined_a_rich_pod_asks_for_nothing_that_is_not_honoured():
    container = {
        "env": [
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        ],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "4Mi"}},
        "securityContext": {"privileged": True, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
        "terminationMessagePath": "/x",
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    spec = {
        "dnsPolicy": "None",
        "hostname": "a",
        "securityContext": {"fsGroup": 0, "sysctls": [{"name": "a"}]},
    }
    assert asks(container, confined=True, **spec) == ()
    assert len(asks(container, **spec)) == 11


def test_an_ephemeral_container_may_ask_for_what_a_regular_one_may_and_no_more():
    looker = {"name": "e", "image": "x", "targetContainerName": "c"}
    plain = {"env": [{"name": "A", "value": "b"}], "workingDir": "/", "securityContext": {"runAsUser": 1}}
    assert asks(ephemeralContainers=[{**looker, **plain}]) == ()
    confined = {"stdin": True, "tty": True, "securityContext": {"capabilities": {"add": ["SYS_PTRACE"]}}}
    assert asks(confined=True, ephemeralContainers=[{**looker, **confined}]) == ()
    assert len(asks(ephemeralContainers=[{**looker, **confined}])) == 3
    probed = {"livenessProbe": {"exec": {"command": ["x"]}}, "ports": [{"containerPort": 1}]}
    found = asks(confined=True, ephemeralContainers=[{**looker, **probed}])
    assert found == ("spec.ephemeralContainers[0].livenessProbe", "spec.ephemeralContainers[0].ports")


def test_the_hosts_image_is_refused_to_every_kind_of_container():
    pod = default_pod(
        Pod(
            spec=PodSpec(
                containers=(Container(name="c", image="x"),),
                ephemeral_containers=(EphemeralContainer(name="e", image=HOST_IMAGE),),
            )
        )
    )
    assert "spec.ephemeralContainers[0].image" in refused_host_image(pod, "api", allowed=False)
    assert refused_host_image(pod, "api", allowed=True) == ""


def test_every_row_of_the_tables_is_a_field_of_a_pod():
    for row in {**SUPPORTED, **CONFINED}:
        kind = msgspec.inspect.type_info(Pod)
        for part in row.replace("[]", ".[]").split("."):
            if isinstance(kind, msgspec.inspect.UnionType):
                kind = next(k for k in kind.types if not isinstance(k, msgspec.inspect.NoneType))
            if part == "[]":
                kind = kind.item_type
                continue
            if isinstance(kind, msgspec.inspect.DictType):
                continue
            field = next((f for f in kind.fields if f.encode_name == part), None)
            assert field is not None, f"{row}: there is no {part}"
            kind = field.type


def test_an_init_container_gets_no_host_image_from_elsewhere_either():
    raw = {
        "containers": [{"name": "a", "image": "x"}],
        "initContainers": [{"name": "i", "image": "x"}, {"name": "j", "image": f"{HOST_IMAGE}:1"}],
    }
    pod = default_pod(msgspec.convert({"spec": raw}, Pod))
    assert refused_host_image(pod, "http", allowed=False).startswith("spec.initContainers[1].image: ")
    assert (
        refused_host_image(pod, "http", allowed=True) == refused_host_image(pod, "file", allowed=False) == ""
    )
