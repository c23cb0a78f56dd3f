"""The stand-ins for runtimes that cannot be had here differ as the reference says, asked over their sockets."""

import threading

import pytest

from api.errors import Failure, FailureKind
from runtime.wire import cri
from runtime.wire.channel import Channel
from runtime.wire.endpoint import parse_endpoint
from runtime.wire.generated import cri_pb2 as pb
from runtime.wire.status import UNIMPLEMENTED
from tests.harness.cri.criimage import image_named
from tests.harness.cri.cripersonality import IMAGE, Personality
from tests.harness.cri.criserver import outdated_runtime, silent_socket
from tests.harness.cri.critrait import CONTAINERD_2, CRIO
from tests.harness.wait import until


class Client:
    """The few calls that these tests make, each answered by a reply or a `Failure`."""

    def __init__(self, endpoint):
        self.channel = Channel(parse_endpoint(endpoint))
        self.events = []

    def ask(self, rpc, request, timeout_s=10.0):
        """Begin a call; return what holds its answer once it is there."""
        answer = []
        self.channel.begin(rpc, request, timeout_s, lambda reply, failure: answer.append(failure or reply))
        return answer

    def call(self, rpc, request, timeout_s=10.0):
        answer = self.ask(rpc, request, timeout_s)
        until(lambda: answer, "an answer", timeout_s + 2)
        return answer[0]

    def sandbox(self, folder, attempt=0):
        meta = pb.PodSandboxMetadata(name="p", namespace="n", uid="u", attempt=attempt)
        config = pb.PodSandboxConfig(metadata=meta, log_directory=str(folder / "logs"))
        return self.call(cri.RUN_SANDBOX, pb.RunPodSandboxRequest(config=config))

    def create(self, sandbox, *command, attempt=0):
        config = pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name="c", attempt=attempt),
            image=pb.ImageSpec(image=IMAGE),
            command=command,
            log_path=f"c/{attempt}.log",
        )
        return self.call(cri.CREATE, pb.CreateContainerRequest(pod_sandbox_id=sandbox, config=config))

    def start(self, container):
        return self.call(cri.START, pb.StartContainerRequest(container_id=container))

    def status(self, container):
        return self.call(cri.CONTAINER_STATUS, pb.ContainerStatusRequest(container_id=container)).status

    def exited(self, container):
        return until(lambda: (s := self.status(container)).finished_at and s, "the exit is shown")


@pytest.fixture(params=[CONTAINERD_2, CRIO], ids=lambda traits: traits.name)
def runtime(request, tmp_path):
    with Personality(tmp_path, request.param) as personality:
        yield personality


@pytest.fixture
def client(runtime):
    asks = Client(runtime.endpoint)
    yield asks
    asks.channel.close()


def test_asking_twice_for_a_container_fails_on_containerd_and_gives_the_first_on_crio(
    runtime, client, tmp_path
):
    sandbox = client.sandbox(tmp_path).pod_sandbox_id
    first = client.create(sandbox, "sleep", "100").container_id
    again = client.create(sandbox, "sleep", "100")
    if runtime.traits is CRIO:
        assert again.container_id == first
    else:
        assert isinstance(again, Failure)
        assert "failed to reserve container name" in again.message
        assert "is reserved for" in again.message


def test_an_exit_that_nobody_saw_has_each_runtimes_own_code(runtime, client, tmp_path):
    container = client.create(client.sandbox(tmp_path).pod_sandbox_id, "sleep", "100").container_id
    client.start(container)
    threading.Thread(target=runtime.lose_exit, args=(container,), daemon=True).start()
    assert client.exited(container).exit_code == (-1 if runtime.traits is CRIO else 255)


def test_a_program_that_is_not_there_fails_the_start_and_shows_as_each_runtime_shows_it(
    runtime, client, tmp_path
):
    container = client.create(client.sandbox(tmp_path).pod_sandbox_id, "no-such-program").container_id
    failure = client.start(container)
    assert isinstance(failure, Failure)
    assert "executable file not found" in failure.message
    status = client.status(container)
    shown = (status.exit_code, status.reason)
    assert shown == ((-1, "Error") if runtime.traits is CRIO else (128, "StartError"))


def test_a_command_that_takes_too_long_is_told_in_each_runtimes_form(runtime, client, tmp_path):
    container = client.create(client.sandbox(tmp_path).pod_sandbox_id, "sleep", "100").container_id
    client.start(container)
    answer = client.call(
        cri.EXEC_SYNC, pb.ExecSyncRequest(container_id=container, cmd=("sleep", "50"), timeout=1)
    )
    if runtime.traits is CRIO:
        assert (answer.exit_code, answer.stderr) == (-1, b"command timed out")
    else:
        assert answer.kind is FailureKind.TIMED_OUT


def test_images_are_called_as_each_runtime_calls_them(runtime, client, tmp_path):
    image = image_named("registry.test/team/app:1")
    runtime.images.offered[image.name] = image
    pulled = client.call(cri.PULL_IMAGE, pb.PullImageRequest(image=pb.ImageSpec(image=image.name)))
    crio = runtime.traits is CRIO
    assert pulled.image_ref == (image.digest if crio else f"sha256:{image.hex}")
    [shown] = [
        i for i in client.call(cri.LIST_IMAGES, pb.ListImagesRequest()).images if image.name in i.repo_tags
    ]
    assert shown.id == (image.hex if crio else f"sha256:{image.hex}")
    container = client.create(client.sandbox(tmp_path).pod_sandbox_id, "true").container_id
    [listed] = client.call(cri.LIST_CONTAINERS, pb.ListContainersRequest()).containers
    assert "@sha256:" in client.status(container).image_ref
    assert ("@sha256:" in listed.image_ref, bool(listed.image_id)) == (crio, crio)


def test_the_handshake_tells_name_cgroup_driver_and_handlers(runtime, client):
    version = client.call(cri.VERSION, pb.VersionRequest())
    assert (version.version, version.runtime_name) == ("0.1.0", runtime.traits.name)
    config = client.call(cri.RUNTIME_CONFIG, pb.RuntimeConfigRequest())
    assert config.linux.cgroup_driver == (pb.SYSTEMD if runtime.traits is CRIO else pb.CGROUPFS)
    status = client.call(cri.STATUS, pb.StatusRequest())
    assert {handler.name for handler in status.runtime_handlers} == {"", "runc"}


def test_events_flow_or_end_at_once(runtime, client, tmp_path):
    heard, ended = [], []
    cancel = client.channel.follow(cri.EVENTS, pb.GetEventsRequest(), heard.append, ended.append)
    sandbox = client.sandbox(tmp_path).pod_sandbox_id
    if runtime.traits is CRIO:
        until(lambda: ended, "the end of the stream")
        assert (ended, heard) == ([None], [])
        return
    until(lambda: len(heard) == 2, "two events of the sandbox")
    assert {event.container_id for event in heard} == {sandbox}
    cancel()
    until(lambda: ended, "the end of the stream")


def test_one_held_call_holds_up_no_other(runtime, client, tmp_path):
    sandbox = client.sandbox(tmp_path).pod_sandbox_id
    stuck = client.create(sandbox, "sleep", "100").container_id
    other = client.create(sandbox, "sleep", "100", attempt=1).container_id
    hold = runtime.server.hold("ContainerStatus", lambda request: request.container_id == stuck)
    answer = client.ask(cri.CONTAINER_STATUS, pb.ContainerStatusRequest(container_id=stuck))
    until(lambda: hold.held == 1, "the call is held")
    assert client.status(other).id == other
    assert answer == []
    hold.release()
    until(lambda: answer, "the held call's answer")
    assert answer[0].status.id == stuck


def test_a_runtime_of_the_old_version_does_not_know_the_calls(tmp_path):
    with outdated_runtime(str(tmp_path / "s")) as endpoint:
        asks = Client(endpoint)
        answer = asks.call(cri.VERSION, pb.VersionRequest())
        asks.channel.close()
    assert (answer.kind, answer.reason) == (FailureKind.REJECTED, UNIMPLEMENTED)


def test_a_silent_socket_takes_connections_and_never_answers(tmp_path):
    with silent_socket(str(tmp_path / "s")) as endpoint:
        asks = Client(endpoint)
        answer = asks.call(cri.VERSION, pb.VersionRequest(), timeout_s=0.5)
        asks.channel.close()
    assert answer.kind in (FailureKind.TIMED_OUT, FailureKind.UNAVAILABLE)
