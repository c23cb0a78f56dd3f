"""A container runtime in memory: the port ``runtime`` and the stream ``runtime.events`` over a virtual world.

It is the world of a simulation and survives a kill of the agent:

```text
agent --begin--> MemoryRuntime --after a drawn delay--> World (effect) --after another--> done
world side: kill_container, kill_sandbox, remove_behind_our_back, add_foreign_pod, reboot, disconnect
```

With no `Latency` an effect and its `done` happen within `begin`. A call that was cancelled or timed out before its
effect happens all the same (the request had been sent), except for calls that only wait: stops, commands and reads.
Callbacks are called outside the lock, on whatever thread made them due.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import assert_never

import msgspec

from api.errors import (
    ConflictError,
    Failure,
    FailureKind,
    NotFoundError,
    OperatingError,
    RejectedError,
)
from api.ids import Uid
from api.ports.images import (
    ImageFsUsage,
    ImageListing,
    ImagePulled,
    ImageRemoved,
    ImageRow,
    ImageShown,
    ImageStatus,
    ListImages,
    PullImage,
    RemoveImage,
)
from api.ports.port import Done, Timers, Undo
from api.ports.runtime import (
    HOST_IMAGE,
    ContainerSpec,
    CreateContainer,
    ExecInContainer,
    ExecResult,
    InspectPod,
    ListPods,
    OpenExec,
    PodListing,
    RemoveContainer,
    RemoveSandbox,
    ReopenContainerLog,
    RunSandbox,
    RuntimeCall,
    RuntimeChanged,
    RuntimeContainerState,
    RuntimeInfo,
    RuntimePod,
    RuntimeStatus,
    SandboxSpec,
    StartContainer,
    StopContainer,
    StopSandbox,
    UpdateContainer,
)
from api.ports.usage import ContainerStats, ReadContainerStats
from runtime.drivers.memory.behaviour import (
    SIGKILL,
    SIGTERM,
    Behave,
    Behaviour,
    behaviour_of,
    killed_by,
    parse,
)
from runtime.drivers.memory.disk import Disk
from runtime.drivers.memory.history import Cause, HistoryRow, violations
from runtime.drivers.memory.stream import MemoryStream
from runtime.drivers.memory.usage import StatSource
from runtime.drivers.memory.world import World

DEFAULT_IMAGES = (
    ImageRow(id="sha256:" + "0" * 64, names=(HOST_IMAGE,), pinned=True),
    ImageRow(id="sha256:" + "1" * 64, names=("memory.local/any:1",), size_bytes=1 << 20, pinned=True),
)

ExecBehave = Callable[[str, tuple[str, ...]], Behaviour]
"""Decides what a command run in the container of this name does."""


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """How long the runtime takes, each as (least, most) seconds; drawn from the world's seed."""

    effect_s: tuple[float, float] = (0.0, 0.0)
    pull_s: tuple[float, float] = (0.0, 0.0)
    """Until an image is fetched that is not held; instead of `effect_s`."""
    reply_s: tuple[float, float] = (0.0, 0.0)
    event_s: tuple[float, float] = (0.0, 0.0)


class _Pending:
    """A call in flight; `done` is called at most once."""

    def __init__(self, call: RuntimeCall, done: Done) -> None:
        self.call = call
        self.done: Done | None = done
        self.cancelled = False
        self.undo: list[Undo] = []


class MemoryRuntime:
    """The container runtime port over a world in memory, and the world's own hands."""

    name = "runtime"

    def __init__(
        self,
        timers: Timers,
        *,
        seed: int = 0,
        latency: Latency | None = None,
        behave: Behave = behaviour_of,
        exec_behave: ExecBehave | None = None,
        images: tuple[ImageRow, ...] = DEFAULT_IMAGES,
        registry: tuple[ImageRow, ...] = (),
        complete_listings: bool = True,
        disk: Disk | None = None,
    ) -> None:
        self.events = MemoryStream("runtime.events")
        self.info = RuntimeInfo(name="memory", version="1")
        self.disk = disk or Disk()
        self.usage: StatSource | None = None
        """What counts for its containers; None: nothing does."""
        self._timers = timers
        self._random = random.Random(seed)  # noqa: S311  # a simulation repeats its seed
        self._latency = latency or Latency()
        self._exec_behave: ExecBehave = exec_behave or (lambda _name, command: parse(command))
        self._complete = complete_listings
        self._lock = threading.RLock()
        self._turning = False
        self._due: list[Callable[[], None]] = []
        self._pending: dict[_Pending, None] = {}
        self._shown: set[str] = set()
        self._foreign = 0
        self._world = World(timers, behave, images, self._guarded, self._changed)
        self._world.registry = registry

    # ------------------------------------------------------------ the port

    def begin(self, call: msgspec.Struct, deadline_s: float, done: Done) -> Undo:
        """Start a `RuntimeCall`; `done` follows, at the deadline at the latest."""
        if not isinstance(call, RuntimeCall):
            raise TypeError(f"the port runtime takes no {type(call).__name__}")
        with self._turn():
            pending = _Pending(call, done)
            self._pending[pending] = None
            self._later(pending, deadline_s, lambda: self._give_up(pending, deadline_s))
            fetches = isinstance(call, PullImage) and self._world.image(call.image) is None
            takes_s = self._latency.pull_s if fetches else self._latency.effect_s
            self._after(takes_s, lambda: self._carry_out(pending))
        return self._guarded(lambda: self._cancel(pending))

    def _carry_out(self, pending: _Pending) -> None:
        call = pending.call
        waits = isinstance(
            call,
            StopContainer
            | ExecInContainer
            | ListPods
            | InspectPod
            | ListImages
            | ImageStatus
            | PullImage
            | ReadContainerStats
            | RuntimeStatus,
        )
        if pending.cancelled and waits:
            return
        try:
            result = self._apply(pending)
        except OperatingError as error:
            self._reply(pending, None, error.failure())
        else:
            if result is not None:
                self._reply(pending, result, None)

    def _apply(self, pending: _Pending) -> msgspec.Struct | None:  # noqa: C901  # one case per call
        """Make a call's effect happen; None means that the answer follows later."""
        call, world = pending.call, self._world
        match call:
            case RunSandbox():
                return world.pod(world.run_sandbox(call))
            case StopSandbox():
                return world.pod(world.stop_sandbox(call))
            case RemoveSandbox():
                return world.pod(world.remove_sandbox(call))
            case CreateContainer():
                return world.pod(world.create_container(call))
            case StartContainer():
                return world.pod(world.start_container(call))
            case StopContainer():
                return self._stop(pending, call)
            case UpdateContainer():
                return world.pod(world.update_container(call))
            case RemoveContainer():
                return world.pod(world.remove_container(call))
            case ListPods():
                return self._listing()
            case InspectPod():
                return world.pod(call.uid)
            case ExecInContainer():
                self._exec(pending, call)
                return None
            case ListImages():
                return ImageListing(images=tuple(sorted(world.images, key=lambda row: row.id)))
            case ReopenContainerLog():
                return world.pod(world.reopen_log(call))
            case OpenExec():
                raise RejectedError("the memory runtime has no streams")
            case ImageStatus():
                return ImageShown(image=world.image(call.image))
            case PullImage():
                return ImagePulled(ref=world.pull(call.image))
            case RemoveImage():
                gone = [row for row in world.images if call.image in (row.id, *row.names)]
                world.images = tuple(row for row in world.images if row not in gone)
                self.disk.removed(gone, self._timers.now())
                return ImageRemoved()
            case ImageFsUsage():
                return self.disk.measure(world.images, self._timers.now(), self._timers.wall())
            case ReadContainerStats():
                return self._stats()
            case RuntimeStatus():
                return self.info
            case _:
                assert_never(call)

    def _stats(self) -> ContainerStats:
        if self.usage is None:
            raise RejectedError("the memory runtime counts nothing")
        running = (c.id for c in self._world.containers.values() if c.id in self._world.processes)
        return self.usage.stats(tuple(sorted(running)))

    def _stop(self, pending: _Pending, call: StopContainer) -> RuntimePod | None:
        container = self._world.container(call.uid, call.container_id)
        process = self._world.stop_container(container, call.grace_s) if container else None
        if process is None:
            return self._world.pod(call.uid)
        process.on_exit.append(lambda: self._reply(pending, self._world.pod(call.uid), None))
        return None

    def _exec(self, pending: _Pending, call: ExecInContainer) -> None:
        container = self._world.known_container(call.uid, call.container_id)
        process = self._world.processes.get(container.id)
        if process is None:
            raise ConflictError(
                f"container {container.name} ({container.id}) is {container.state.value}; commands need a running one"
            )
        behaviour = self._exec_behave(container.name, call.command)
        if behaviour.cannot_start:
            raise NotFoundError(f"container {container.name}: {behaviour.cannot_start}")
        self._world.record_executed(container)
        result = _exec_result(behaviour, call.limit_bytes)
        if behaviour.ends_after_s is not None and behaviour.ends_after_s <= call.timeout_s:
            self._later(pending, behaviour.ends_after_s, lambda: self._reply(pending, result, None))
        else:
            late = Failure(
                kind=FailureKind.TIMED_OUT,
                message=f"the command in container {container.name} ran longer than {call.timeout_s:g} s and was killed",
            )
            self._later(pending, call.timeout_s, lambda: self._reply(pending, None, late))
        ending = killed_by(SIGKILL)
        process.on_exit.append(
            lambda: self._reply(pending, msgspec.structs.replace(result, exit_code=ending.code), None)
        )

    def _listing(self) -> PodListing:
        listing = self._world.listing()
        if self._complete:
            return listing
        pods = tuple(
            msgspec.structs.replace(
                pod,
                containers=tuple(
                    msgspec.structs.replace(
                        c,
                        exit_code=None,
                        finished_at=None,
                        started_at=None,
                        signal=0,
                        reason="",
                        message="",
                        pid=0,
                    )
                    for c in pod.containers
                ),
            )
            for pod in listing.pods
        )
        return PodListing(pods=pods, complete=False)

    def _reply(self, pending: _Pending, result: msgspec.Struct | None, failure: Failure | None) -> None:
        if pending.done is None:
            return
        self._after(self._latency.reply_s, lambda: self._settle(pending, result, failure))

    def _settle(self, pending: _Pending, result: msgspec.Struct | None, failure: Failure | None) -> None:
        done, pending.done = pending.done, None
        self._pending.pop(pending, None)
        for undo in pending.undo:
            undo()
        if done is None:
            return
        match result:
            case RuntimePod():
                self._world.record_shown(result, self._shown)
            case PodListing(pods=pods):
                for pod in pods:
                    self._world.record_shown(pod, self._shown)
            case _:
                pass
        self._due.append(lambda: done(result, failure))

    def _cancel(self, pending: _Pending) -> None:
        if pending.done is not None:
            pending.cancelled = True
            message = f"{pending.call.brief()} was cancelled; it may have happened"
            self._settle(pending, None, Failure(kind=FailureKind.CANCELLED, message=message))

    def _give_up(self, pending: _Pending, deadline_s: float) -> None:
        message = (
            f"{pending.call.brief()} did not end within {deadline_s:g} s; it may have happened: look first"
        )
        self._settle(pending, None, Failure(kind=FailureKind.TIMED_OUT, message=message))

    # ------------------------------------------------------------ the world's hands

    @property
    def history(self) -> tuple[HistoryRow, ...]:
        """Return what happened so far."""
        with self._lock:
            return tuple(self._world.history)

    def violations(self) -> tuple[str, ...]:
        """Return one sentence for each rule that was broken so far."""
        return violations(self.history)

    def snapshot(self) -> PodListing:
        """Return the whole truth at once, without the agent's knowing."""
        with self._lock:
            return self._world.listing()

    def running(self) -> tuple[tuple[Uid, str], ...]:
        """Return (UID, container id) of all that runs, oldest start first: candidates for a fault."""
        with self._lock:
            return tuple((self._world.uid_of(c), c.id) for c in self._world.running())

    @property
    def files(self) -> dict[str, list[tuple[str, str]]]:
        """Return the log files by path, as a disk that others read and change too."""
        return self._world.logs

    def log_lines(self, log_path: str) -> tuple[tuple[str, str], ...]:
        """Return (stream, text) of all lines written to a container's log."""
        with self._lock:
            return tuple(self._world.logs.get(log_path, ()))

    def kill_container(self, container_id: str, signal: int = SIGKILL) -> None:
        """Send a signal to a container from outside the agent; SIGTERM as its script takes it."""
        with self._turn():
            container = self._world.containers.get(container_id)
            if container is None or container.state is not RuntimeContainerState.RUNNING:
                return
            if signal == SIGTERM:
                self._world.send_term(container, Cause.WORLD)
            else:
                reason = "OOMKilled" if signal == SIGKILL else "Error"
                self._world.end(container_id, killed_by(signal, reason), Cause.WORLD)

    def kill_sandbox(self, uid: Uid) -> None:
        """Kill the holder of a pod's ready sandboxes, and with it all containers in them."""
        with self._turn():
            for sandbox in self._world.pod(uid).sandboxes:
                self._world.stop_sandbox(StopSandbox(uid=uid, sandbox_id=sandbox.id), Cause.WORLD)

    def remove_behind_our_back(self, record_id: str) -> None:
        """Remove a container, or a sandbox with all in it, as an administrator with another tool would."""
        with self._turn():
            container = self._world.containers.get(record_id)
            sandbox = self._world.sandboxes.get(record_id)
            if container is not None:
                self._world.remove_record(container, Cause.WORLD)
            elif sandbox is not None:
                call = RemoveSandbox(uid=sandbox.uid, sandbox_id=record_id)
                self._world.remove_sandbox(call, Cause.WORLD)

    def remove_image(self, image_id: str) -> None:
        """Remove an image as an administrator with another tool would."""
        with self._turn():
            self._world.images = tuple(row for row in self._world.images if row.id != image_id)

    def lose_track(self, container_id: str) -> None:
        """Make the state of a running container unknown."""
        with self._turn():
            if container_id in self._world.processes:
                self._world.set_unknown(container_id)

    def add_foreign_pod(self, namespace: str, name: str, script: tuple[str, ...] = ("run",)) -> RuntimePod:
        """Add a pod with one running container that another agent made: no owner annotation."""
        with self._turn():
            self._foreign += 1
            uid = Uid(f"foreign-{self._foreign}")
            folder = f"/var/log/pods/{namespace}_{name}_{uid}"
            spec = SandboxSpec(uid=uid, name=name, namespace=namespace, attempt=0, log_directory=folder)
            self._world.run_sandbox(RunSandbox(spec=spec))
            (sandbox,) = self._world.pod(uid).sandboxes
            image = self._world.images[0].names[0]
            inside = ContainerSpec(name="main", attempt=0, image=image, command=script, log_path="main/0.log")
            self._world.create_container(
                CreateContainer(uid=uid, sandbox_id=sandbox.id, sandbox=spec, spec=inside)
            )
            (container,) = self._world.pod(uid).containers
            self._world.start_container(StartContainer(uid=uid, container_id=container.id))
            return self._world.pod(uid)

    def disconnect(self) -> None:
        """Forget the agent, which was killed: no callback reaches it any more. Its calls in flight continue."""
        with self._turn():
            for pending in self._pending:
                pending.done = None
            self._pending.clear()
            self.events.forget_listeners()

    def reboot(self) -> None:
        """Restart the machine: the agent is gone, containers exited with 255, sandboxes not ready, records stay."""
        with self._turn():
            self.disconnect()
            self._world.reboot()

    # ------------------------------------------------------------ locks and timers

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the lock, then call what became due, without it."""
        with self._lock:
            outermost = not self._turning
            self._turning = True
            try:
                yield
            finally:
                due: list[Callable[[], None]] = []
                if outermost:
                    self._turning = False
                    due, self._due = self._due, due
        for callback in due:
            callback()

    def _guarded(self, then: Callable[[], None]) -> Callable[[], None]:
        def turn() -> None:
            with self._turn():
                then()

        return turn

    def _changed(self, uid: Uid) -> None:
        item = RuntimeChanged(uid=uid)
        self._after(self._latency.event_s, lambda: self._due.append(lambda: self.events.push(item)))

    def _after(self, between_s: tuple[float, float], then: Callable[[], None]) -> None:
        delay_s = self._random.uniform(*between_s) if between_s[1] > 0 else 0.0
        if delay_s <= 0:
            then()
        else:
            self._timers.call_at(self._timers.now() + delay_s, self._guarded(then))

    def _later(self, pending: _Pending, delay_s: float, then: Callable[[], None]) -> None:
        pending.undo.append(self._timers.call_at(self._timers.now() + delay_s, self._guarded(then)))


def _exec_result(behaviour: Behaviour, limit_bytes: int) -> ExecResult:
    """Return what a command that runs to its end leaves behind, each stream cut at the limit."""
    streams = {
        output: "".join(f"{line.text}\n" for line in behaviour.lines if line.output == output).encode()
        for output in ("stdout", "stderr")
    }
    return ExecResult(
        exit_code=behaviour.ending.code,
        stdout=streams["stdout"][:limit_bytes],
        stderr=streams["stderr"][:limit_bytes],
        truncated=any(len(text) > limit_bytes for text in streams.values()),
    )
