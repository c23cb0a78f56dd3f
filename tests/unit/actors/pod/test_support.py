"""Nothing that a pod asks for is dropped: what is not honoured is named."""

import msgspec
import pytest

from actors.pod.support import HONOURED, unsupported_paths
from api.objects.pod import Pod
from api.poddefault import default_pod


def asks(container=None, **spec):
    raw = {"spec": {"containers": [{"name": "a", "image": "x", **(container or {})}], **spec}}
    return unsupported_paths(default_pod(msgspec.convert(raw, Pod)))


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


def test_every_row_of_the_table_is_a_field_of_a_pod():
    for row in HONOURED:
        kind = msgspec.inspect.type_info(Pod)
        for part in row.replace("[]", ".[]").split("."):
            if isinstance(kind, msgspec.inspect.UnionType):
                kind = next(k for k in kind.types if not isinstance(k, msgspec.inspect.NoneType))
            if part == "[]":
                kind = kind.item_type
                continue
            field = next((f for f in kind.fields if f.encode_name == part), None)
            assert field is not None, f"{row}: there is no {part}"
            kind = field.type
