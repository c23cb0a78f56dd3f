"""The state of the virtual container runtime: sandboxes, containers, processes, and what the world does to them.

`World` holds the records and applies one effect at a time; it takes no locks and completes no calls, which
`runtime.drivers.memory.runtime` does around it. Its processes end through `Timers`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from api.errors import AlreadyExistsError, ConflictError, DeniedError, NotFoundError, RejectedError
from api.ids import Uid, WallNs
from api.ports.confinement import Resources
from api.ports.images import IMAGE_MISSING, ImageRow
from api.ports.port import Timers, Undo
from api.ports.runtime import (
    ANNOTATION_OWNER,
    ContainerSpec,
    CreateContainer,
    PodListing,
    RemoveContainer,
    RemoveSandbox,
    ReopenContainerLog,
    RunSandbox,
    RuntimeContainer,
    RuntimeContainerState,
    RuntimePod,
    Sandbox,
    SandboxSpec,
    SandboxState,
    StartContainer,
    StopSandbox,
    UpdateContainer,
)
from runtime.drivers.memory.behaviour import (
    SIGKILL,
    SIGTERM,
    Behave,
    Behaviour,
    OutputLine,
    ProcessExit,
    killed_by,
)
from runtime.drivers.memory.history import Cause, Happening, HistoryRow

SCHEME = "memory://"
FIRST_PID = 1000


@dataclass
class VirtualProcess:
    """A running container's process and what waits for its end."""

    behaviour: Behaviour
    log: list[tuple[str, str]] = field(default_factory=list)
    """The file that it writes: still the same one when that is renamed."""
    undo: list[Undo] = field(default_factory=list)
    kill: Undo | None = None
    kill_at: float | None = None
    term_sent: bool = False
    on_exit: list[Callable[[], None]] = field(default_factory=list)


class World:
    """Every record of the virtual runtime. `changed` is called with the UID after each change of a pod."""

    def __init__(
        self,
        timers: Timers,
        behave: Behave,
        images: tuple[ImageRow, ...],
        guarded: Callable[[Callable[[], None]], Callable[[], None]],
        changed: Callable[[Uid], None],
    ) -> None:
        self.timers = timers
        self.images = images
        self.registry: tuple[ImageRow, ...] = ()
        """Images that are not held and can be fetched."""
        self.sandboxes: dict[str, Sandbox] = {}
        self.containers: dict[str, RuntimeContainer] = {}
        self.processes: dict[str, VirtualProcess] = {}
        self.logs: dict[str, list[tuple[str, str]]] = {}
        self.history: list[HistoryRow] = []
        self._behave = behave
        self._guarded = guarded
        self._changed = changed
        self._sandbox_specs: dict[str, SandboxSpec] = {}
        self._container_specs: dict[str, ContainerSpec] = {}
        self._last_created: dict[Uid, WallNs] = {}
        self._count = 0

    # ------------------------------------------------------------ reading

    def pod(self, uid: Uid) -> RuntimePod:
        """Return all that is known of a pod, empty when nothing is."""
        mine = [s for s in self.sandboxes.values() if s.uid == uid]
        mine.sort(key=lambda s: (-s.attempt, -s.created_at, s.id))
        if not mine:
            return RuntimePod(uid=uid, name="", namespace="")
        ids = {s.id for s in mine}
        inside = [c for c in self.containers.values() if c.sandbox_id in ids]
        inside.sort(key=lambda c: -c.created_at)
        return RuntimePod(
            uid=uid,
            name=mine[0].name,
            namespace=mine[0].namespace,
            sandboxes=tuple(mine),
            containers=tuple(inside),
            ours=any(ANNOTATION_OWNER in dict(s.annotations) for s in mine),
        )

    def listing(self) -> PodListing:
        """Return every pod by UID."""
        uids = sorted({s.uid for s in self.sandboxes.values()})
        return PodListing(pods=tuple(self.pod(uid) for uid in uids), complete=True)

    def sandbox(self, uid: Uid, sandbox_id: str) -> Sandbox | None:
        """Return a sandbox of this pod."""
        found = self.sandboxes.get(sandbox_id)
        return found if found and found.uid == uid else None

    def container(self, uid: Uid, container_id: str) -> RuntimeContainer | None:
        """Return a container of this pod."""
        found = self.containers.get(container_id)
        return found if found and self.uid_of(found) == uid else None

    def known_container(self, uid: Uid, container_id: str) -> RuntimeContainer:
        """Return a container of this pod; raises `NotFoundError`."""
        found = self.container(uid, container_id)
        if found is None:
            raise NotFoundError(f"the runtime has no container {container_id} in pod {uid}")
        return found

    def uid_of(self, container: RuntimeContainer) -> Uid:
        """Return the UID of the pod that a container belongs to."""
        return self.sandboxes[container.sandbox_id].uid

    # ------------------------------------------------------------ effects of calls

    def run_sandbox(self, call: RunSandbox) -> Uid:
        """Make a ready sandbox, or find the identical one."""
        spec = call.spec
        for sandbox_id, known in self._sandbox_specs.items():
            if (known.uid, known.attempt) == (spec.uid, spec.attempt):
                if known == spec:
                    return spec.uid
                raise AlreadyExistsError(
                    f"pod {spec.uid} has sandbox {sandbox_id} for attempt {spec.attempt} already, made from another"
                    " specification; remove it or use the next attempt"
                )
        self._count += 1
        sandbox = Sandbox(
            id=f"{self._count:012x}",
            uid=spec.uid,
            name=spec.name,
            namespace=spec.namespace,
            attempt=spec.attempt,
            state=SandboxState.READY,
            created_at=self._created_at(spec.uid),
            host_network=spec.host_network,
            ips=() if spec.host_network else (f"10.88.{self._count // 250 % 250}.{self._count % 250 + 2}",),
            labels=spec.labels,
            annotations=spec.annotations,
        )
        self.sandboxes[sandbox.id] = sandbox
        self._sandbox_specs[sandbox.id] = spec
        self._record_sandbox(Happening.SANDBOX_STARTED, sandbox)
        return spec.uid

    def stop_sandbox(self, call: StopSandbox, cause: Cause = Cause.AGENT) -> Uid:
        """Kill what runs in a sandbox and keep its record, not ready."""
        sandbox = self.sandbox(call.uid, call.sandbox_id)
        if sandbox is not None and sandbox.state is SandboxState.READY:
            self._kill_inside(sandbox.id, cause)
            sandbox = replace(sandbox, state=SandboxState.NOT_READY, ips=())
            self.sandboxes[sandbox.id] = sandbox
            self._record_sandbox(Happening.SANDBOX_STOPPED, sandbox, cause)
        return call.uid

    def remove_sandbox(self, call: RemoveSandbox, cause: Cause = Cause.AGENT) -> Uid:
        """Remove a sandbox with all that is in it."""
        sandbox = self.sandbox(call.uid, call.sandbox_id)
        if sandbox is not None:
            for container in [c for c in self.containers.values() if c.sandbox_id == sandbox.id]:
                self._remove(container, cause)
            del self.sandboxes[sandbox.id], self._sandbox_specs[sandbox.id]
            self._record_sandbox(Happening.SANDBOX_REMOVED, sandbox, cause)
        return call.uid

    def create_container(self, call: CreateContainer) -> Uid:
        """Make a container in a ready sandbox, or find the identical one."""
        spec = call.spec
        sandbox = self.sandbox(call.uid, call.sandbox_id)
        if sandbox is None:
            raise NotFoundError(f"the runtime has no sandbox {call.sandbox_id} of pod {call.uid}")
        for container_id, known in self._container_specs.items():
            holder = self.containers[container_id].sandbox_id
            if (holder, known.name, known.attempt) == (sandbox.id, spec.name, spec.attempt):
                if known == spec:
                    return call.uid
                raise AlreadyExistsError(
                    f"sandbox {sandbox.id} has container {spec.name} for attempt {spec.attempt} already, made from"
                    " another specification; remove it or use the next attempt"
                )
        if sandbox.state is not SandboxState.READY:
            raise ConflictError(f"sandbox {sandbox.id} of pod {call.uid} is not ready; run a new one first")
        image = self.image(spec.image)
        if image is None:
            known_names = ", ".join(sorted(name for row in self.images for name in row.names))
            raise RejectedError(
                f"container {spec.name}: the memory runtime has no image {spec.image!r}; it runs {known_names}",
                reason=IMAGE_MISSING,
            )
        self._count += 1
        container = RuntimeContainer(
            id=f"{SCHEME}{self._count:012x}",
            sandbox_id=sandbox.id,
            name=spec.name,
            attempt=spec.attempt,
            image=spec.image,
            image_id=image.id,
            image_ref=image.id,
            state=RuntimeContainerState.CREATED,
            created_at=self._created_at(call.uid),
            labels=spec.labels,
            annotations=spec.annotations,
            log_path=f"{self._sandbox_specs[sandbox.id].log_directory}/{spec.log_path}",
            resources=spec.resources.amounts() if spec.resources is not None else None,
        )
        self.containers[container.id] = container
        self._container_specs[container.id] = spec
        self.logs[container.log_path] = []
        self._record(Happening.CREATED, container)
        return call.uid

    def image(self, name: str) -> ImageRow | None:
        """Return the image of this name or id; a name without a tag is one with ``:latest``."""
        asked = {name, name.removesuffix(":latest")}
        return next((row for row in self.images if asked & {row.id, *row.names}), None)

    def pull(self, name: str) -> str:
        """Fetch an image, which is held from then on, and return its id."""
        found = self.image(name)
        if found is None:
            found = next((row for row in self.registry if name in row.names), None)
            self.images = (*self.images, found) if found is not None else self.images
        if found is None:
            raise DeniedError(f"image {name!r} is in no registry that the memory runtime knows")
        return found.id

    def start_container(self, call: StartContainer) -> Uid:
        """Start a created container."""
        container = self.known_container(call.uid, call.container_id)
        if container.state is not RuntimeContainerState.CREATED:
            raise ConflictError(
                f"container {container.name} ({container.id}) is {container.state.value}; only a created one starts"
            )
        if self.sandboxes[container.sandbox_id].state is not SandboxState.READY:
            raise ConflictError(f"sandbox {container.sandbox_id} of pod {call.uid} is not ready")
        behaviour = self._behave(self._container_specs[container.id])
        if behaviour.cannot_start:
            text = f"container {container.name}: {behaviour.cannot_start}"
            self._exit(container.id, ProcessExit(code=128, reason="StartError", message=text), Cause.ITSELF)
            return call.uid
        self._count += 1
        started = replace(
            container,
            state=RuntimeContainerState.RUNNING,
            started_at=max(self.timers.wall(), container.created_at),
            pid=FIRST_PID + self._count,
        )
        self.containers[container.id] = started
        process = VirtualProcess(behaviour=behaviour, log=self.logs.setdefault(container.log_path, []))
        self.processes[container.id] = process
        self._record(Happening.STARTED, started)
        for line in behaviour.lines:
            self._write_later(started, process, line)
        if behaviour.ends_after_s is not None:
            self._exit_later(container.id, process, behaviour.ends_after_s, behaviour.ending, Cause.ITSELF)
        return call.uid

    def stop_container(self, container: RuntimeContainer, grace_s: float) -> VirtualProcess | None:
        """Begin to stop a container; return the process to wait for, None when nothing runs (any more)."""
        process = self.processes.get(container.id)
        if process is None:
            if container.state is RuntimeContainerState.UNKNOWN:
                # How it ended is unknown; it certainly does not run any more.
                self._exit(container.id, ProcessExit(code=255, reason="ContainerStatusUnknown"), Cause.AGENT)
            return None
        if grace_s <= 0:
            self._exit(container.id, killed_by(SIGKILL), Cause.AGENT)
            return None
        now = self.timers.now()
        if process.kill_at is None or now + grace_s < process.kill_at:
            if process.kill is not None:
                process.kill()
            process.kill_at = now + grace_s
            process.kill = self._exit_later(container.id, process, grace_s, killed_by(SIGKILL), Cause.AGENT)
        if not process.term_sent:
            self.send_term(container, Cause.AGENT)
        return self.processes.get(container.id)

    def reopen_log(self, call: ReopenContainerLog) -> Uid:
        """Let a running container write to what has its log's name now, a new file when nothing has."""
        container = self.known_container(call.uid, call.container_id)
        process = self.processes.get(container.id)
        if process is None:
            raise ConflictError(
                f"container {container.name} ({container.id}) is {container.state.value}; it writes no log"
            )
        process.log = self.logs.setdefault(container.log_path, [])
        return call.uid

    def update_container(self, call: UpdateContainer) -> Uid:
        """Confine a container otherwise; what is 0 or empty stays."""
        container = self.known_container(call.uid, call.container_id)
        if container.state not in (RuntimeContainerState.CREATED, RuntimeContainerState.RUNNING):
            raise ConflictError(
                f"container {container.name} ({container.id}) is {container.state.value}; it cannot be resized"
            )
        now = container.resources or Resources()
        self.containers[container.id] = replace(container, resources=now.updated(call.resources))
        self._changed(call.uid)
        return call.uid

    def remove_container(self, call: RemoveContainer) -> Uid:
        """Remove a container; a running one is killed first, which the history reports as a violation."""
        container = self.container(call.uid, call.container_id)
        if container is not None:
            self._remove(container, Cause.AGENT)
        return call.uid

    # ------------------------------------------------------------ signals and ends

    def send_term(self, container: RuntimeContainer, cause: Cause) -> None:
        """Send SIGTERM to a running container."""
        process = self.processes[container.id]
        process.term_sent = True
        self._record(Happening.TERM_SENT, container, cause, changed=False)
        on_term = process.behaviour.on_term
        if on_term.ignored:
            return
        code = on_term.code
        ending = killed_by(SIGTERM) if code is None else ProcessExit(code=code)
        if on_term.takes_s > 0:
            self._exit_later(container.id, process, on_term.takes_s, ending, cause)
        else:
            self._exit(container.id, ending, cause)

    def end(self, container_id: str, ending: ProcessExit, cause: Cause) -> None:
        """End a running container now; nothing happens to one that does not run."""
        if container_id in self.processes:
            self._exit(container_id, ending, cause)

    def set_unknown(self, container_id: str) -> None:
        """Make the runtime lose track of a container's process: its state becomes unknown."""
        process = self.processes.pop(container_id)
        self._retire(process)
        container = replace(self.containers[container_id], state=RuntimeContainerState.UNKNOWN, pid=0)
        self.containers[container_id] = container
        self._changed(self.uid_of(container))

    def reboot(self) -> None:
        """End everything at once, as a power cut does: the records stay, containers exited 255."""
        for container in list(self.containers.values()):
            if container.state is not RuntimeContainerState.EXITED:
                ending = ProcessExit(code=255, reason="Error", message="the machine was restarted")
                self._exit(container.id, ending, Cause.WORLD)
        for sandbox in list(self.sandboxes.values()):
            self.stop_sandbox(StopSandbox(uid=sandbox.uid, sandbox_id=sandbox.id), Cause.WORLD)

    def _kill_inside(self, sandbox_id: str, cause: Cause) -> None:
        for container_id in [i for i in self.processes if self.containers[i].sandbox_id == sandbox_id]:
            self._exit(container_id, killed_by(SIGKILL), cause)

    def remove_record(self, container: RuntimeContainer, cause: Cause) -> None:
        """Remove a container's record, killing it first when it runs."""
        self._remove(container, cause)

    def _remove(self, container: RuntimeContainer, cause: Cause) -> None:
        running = container.id in self.processes
        self._record(Happening.REMOVED, container, cause, running=running)
        self.end(container.id, killed_by(SIGKILL), cause)
        del self.containers[container.id], self._container_specs[container.id]

    def _exit(self, container_id: str, ending: ProcessExit, cause: Cause) -> None:
        process = self.processes.pop(container_id, None)
        container = self.containers[container_id]
        since = container.started_at or container.created_at
        container = replace(
            container,
            state=RuntimeContainerState.EXITED,
            finished_at=max(self.timers.wall(), since),
            exit_code=ending.code,
            signal=ending.signal,
            reason=ending.reason or ("Error" if ending.code else "Completed"),
            message=ending.message,
            pid=0,
        )
        self.containers[container_id] = container
        self._record(Happening.EXITED, container, cause)
        if process is not None:
            self._retire(process)

    def _retire(self, process: VirtualProcess) -> None:
        for undo in process.undo:
            undo()
        for waiting in process.on_exit:
            waiting()

    def _exit_later(
        self, container_id: str, process: VirtualProcess, after_s: float, ending: ProcessExit, cause: Cause
    ) -> Undo:
        def end() -> None:
            if self.processes.get(container_id) is process:
                self._exit(container_id, ending, cause)

        undo = self.timers.call_at(self.timers.now() + after_s, self._guarded(end))
        process.undo.append(undo)
        return undo

    def _write_later(self, container: RuntimeContainer, process: VirtualProcess, line: OutputLine) -> None:
        def write() -> None:
            if self.processes.get(container.id) is process:
                process.log.append((line.output.value, line.text))

        if line.after_s <= 0:
            write()
        else:
            at = self.timers.now() + line.after_s
            process.undo.append(self.timers.call_at(at, self._guarded(write)))

    # ------------------------------------------------------------ accounts

    def _created_at(self, uid: Uid) -> WallNs:
        at = max(self.timers.wall(), self._last_created.get(uid, 0) + 1)
        self._last_created[uid] = at
        return at

    def _record_sandbox(self, what: Happening, sandbox: Sandbox, cause: Cause = Cause.AGENT) -> None:
        self.history.append(
            HistoryRow(
                at=self.timers.now(),
                what=what,
                uid=sandbox.uid,
                cause=cause,
                sandbox_id=sandbox.id,
                attempt=sandbox.attempt,
            )
        )
        self._changed(sandbox.uid)

    def _record(
        self,
        what: Happening,
        container: RuntimeContainer,
        cause: Cause = Cause.AGENT,
        *,
        running: bool = False,
        changed: bool = True,
    ) -> None:
        uid = self.uid_of(container)
        self.history.append(
            HistoryRow(
                at=self.timers.now(),
                what=what,
                uid=uid,
                cause=cause,
                sandbox_id=container.sandbox_id,
                container_id=container.id,
                name=container.name,
                attempt=container.attempt,
                exit_code=container.exit_code,
                running=running,
            )
        )
        if changed:
            self._changed(uid)

    def record_executed(self, container: RuntimeContainer) -> None:
        """Write down that the agent ran a command in a container."""
        self._record(Happening.EXECUTED, container, changed=False)

    def record_shown(self, pod: RuntimePod, shown: set[str]) -> None:
        """Write down each exit code of `pod` that the agent sees for the first time."""
        for container in pod.containers:
            if container.exit_code is None or container.id in shown:
                continue
            shown.add(container.id)
            self.history.append(
                HistoryRow(
                    at=self.timers.now(),
                    what=Happening.EXIT_SHOWN,
                    uid=pod.uid,
                    sandbox_id=container.sandbox_id,
                    container_id=container.id,
                    name=container.name,
                    attempt=container.attempt,
                    exit_code=container.exit_code,
                )
            )

    def running(self) -> Iterator[RuntimeContainer]:
        """Yield the containers that run, oldest first."""
        for container_id in self.processes:
            yield self.containers[container_id]
