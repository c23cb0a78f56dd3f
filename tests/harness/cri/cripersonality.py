"""Personalities: servers that behave as containerd 2.2 and CRI-O 1.34 do where runtimes differ.

They are built from the reference, not from those programs, and stand in for runtimes that tests cannot have. What a
container runs is a real process of this machine (its command with the node's own files), so exits, signals, process ids
and logs are real; sandboxes, images, addresses and limits are records only.

```python
with Personality(folder, CONTAINERD_2) as runtime:  # tests/harness/cri/critrait.py; runtime.endpoint, runtime.server.hold("ContainerStatus"), ...
```
"""

# ruff: noqa: N802

import itertools
import json
import queue
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import grpc

from runtime.wire.generated import cri_pb2 as pb
from tests.harness.cri.criimage import ImageStore, image_named
from tests.harness.cri.criprocess import LogFile, Process, run_and_wait
from tests.harness.cri.crirecord import Container, ImageRefs, Sandbox
from tests.harness.cri.criserver import Call, CriError, CriServer, not_found, unknown
from tests.harness.cri.critrait import Traits

IMAGE = "localhost/any:1"
"""What every personality holds from the start."""
ENTRY_POINT = ("sleep", "1000000")
"""What every image runs where a container brings no command of its own."""


class Personality:
    """One runtime: its pods and its socket. Methods with an RPC's name are that RPC."""

    def __init__(self, folder: Path, traits: Traits) -> None:
        self.traits = traits
        self.folder = folder
        # A socket's path may have 107 bytes; tests' folders are longer.
        self._short = Path(tempfile.mkdtemp(prefix="nap-"))
        self.server = CriServer(str(self._short / "c.sock"), self)
        self.endpoint = self.server.endpoint
        self.images = ImageStore(
            bare=traits.bare_ids, pull_gives_digest=traits.pull_gives_digest, folder=str(folder)
        )
        self.images.add(image_named(IMAGE))
        for method in ("ListImages", "ImageStatus", "PullImage", "RemoveImage", "ImageFsInfo"):
            setattr(self, method, getattr(self.images, method))
        self.network_ready = True
        self._sandboxes: dict[str, Sandbox] = {}
        self._containers: dict[str, Container] = {}
        self._subscribers: list[queue.SimpleQueue[pb.ContainerEventResponse | None]] = []
        self._backlog: list[pb.ContainerEventResponse] = []
        self._addresses = itertools.count(2)
        self._last_created = 0
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        self.server.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket and kill everything that runs."""
        self.server.stop()
        for container in list(self._containers.values()):
            self._kill(container)
        shutil.rmtree(self._short, ignore_errors=True)

    # hands of a test

    def lose_exit(self, container_id: str) -> None:
        """Kill a container whose exit code the runtime will not know."""
        container = self._containers[container_id.rpartition("/")[2]]
        container.exit_is_lost = True
        self._kill(container)

    def container_ids(self) -> list[str]:
        """Return the ids of all containers, oldest first."""
        return list(self._containers)

    # who it is

    def Version(self, request: pb.VersionRequest, call: Call) -> pb.VersionResponse:
        return pb.VersionResponse(
            version="0.1.0",
            runtime_name=self.traits.name,
            runtime_version=self.traits.version,
            runtime_api_version="v1",
        )

    def Status(self, request: pb.StatusRequest, call: Call) -> pb.StatusResponse:
        network = pb.RuntimeCondition(type="NetworkReady", status=self.network_ready)
        if not self.network_ready:
            network.reason, network.message = "NetworkPluginNotReady", "cni plugin not initialized"
        conditions = [pb.RuntimeCondition(type="RuntimeReady", status=True), network]
        if self.traits.name == "containerd":
            # A condition that is not well and says nothing about being ready.
            conditions.append(
                pb.RuntimeCondition(type="ContainerdHasNoDeprecationWarnings", status=False, reason="X")
            )
        features = pb.RuntimeHandlerFeatures(recursive_read_only_mounts=True, user_namespaces=True)
        return pb.StatusResponse(
            status=pb.RuntimeStatus(conditions=conditions),
            runtime_handlers=[pb.RuntimeHandler(name=n, features=features) for n in ("", "runc")],
            features=pb.RuntimeFeatures(supplemental_groups_policy=True),
        )

    def RuntimeConfig(self, request: pb.RuntimeConfigRequest, call: Call) -> pb.RuntimeConfigResponse:
        driver = pb.SYSTEMD if self.traits.systemd else pb.CGROUPFS
        return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=driver))

    def UpdateRuntimeConfig(self, request, call: Call) -> pb.UpdateRuntimeConfigResponse:
        assert request.runtime_config.network_config.pod_cidr
        return pb.UpdateRuntimeConfigResponse()

    # sandboxes

    def RunPodSandbox(self, request: pb.RunPodSandboxRequest, call: Call) -> pb.RunPodSandboxResponse:
        meta = request.config.metadata
        if request.runtime_handler not in ("", "runc"):
            raise unknown(f'no runtime for "{request.runtime_handler}" is configured')
        if parent := request.config.linux.cgroup_parent:
            self._check_cgroup_parent(parent)
        key = (meta.name, meta.namespace, meta.uid, meta.attempt)
        name = f"{meta.name}_{meta.namespace}_{meta.uid}_{meta.attempt}"
        with self._lock:
            first = next((s for s in self._sandboxes.values() if s.key == key), None)
            if first is not None:
                return pb.RunPodSandboxResponse(pod_sandbox_id=self._again("sandbox", name, first.id))
            host = request.config.linux.security_context.namespace_options.network == pb.NODE
            address = (
                self.traits.host_address
                if host
                else f"10.244.{next(self._addresses) // 250}.{next(self._addresses) % 250}"
            )
            sandbox = Sandbox(
                _new_id(), request.config, request.runtime_handler, self._created_now(), address
            )
            Path(request.config.log_directory).mkdir(parents=True, exist_ok=True)
            self._sandboxes[sandbox.id] = sandbox
            self._tell(sandbox, sandbox.id, pb.CONTAINER_CREATED_EVENT)
            self._tell(sandbox, sandbox.id, pb.CONTAINER_STARTED_EVENT)
        return pb.RunPodSandboxResponse(pod_sandbox_id=sandbox.id)

    def StopPodSandbox(self, request: pb.StopPodSandboxRequest, call: Call) -> pb.StopPodSandboxResponse:
        sandbox = self._sandboxes.get(request.pod_sandbox_id)
        if sandbox is not None:
            for container in self._of(sandbox):
                self._kill(container)
            with self._lock:
                if sandbox.state == pb.SANDBOX_READY:
                    sandbox.state = pb.SANDBOX_NOTREADY
                    self._tell(sandbox, sandbox.id, pb.CONTAINER_STOPPED_EVENT)
        return pb.StopPodSandboxResponse()

    def RemovePodSandbox(
        self, request: pb.RemovePodSandboxRequest, call: Call
    ) -> pb.RemovePodSandboxResponse:
        self.StopPodSandbox(pb.StopPodSandboxRequest(pod_sandbox_id=request.pod_sandbox_id), call)
        with self._lock:
            sandbox = self._sandboxes.get(request.pod_sandbox_id)
            if sandbox is not None:
                for container in self._of(sandbox):
                    self._remove(container)
                del self._sandboxes[sandbox.id]
                self._tell(sandbox, sandbox.id, pb.CONTAINER_DELETED_EVENT)
        return pb.RemovePodSandboxResponse()

    def PodSandboxStatus(
        self, request: pb.PodSandboxStatusRequest, call: Call
    ) -> pb.PodSandboxStatusResponse:
        with self._lock:
            sandbox = self._sandbox(request.pod_sandbox_id)
            reply = pb.PodSandboxStatusResponse(status=sandbox.status())
            if self.traits.status_has_containers:
                reply.containers_statuses.extend(c.status() for c in self._of(sandbox))
                reply.timestamp = time.time_ns()
        return reply

    def ListPodSandbox(self, request: pb.ListPodSandboxRequest, call: Call) -> pb.ListPodSandboxResponse:
        with self._lock:
            return pb.ListPodSandboxResponse(
                items=[s.item() for s in self._sandboxes.values() if s.matches(request.filter)]
            )

    def UpdatePodSandboxResources(self, request, call: Call) -> pb.UpdatePodSandboxResourcesResponse:
        if self.traits.sandbox_resources != "works":
            raise unknown(self.traits.sandbox_resources)
        self._sandbox(request.pod_sandbox_id)
        return pb.UpdatePodSandboxResourcesResponse()

    # containers

    def CreateContainer(self, request: pb.CreateContainerRequest, call: Call) -> pb.CreateContainerResponse:
        meta = request.config.metadata
        with self._lock:
            sandbox = self._sandbox(request.pod_sandbox_id)
            if sandbox.state != pb.SANDBOX_READY:
                raise unknown(self._said_of_stopped_sandbox(sandbox))
            pod = sandbox.config.metadata
            name = f"{meta.name}_{pod.name}_{pod.namespace}_{pod.uid}_{meta.attempt}"
            first = next((c for c in self._of(sandbox) if c.key == (meta.name, meta.attempt)), None)
            if first is not None:
                return pb.CreateContainerResponse(container_id=self._again("container", name, first.id))
            refs = self._refs(request.config.image.image)
            container = Container(_new_id(), sandbox, request.config, self._created_now(), refs)
            self._containers[container.id] = container
            self._tell(sandbox, container.id, pb.CONTAINER_CREATED_EVENT)
        return pb.CreateContainerResponse(container_id=container.id)

    def StartContainer(self, request: pb.StartContainerRequest, call: Call) -> pb.StartContainerResponse:
        with self._lock:
            container = self._container(request.container_id)
            if container.state != pb.CONTAINER_CREATED:
                raise unknown(f"container is in {pb.ContainerState.Name(container.state)} state")
            config = container.config
            env = {pair.key: pair.value.decode() for pair in config.envs}
            container.log = LogFile(container.log_path)
            argv = (*config.command, *config.args) or ENTRY_POINT
            try:
                container.process = Process(
                    argv, env, config.working_dir, container.log, lambda code: self._exited(container, code)
                )
            except OSError as error:
                self._could_not_start(container, argv[0], error)
            container.state, container.started_at = pb.CONTAINER_RUNNING, time.time_ns()
            self._tell(container.sandbox, container.id, pb.CONTAINER_STARTED_EVENT)
        return pb.StartContainerResponse()

    def StopContainer(self, request: pb.StopContainerRequest, call: Call) -> pb.StopContainerResponse:
        container = self._containers.get(request.container_id)
        if container is None or container.process is None:
            return pb.StopContainerResponse()
        kill_at = time.monotonic() + request.timeout
        if request.timeout == 0:
            self._kill(container)
        with self._lock:
            begun = container.kill_at is not None
            container.kill_at = min(kill_at, container.kill_at) if begun else kill_at
        if not begun:
            container.process.ask_to_end()
            if self.traits.short_stop_shortens:
                threading.Thread(target=self._escalate, args=(container,), daemon=True).start()
        while not container.ended.is_set():
            if call.over.is_set():
                raise CriError(grpc.StatusCode.CANCELLED, "context canceled")
            if not self.traits.short_stop_shortens and time.monotonic() >= kill_at:
                container.process.kill()
            container.ended.wait(0.02)
        return pb.StopContainerResponse()

    def RemoveContainer(self, request: pb.RemoveContainerRequest, call: Call) -> pb.RemoveContainerResponse:
        container = self._containers.get(request.container_id)
        if container is not None:
            self._kill(container)
            with self._lock:
                self._remove(container)
        return pb.RemoveContainerResponse()

    def ListContainers(self, request: pb.ListContainersRequest, call: Call) -> pb.ListContainersResponse:
        with self._lock:
            found = [c.item() for c in self._containers.values() if c.matches(request.filter)]
        return pb.ListContainersResponse(containers=found)

    def ListContainerStats(
        self, request: pb.ListContainerStatsRequest, call: Call
    ) -> pb.ListContainerStatsResponse:
        with self._lock:
            running = [c for c in self._containers.values() if c.pid]
            rows = []
            for container in sorted(running, key=lambda c: c.id):
                row = pb.ContainerStats(attributes=pb.ContainerAttributes(id=container.id))
                row.cpu.timestamp = row.memory.timestamp = row.writable_layer.timestamp = time.time_ns()
                row.cpu.usage_core_nano_seconds.value = 5_000_000
                row.memory.working_set_bytes.value = 1 << 20
                row.writable_layer.used_bytes.value = 4096
                rows.append(row)
        return pb.ListContainerStatsResponse(stats=rows)

    def ContainerStatus(self, request: pb.ContainerStatusRequest, call: Call) -> pb.ContainerStatusResponse:
        with self._lock:
            container = self._container(request.container_id)
            reply = pb.ContainerStatusResponse(status=container.status())
            if request.verbose:
                reply.info["info"] = json.dumps({"sandboxID": container.sandbox.id, "pid": container.pid})
        return reply

    def UpdateContainerResources(self, request, call: Call) -> pb.UpdateContainerResourcesResponse:
        with self._lock:
            self._container(request.container_id).config.linux.resources.MergeFrom(request.linux)
        return pb.UpdateContainerResourcesResponse()

    def ReopenContainerLog(self, request, call: Call) -> pb.ReopenContainerLogResponse:
        container = self._container(request.container_id)
        if container.state != pb.CONTAINER_RUNNING or container.log is None:
            raise unknown("container is not running")
        container.log.reopen()
        return pb.ReopenContainerLogResponse()

    def ExecSync(self, request: pb.ExecSyncRequest, call: Call) -> pb.ExecSyncResponse:
        container = self._container(request.container_id)
        if container.state != pb.CONTAINER_RUNNING:
            raise unknown(f"container is in {pb.ContainerState.Name(container.state)} state")
        given_up = threading.Event()
        call.when_over(given_up.set)
        try:
            code, out, err = run_and_wait(tuple(request.cmd), request.timeout or None, given_up)
        except TimeoutError:
            if self.traits.exec_timeout_is_an_answer:
                return pb.ExecSyncResponse(exit_code=-1, stderr=b"command timed out")
            text = (
                f"failed to exec in container: timeout {request.timeout}s exceeded: context deadline exceeded"
            )
            raise CriError(grpc.StatusCode.DEADLINE_EXCEEDED, text) from None
        except OSError as error:
            raise unknown(f"failed to exec in container: {_not_run(request.cmd[0], error)}") from None
        return pb.ExecSyncResponse(stdout=out, stderr=err, exit_code=code)

    def Exec(self, request: pb.ExecRequest, call: Call) -> pb.ExecResponse:
        container = self._container(request.container_id)
        if container.state != pb.CONTAINER_RUNNING:
            raise unknown(f"container is in {pb.ContainerState.Name(container.state)} state")
        # Nobody serves it: what a personality has of streams is where they would be.
        return pb.ExecResponse(url=f"http://127.0.0.1:1/exec/{secrets.token_hex(4)}")

    # events

    def GetContainerEvents(
        self, request: pb.GetEventsRequest, call: Call
    ) -> Iterator[pb.ContainerEventResponse]:
        if self.traits.events == "ends":
            return
        mine: queue.SimpleQueue[pb.ContainerEventResponse | None] = queue.SimpleQueue()
        with self._lock:
            for event in self._backlog:
                mine.put(event)
            self._backlog.clear()
            self._subscribers.append(mine)
        call.when_over(lambda: mine.put(None))
        try:
            while (event := mine.get()) is not None:
                yield event
        finally:
            with self._lock:
                self._subscribers.remove(mine)

    def _tell(self, sandbox: Sandbox, identity: str, kind: int) -> None:
        event = pb.ContainerEventResponse(
            container_id=identity,
            container_event_type=kind,
            created_at=time.time_ns(),
            pod_sandbox_status=sandbox.status(),
            containers_statuses=[c.status() for c in self._of(sandbox)],
        )
        if not self._subscribers:
            self._backlog.append(event)
        for subscriber in self._subscribers:
            subscriber.put(event)

    # within

    def _check_cgroup_parent(self, parent: str) -> None:
        if self.traits.name == "cri-o" and self.traits.systemd != parent.endswith(".slice"):
            raise unknown(
                "did not receive slice as parent" if self.traits.systemd else "received slice as parent"
            )

    def _again(self, what: str, name: str, identity: str) -> str:
        if self.traits.repeat_returns_the_first:
            return identity
        raise unknown(f'failed to reserve {what} name "{name}": name "{name}" is reserved for "{identity}"')

    def _said_of_stopped_sandbox(self, sandbox: Sandbox) -> str:
        if self.traits.name == "cri-o":
            return f"CreateContainer failed as the sandbox was stopped: {sandbox.id}"
        return f'sandbox container "{sandbox.id}" is not running'

    def _could_not_start(self, container: Container, program: str, error: OSError) -> None:
        container.log.close()
        container.state = pb.CONTAINER_EXITED
        container.finished_at = time.time_ns()
        if self.traits.start_failure_is_shown:
            container.exit_code, container.reason = 128, "StartError"
            container.message = f"failed to create containerd task: {_not_run(program, error)}"
        else:
            container.exit_code, container.reason = self.traits.unknown_code, "Error"
            container.started_at = container.finished_at = container.created_at
            container.message = _not_run(program, error)
        container.ended.set()
        self._tell(container.sandbox, container.id, pb.CONTAINER_STOPPED_EVENT)
        raise unknown(f"failed to start container {container.id}: {_not_run(program, error)}")

    def _escalate(self, container: Container) -> None:
        while not container.ended.is_set():
            if time.monotonic() >= container.kill_at:
                container.process.kill()
            container.ended.wait(0.02)

    def _exited(self, container: Container, code: int) -> None:
        """Record an exit, as late as this runtime does; runs on the process's own thread."""
        finished_at = time.time_ns()
        pause = threading.Event()
        pause.wait(self.traits.lag_s)
        if self.traits.bare_exit_s:
            with self._lock:
                container.state = pb.CONTAINER_EXITED
            pause.wait(self.traits.bare_exit_s)
        with self._lock:
            container.state, container.finished_at = pb.CONTAINER_EXITED, finished_at
            container.exit_code = self.traits.unknown_code if container.exit_is_lost else code
            container.reason = "Completed" if container.exit_code == 0 else "Error"
            if container.exit_is_lost:
                container.reason = "Unknown"
            container.ended.set()
            self._tell(container.sandbox, container.id, pb.CONTAINER_STOPPED_EVENT)

    def _kill(self, container: Container) -> None:
        if container.process is not None:
            container.process.kill()
            container.process.join()

    def _remove(self, container: Container) -> None:
        if self._containers.pop(container.id, None) is not None:
            self._tell(container.sandbox, container.id, pb.CONTAINER_DELETED_EVENT)

    def _sandbox(self, identity: str) -> Sandbox:
        if identity not in self._sandboxes:
            raise not_found(f'an error occurred when try to find sandbox "{identity}": not found')
        return self._sandboxes[identity]

    def _container(self, identity: str) -> Container:
        if identity not in self._containers:
            raise not_found(f'an error occurred when try to find container "{identity}": not found')
        return self._containers[identity]

    def _of(self, sandbox: Sandbox) -> list[Container]:
        with self._lock:
            return [c for c in self._containers.values() if c.sandbox is sandbox]

    def _created_now(self) -> int:
        self._last_created = max(self._last_created + 1, time.time_ns())
        return self._last_created

    def _refs(self, reference: str) -> ImageRefs:
        image = self.images.find(reference)
        if image is None:
            raise not_found(f'failed to resolve image "{reference}": not found')
        identity = self.images.id_of(image)
        return ImageRefs(
            id=identity if self.traits.has_image_id else "",
            listed=image.digest if self.traits.listed_ref_is_digest else identity,
            shown=image.digest,
        )


def _new_id() -> str:
    return secrets.token_hex(32)


def _not_run(program: str, error: OSError) -> str:
    why = (
        "executable file not found in $PATH"
        if isinstance(error, FileNotFoundError)
        else str(error.strerror).lower()
    )
    return f'OCI runtime create failed: runc create failed: unable to start container process: exec: "{program}": {why}: unknown'
