"""The bare CRI calls that a pod takes, without any agent: what the node bench measures ours against."""

import itertools
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import grpc

from runtime.drivers.cri import translate
from runtime.wire.generated import cri_pb2 as cri
from tests.harness.barepod import container_spec, sandbox_spec

RUNTIME = "/runtime.v1.RuntimeService/"
DEADLINE_S = 120.0


class BareCri:
    """A connection that makes calls one after the other, each waited for; usable from many threads."""

    def __init__(self, socket: str, folder: Path) -> None:
        options = (("grpc.default_authority", "localhost"), ("grpc.max_receive_message_length", 16 << 20))
        self._channel = grpc.insecure_channel(f"unix://{socket}", options=options)
        self._folder = folder
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

    def run_pod(self) -> tuple[str, object]:
        """Run a sandbox with one container, as the agent asks for them; return the sandbox's id and its configuration."""
        spec = sandbox_spec(next(self._numbers), self._folder)
        config = translate.sandbox_config(spec)
        run = cri.RunPodSandboxRequest(config=config)
        sandbox = self.call("RunPodSandbox", run, cri.RunPodSandboxResponse).pod_sandbox_id
        self.run_container(sandbox, config, 0)
        return sandbox, config

    def run_container(self, sandbox: str, config: object, attempt: int) -> str:
        """Make and start a container; return its id."""
        request = cri.CreateContainerRequest(
            pod_sandbox_id=sandbox,
            config=translate.container_config(container_spec(attempt)),
            sandbox_config=config,
        )
        container = self.call("CreateContainer", request, cri.CreateContainerResponse).container_id
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
        return translate.pid_of(self.call("ContainerStatus", request, cri.ContainerStatusResponse).info)

    # measuring

    def single_starts(self, count: int) -> list[float]:
        """Return how many seconds each of so many pods took, one after the other; each is removed again."""
        return [self._timed(self.run_pod, lambda made: self.remove_pod(made[0])) for _ in range(count)]

    def single_containers(self, count: int) -> list[float]:
        """Return how many seconds making and starting a container in a running sandbox took, each time."""
        sandbox, config = self.run_pod()
        numbers = iter(range(1, count + 1))
        try:
            return [
                self._timed(lambda: self.run_container(sandbox, config, next(numbers)), lambda _made: None)
                for _ in range(count)
            ]
        finally:
            self.remove_pod(sandbox)

    def burst(self, count: int, threads: int) -> float:
        """Return how many seconds so many pods at once take with so many threads; they are removed again."""
        left, made = iter(range(count)), []
        lock = threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    if next(left, None) is None:
                        return
                pod = self.run_pod()
                with lock:
                    made.append(pod[0])

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
