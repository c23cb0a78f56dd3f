"""The bare CRI calls that a pod takes, without any agent: what the node bench measures ours against."""

import itertools
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import msgspec
from msgspec.structs import replace

from actors.pod.spec.containerconfig import container_files, container_spec, sandbox_spec
from actors.pod.spec.security import RunImage
from api.kube.objects.pod import Pod
from api.kube.poddefault import default_pod
from api.ports.node import NodeFacts, NodeFiles
from api.ports.runtime import ANNOTATION_OWNER, SandboxSpec
from runtime.drivers.cri import request, shown
from runtime.drivers.host.podfiles.podfolder import PodFolderDriver
from runtime.wire.generated import cri_pb2 as cri

RUNTIME = "/runtime.v1.RuntimeService/"
DEADLINE_S = 120.0
ATTEMPTS = 32
"""How many containers one bare pod may have one after the other."""


class BareCri:
    """A connection that makes calls one after the other, each waited for; usable from many threads."""

    def __init__(self, socket: str, folder: Path, cgroup_root: str, manifest: Callable[[str], dict]) -> None:
        options = (("grpc.default_authority", "localhost"), ("grpc.max_receive_message_length", 16 << 20))
        self._channel = grpc.insecure_channel(f"unix://{socket}", options=options)
        self._manifest = manifest
        self._facts = NodeFacts(
            name="bare",
            root_dir=str(folder),
            log_root=str(folder / "logs"),
            confined=True,
            cgroup_root=cgroup_root,
            cgroup_version=1,
            memory_bytes=1 << 34,
        )
        self._folders = PodFolderDriver(folder / "pods", folder / "logs")
        self._numbers = itertools.count(1)

    def call(self, name: str, request: object, answer: type) -> object:
        """Make one call of the runtime service."""
        method = self._channel.unary_unary(
            RUNTIME + name,
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return method(request, timeout=DEADLINE_S)

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    # pods

    def new_pod(self) -> Pod:
        """Return a pod like those that the agent is given, with the files that its container is made with."""
        number = next(self._numbers)
        raw = self._manifest(f"bare-{number}")
        raw["metadata"] |= {"namespace": "default", "uid": f"bare-{number}"}
        pod = default_pod(msgspec.convert({"metadata": raw["metadata"], "spec": raw["spec"]}, Pod))
        for attempt in range(ATTEMPTS):
            files = container_files(pod, pod.spec.containers[0], attempt, self._facts, NodeFiles(), ())
            self._folders.perform(files, 10.0)
        return pod

    def run_pod(self, pod: Pod) -> str:
        """Run a sandbox with one container, as the agent asks for them; return the sandbox's id."""
        config = request.sandbox_config(self._box(pod))
        run = cri.RunPodSandboxRequest(config=config)
        sandbox = self.call("RunPodSandbox", run, cri.RunPodSandboxResponse).pod_sandbox_id
        self.run_container(sandbox, pod, 0)
        return sandbox

    def _box(self, pod: Pod) -> SandboxSpec:
        """Return the sandbox that the agent would ask for, but nobody's: an agent beside it ends orphans of its own."""
        spec = sandbox_spec(pod, 0, self._facts)
        return replace(spec, annotations=tuple(row for row in spec.annotations if row[0] != ANNOTATION_OWNER))

    def run_container(self, sandbox: str, pod: Pod, attempt: int) -> str:
        """Make and start the pod's container; return its id."""
        wanted = pod.spec.containers[0]
        box = self._box(pod)
        spec = container_spec(pod, wanted, attempt, self._facts, image=RunImage(ref=wanted.image))
        make = cri.CreateContainerRequest(
            pod_sandbox_id=sandbox,
            config=request.container_config(spec, box),
            sandbox_config=request.sandbox_config(box),
        )
        container = self.call("CreateContainer", make, cri.CreateContainerResponse).container_id
        self.call(
            "StartContainer", cri.StartContainerRequest(container_id=container), cri.StartContainerResponse
        )
        return container

    def remove_pod(self, sandbox: str) -> None:
        """Stop and remove a sandbox and what is in it, without grace."""
        self.call(
            "StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=sandbox), cri.StopPodSandboxResponse
        )
        self.call(
            "RemovePodSandbox",
            cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox),
            cri.RemovePodSandboxResponse,
        )

    # what the containers of the agent did

    def containers(self) -> list[object]:
        """Return every container as listed."""
        return list(
            self.call("ListContainers", cri.ListContainersRequest(), cri.ListContainersResponse).containers
        )

    def sandboxes(self) -> list[object]:
        """Return every sandbox as listed."""
        return list(
            self.call("ListPodSandbox", cri.ListPodSandboxRequest(), cri.ListPodSandboxResponse).items
        )

    def started_ns(self, container: str) -> int:
        """Return when a container was started, wall clock."""
        request = cri.ContainerStatusRequest(container_id=container)
        return self.call("ContainerStatus", request, cri.ContainerStatusResponse).status.started_at

    def pid(self, container: str) -> int:
        """Return the process id of a running container."""
        request = cri.ContainerStatusRequest(container_id=container, verbose=True)
        return shown.pid_of(self.call("ContainerStatus", request, cri.ContainerStatusResponse).info)

    # measuring

    def single_starts(self, count: int) -> list[float]:
        """Return how many seconds each of so many pods took, one after the other; each is removed again."""
        pods = [self.new_pod() for _ in range(count)]
        return [self._timed(lambda pod=pod: self.run_pod(pod), self.remove_pod) for pod in pods]

    def single_containers(self, count: int) -> list[float]:
        """Return how many seconds making and starting a container in a running sandbox took, each time."""
        pod = self.new_pod()
        sandbox = self.run_pod(pod)
        try:
            return [
                self._timed(lambda n=n: self.run_container(sandbox, pod, n), lambda _made: None)
                for n in range(1, min(count + 1, ATTEMPTS))
            ]
        finally:
            self.remove_pod(sandbox)

    def burst(self, count: int, threads: int) -> float:
        """Return how many seconds so many pods at once take with so many threads; they are removed again."""
        left, made = iter([self.new_pod() for _ in range(count)]), []
        lock = threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    pod = next(left, None)
                if pod is None:
                    return
                sandbox = self.run_pod(pod)
                with lock:
                    made.append(sandbox)

        began = time.monotonic()
        self._on_threads(threads, work)
        took = time.monotonic() - began
        todo = iter(made)

        def remove() -> None:
            while True:
                with lock:
                    sandbox = next(todo, None)
                if sandbox is None:
                    return
                self.remove_pod(sandbox)

        self._on_threads(16, remove)
        assert len(made) == count, f"only {len(made)} of {count} bare pods came up"
        return took

    @staticmethod
    def _on_threads(count: int, work: Callable[[], None]) -> None:
        crew = [threading.Thread(target=work) for _ in range(count)]
        for one in crew:
            one.start()
        for one in crew:
            one.join()

    @staticmethod
    def _timed(make: Callable[[], object], undo: Callable[[object], None]) -> float:
        began = time.monotonic()
        made = make()
        took = time.monotonic() - began
        undo(made)
        return took


def p50_ms(seconds: list[float]) -> float:
    """Return the median in milliseconds."""
    return statistics.median(seconds) * 1000
