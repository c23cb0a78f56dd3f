"""Rights: users, groups, profiles, namespaces, kernel parameters."""

import itertools

import msgspec
import pytest

from actors.pod.spec.containerconfig import container_spec, sandbox_spec
from actors.pod.spec.identity import go_json, handler_fields
from actors.pod.spec.lookup import Lookups
from actors.pod.spec.problem import ConfigProblem
from actors.pod.spec.security import MASKED, READ_ONLY, RunImage
from actors.rules.container.sysctl import SAFE, forbidden_sysctl
from api.kube.objects.container import EphemeralContainer, LifecycleHandler
from api.kube.validation.security import dotted
from api.ports.confinement import IdMapping, NamespaceMode, ProfileKind, SecurityProfile
from api.ports.node import NodeFacts
from api.ports.runtime import RuntimeHandler
from tests.unit.actors.pods import from_fields

NODE = NodeFacts(confined=True, root_dir="/r", apparmor=True, strict_groups=True)
OWN_USERS = (IdMapping(host_id=65536, length=65536),)


def pod_of(own=None, pods=None, annotations=None, **spec):
    return from_fields(
        {"securityContext": own or {}}, annotations=annotations, securityContext=pods or {}, **spec
    )


def made(pod, node=NODE, **more):
    return container_spec(pod, pod.spec.containers[0], 0, node, **more)


def refused(pod, node=NODE, **more):
    found = made(pod, node, **more)
    assert isinstance(found, ConfigProblem), found
    assert found.reason == "CreateContainerConfigError"
    return found.message


@pytest.mark.parametrize(
    ("own", "pods", "image", "user", "name", "group"),
    [
        ({}, {}, None, None, "", None),
        ({}, {}, RunImage(ref="i"), 0, "", None),
        ({}, {}, RunImage(ref="i", user=0), 0, "", None),
        ({}, {}, RunImage(ref="i", user=5), 5, "", None),
        ({}, {}, RunImage(ref="i", user_name="www"), None, "www", None),
        ({}, {}, RunImage(ref="i", user=5, user_name="www"), 5, "", None),
        ({}, {"runAsUser": 7, "runAsGroup": 8}, RunImage(ref="i", user_name="www"), 7, "", 8),
        ({"runAsUser": 0}, {"runAsUser": 7, "runAsGroup": 8}, RunImage(ref="i", user=5), 0, "", 8),
        ({"runAsGroup": 9}, {"runAsGroup": 8}, RunImage(ref="i", user_name="www"), None, "www", 9),
    ],
)
def test_whom_a_container_runs_as(own, pods, image, user, name, group):
    spec = made(pod_of(own, pods), image=image)
    assert (spec.user, spec.user_name, spec.group) == (user, name, group)


@pytest.mark.parametrize(
    ("own", "pods", "image", "why"),
    [
        ({"runAsNonRoot": True, "runAsUser": 0}, {}, RunImage(ref="i", user=5), "runAsUser breaks non-root policy"),
        ({}, {"runAsNonRoot": True, "runAsUser": 0}, RunImage(ref="i", user=5), "runAsUser breaks non-root policy"),
        ({"runAsNonRoot": True}, {}, RunImage(ref="i", user_name="www"), "non-numeric user (www)"),
        ({"runAsNonRoot": True}, {}, RunImage(ref="i", user=0), "image will run as root"),
        ({"runAsNonRoot": True}, {}, RunImage(ref="i"), "image will run as root"),
        ({"runAsNonRoot": True}, {}, None, "image will run as root"),
        ({"runAsNonRoot": True}, {}, RunImage(ref="i", user=1 << 31), "user id 2147483648 is not valid"),
        ({"runAsNonRoot": True}, {}, RunImage(ref="i", user=-1), "user id -1 is not valid"),
    ],
)  # fmt: skip
def test_who_must_not_be_root_is_refused_where_that_is_not_sure(own, pods, image, why):
    message = refused(pod_of(own, pods), image=image)
    assert why in message
    assert '(pod: "p_n(u1)", container: c)' in message


@pytest.mark.parametrize(
    ("own", "pods", "image"),
    [
        ({"runAsNonRoot": True, "runAsUser": 1}, {}, RunImage(ref="i")),
        ({"runAsNonRoot": True}, {"runAsUser": 1}, RunImage(ref="i", user_name="www")),
        ({"runAsNonRoot": True}, {}, RunImage(ref="i", user=(1 << 31) - 1)),
        ({"runAsNonRoot": False, "runAsUser": 0}, {"runAsNonRoot": True}, RunImage(ref="i")),
    ],
)
def test_who_is_surely_not_root_is_let_run(own, pods, image):
    assert not isinstance(made(pod_of(own, pods), image=image), ConfigProblem)


def local(name):
    return {"type": "Localhost", "localhostProfile": name}


@pytest.mark.parametrize(
    ("own", "pods", "default", "profile"),
    [
        (None, None, False, (ProfileKind.UNCONFINED, "")),
        (None, None, True, (ProfileKind.RUNTIME_DEFAULT, "")),
        ({"type": "Unconfined"}, {"type": "RuntimeDefault"}, True, (ProfileKind.UNCONFINED, "")),
        (None, {"type": "RuntimeDefault"}, False, (ProfileKind.RUNTIME_DEFAULT, "")),
        (local("a/b.json"), None, False, (ProfileKind.LOCALHOST, "/r/seccomp/a/b.json")),
        (local("./a"), None, False, (ProfileKind.LOCALHOST, "/r/seccomp/a")),
    ],
)
def test_which_seccomp_profile_counts(own, pods, default, profile):
    pod = pod_of({"seccompProfile": own} if own else {}, {"seccompProfile": pods} if pods else {})
    node = msgspec.structs.replace(NODE, seccomp_default=default)
    found = made(pod, node).security.seccomp
    assert (found.kind, found.ref) == profile
    assert sandbox_spec(pod, 0, node).security.seccomp == SecurityProfile(kind=ProfileKind.RUNTIME_DEFAULT)


@pytest.mark.parametrize("name", ["", "/etc/passwd", "..", "../x", "a/../../x", "a/..", ".", "a/../b"])
def test_a_seccomp_profile_outside_of_its_folder_is_refused(name):
    refused(pod_of({"seccompProfile": local(name)}))


def test_an_unknown_kind_of_profile_is_refused():
    for field in ("seccompProfile", "appArmorProfile"):
        assert "unknown" in refused(pod_of({field: {"type": "Magic"}}))
    assert "must be set" in refused(pod_of({"appArmorProfile": local(" ")}))


OLD = "container.apparmor.security.beta.kubernetes.io/c"


@pytest.mark.parametrize(
    ("own", "old", "pods", "profile"),
    [
        (None, "", None, None),
        (None, "", {"type": "RuntimeDefault"}, (ProfileKind.RUNTIME_DEFAULT, "")),
        (None, "unconfined", {"type": "RuntimeDefault"}, (ProfileKind.UNCONFINED, "")),
        (None, "runtime/default", None, (ProfileKind.RUNTIME_DEFAULT, "")),
        (None, "localhost/k8s/x", None, (ProfileKind.LOCALHOST, "k8s/x")),
        (local("mine"), "unconfined", {"type": "RuntimeDefault"}, (ProfileKind.LOCALHOST, "mine")),
    ],
)
def test_which_apparmor_profile_counts(own, old, pods, profile):
    pod = pod_of(
        {"appArmorProfile": own} if own else {},
        {"appArmorProfile": pods} if pods else {},
        {OLD: old} if old else {},
    )
    found = made(pod).security.apparmor
    assert (found and (found.kind, found.ref)) == profile


@pytest.mark.parametrize("text", ["localhost/", "localhost", "docker/default"])
def test_an_old_annotation_that_says_nothing_is_refused(text):
    assert "invalid AppArmor profile" in refused(pod_of(annotations={OLD: text}))


@pytest.mark.parametrize(
    ("profile", "reason"), [("RuntimeDefault", "AppArmor"), ("Unconfined", ""), ("", "")]
)
def test_a_node_without_apparmor_runs_only_who_asks_for_none(profile, reason):
    pod = pod_of({"appArmorProfile": {"type": profile}} if profile else {})
    found = sandbox_spec(pod, 0, msgspec.structs.replace(NODE, apparmor=False))
    assert (found.reason if isinstance(found, ConfigProblem) else "") == reason


@pytest.mark.parametrize(
    ("proc_mount", "masked", "readonly"),
    [("", MASKED, READ_ONLY), ("Default", MASKED, READ_ONLY), ("Unmasked", (), ())],
)
def test_what_of_proc_is_hidden(proc_mount, masked, readonly):
    security = made(pod_of({"procMount": proc_mount})).security
    assert (security.masked_paths, security.readonly_paths) == (masked, readonly)
    assert "procMount" in refused(pod_of({"procMount": "Odd"}))


@pytest.mark.parametrize(("allow", "no_new"), [(None, False), (True, False), (False, True)])
def test_only_an_explicit_false_keeps_privileges_from_growing(allow, no_new):
    own = {} if allow is None else {"allowPrivilegeEscalation": allow}
    assert made(pod_of(own)).security.no_new_privileges is no_new


def test_volume_groups_stand_last_in_a_container_and_before_the_pods_in_a_sandbox():
    pod = pod_of(pods={"fsGroup": 1, "supplementalGroups": [2, 3]})
    assert made(pod, volume_groups=(9,)).security.supplemental_groups == (1, 2, 3, 9)
    box = sandbox_spec(pod, 0, NODE, volume_groups=(9,))
    assert box.security.supplemental_groups == (1, 9, 2, 3)


def test_strict_groups_need_a_runtime_that_honours_them():
    pod = pod_of(pods={"supplementalGroupsPolicy": "Strict"})
    assert made(pod).security.strict_groups
    weak = msgspec.structs.replace(NODE, strict_groups=False)
    assert sandbox_spec(pod, 0, weak).reason == "SupplementalGroupsPolicyNotSupported"
    assert not made(pod_of(pods={"supplementalGroupsPolicy": "Merge"}), weak).security.strict_groups
    assert "unsupported" in refused(pod_of(pods={"supplementalGroupsPolicy": "Odd"}))


@pytest.mark.parametrize(
    ("host_pid", "share", "host_ipc", "target"),
    list(itertools.product([False, True], [False, True], [False, True], ["", "t1"])),
)
def test_namespaces(host_pid, share, host_ipc, target):
    pod = pod_of(hostPID=host_pid, shareProcessNamespace=share, hostIPC=host_ipc)
    found = made(pod, target_id=target).namespaces
    if host_pid:
        expected = NamespaceMode.NODE
    elif share:
        expected = NamespaceMode.POD
    else:
        expected = NamespaceMode.TARGET if target else NamespaceMode.CONTAINER
    assert found.pid is expected
    assert found.target_id == (target if expected is NamespaceMode.TARGET else "")
    assert found.ipc is (NamespaceMode.NODE if host_ipc else NamespaceMode.POD)
    if not target:
        assert sandbox_spec(pod, 0, NODE).namespaces == found


def test_a_pod_without_a_security_context_keeps_its_namespaces():
    pod = pod_of(hostNetwork=True, hostPID=True)
    pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, security_context=None))
    box = sandbox_spec(pod, 0, NODE)
    assert (box.host_network, box.namespaces.pid) == (True, NamespaceMode.NODE)


def test_an_ephemeral_container_needs_the_one_that_it_looks_into():
    looker = EphemeralContainer(name="e", image="x", target_container_name="c")
    pod = pod_of()
    found = container_spec(pod, looker, 0, NODE)
    assert isinstance(found, ConfigProblem)
    assert found.message == "unable to find target container c"
    assert container_spec(pod, looker, 0, NODE, target_id="i").namespaces.target_id == "i"


def test_users_of_its_own_need_a_handler_that_has_them_and_ids():
    able = msgspec.structs.replace(NODE, handlers=(RuntimeHandler(name="able", user_namespaces=True),))
    pod = pod_of(hostUsers=False, runtimeClassName="able")
    assert sandbox_spec(pod, 0, able, users=OWN_USERS).namespaces.users == OWN_USERS
    assert made(pod, able, users=OWN_USERS).namespaces.users == OWN_USERS
    assert "no user ids" in sandbox_spec(pod, 0, able).message
    plain = sandbox_spec(pod_of(hostUsers=False), 0, able, users=OWN_USERS)
    assert plain.message.endswith(", runtime does not support user namespaces")


def test_a_runtime_class_is_its_handlers_name_only_where_nobody_could_look_it_up():
    pod = pod_of(runtimeClassName="kata")
    assert sandbox_spec(pod, 0, NODE).runtime_handler == "kata"
    assert sandbox_spec(pod, 0, NODE, lookups=Lookups(handler="kata-fc")).runtime_handler == "kata-fc"


# kernel parameters


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("net/ipv4/conf/eth0.1/forwarding", "net.ipv4.conf.eth0/1.forwarding"),
        ("net.ipv4.conf.eth0/1.forwarding", "net.ipv4.conf.eth0/1.forwarding"),
        ("kernel.sem", "kernel.sem"),
    ],
)
def test_kernel_parameters_are_written_with_dots(written, name):
    assert dotted(written) == name


@pytest.mark.parametrize(
    ("name", "network", "ipc", "allowed", "forbidden"),
    [
        *((name, False, False, (), False) for name in sorted(SAFE)),
        ("kernel.panic", False, False, (), True),
        ("kernel.msgmax", False, False, (), True),
        ("kernel.msgmax", False, False, ("kernel.msg*",), False),
        ("kernel.msgmax", False, True, ("kernel.msg*",), True),
        ("kernel.sem", False, True, ("kernel.sem",), True),
        ("kernel.shm_rmid_forced", False, True, (), True),
        ("fs.mqueue.msg_max", False, True, ("fs.mqueue.*",), True),
        ("net.core.somaxconn", False, False, ("net.core.somaxconn",), False),
        ("net.core.somaxconn2", False, False, ("net.core.somaxconn",), True),
        ("net.ipv4.tcp_syncookies", True, False, (), True),
    ],
)
def test_which_kernel_parameters_a_pod_may_set(name, network, ipc, allowed, forbidden):
    why = forbidden_sysctl(name, host_network=network, host_ipc=ipc, allowed=allowed)
    assert bool(why) is forbidden
    assert not forbidden or name in why


# bookkeeping


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        ({"exec": {"command": ["a"]}}, '{"exec":{"command":["a"]}}'),
        ({"exec": {}}, '{"exec":{}}'),
        (
            {"httpGet": {"port": "web", "path": "/x?a=1&b", "scheme": "HTTPS", "host": "h"}},
            '{"httpGet":{"path":"/x?a=1\\u0026b","port":"web","host":"h","scheme":"HTTPS"}}',
        ),
        (
            {"httpGet": {"port": 0, "httpHeaders": [{"name": "A", "value": "1"}]}},
            '{"httpGet":{"port":0,"httpHeaders":[{"name":"A","value":"1"}]}}',
        ),
        ({"tcpSocket": {"port": 80}}, '{"tcpSocket":{"port":80}}'),
        ({"sleep": {"seconds": 0}}, '{"sleep":{"seconds":0}}'),
        ({}, "{}"),
    ],
)
def test_a_hook_is_written_as_a_kubelet_writes_it(handler, text):
    assert go_json(handler_fields(msgspec.convert(handler, LifecycleHandler))) == text
