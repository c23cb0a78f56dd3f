"""What the views ask of the runtime for people: the calls, and why some are not made."""

import pytest
from msgspec.structs import replace

from actors.certificates.state import (
    CertificateRequest,
    CertificateSettings,
    CertificatesState,
    SigningWait,
)
from actors.node.state import NodeState
from actors.pod.state import ObservedView, PodSettings, PodState, WantedPod
from actors.sources.api.state import ApiSourceState, Checkpoint
from actors.supervisor.state import Desired, PodEntry, SupervisorState
from actors.views.asked import AskedPorts
from actors.views.metrics import certificate_families
from actors.views.view import AgentView
from api import paths
from api.errors import Failure, FailureKind, NotFoundError, RejectedError
from api.ids import Path
from api.kube.objects.container import Container, EnvVar
from api.ports.certificate import ClientCertificate
from api.ports.node import NodeFacts
from api.ports.runtime import RuntimeInfo
from api.ports.streams import OpenExec, StreamUrl
from api.shown.introspection import KernelRow
from tests.unit.actors.pods import IMAGE, UID, WALL, box, instance, shown, wanted


class OnePod:
    """The actor system of a node with one pod."""

    def __init__(self, *containers):
        pod = wanted(*(container.name for container in containers))
        observed = shown(box(), *containers)
        self.state = PodState(
            uid=UID,
            settings=PodSettings(log_root="/logs"),
            wanted=WantedPod(pod=pod),
            view=ObservedView(observed=observed),
        )
        self.node = None

    def committed_children(self, path):
        return ((Path(f"{paths.PODS}/{UID}"), self.state),) if path == paths.PODS else ()

    def committed(self, path):
        return self.node if path == paths.NODE else None


def quiet_view(node):
    """Return a view that may call nothing."""

    def no_call(call, deadline_s):
        raise AssertionError(call)

    return AgentView(node, lambda: 0.0, lambda: WALL, asked(no_call))


class WaitingPod:
    """The actor system of a node with one pod that has no actor yet, or one that was not told anything."""

    def __init__(self, *states):
        self.states = states

    def committed_children(self, path):
        return (
            tuple((Path(f"{paths.PODS}/{state.uid}"), state) for state in self.states)
            if path == paths.PODS
            else ()
        )

    def committed(self, path):
        entry = PodEntry(uid=UID, name="web-vm", namespace="default", desired=Desired(pod=wanted("a")))
        return SupervisorState(entries={UID: entry}) if path == paths.PODS else None


def asked(perform):
    """Return ports that are all asked by `perform`."""
    return AskedPorts(runtime=perform, images=perform, streams=perform)


def view_of(*containers):
    """Return a view, and the calls that it makes."""
    calls = []

    def perform(call, deadline_s):
        calls.append(call)
        return StreamUrl(url="http://127.0.0.1:1/token")

    return AgentView(OnePod(*containers), lambda: 0.0, lambda: WALL, asked(perform)), calls


def open_exec(view, pod="web", container=""):
    return view.open_exec(pod, container, ("sh", "-l"), tty=True, stdin=True, stdout=True, stderr=False)


def test_a_command_with_streams_is_opened_in_the_instance_that_runs():
    view, calls = view_of(
        instance("a", attempt=1), instance("a", "exited", attempt=0), instance("b", attempt=4)
    )
    assert open_exec(view, "default/web", "a") == "http://127.0.0.1:1/token"
    assert calls == [
        OpenExec(
            uid=UID,
            container_id="tiny://a1",
            command=("sh", "-l"),
            tty=True,
            stdin=True,
            stdout=True,
            stderr=False,
        )
    ]


def test_a_container_that_does_not_run_is_not_asked_for_streams():
    view, calls = view_of(instance("a", "exited"))
    with pytest.raises(RejectedError, match='container "a" is not running'):
        open_exec(view)
    with pytest.raises(RejectedError, match='no container "z"'):
        open_exec(view, container="z")
    with pytest.raises(NotFoundError, match='no pod "db"'):
        open_exec(view, "db")
    assert calls == []


def test_the_only_regular_container_is_meant_where_none_is_named():
    calls = []
    node = OnePod(instance("a"), instance("i"))
    init = Container(name="i", image=IMAGE, env=(EnvVar(name="KEY", value="hush"),))
    node.state = replace(node.state, wanted=WantedPod(pod=wanted("a", init_containers=(init,))))
    view = AgentView(
        node,
        lambda: 0.0,
        lambda: WALL,
        asked(lambda call, _: calls.append(call) or StreamUrl(url="http://x/y")),
    )
    open_exec(view)
    open_exec(view, container="i")
    assert [call.container_id for call in calls] == ["tiny://a0", "tiny://i0"]
    assert b"hush" not in view.pod_list()
    assert b'"KEY"' in view.pod_list()


def test_a_node_is_not_ready_before_anything_says_which_sources_it_has():
    info = RuntimeInfo(name="tiny", version="1", ready=True, detail="not root")
    node = OnePod()
    node.node = NodeState(machine=NodeFacts(), runtime=info)
    rows = {row.name: row for row in quiet_view(node).ready()}
    assert (rows["runtime"].ok, rows["runtime"].detail) == (True, "not root")
    assert (rows["sources"].ok, rows["sources"].detail) == (False, "PodSupervisor has not started")


def test_a_node_whose_runtime_nobody_asked_yet_is_not_ready_and_asking_for_that_asks_no_runtime():
    rows = {row.name: row for row in quiet_view(OnePod()).ready()}
    assert (rows["runtime"].ok, rows["runtime"].detail) == (False, "it has not begun")


@pytest.mark.parametrize("states", [(), (PodState(uid=UID, settings=PodSettings(log_root="/logs")),)])
def test_a_pod_whose_actor_knows_nothing_yet_is_known_by_its_name_and_has_no_events(states):
    view = AgentView(WaitingPod(*states), lambda: 0.0, lambda: WALL, asked(lambda call, deadline_s: None))
    assert [row.name for row in view.pods()] == ["web-vm"]
    assert view.events("web") == ()
    assert view.explain("web").uid == UID
    with pytest.raises(NotFoundError):
        view.events("other")


# ---------------------------------------------------------------- certificates


class JoiningNode:
    """The actor system of a node that has an API server, or is about to."""

    def __init__(self, **changes):
        settings = CertificateSettings(
            node_name="n1", kubeconfig="/k", bootstrap_kubeconfig="/b", rotates=True
        )
        source = ApiSourceState(
            server="/k", config=paths.CONFIG, followers=(), checkpoint=Checkpoint(), failure=AWAY
        )
        self.states = {
            paths.CERTIFICATES: CertificatesState(settings=settings, **changes),
            paths.API: source,
        }

    def committed(self, path):
        return self.states.get(path)

    def summarize_actors(self):
        return KernelRow(actors=0)


AWAY = Failure(kind=FailureKind.NOT_FOUND, message="kubeconfig /k is not there yet")


def test_while_a_node_has_no_identity_the_row_of_the_api_server_says_what_that_waits_for():
    wait = SigningWait(name="node-csr-1", until=600.0, look_at=1.0)
    node = JoiningNode(request=CertificateRequest(bootstrap=True, wait=wait))
    (row,) = quiet_view(node).sources()
    assert (row.source, row.status) == ("api", "waiting")
    assert row.problems[0] == (
        "waits for the approval of CertificateSigningRequest node-csr-1: kubectl certificate approve node-csr-1;"
        " given up in 10 min"
    )
    assert AWAY.message in row.problems


def test_a_rotation_that_waits_is_no_business_of_the_api_servers_row():
    wait = SigningWait(name="csr-1", until=600.0, look_at=1.0)
    node = JoiningNode(request=CertificateRequest(bootstrap=False, wait=wait), was_read=True)
    (row,) = quiet_view(node).sources()
    assert row.status == "unreachable"


def test_the_health_page_says_until_when_the_certificate_is_valid_and_the_metrics_for_how_long():
    one = ClientCertificate(
        subject="O=system:nodes, CN=system:node:n1",
        valid_from=WALL,
        valid_until=WALL + 1000 * 10**9,
        where="/pki/kubelet-client-current.pem",
    )
    view = quiet_view(JoiningNode(certificate=one, was_read=True, errors=3))
    row = next(row for row in view.health() if row.name == "certificates")
    assert row.ok
    assert row.detail.startswith("client certificate /pki/kubelet-client-current.pem of O=system:nodes")
    assert ", rotated from 20" in row.detail
    ttl, errors = certificate_families(
        JoiningNode(certificate=one, errors=3).states[paths.CERTIFICATES], WALL
    )
    assert [sample.value for sample in (*ttl.samples, *errors.samples)] == [1000.0, 3]
