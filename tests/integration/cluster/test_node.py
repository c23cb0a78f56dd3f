"""The agent as a node of a real control plane, with the identity of a node: what `kubectl` would show of it."""

import os
import signal

import pytest

from api.ports.kube import ObjectPath
from tests.harness.agent.agent import NODE
from tests.harness.agent.house import FOREVER
from tests.harness.cluster.clusteradmin import ClusterAdmin
from tests.harness.cluster.member import LEASE, NODE_PATH, EmbeddedMember, pod_path
from tests.harness.wait import until

pytestmark = [pytest.mark.real, pytest.mark.optional]


@pytest.fixture
def member(tmp_path, control_plane, cluster_admin):
    agent = EmbeddedMember(tmp_path / "agent").join(control_plane.node_kubeconfig(NODE), cluster_admin)
    yield agent
    agent.leave()


def test_the_node_is_registered_ready_and_its_lease_renewed(member):
    member.start()
    member.until_ready()
    node = member.node()
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == NODE
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("embedded://")
    assert int(node["status"]["capacity"]["pods"]) == 110
    assert {one["type"] for one in node["status"]["addresses"]} == {"InternalIP", "Hostname"}
    assert {one["type"]: one["status"] for one in node["status"]["conditions"]} == {
        "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"
    }  # fmt: skip
    lease = until(lambda: member.admin.read(LEASE), "it has a lease", 10.0)
    assert lease["spec"]["holderIdentity"] == NODE
    assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
    first = lease["spec"]["renewTime"]
    until(lambda: member.admin.read(LEASE)["spec"]["renewTime"] > first, "it is renewed", 15.0)


def test_a_pod_of_the_api_runs_is_reported_and_goes_in_its_grace(member):
    member.start()
    member.create("web")
    member.until_phase("web", "Running")
    shown = member.shown("web")
    (status,) = shown["status"]["containerStatuses"]
    assert status["ready"]
    assert status["started"]
    conditions = {one["type"]: one["status"] for one in shown["status"]["conditions"]}
    assert conditions["Ready"] == conditions["ContainersReady"] == conditions["Initialized"] == "True"
    assert shown["status"]["podIP"]
    member.delete("web")
    until(lambda: member.phase("web") == "absent", "it is gone", 20.0, member._scene)
    until(lambda: not member.pod_keepers(), "nothing of it runs", 10.0)


def test_events_of_pods_and_of_the_node_are_on_the_server_and_counted(member):
    member.start()
    member.create("crash", "exit 3")
    reasons = {"Started", "Exited", "BackOff"}
    until(lambda: reasons <= set(member.events("crash")), "its events are there", 30.0, member._scene)
    until(lambda: member.events("crash")["BackOff"]["count"] > 1, "one is counted", 30.0, member._scene)
    started = member.events("crash")["Started"]
    assert started["involvedObject"]["fieldPath"] == "spec.containers{main}"
    assert started["involvedObject"]["uid"] == member.shown("crash")["metadata"]["uid"]
    assert started["source"] == {"component": "kubelet", "host": NODE}
    until(
        lambda: {"Starting", "NodeHasSufficientMemory"} <= set(member.events(NODE)),
        "the node's are there",
        20.0,
    )
    names = member.events("crash")["BackOff"]["metadata"]["name"]
    member.kill9()
    member.start()
    before = member.events("crash")["BackOff"]["count"]
    until(
        lambda: member.events("crash")["BackOff"]["count"] > before, "it is counted on", 60.0, member._scene
    )
    assert member.events("crash")["BackOff"]["metadata"]["name"] == names


def test_services_are_in_the_environment_of_containers(member):
    path = ObjectPath(plural="services", namespace="default")
    spec = {"ports": [{"name": "web", "port": 8080}]}
    made = member.admin.create(path, {"metadata": {"name": "my-web"}, "spec": spec})
    try:
        member.start()
        seen = member.folder / "environment"
        member.create("job", f"env >{seen}", restartPolicy="Never", enableServiceLinks=True)
        member.until_phase("job", "Succeeded")
        lines = seen.read_text().splitlines()
        assert f"MY_WEB_SERVICE_HOST={made['spec']['clusterIP']}" in lines
        assert "MY_WEB_SERVICE_PORT_WEB=8080" in lines
        assert "KUBERNETES_SERVICE_PORT_HTTPS=443" in lines
    finally:
        member.admin.delete(ObjectPath(plural="services", namespace="default", name="my-web"))


def test_a_pod_that_ends_is_reported_and_never_started_again(member):
    member.start()
    member.create("job", "exit 3", restartPolicy="Never")
    member.until_phase("job", "Failed")
    uid = member.shown("job")["metadata"]["uid"]
    (status,) = member.shown("job")["status"]["containerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == 3
    member.kill9()
    member.start()
    member.until(lambda: member.row("job")["status"] == "Error", "it is known again")
    assert (member.phase("job"), member.shown("job")["metadata"]["uid"]) == ("Failed", uid)
    assert member.shown("job")["status"]["containerStatuses"][0]["restartCount"] == 0


def test_a_finalizer_keeps_the_object_and_starts_nothing_again(member):
    member.start()
    member.create("held")
    path = pod_path("held")
    member.until_phase("held", "Running")
    member.admin.patch(path, {"metadata": {"finalizers": ["example.com/hold"]}})
    member.delete("held", 1)
    until(lambda: member.phase("held") in ("Succeeded", "Failed"), "it ends", 20.0, member._scene)
    until(lambda: not member.pod_keepers(), "nothing of it runs", 10.0)
    member.kill9()
    member.start()
    member.until(lambda: member.row("held")["status"] in ("Completed", "Terminating"), "it is known again")
    assert not member.pod_keepers()
    member.admin.patch(path, {"metadata": {"finalizers": None}})
    until(lambda: member.phase("held") == "absent", "it goes with its finalizer", 20.0, member._scene)


def test_a_forced_deletion_ends_the_pod(member):
    member.start()
    member.create("web", terminationGracePeriodSeconds=1)
    member.until_phase("web", "Running")
    member.delete("web", 0)
    assert member.phase("web") == "absent"
    until(lambda: not member.pod_keepers(), "nothing of it runs", 20.0, member._scene)


def test_a_static_pod_has_a_mirror_for_as_long_as_it_is_there(member):
    member.put("web", FOREVER)
    member.start()
    member.until_phase("web-n1", "Running")
    mirror = member.shown("web-n1")
    assert mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"]
    (owner,) = mirror["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Node", member.node()["metadata"]["uid"])
    member.delete("web-n1", 0)
    until(
        lambda: (again := member.shown("web-n1")) and again["metadata"]["uid"] != mirror["metadata"]["uid"],
        "it is made again",
        20.0,
        member._scene,
    )
    assert member.row("web")["restarts"] == 0
    member.drop("web")
    until(lambda: member.phase("web-n1") == "absent", "it goes with its pod", 20.0, member._scene)


def test_a_node_that_was_deleted_comes_back(member):
    member.start()
    member.until_ready()
    uid = member.node()["metadata"]["uid"]
    member.admin.delete(NODE_PATH)
    until(
        lambda: (node := member.node()) and node["metadata"]["uid"] != uid, "it is back", 30.0, member._scene
    )
    until(
        lambda: (
            (lease := member.admin.read(LEASE))
            and lease["metadata"]["ownerReferences"][0]["uid"] == member.node()["metadata"]["uid"]
        ),
        "its lease is the new Node's",
        30.0,
        member._scene,
    )


def test_a_control_plane_that_hangs_gets_another_connection_and_is_named(tmp_path, make_control_plane):
    plane = make_control_plane().start()
    member = EmbeddedMember(tmp_path / "agent").join(
        plane.node_kubeconfig(NODE), ClusterAdmin(plane.admin_kubeconfig)
    )
    try:
        member.start()
        member.until_ready()
        until(lambda: member.admin.read(LEASE), "it has a lease", 20.0, member._scene)
        plane.pause()
        late = "2 heartbeats in a row were not answered"
        until(lambda: late in member.stderr(), "its connection is given up", 35.0, member._scene)
        assert f"{plane.server} did not answer within" in member.stderr()
        plane.resume()
        until(lambda: "node lease is renewed again" in member.stderr(), "it is back", 30.0, member._scene)
    finally:
        plane.resume()
        member.clean_up()


def test_an_outage_of_the_control_plane_loses_nothing(tmp_path, make_control_plane):
    plane = make_control_plane().start()
    admin = ClusterAdmin(plane.admin_kubeconfig)
    admin.make_namespace("default")
    member = EmbeddedMember(tmp_path / "agent").join(plane.node_kubeconfig(NODE), admin)
    try:
        member.start()
        member.create("stays")
        member.create(
            "ends", f"until [ -e {member.folder}/go ]; do sleep 0.1; done; exit 7", restartPolicy="Never"
        )
        for name in ("stays", "ends"):
            member.until_phase(name, "Running")
        before = member.main("stays")
        until(lambda: member.checkpointed() == 2, "both are remembered", 10.0)
        plane.kill9()
        (member.folder / "go").touch()
        until(lambda: member.row("ends")["status"] == "Error", "it ended", 20.0, member._scene)
        member.kill9()
        member.start(ready=False)
        until(lambda: member.row("stays")["status"] == "Running", "known again", 20.0, member._scene)
        plane.start()
        admin = member.admin = ClusterAdmin(plane.admin_kubeconfig)
        member.until_phase("ends", "Failed", 60.0)
        assert member.shown("ends")["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
        assert member.main("stays") == before
        assert member.shown("stays")["status"]["containerStatuses"][0]["restartCount"] == 0
    finally:
        member.clean_up()


def test_pods_run_again_after_a_boot_without_a_control_plane(tmp_path, make_control_plane):
    plane = make_control_plane().start()
    admin = ClusterAdmin(plane.admin_kubeconfig)
    admin.make_namespace("default")
    member = EmbeddedMember(tmp_path / "agent").join(plane.node_kubeconfig(NODE), admin)
    try:
        member.start()
        member.create("web")
        member.until_phase("web", "Running")
        until(lambda: member.checkpointed() == 1, "it is remembered", 10.0)
        before = member.main("web")
        plane.kill9()
        member.kill9()
        for pid in member.pod_keepers():
            os.kill(pid, signal.SIGKILL)
        until(lambda: not member.pod_keepers(), "nothing of it runs", 10.0)
        member.start(ready=False)
        member.until(lambda: member.row("web")["status"] == "Running", "it runs again", 40.0)
        plane.start()
        admin = member.admin = ClusterAdmin(plane.admin_kubeconfig)
        until(lambda: member.main("web") not in (before, (0, 0)), "its new container is shown", 60.0)
        assert member.phase("web") == "Running"
    finally:
        member.clean_up()
