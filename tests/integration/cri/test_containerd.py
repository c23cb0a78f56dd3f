"""The CRI driver on a real containerd: addresses, its restart, exits within moments."""

import os
import time

import pytest

from api.ports.images import ImageFsUsage
from api.ports.runtime import (
    ANNOTATION_OWNER,
    LABEL_POD_UID,
    ContainerSpec,
    CreateContainer,
    InspectPod,
    RemoveSandbox,
    ReopenContainerLog,
    RunSandbox,
    RuntimeContainerState,
    RuntimeStatus,
    SandboxSpec,
    SandboxState,
    StartContainer,
)
from runtime.drivers.cri.driver import CriRuntime
from tests.harness.cri.containerd import Containerd
from tests.harness.cri.image import BUSYBOX_NAME
from tests.harness.part import containerd_folder
from tests.harness.runtimeport import port_for
from tests.harness.wait import until

pytestmark = [pytest.mark.real, pytest.mark.slow]
UID = "0a0a0a0a-0000-4000-8000-000000000001"


class Pod:
    """One pod of one container, which sleeps, on a driver of its own."""

    def __init__(self, containerd, folder):
        self.runtime = CriRuntime(endpoint=containerd.endpoint)
        self.cgroup_parent = f"{containerd.cgroup_root}/pod"
        self.folder = folder
        self.heard = []
        self.runtime.events.open(lambda item: self.heard.append(time.monotonic()), lambda _: None)

    def call(self, call):
        answers = []
        port_for(self.runtime, call).begin(
            call, 30.0, lambda result, failure: answers.append(result or failure)
        )
        until(lambda: answers, call.brief(), 35.0, every_s=0.002)
        return answers[0]

    def look(self):
        return self.call(InspectPod(uid=UID))

    def start(self):
        spec = SandboxSpec(
            uid=UID,
            name="p",
            namespace="n",
            attempt=0,
            labels=((LABEL_POD_UID, UID),),
            annotations=((ANNOTATION_OWNER, "nodeagent"),),
            log_directory=str(self.folder / "logs"),
            cgroup_parent=self.cgroup_parent,
        )
        self.sandbox = self.call(RunSandbox(spec=spec)).sandboxes[0]
        container = ContainerSpec(
            name="c",
            attempt=0,
            image=BUSYBOX_NAME,
            command=("sh", "-c", "while :; do echo tick; sleep 0.05; done"),
            log_path="c/0.log",
        )
        pod = self.call(CreateContainer(uid=UID, sandbox_id=self.sandbox.id, sandbox=spec, spec=container))
        return self.call(StartContainer(uid=UID, container_id=pod.containers[0].id)).containers[0]


@pytest.fixture
def containerd(tmp_path):
    runtime = Containerd(tmp_path / "containerd", containerd_folder("1.6")).start()
    yield runtime
    runtime.clean_up()


@pytest.fixture
def pod(containerd, tmp_path):
    pod = Pod(containerd, tmp_path)
    yield pod
    pod.call(RemoveSandbox(uid=UID, sandbox_id=pod.sandbox.id))
    pod.runtime.close()


def test_a_pod_has_an_address_of_its_network_and_gives_it_back(pod):
    pod.start()
    [address] = pod.sandbox.ips
    assert address.startswith("198.")
    assert pod.sandbox.network_known
    stopped = pod.call(RemoveSandbox(uid=UID, sandbox_id=pod.sandbox.id))
    assert stopped.sandboxes == ()


def watched(pod):
    return list(pod.runtime._watch._watched.values())


def test_an_exit_is_heard_of_within_moments_and_the_truth_is_there(pod):
    container = pod.start()
    until(lambda: any(e.pid == container.pid and e.fd >= 0 for e in watched(pod)), "a watch")
    pod.heard.clear()
    killed_at = time.monotonic()
    os.kill(container.pid, 9)
    until(lambda: pod.heard, "the hint of the exit", 5.0, every_s=0.001)
    # A tenth of what a listing every second would take on average, and room for a machine that is busy.
    assert pod.heard[0] - killed_at < 0.25
    [ended] = pod.look().containers
    assert (ended.state, ended.exit_code) == (RuntimeContainerState.EXITED, 137)


def test_the_death_of_a_sandbox_is_heard_of(pod):
    pod.start()
    until(lambda: any(e.is_sandbox and e.fd >= 0 for e in watched(pod)), "a watch")
    pause = next(e.pid for e in watched(pod) if e.is_sandbox)
    pod.heard.clear()
    os.kill(pause, 9)
    until(lambda: pod.heard, "the hint of its death", 5.0)
    assert pod.look().sandboxes[0].state is SandboxState.NOT_READY


def test_a_pod_outlives_containerd_and_is_known_again_when_it_is_back(pod, containerd):
    container = pod.start()
    containerd.kill9()
    failure = pod.look()
    assert f"nobody listens on socket {containerd.socket}" in failure.message
    containerd.start()
    until(lambda: hasattr(pod.look(), "containers"), "it answers again")
    [same] = pod.look().containers
    assert (same.id, same.state, same.pid) == (container.id, RuntimeContainerState.RUNNING, container.pid)
    pod.heard.clear()
    os.kill(container.pid, 9)
    until(lambda: pod.heard, "the hint of the exit", 5.0)
    until(lambda: pod.look().containers[0].exit_code == 137, "the exit is known")


def test_a_log_that_was_moved_away_is_begun_anew(pod):
    container = pod.start()
    log = pod.folder / "logs" / "c" / "0.log"
    assert container.log_path == str(log)
    until(log.exists, "the log")
    log.rename(log.with_suffix(".old"))
    pod.call(ReopenContainerLog(uid=UID, container_id=container.id))
    until(lambda: log.exists() and log.stat().st_size, "the new log")


def test_it_says_who_it_is_and_where_its_images_are(pod, containerd):
    pod.start()
    info = pod.call(RuntimeStatus())
    assert (info.name, info.ready, info.network_ready, info.cgroup_driver) == ("containerd", True, True, "")
    usage = pod.call(ImageFsUsage())
    assert usage.mountpoint.startswith(str(containerd.root))
    # The runtime counts what images use now and then: at first it says nothing.
    assert 0 <= usage.used_bytes < usage.capacity_bytes
    assert 0 < usage.available_bytes <= usage.capacity_bytes
