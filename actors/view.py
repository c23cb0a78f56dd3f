"""What people see of the agent: pure views over the last committed states of its actors.

Nothing here sends a message, so every answer comes also while actors hang. `Kernel` is what it needs of the actor
system; calls of the runtime that people ask for directly (exec, images) go through `perform`.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from actors.config.core import ConfigState
from actors.config.core import rows as config_rows
from actors.imagegc.report import events_of
from actors.imagegc.state import SELF as IMAGE_GC
from actors.imagegc.state import ImageGCState
from actors.imageview import ImageView, wanted_images
from actors.logs.state import LogRotatorState
from actors.logs.state import event_rows as log_rows
from actors.pleg.core import health as pleg_health
from actors.pleg.state import PlegState
from actors.pod import explain as pods
from actors.pod.state import PodState
from actors.pod.status import status_named
from actors.rules.instance import instances_of
from actors.sources.file.state import FileState
from actors.sources.file.state import rows as file_rows
from actors.sources.http.core import HttpState
from actors.sources.http.core import rows as http_rows
from actors.supervisor.explain import (
    charge_explanation,
    charge_row,
    foreign_row,
    unclaimed,
    unclaimed_explanation,
    unclaimed_row,
)
from actors.supervisor.state import SupervisorState
from api.containers import (
    Container,
    ContainerState,
    ExecInContainer,
    ExecResult,
    OpenExec,
    RuntimeInfo,
    RuntimeStatus,
    StreamUrl,
)
from api.errors import NotFoundError, OperatingError, RejectedError, UnavailableError
from api.ids import Instant, Path, Uid, WallNs
from api.introspection import (
    ActorRow,
    DeadLetterRow,
    EventRow,
    Explanation,
    HealthRow,
    KernelRow,
    LogTarget,
    PodRow,
    SourceRow,
    TraceRow,
)
from api.messages import Message
from api.objects.container import EnvVar
from api.objects.pod import Pod, PodList

PODS, CONFIG, PLEG = Path("/node/pods"), Path("/node/config"), Path("/node/pleg")
FILE, HTTP, LOGS = Path("/node/file"), Path("/node/http"), Path("/node/logs")
EDGE_DEADLINE_S = 10.0


class Kernel(Protocol):
    """What the views need of the actor system."""

    def list_actors(self) -> tuple[ActorRow, ...]:
        """Return every actor."""
        ...

    def summarize_actors(self) -> KernelRow:
        """Return the figures of the system."""
        ...

    def trace(self, path: Path, limit: int = 16) -> tuple[TraceRow, ...]:
        """Return the last deliveries of an actor."""
        ...

    def dead_letters(self) -> tuple[DeadLetterRow, ...]:
        """Return the last dead letters."""
        ...

    def committed(self, path: Path) -> msgspec.Struct | None:
        """Return the last committed state of an actor."""
        ...

    def route(self, path: Path, message: Message) -> None:
        """Tell whoever lives at `path`."""
        ...

    def ask(self, path: Path, make_message: Callable[[Path], Message], deadline_s: float) -> Message:
        """Tell an actor a message made for a reply path, and wait for what is told to that path."""
        ...

    def committed_children(self, path: Path) -> tuple[tuple[Path, msgspec.Struct], ...]:
        """Return the last committed states of an actor's children."""
        ...


class View(ImageView):
    """A `Window` over the agent's actors."""

    def __init__(
        self,
        kernel: Kernel,
        now: Callable[[], Instant],
        wall: Callable[[], WallNs],
        perform: Callable[[msgspec.Struct, float], msgspec.Struct],
    ) -> None:
        super().__init__(kernel, now, wall, perform, lambda: wanted_images(self._states().values()))
        self._kernel, self._now, self._wall, self._perform = kernel, now, wall, perform

    # ------------------------------------------------------------ the kernel

    def actors(self) -> tuple[ActorRow, ...]:
        """Return every actor, parents before children; a pod's actor has the pod's name, its path ends in the UID."""
        named = {uid: "/".join(pods.full_name(state)) for uid, state in self._states().items()}
        return tuple(
            msgspec.structs.replace(row, name=named[Uid(row.name)]) if row.name in named else row
            for row in self._kernel.list_actors()
        )

    def kernel(self) -> KernelRow:
        """Return the figures of the actor system."""
        return self._kernel.summarize_actors()

    def trace(self, path: Path, limit: int) -> tuple[TraceRow, ...]:
        """Return the last deliveries of one actor, oldest first."""
        return self._kernel.trace(path, limit)

    def dead_letters(self) -> tuple[DeadLetterRow, ...]:
        """Return the last dead letters, oldest first."""
        return self._kernel.dead_letters()

    # ------------------------------------------------------------ pods

    def pods(self) -> tuple[PodRow, ...]:
        """Return every pod, by namespace and name: those with an actor, those that wait, and foreign ones."""
        states = self._states()
        rows = [pods.pod_row(state, self._now(), self._wall()) for state in states.values()]
        supervisor = self._supervisor()
        waiting = [charge for charge in supervisor.charges.values() if charge.uid not in states]
        rows += [charge_row(supervisor, charge, self._now()) for charge in waiting]
        rows += [foreign_row(presence) for presence in supervisor.foreign]
        left = (presence for presence in unclaimed(supervisor) if presence.uid not in states)
        rows += [unclaimed_row(supervisor, presence) for presence in left]
        return tuple(sorted(rows, key=lambda row: (row.namespace, row.name, row.uid)))

    def pod_list(self) -> bytes:
        """Return a v1 PodList with status, as JSON; environment values are kept out."""
        items = [
            without_secrets(msgspec.structs.replace(state.desired, status=state.base))
            for state in self._states().values()
            if state.desired is not None
        ]
        items.sort(key=lambda pod: (pod.metadata.namespace, pod.metadata.name))
        # Clients look for `items` also when there is none, and the type leaves out what is empty.
        return msgspec.json.encode({**msgspec.to_builtins(PodList()), "items": items})

    def explain(self, pod: str) -> Explanation:
        """Explain one pod."""
        states = self._states()
        supervisor = self._supervisor()
        named = [(*pods.full_name(s), s.uid) for s in states.values()]
        named += [(c.namespace, c.name, c.uid) for c in supervisor.charges.values() if c.uid not in states]
        left = {one.uid: one for one in unclaimed(supervisor) if one.uid not in states}
        named += [(one.namespace, one.name, one.uid) for one in left.values()]
        uid = find(pod, named)
        if uid in left:
            return unclaimed_explanation(supervisor, left[uid])
        if uid in states:
            return pods.explain(states[uid], self._now(), self._wall())
        return charge_explanation(supervisor, supervisor.charges[uid], self._now())

    def events(self, pod: str) -> tuple[EventRow, ...]:
        """Return the events of one pod, or of all and of the node for an empty name, oldest first."""
        chosen = [self._state(pod)] if pod else list(self._states().values())
        rows = [row for state in chosen for row in pods.event_rows(state)]
        collector = self._kernel.committed(IMAGE_GC)
        if not pod and isinstance(collector, ImageGCState):
            rows += events_of(collector)
        rotator = self._kernel.committed(LOGS)
        if isinstance(rotator, LogRotatorState):
            rows += log_rows(rotator, chosen[0].uid if pod else None)
        return tuple(sorted(rows, key=lambda row: row.at))

    def log_target(self, pod: str, container: str, *, previous: bool) -> LogTarget:
        """Return where a container's log is; an empty `container` means the only one."""
        state = self._state(pod)
        name = container_named(state, container)
        _, pod_name = pods.full_name(state)
        if state.observed is None:
            # A follower goes on over this: a new incarnation of the pod's actor has not heard from the runtime yet.
            raise UnavailableError(
                f'the container runtime has not said yet what it holds of pod "{pod_name}"; see `nodeagent explain`'
            )
        known = instances_of(state.observed, name)
        instances = [i for i in known if i.state is not ContainerState.CREATED]
        if previous:
            # One that waits for its next run has none at present: the run that ended last is its previous one.
            status = status_named(state.base, name)
            waits = status is not None and status.state.waiting is not None
            at_present = () if waits else known[:1]
            instances = [i for i in instances if i not in at_present and i.state is ContainerState.EXITED]
            if not instances:
                raise NotFoundError(f'previous terminated container "{name}" in pod "{pod_name}" not found')
        if not instances:
            raise RejectedError(
                f'container "{name}" in pod "{pod_name}" is waiting to start: {waiting(state, name)}'
            )
        chosen = instances[0]
        root = chosen.log_path.rpartition("/")[0].rpartition("/")[0]
        return LogTarget(path=chosen.log_path, root=root, running=chosen.state is ContainerState.RUNNING)

    def exec(self, pod: str, container: str, command: tuple[str, ...], timeout_s: float) -> ExecResult:
        """Run a command in a running container and wait for it."""
        state = self._state(pod)
        name = container_named(state, container)
        running = self._running(state, name)
        call = ExecInContainer(uid=state.uid, container_id=running.id, command=command, timeout_s=timeout_s)
        result = self._perform(call, timeout_s + EDGE_DEADLINE_S)
        assert isinstance(result, ExecResult)
        return result

    def open_exec(
        self,
        pod: str,
        container: str,
        command: tuple[str, ...],
        *,
        tty: bool,
        stdin: bool,
        stdout: bool,
        stderr: bool,
    ) -> str:
        """Prepare a command in a running container and return the URL of its streams, good once and soon."""
        state = self._state(pod)
        running = self._running(state, container_named(state, container))
        call = OpenExec(
            uid=state.uid,
            container_id=running.id,
            command=command,
            tty=tty,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )
        result = self._perform(call, EDGE_DEADLINE_S)
        assert isinstance(result, StreamUrl)
        return result.url

    # ------------------------------------------------------------ sources and health

    def sources(self) -> tuple[SourceRow, ...]:
        """Return what became of each file and URL."""
        rows: list[SourceRow] = []
        files, urls, config = (self._kernel.committed(path) for path in (FILE, HTTP, CONFIG))
        if isinstance(files, FileState):
            rows += file_rows(files)
        if isinstance(urls, HttpState):
            rows += http_rows(urls)
        if isinstance(config, ConfigState):
            rows += config_rows(config)
        return tuple(rows)

    def health(self) -> tuple[HealthRow, ...]:
        """Return every health check: actors answer, and the runtime was listed lately."""
        stuck = self._kernel.summarize_actors().stuck
        pleg = self._kernel.committed(PLEG)
        fresh, doing = (
            pleg_health(pleg, self._now()) if isinstance(pleg, PlegState) else (False, "it has not begun")
        )
        return (
            HealthRow(name="actors", ok=not stuck, detail="; ".join(stuck)),
            HealthRow(name="pleg", ok=fresh, detail=doing),
        )

    def ready(self) -> tuple[HealthRow, ...]:
        """Return what must hold before pods can be expected to run."""
        supervisor = self._supervisor()
        missing = [source for source in supervisor.expected if source not in supervisor.seen]
        text = f"not heard yet from: {', '.join(missing)}" if missing else ""
        return (self._runtime_health(), HealthRow(name="sources", ok=not missing, detail=text))

    def _runtime_health(self) -> HealthRow:
        try:
            info = self._perform(RuntimeStatus(), EDGE_DEADLINE_S)
        except OperatingError as error:
            return HealthRow(name="runtime", ok=False, detail=str(error))
        assert isinstance(info, RuntimeInfo)
        return HealthRow(name="runtime", ok=info.ready, detail=info.detail)

    # ------------------------------------------------------------ finding things

    def _states(self) -> dict[Uid, PodState]:
        children = self._kernel.committed_children(PODS)
        return {state.uid: state for _, state in children if isinstance(state, PodState)}

    def _supervisor(self) -> SupervisorState:
        state = self._kernel.committed(PODS)
        return state if isinstance(state, SupervisorState) else SupervisorState(expected=())

    def _state(self, pod: str) -> PodState:
        states = self._states()
        return states[find(pod, [(*pods.full_name(s), s.uid) for s in states.values()])]

    def _running(self, state: PodState, name: str) -> Container:
        for instance in instances_of(state.observed, name):
            if instance.state is ContainerState.RUNNING:
                return instance
        raise RejectedError(f'container "{name}" is not running: {waiting(state, name)}')


def find(pod: str, named: list[tuple[str, str, Uid]]) -> Uid:
    """Return the UID of the pod of this name, ``namespace/name``, ``name`` or the name without the node's suffix.

    Raises NotFoundError when there is none, RejectedError when several could be meant.
    """
    namespace, slash, name = pod.rpartition("/")
    inside = [row for row in named if not slash or row[0] == namespace]
    for fits in (
        [row for row in inside if row[1] == name],
        [row for row in inside if row[2] == name],
        [row for row in inside if row[1].startswith(f"{name}-")],
    ):
        if len(fits) == 1:
            return fits[0][2]
        if fits:
            names = ", ".join(sorted(f"{row[0]}/{row[1]}" for row in fits))
            raise RejectedError(f'"{pod}" could be any of: {names}; give namespace and full name')
    raise NotFoundError(f'no pod "{pod}" on this node; `nodeagent pods` lists them')


def container_named(state: PodState, name: str) -> str:
    """Return the container that is meant: an empty name means the only one."""
    names = [c.name for c in pods.containers_of(state)]
    names = names or sorted({c.name for c in (state.observed.containers if state.observed else ())})
    if not name and len(names) == 1:
        return names[0]
    if name in names:
        return name
    wanted = f'no container "{name}"' if name else "several containers"
    raise RejectedError(f"{wanted} in this pod; choose one with -c: {', '.join(names)}")


def waiting(state: PodState, name: str) -> str:
    """Return why a container does not run, in words."""
    for status in state.base.container_statuses:
        if status.name == name:
            return pods.doing(status, 0)
    return "it is not known yet"


def without_secrets(pod: Pod) -> Pod:
    """Return the pod without any environment value."""
    hidden = tuple(
        msgspec.structs.replace(
            c,
            env=tuple(
                EnvVar(name=e.name, value="<hidden>" if e.value else "", value_from=e.value_from)
                for e in c.env
            ),
        )
        for c in pod.spec.containers
    )
    annotations = {
        key: value
        for key, value in pod.metadata.annotations.items()
        if key != "kubectl.kubernetes.io/last-applied-configuration"
    }
    meta = msgspec.structs.replace(pod.metadata, annotations=annotations)
    return msgspec.structs.replace(
        pod, metadata=meta, spec=msgspec.structs.replace(pod.spec, containers=hidden)
    )
