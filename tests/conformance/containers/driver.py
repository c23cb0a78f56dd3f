"""What a driver brings to the suite, and what the tests hold in their hands: `Driver` and `Bench`.

A driver registers in `drivers.py`. `Bench` makes calls, waits for conditions and knows how to ask for a pod.
"""

import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Protocol

import msgspec

from api.errors import Failure, FailureKind
from api.ids import Uid
from api.ports.port import Port, Stream, Undo
from api.ports.runtime import (
    ANNOTATION_HASH,
    ANNOTATION_OWNER,
    LABEL_CONTAINER_NAME,
    LABEL_POD_NAME,
    LABEL_POD_NAMESPACE,
    LABEL_POD_UID,
    ContainerSpec,
    CreateContainer,
    ExecInContainer,
    InspectPod,
    ListPods,
    RemoveContainer,
    RemoveSandbox,
    RunSandbox,
    RuntimeChanged,
    RuntimeContainer,
    RuntimeContainerState,
    RuntimePod,
    Sandbox,
    SandboxSpec,
    StartContainer,
    StopContainer,
    StopSandbox,
)
from runtime.wire.generated import cri_pb2 as pb
from tests.conformance.containers.script import Script
from tests.harness.cri.crilink import RUNTIME, CriLink
from tests.harness.runtimeport import port_for

DEADLINE_S = 10.0


class RuntimeDriver(Port, Protocol):
    """The port ``runtime``, and the other ports of the same runtime."""

    images: Port
    streams: Port
    events: Stream


class Driver(ABC):
    """One implementation of a container runtime's ports, with what the suite must know of it."""

    scheme: ClassVar[str]
    """What container ids begin with: ``embedded://``."""
    image: ClassVar[str]
    """An image that this runtime runs."""
    unknown_image: ClassVar[str] = "registry.invalid/nobody/nothing:1"
    shows_signals: ClassVar[bool] = True
    """Whether `RuntimeContainer.signal` is known; CRI does not tell it."""
    escalates_after_cancel: ClassVar[bool] = True
    """Whether a cancelled stop still kills at the end of its grace."""
    pushes_events: ClassVar[bool] = True
    reopens_logs: ClassVar[bool] = True
    """Whether a running container's log can be opened anew."""
    has_streams: ClassVar[bool] = True
    """Whether commands may have streams."""
    confines: ClassVar[bool] = True
    """Whether containers are confined by CPU and memory."""
    margin_s: ClassVar[float] = 2.0
    """How late a real machine may be."""

    socket: str = ""
    """Path of the runtime's socket, for drivers that are clients of one."""

    runtime: RuntimeDriver

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """Temporary, this driver's own: roots, sockets and pod logs go here."""

    @abstractmethod
    def command_for(self, script: Script) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return (command, args) that do what `script` says."""

    def fields_for(self, script: Script) -> dict[str, Any]:
        """Return what else a container's spec needs for this runtime to do what `script` says."""
        return {}

    def sandbox_fields(self) -> dict[str, Any]:
        """Return what else a sandbox's spec needs for nothing of it to be left on this machine."""
        return {}

    def amounts(self, container: RuntimeContainer) -> tuple[int, int, int]:
        """Return CPU quota (us), CPU shares and memory limit (bytes) that a running container is confined by."""
        now = container.resources
        assert now is not None
        return now.cpu_quota_us, now.cpu_shares, now.memory_limit_bytes

    def listens(self, container: RuntimeContainer) -> bool:
        """Tell whether a container that runs `Run` would obey SIGTERM by now."""
        return True

    @abstractmethod
    def reopen(self) -> None:
        """Replace `runtime` by a new driver object over the same world, as after kill -9."""

    @abstractmethod
    def close(self) -> None:
        """Stop everything that runs and leave nothing behind."""

    def now(self) -> float:
        """Return monotonic seconds of the driver's own time."""
        return time.monotonic()

    def wall(self) -> int:
        """Return wall clock nanoseconds of the driver's own time."""
        return time.time_ns()

    def let_time_pass(self, at_most_s: float) -> None:
        """Let a moment pass: the suite looks again afterwards."""
        threading.Event().wait(min(0.005, at_most_s))

    def rename_log(self, path: str, name: str) -> None:
        """Rename a file of a container's log folder, as a rotation does."""
        Path(path).rename(Path(path).with_name(name))

    def lines_of(self, path: str) -> list[tuple[str, str]]:
        """Return (stream, text) of every full line in a file of a container's log folder; none where there is no file."""
        file = Path(path)
        return list(_cri_lines(file.read_text())) if file.exists() else []

    def log_lines(self, container: RuntimeContainer) -> list[tuple[str, str]]:
        """Return (stream, text) of every full line in a container's log, in order."""
        return self.lines_of(container.log_path)


def _cri_lines(text: str) -> Iterator[tuple[str, str]]:
    """Read the CRI log format, joining partial records of one stream."""
    partial: dict[str, str] = {}
    for record in text.splitlines():
        _time, stream, tags, content = record.split(" ", 3)
        partial[stream] = partial.get(stream, "") + content
        if tags.split(":")[0] == "F":
            yield stream, partial.pop(stream)


def run_bare(socket: str, spec: SandboxSpec) -> None:
    """Run a sandbox through CRI without our driver: with a kubelet's labels and nothing of ours."""
    metadata = pb.PodSandboxMetadata(
        name=spec.name, uid=spec.uid, namespace=spec.namespace, attempt=spec.attempt
    )
    labels = {LABEL_POD_NAME: spec.name, LABEL_POD_NAMESPACE: spec.namespace, LABEL_POD_UID: spec.uid}
    network = pb.NamespaceOption(network=pb.NODE)
    linux = pb.LinuxPodSandboxConfig(
        cgroup_parent=spec.cgroup_parent,
        security_context=pb.LinuxSandboxSecurityContext(namespace_options=network),
    )
    config = pb.PodSandboxConfig(
        metadata=metadata, labels=labels, log_directory=spec.log_directory, linux=linux
    )
    request = pb.RunPodSandboxRequest(config=config)
    link = CriLink(socket)
    try:
        link.call(f"{RUNTIME}RunPodSandbox", request.SerializeToString())
    finally:
        link.close()


class CallFailedError(Exception):
    """A call on the port failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.brief())
        self.failure = failure
        self.kind = failure.kind


class Pending:
    """A call that was begun."""

    def __init__(self) -> None:
        self.answers: list[tuple[msgspec.Struct | None, Failure | None]] = []
        self.cancel: Undo = lambda: None

    def done(self, result: msgspec.Struct | None, failure: Failure | None) -> None:
        """Take the answer."""
        self.answers.append((result, failure))

    @property
    def ended(self) -> bool:
        """Say whether the answer is there."""
        return bool(self.answers)

    @property
    def result(self) -> Any:
        """Return the first answer's result; raises `CallFailedError`."""
        result, failure = self.answers[0]
        assert (result is None) != (failure is None), "exactly one of result and failure"
        if failure is not None:
            raise CallFailedError(failure)
        return result


class Bench:
    """A driver with its hands: makes calls, waits, asks for pods."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.heard: list[Uid] = []
        self._numbers = itertools.count(1)
        self._close: Undo = lambda: None

    # waiting -----------------------------------------------------------------

    def until(self, condition: Callable[[], object], what: str, within_s: float = DEADLINE_S) -> None:
        """Wait for a condition on a level; fail with `what` at the deadline."""
        ends_at = self.driver.now() + within_s
        while not condition():
            left_s = ends_at - self.driver.now()
            assert left_s > 0, f"not within {within_s:g} s: {what}"
            self.driver.let_time_pass(left_s)

    def latest(self) -> int:
        """Return the wall clock with a millisecond's leeway: creation times give way to each other by nanoseconds."""
        return self.driver.wall() + 1_000_000

    # calls -------------------------------------------------------------------

    def begin(self, call: msgspec.Struct, deadline_s: float = DEADLINE_S) -> Pending:
        """Begin a call."""
        pending = Pending()
        pending.cancel = port_for(self.driver.runtime, call).begin(call, deadline_s, pending.done)
        return pending

    def wait(self, pending: Pending, within_s: float = DEADLINE_S) -> Any:
        """Wait for an answer and return its result; raises `CallFailedError`."""
        self.until(lambda: pending.ended, "the call's answer", within_s)
        return pending.result

    def call(self, call: msgspec.Struct, deadline_s: float = DEADLINE_S) -> Any:
        """Make a call and wait for its result; raises `CallFailedError`."""
        return self.wait(self.begin(call, deadline_s), deadline_s + 1)

    def inspect(self, uid: Uid) -> RuntimePod:
        """Ask for one pod."""
        return self.call(InspectPod(uid=uid))

    def listing(self) -> Any:
        """Ask for all pods."""
        return self.call(ListPods())

    # asking for pods ---------------------------------------------------------

    def new_uid(self) -> Uid:
        """Return a UID that no other pod of this test has."""
        return Uid(f"00000000-0000-4000-8000-{next(self._numbers):012d}")

    def sandbox_spec(self, uid: Uid, attempt: int = 0, *, ours: bool = True, **fields: Any) -> SandboxSpec:
        """Describe a sandbox."""
        name = f"pod-{int(uid[-4:])}"
        annotations = ((ANNOTATION_OWNER, "nodeagent"),) if ours else ()
        values: dict[str, Any] = {
            "uid": uid,
            "name": name,
            "namespace": "suite",
            "attempt": attempt,
            "labels": (("app", "suite"), (LABEL_POD_UID, uid)),
            "annotations": (*annotations, ("suite.test/greeting", "hello, world = \u00fc")),
            "log_directory": str(self.driver.folder / "logs" / f"suite_{name}_{uid}"),
            "host_network": True,
            "grace_s": 5,
            **self.driver.sandbox_fields(),
        }
        return SandboxSpec(**(values | fields))

    def run_sandbox(self, uid: Uid | None = None, attempt: int = 0, **fields: Any) -> Sandbox:
        """Run a sandbox and return it."""
        spec = self.sandbox_spec(uid or self.new_uid(), attempt, **fields)
        pod = self.call(RunSandbox(spec=spec))
        return next(s for s in pod.sandboxes if s.attempt == attempt)

    def run_foreign_sandbox(self) -> Sandbox:
        """Run a sandbox as another agent would, and return it."""
        uid = self.new_uid()
        spec = self.sandbox_spec(uid, ours=False)
        if self.driver.socket:
            run_bare(self.driver.socket, spec)
        else:
            self.call(RunSandbox(spec=spec))
        return self.inspect(uid).sandboxes[0]

    def container_spec(
        self, script: Script, name: str = "main", attempt: int = 0, **fields: Any
    ) -> ContainerSpec:
        """Describe a container that does what `script` says."""
        command, args = self.driver.command_for(script)
        values: dict[str, Any] = {
            "name": name,
            "attempt": attempt,
            "image": self.driver.image,
            "command": command,
            "args": args,
            "labels": ((LABEL_CONTAINER_NAME, name),),
            "annotations": ((ANNOTATION_HASH, f"{attempt:x}"),),
            "log_path": f"{name}/{attempt}.log",
            **self.driver.fields_for(script),
        }
        return ContainerSpec(**(values | fields))

    def creation(self, sandbox: Sandbox, spec: ContainerSpec) -> CreateContainer:
        """Return the call that makes a container."""
        box = self.sandbox_spec(sandbox.uid, sandbox.attempt)
        return CreateContainer(uid=sandbox.uid, sandbox_id=sandbox.id, sandbox=box, spec=spec)

    def create(
        self, sandbox: Sandbox, script: Script, name: str = "main", attempt: int = 0, **fields: Any
    ) -> RuntimeContainer:
        """Create a container and return it."""
        spec = self.container_spec(script, name, attempt, **fields)
        pod = self.call(self.creation(sandbox, spec))
        return next(
            c for c in pod.containers if (c.sandbox_id, c.name, c.attempt) == (sandbox.id, name, attempt)
        )

    def start(self, sandbox: Sandbox, container: RuntimeContainer) -> RuntimeContainer:
        """Start a container and return what the outcome shows of it."""
        pod = self.call(StartContainer(uid=sandbox.uid, container_id=container.id))
        return one(pod, container.id)

    def run(
        self, sandbox: Sandbox, script: Script, name: str = "main", attempt: int = 0, **fields: Any
    ) -> RuntimeContainer:
        """Create and start a container."""
        return self.start(sandbox, self.create(sandbox, script, name, attempt, **fields))

    def look(self, sandbox: Sandbox, container: RuntimeContainer) -> RuntimeContainer:
        """Ask for one container's present state."""
        return one(self.inspect(sandbox.uid), container.id)

    def exited(
        self, sandbox: Sandbox, container: RuntimeContainer, within_s: float = DEADLINE_S
    ) -> RuntimeContainer:
        """Wait until a container exited and return it."""
        self.until(
            lambda: self.look(sandbox, container).state is RuntimeContainerState.EXITED,
            "the container's exit",
            within_s,
        )
        return self.look(sandbox, container)

    def amounts(self, container: RuntimeContainer) -> tuple[int, int, int]:
        """Return CPU quota (us), CPU shares and memory limit (bytes) that a running container is confined by."""
        return self.driver.amounts(container)

    def listening(self, container: RuntimeContainer) -> None:
        """Wait until a container that runs `Run` would obey SIGTERM."""
        self.until(lambda: self.driver.listens(container), "it listens for SIGTERM")

    def printed(self, container: RuntimeContainer, text: str) -> None:
        """Wait until a container printed a line."""
        self.until(
            lambda: text in [line for _, line in self.driver.log_lines(container)], f"the line {text!r}"
        )

    def stop(self, sandbox: Sandbox, container: RuntimeContainer, grace_s: float) -> Pending:
        """Begin to stop a container."""
        call = StopContainer(uid=sandbox.uid, container_id=container.id, grace_s=grace_s)
        return self.begin(call, deadline_s=grace_s + DEADLINE_S)

    def exec(self, sandbox: Sandbox, container: RuntimeContainer, script: Script, **fields: Any) -> Any:
        """Run a script in a container and wait."""
        command, args = self.driver.command_for(script)
        values: dict[str, Any] = {"timeout_s": 5.0} | fields
        call = ExecInContainer(
            uid=sandbox.uid, container_id=container.id, command=(*command, *args), **values
        )
        return self.call(call, deadline_s=values["timeout_s"] + DEADLINE_S)

    # events and restarts -----------------------------------------------------

    def listen(self) -> None:
        """Open the stream of events."""

        def push(item: Any) -> None:
            assert isinstance(item, RuntimeChanged)
            self.heard.append(item.uid)

        self._close = self.driver.runtime.events.open(push, lambda _failure: None)

    def unlisten(self) -> None:
        """Close the stream of events."""
        self._close()

    def reopen(self) -> None:
        """Lose the driver object and make a new one over the same world."""
        self.unlisten()
        self.driver.reopen()

    def insist(self, call: msgspec.Struct, times: int = 5) -> None:
        """Make a call again while the runtime fails it for the moment, as an agent would.

        containerd 1.7 fails a stop that meets a container in the very moment of its own end.
        """
        for left in reversed(range(times)):
            try:
                self.call(call)
            except CallFailedError as error:
                if error.kind is not FailureKind.UNAVAILABLE or not left:
                    raise
                self.driver.let_time_pass(0.2)
            else:
                return

    def clean_up(self) -> None:
        """Remove every pod through the port, then close the driver."""
        try:
            self.unlisten()
            for pod in self.listing().pods:
                for sandbox in pod.sandboxes:
                    self.insist(StopSandbox(uid=pod.uid, sandbox_id=sandbox.id))
                    self.insist(RemoveSandbox(uid=pod.uid, sandbox_id=sandbox.id))
        finally:
            self.driver.close()


def one(pod: RuntimePod, container_id: str) -> RuntimeContainer:
    """Return the container of this id."""
    return next(c for c in pod.containers if c.id == container_id)


def remove(sandbox: Sandbox, container: RuntimeContainer) -> RemoveContainer:
    """Return the call that removes a container."""
    return RemoveContainer(uid=sandbox.uid, container_id=container.id)
