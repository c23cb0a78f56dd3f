"""Nothing that a pod asks for is dropped: what is not honoured is named."""

import msgspec
import pytest

from actors.pod.support import CONFINED, HONOURED, unsupported_paths
from api.objects.pod import Pod
from api.poddefault import default_pod


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
        ({"initContainers": [{"name": "i", "image": "x"}]}, ("spec.initContainers",)),
        ({"volumes": [{"name": "v", "emptyDir": {}}]}, ("spec.volumes[0].emptyDir",)),
        (
            {"volumes": [{"name": "v"}, {"name": "w", "hostPath": {"path": "/"}}]},
            ("spec.volumes[0].emptyDir", "spec.volumes[1].hostPath"),
        ),
        ({"hostUsers": False}, ("spec.hostUsers",)),
        ({"hostUsers": True}, ()),
        ({"activeDeadlineSeconds": 5}, ("spec.activeDeadlineSeconds",)),
        ({"securityContext": {"fsGroup": 0}}, ("spec.securityContext.fsGroup",)),
        ({"securityContext": {"runAsUser": 0}}, ()),
        ({"dnsPolicy": "None"}, ("spec.dnsPolicy",)),
        ({"shareProcessNamespace": True}, ("spec.shareProcessNamespace",)),
        ({"shareProcessNamespace": False}, ()),
        ({"nodeSelector": {"a": "b"}}, ("spec.nodeSelector",)),
        ({"serviceAccountName": "robot"}, ("spec.serviceAccount", "spec.serviceAccountName")),
    ],
)
def test_each_field_of_a_pod_that_is_not_honoured_is_named_with_its_path(spec, paths):
    assert asks(**spec) == paths


@pytest.mark.parametrize(
    ("container", "path"),
    [
        ({"livenessProbe": {"exec": {"command": ["x"]}}}, "livenessProbe"),
        ({"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}, "lifecycle"),
        (
            {"env": [{"name": "A"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]},
            "env[1].valueFrom",
        ),
        ({"envFrom": [{"prefix": "x"}]}, "envFrom"),
        ({"resources": {"limits": {"cpu": "1"}}}, "resources.limits"),
        (
            {"securityContext": {"allowPrivilegeEscalation": False}},
            "securityContext.allowPrivilegeEscalation",
        ),
        ({"securityContext": {"privileged": True}}, "securityContext.privileged"),
        ({"stdin": True}, "stdin"),
        ({"terminationMessagePolicy": "FallbackToLogsOnError"}, "terminationMessagePolicy"),
        ({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, "volumeMounts"),
    ],
)
def test_each_field_of_a_container_that_is_not_honoured_is_named_with_its_path(container, path):
    assert asks(container) == (f"spec.containers[0].{path}",)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"initContainers": [{"name": "i", "image": "x"}]}, "spec.initContainers"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "spec.volumes[0].hostPath"),
        ({"hostUsers": False}, "spec.hostUsers"),
        ({"resources": {"limits": {"cpu": "1"}}}, "spec.resources"),
        ({"overhead": {"example.com/fuel": "1"}}, "spec.overhead[example.com/fuel]"),
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
        ({"livenessProbe": {"exec": {"command": ["x"]}}}, "livenessProbe"),
        ({"lifecycle": {"stopSignal": "SIGUSR1"}}, "lifecycle"),
        ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}, "env[0].valueFrom.secretKeyRef"),
        ({"resources": {"limits": {"example.com/gpu": "1"}}}, "resources.limits[example.com/gpu]"),
        ({"resources": {"limits": {"ephemeral-storage": "1Gi"}}}, "resources.limits.ephemeral-storage"),
        ({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, "volumeMounts"),
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
    assert len(asks(container, **spec)) == 12


def test_every_row_of_the_tables_is_a_field_of_a_pod():
    for row in {**HONOURED, **CONFINED}:
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
