"""A container runtime in memory: its ports and the stream ``runtime.events`` over a virtual world.

It is the world of a simulation and survives a kill of the agent:

```text
agent --begin--> MemoryRuntime --after a drawn delay--> World (effect) --after another--> done
world side: kill_container, kill_sandbox, remove_behind_our_back, add_foreign_pod, reboot, disconnect
```

When what happens is in `runtime.drivers.memory.call`; what only waits are stops, commands and looks.
"""

from collections.abc import Callable
from typing import assert_never

import msgspec

from api.errors import ConflictError, Failure, FailureKind, NotFoundError, RejectedError
from api.ids import Uid
from api.ports.call import Done as NothingMore
from api.ports.images import ImageRow
from api.ports.port import Done, Timers, Undo
from api.ports.runtime import (
    HOST_IMAGE,
    ContainerSpec,
    CreateContainer,
    ExecInContainer,
    ExecResult,
    InspectPod,
    ListPods,
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
    SetPodCidr,
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
from runtime.drivers.memory.call import Latency, MemoryCall, MemoryCalls
from runtime.drivers.memory.disk import Disk
from runtime.drivers.memory.history import Cause, HistoryRow, violations
from runtime.drivers.memory.image import MemoryImages
from runtime.drivers.memory.stream import MemoryStream
from runtime.drivers.memory.streaming import MemoryStreams
from runtime.drivers.memory.usage import StatSource
from runtime.drivers.memory.world import World

DEFAULT_IMAGES = (
    ImageRow(id="sha256:" + "0" * 64, names=(HOST_IMAGE,), pinned=True),
    ImageRow(id="sha256:" + "1" * 64, names=("memory.local/any:1",), size_bytes=1 << 20, pinned=True),
)

WAITING = StopContainer | ExecInContainer | ListPods | InspectPod | ReadContainerStats | RuntimeStatus
"""Calls that do not happen once they are cancelled."""
ExecBehave = Callable[[str, tuple[str, ...]], Behaviour]
"""Decides what a command run in the container of this name does."""


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
        self.pod_cidr = ""
        """The addresses of pods, as it was told last."""
        self.usage: StatSource | None = None
        """What counts for its containers; None: nothing does."""
        self._timers = timers
        self._calls = MemoryCalls(timers, seed=seed, latency=latency or Latency())
        self._calls.on_answer = self._tell_shown
        self._exec_behave: ExecBehave = exec_behave or (lambda _name, command: parse(command))
        self._complete = complete_listings
        self._shown: set[str] = set()
        self._foreign = 0
        self._world = World(timers, behave, images, self._calls.guarded, self._changed)
        self._world.registry = registry
        self.streams = MemoryStreams()
        self.images = MemoryImages(self._calls, self._world, disk or Disk(), timers)

    # ------------------------------------------------------------ the port

    def begin(self, call: msgspec.Struct, deadline_s: float, done: Done) -> Undo:
        """Start a `RuntimeCall`; `done` follows, at the deadline at the latest."""
        if not isinstance(call, RuntimeCall):
            raise TypeError(f"the port runtime takes no {type(call).__name__}")
        return self._calls.begin(
            call,
            deadline_s,
            done,
            lambda pending: self._apply(pending, call),
            takes_s=self._calls.latency.effect_s,
            waits=isinstance(call, WAITING),
        )

    def _apply(self, pending: MemoryCall, call: RuntimeCall) -> msgspec.Struct | None:  # noqa: C901  # one case per call
        """Make a call's effect happen; None means that the answer follows later."""
        world = self._world
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
            case ReopenContainerLog():
                return world.pod(world.reopen_log(call))
            case ReadContainerStats():
                return self._stats()
            case RuntimeStatus():
                return self.info
            case SetPodCidr(pod_cidr=cidr):
                self.pod_cidr = cidr
                return NothingMore()
            case _:
                assert_never(call)

    def _stats(self) -> ContainerStats:
        if self.usage is None:
            raise RejectedError("the memory runtime counts nothing")
        running = (c.id for c in self._world.containers.values() if c.id in self._world.processes)
        return self.usage.stats(tuple(sorted(running)))

    def _stop(self, pending: MemoryCall, call: StopContainer) -> RuntimePod | None:
        container = self._world.container(call.uid, call.container_id)
        process = self._world.stop_container(container, call.grace_s) if container else None
        if process is None:
            return self._world.pod(call.uid)
        process.on_exit.append(lambda: self._calls.reply(pending, self._world.pod(call.uid), None))
        return None

    def _exec(self, pending: MemoryCall, call: ExecInContainer) -> None:
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
            self._calls.later(
                pending, behaviour.ends_after_s, lambda: self._calls.reply(pending, result, None)
            )
        else:
            late = Failure(
                kind=FailureKind.TIMED_OUT,
                message=f"the command in container {container.name} ran longer than {call.timeout_s:g} s and was killed",
            )
            self._calls.later(pending, call.timeout_s, lambda: self._calls.reply(pending, None, late))
        ending = killed_by(SIGKILL)
        process.on_exit.append(
            lambda: self._calls.reply(pending, msgspec.structs.replace(result, exit_code=ending.code), None)
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

    def _tell_shown(self, result: msgspec.Struct | None) -> None:
        match result:
            case RuntimePod():
                self._world.record_shown(result, self._shown)
            case PodListing(pods=pods):
                for pod in pods:
                    self._world.record_shown(pod, self._shown)
            case _:
                pass

    # ------------------------------------------------------------ the world's hands

    @property
    def history(self) -> tuple[HistoryRow, ...]:
        """Return what happened so far."""
        with self._calls.lock:
            return tuple(self._world.history)

    def violations(self) -> tuple[str, ...]:
        """Return one sentence for each rule that was broken so far."""
        return violations(self.history)

    def snapshot(self) -> PodListing:
        """Return the whole truth at once, without the agent's knowing."""
        with self._calls.lock:
            return self._world.listing()

    def running(self) -> tuple[tuple[Uid, str], ...]:
        """Return (UID, container id) of all that runs, oldest start first: candidates for a fault."""
        with self._calls.lock:
            return tuple((self._world.uid_of(c), c.id) for c in self._world.running())

    @property
    def files(self) -> dict[str, list[tuple[str, str]]]:
        """Return the log files by path, as a disk that others read and change too."""
        return self._world.logs

    def log_lines(self, log_path: str) -> tuple[tuple[str, str], ...]:
        """Return (stream, text) of all lines written to a container's log."""
        with self._calls.lock:
            return tuple(self._world.logs.get(log_path, ()))

    def kill_container(self, container_id: str, signal: int = SIGKILL) -> None:
        """Send a signal to a container from outside the agent; SIGTERM as its script takes it."""
        with self._calls.turn():
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
        with self._calls.turn():
            for sandbox in self._world.pod(uid).sandboxes:
                self._world.stop_sandbox(StopSandbox(uid=uid, sandbox_id=sandbox.id), Cause.WORLD)

    def remove_behind_our_back(self, record_id: str) -> None:
        """Remove a container, or a sandbox with all in it, as an administrator with another tool would."""
        with self._calls.turn():
            container = self._world.containers.get(record_id)
            sandbox = self._world.sandboxes.get(record_id)
            if container is not None:
                self._world.remove_record(container, Cause.WORLD)
            elif sandbox is not None:
                call = RemoveSandbox(uid=sandbox.uid, sandbox_id=record_id)
                self._world.remove_sandbox(call, Cause.WORLD)

    def remove_image(self, image_id: str) -> None:
        """Remove an image as an administrator with another tool would."""
        with self._calls.turn():
            self._world.images = tuple(row for row in self._world.images if row.id != image_id)

    def lose_track(self, container_id: str) -> None:
        """Make the state of a running container unknown."""
        with self._calls.turn():
            if container_id in self._world.processes:
                self._world.set_unknown(container_id)

    def add_foreign_pod(self, namespace: str, name: str, script: tuple[str, ...] = ("run",)) -> RuntimePod:
        """Add a pod with one running container that another agent made: no owner annotation."""
        with self._calls.turn():
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
        """Forget the agent, which was killed: no callback reaches it any more. What it asked for goes on."""
        with self._calls.turn():
            self._calls.forget()
            self.events.forget_listeners()

    def reboot(self) -> None:
        """Restart the machine: the agent is gone, containers exited with 255, sandboxes not ready, records stay."""
        with self._calls.turn():
            self.disconnect()
            self._world.reboot()

    def _changed(self, uid: Uid) -> None:
        item = RuntimeChanged(uid=uid)
        calls = self._calls
        calls.after(calls.latency.event_s, lambda: calls.soon(lambda: self.events.push(item)))


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
