"""A node with containers of a control plane of today: what users, controllers and the scheduler do with its pods."""

import contextlib

import pytest

from api.ports.kube import ObjectPath
from tests.harness.agent.agent import NODE
from tests.harness.agent.house import FOREVER
from tests.harness.cluster.clusteradmin import ClusterAdmin
from tests.harness.cluster.member import NODE_PATH, PODS, ContainerdMember, kubectl, pod_path
from tests.harness.cri.image import BUSYBOX_NAME
from tests.harness.wait import until

pytestmark = [pytest.mark.real, pytest.mark.optional]

DEPLOYMENTS = ObjectPath(api_version="apps/v1", plural="deployments", namespace="default")
CLASSES = ObjectPath(api_version="node.k8s.io/v1", plural="runtimeclasses")


@pytest.fixture(scope="module")
def admin(full_control_plane):
    with contextlib.closing(ClusterAdmin(full_control_plane.admin_kubeconfig)) as found:
        yield found


@pytest.fixture
def member(tmp_path, full_control_plane, admin, containerd):
    agent = ContainerdMember(tmp_path / "agent", containerd).join(
        full_control_plane.node_kubeconfig(NODE), admin
    )
    agent.start()
    yield agent
    agent.leave()


def test_a_deployment_is_scheduled_here_runs_scales_and_goes(member, full_control_plane):
    container = {"name": "main", "image": BUSYBOX_NAME, "command": ["sh", "-c", FOREVER]}
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "containers": [container],
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
        },
    }
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    member.admin.create(
        DEPLOYMENTS,
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec},
    )
    path = ObjectPath(api_version="apps/v1", plural="deployments", namespace="default", name="web")

    def ready():
        return member.admin.read(path)["status"].get("readyReplicas", 0)

    try:
        until(lambda: ready() == 2, "both replicas are ready", 60.0, member._scene)
        table = kubectl(full_control_plane, "get", "pods,nodes", "-o", "wide")
        assert table.count(" Running ") == 2, table
        assert f"node/{NODE} " in table
        assert " Ready " in table
        for pod in member.admin.read(PODS)["items"]:
            name = pod["metadata"]["name"]
            until(lambda name=name: "Started" in member.events(name), f"{name} has its events", 20.0)
            assert "Started " in kubectl(full_control_plane, "describe", "pod", name)
        member.admin.patch(path, {"spec": {"replicas": 1}})
        until(lambda: len(member.admin.read(PODS)["items"]) == 1, "one of them goes", 30.0, member._scene)
    finally:
        member.admin.delete(path)
    until(lambda: not member.admin.read(PODS)["items"], "all of them go", 30.0, member._scene)
    member.until_empty()


def test_kubectl_runs_shows_and_deletes_a_pod(member, full_control_plane):
    kubectl(
        full_control_plane, "run", "job", f"--image={BUSYBOX_NAME}", "--restart=Never", "--overrides",
        '{"spec": {"automountServiceAccountToken": false}}', "--command", "--", "sh", "-c", "echo hello; exit 3",
    )  # fmt: skip
    member.until_phase("job", "Failed", 60.0)
    assert " Error " in kubectl(full_control_plane, "get", "pod", "job")
    told = kubectl(full_control_plane, "describe", "pod", "job")
    assert "Exit Code:    3" in told
    for reason in ("Scheduled", "Pulled", "Created", "Started"):
        until(lambda reason=reason: reason in member.events("job"), f"an event {reason}", 10.0)
    assert "Successfully assigned" in told
    node = kubectl(full_control_plane, "describe", "node", NODE)
    assert "Starting kubelet." in node
    kubectl(full_control_plane, "delete", "pod", "job", "--wait=true", "--timeout=30s")
    assert member.phase("job") == "absent"


def test_an_ephemeral_container_joins_a_running_pod(member):
    member.create("web")
    member.until_phase("web", "Running", 60.0)
    debug = {"name": "debug", "image": BUSYBOX_NAME, "command": ["sh", "-c", "exit 5"]}
    member.admin.patch(pod_path("web", "ephemeralcontainers"), {"spec": {"ephemeralContainers": [debug]}})

    def ended():
        rows = member.shown("web")["status"].get("ephemeralContainerStatuses") or [{}]
        return rows[0].get("state", {}).get("terminated", {}).get("exitCode")

    until(lambda: ended() == 5, "it ran", 30.0, member._scene)
    assert member.shown("web")["status"]["containerStatuses"][0]["restartCount"] == 0


def test_a_resize_changes_a_running_container(member):
    sizes = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
    body = member.body("web")
    body["spec"]["containers"][0]["resources"] = sizes
    member.admin.create(PODS, body)
    member.until_phase("web", "Running", 60.0)
    before = member.shown("web")["status"]["containerStatuses"][0]["containerID"]
    larger = {"requests": {"cpu": "150m", "memory": "32Mi"}, "limits": {"cpu": "300m", "memory": "64Mi"}}
    member.admin.patch(
        pod_path("web", "resize"), {"spec": {"containers": [{"name": "main", "resources": larger}]}}
    )

    def given():
        status = member.shown("web")["status"]["containerStatuses"][0]
        return status.get("resources", {}).get("limits", {}).get("cpu")

    until(lambda: given() == "300m", "it has more", 30.0, member._scene)
    status = member.shown("web")["status"]["containerStatuses"][0]
    assert (status["containerID"], status["restartCount"]) == (before, 0)
    until(
        lambda: (
            member.shown("web")["status"].get("observedGeneration")
            == member.shown("web")["metadata"]["generation"]
        ),
        "the status is of this generation",
        10.0,
    )


def test_a_readiness_gate_is_for_others_to_open(member):
    member.create("web", readinessGates=[{"conditionType": "example.com/open"}])
    member.until_phase("web", "Running", 60.0)

    def ready():
        conditions = member.shown("web")["status"]["conditions"]
        return next((one for one in conditions if one["type"] == "Ready"), {})

    until(
        lambda: ready().get("reason") == "ReadinessGatesNotReady",
        "it waits for its gate",
        20.0,
        member._scene,
    )
    gate = {"type": "example.com/open", "status": "True"}
    member.admin.patch(pod_path("web", "status"), {"status": {"conditions": [gate]}})
    until(lambda: ready().get("status") == "True", "it is ready", 20.0, member._scene)
    kept = [one for one in member.shown("web")["status"]["conditions"] if one["type"] == "example.com/open"]
    assert [one["status"] for one in kept] == ["True"]


def test_labels_and_taints_of_others_stay_and_count(member):
    taint = {"key": "example.com/busy", "value": "yes", "effect": "NoExecute"}
    member.until_ready()
    member.create("web", terminationGracePeriodSeconds=1)
    member.until_phase("web", "Running", 60.0)
    member.admin.patch(NODE_PATH, {"metadata": {"labels": {"example.com/zone": "a"}}})
    member.create("choosy", nodeSelector={"example.com/zone": "a"})
    member.until_phase("choosy", "Running", 60.0)
    member.admin.patch(NODE_PATH, {"spec": {"taints": [taint]}})
    until(lambda: member.phase("web") == "absent", "the taint has it go", 60.0, member._scene)
    node = member.node()
    assert node["metadata"]["labels"]["example.com/zone"] == "a"
    assert taint["key"] in [one["key"] for one in node["spec"]["taints"]]


def test_a_runtime_class_has_its_handler_run_the_pod(member):
    member.admin.create(CLASSES, {"metadata": {"name": "plain"}, "handler": "runc"})
    try:
        member.create("web", runtimeClassName="plain")
        member.until_phase("web", "Running", 60.0)
    finally:
        member.admin.delete(ObjectPath(api_version="node.k8s.io/v1", plural="runtimeclasses", name="plain"))
    member.create("other")
    member.until_phase("other", "Running", 60.0)


def test_a_pod_is_deleted_within_its_grace_and_by_force(member):
    member.create(
        "polite", "trap 'exit 0' TERM; while :; do sleep 0.1; done", terminationGracePeriodSeconds=30
    )
    member.create("deaf", "trap '' TERM; while :; do sleep 0.1; done", terminationGracePeriodSeconds=3)
    for name in ("polite", "deaf"):
        member.until_phase(name, "Running", 60.0)
    member.delete("polite")
    until(lambda: member.phase("polite") == "absent", "it went at once", 10.0, member._scene)
    member.delete("deaf")
    until(lambda: member.phase("deaf") == "absent", "it went after its grace", 20.0, member._scene)
    member.create("forced", "trap '' TERM; while :; do sleep 0.1; done", terminationGracePeriodSeconds=3)
    member.until_phase("forced", "Running", 60.0)
    member.delete("forced", 0)
    assert member.phase("forced") == "absent"
    member.until_empty()
