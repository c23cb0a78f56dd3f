"""The agent as users see it: pure views over the last committed states of its actors.

Nothing here sends a message, so it answers while actors hang. `Kernel` is the part of the actor system that it needs;
runtime calls that users request directly (exec, images) go through `AskedPorts`.
"""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import msgspec

from actors.admission.explain import wait_for_admission
from actors.admission.state import AdmissionState
from actors.certificates.report import sentence as certificate_sentence
from actors.certificates.report import without_identity
from actors.certificates.state import CertificatesState
from actors.cgroups.state import CgroupsState
from actors.events.state import EventsState
from actors.events.state import rows as event_rows
from actors.eviction.explain import explain as explain_eviction
from actors.eviction.state import EvictionState
from actors.imagegc.state import ImageGCState
from actors.logs.state import LogRotatorState
from actors.logs.state import event_rows as log_rows
from actors.node.report import runtime_health
from actors.node.state import NodeState
from actors.nodestatus.state import NodeStatusState
from actors.oom.report import kill_lines
from actors.oom.report import notice as oom_notice
from actors.oom.state import OomState
from actors.pleg.core import health as pleg_health
from actors.pleg.state import PlegState
from actors.pod import explain as pods
from actors.pod.life.event import namespace_and_name
from actors.pod.state import PodState
from actors.pod.status.history import status_named
from actors.probes.explain import probe_rows
from actors.probes.state import ProberState
from actors.rules.container.instance import instances_of
from actors.rules.eventobject import event_object
from actors.rules.nodeevent import node_event_rows
from actors.sources.api.state import ApiSourceState
from actors.sources.api.state import rows as api_rows
from actors.sources.file.state import FileState
from actors.sources.file.state import rows as file_rows
from actors.sources.http.core import HttpState
from actors.sources.http.core import rows as http_rows
from actors.sources.merge.core import ConfigState
from actors.sources.merge.core import rows as config_rows
from actors.supervisor.explain import (
    entry_explanation,
    entry_row,
    foreign_row,
    unclaimed,
    unclaimed_explanation,
    unclaimed_row,
)
from actors.supervisor.state import SupervisorState
from actors.usage.state import UsageState
from actors.views.asked import AskedPorts
from actors.views.images import ImageView, wanted_images
from actors.views.metrics import certificate_families
from actors.views.usage import UsageView
from api import paths
from api.errors import NotFoundError, RejectedError, UnavailableError
from api.ids import Instant, Path, Uid, WallNs
from api.kube.objects.container import Container as Wanted
from api.kube.objects.container import EnvVar, EphemeralContainer
from api.kube.objects.event import EventList
from api.kube.objects.pod import Pod, PodList
from api.messages import Message
from api.ports.runtime import (
    ExecInContainer,
    ExecResult,
    RuntimeContainer,
    RuntimeContainerState,
)
from api.ports.streams import OpenExec, StreamUrl
from api.shown.evictionrow import EvictionRow
from api.shown.introspection import (
    ActorRow,
    DeadLetterRow,
    EventRow,
    Explanation,
    HealthRow,
    HopRow,
    KernelRow,
    LogTarget,
    PodRow,
    SourceRow,
    TraceRow,
)
from api.shown.metric import Family

EDGE_DEADLINE_S = 10.0
NODE_EVENT_SOURCES = (
    (paths.IMAGEGC, ImageGCState),
    (paths.EVENTS, EventsState),
    (paths.CGROUPS, CgroupsState),
    (paths.EVICTION, EvictionState),
    (paths.OOM, OomState),
    (paths.NODESTATUS, NodeStatusState),
)
"""Actors that record events of the node, and the class of their state."""
C = TypeVar("C", Wanted, EphemeralContainer)


class Kernel(Protocol):
    """The part of the actor system that the views need."""

    def list_actors(self) -> tuple[ActorRow, ...]:
        """Return every actor."""
        ...

    def summarize_actors(self) -> KernelRow:
        """Return the figures of the system."""
        ...

    def hops(self) -> tuple[HopRow, ...]:
        """Return how long each kind of hop took."""
        ...

    def dead_letter_counts(self) -> tuple[tuple[str, int], ...]:
        """Return the number of dead letters, by reason."""
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
        """Send a message to the actor at `path`."""
        ...

    def ask(self, path: Path, make_message: Callable[[Path], Message], deadline_s: float) -> Message:
        """Send an actor a message with a reply path, and wait for the reply."""
        ...

    def committed_children(self, path: Path) -> tuple[tuple[Path, msgspec.Struct], ...]:
        """Return the last committed states of an actor's children."""
        ...


class AgentView(ImageView, UsageView):
    """A `Window` over the agent's actors."""

    def __init__(
        self,
        kernel: Kernel,
        now: Callable[[], Instant],
        wall: Callable[[], WallNs],
        ports: AskedPorts,
        *,
        breaks: str = "",
    ) -> None:
        """Make a view; `breaks` is the file with the plan of injected faults, empty for none."""
        ImageView.__init__(self, kernel, now, wall, ports, lambda: wanted_images(self._states().values()))
        UsageView.__init__(self, kernel, now)
        self._kernel, self._now, self._wall, self._ports = kernel, now, wall, ports
        self._breaks = breaks

    # ------------------------------------------------------------ the kernel

    def actors(self) -> tuple[ActorRow, ...]:
        """Return every actor, parents before children; a pod's actor has the pod's name, its path ends in the UID."""
        names = {uid: "/".join(namespace_and_name(state)) for uid, state in self._states().items()}
        return tuple(
            msgspec.structs.replace(row, name=names[Uid(row.name)]) if row.name in names else row
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
        """Return every pod, by namespace and name: with an actor, waiting for one, and foreign."""
        states = self._states()
        supervisor = self._supervisor()
        rows = []
        for state in states.values():
            namespace, name = called(state, supervisor)
            row = pods.pod_row(state, self._now(), self._wall())
            rows.append(msgspec.structs.replace(row, namespace=namespace, name=name))
        waiting = [entry for entry in supervisor.entries.values() if entry.uid not in states]
        rows += [
            entry_row(supervisor, entry, self._now(), self._admission_of(entry.uid)) for entry in waiting
        ]
        rows += [foreign_row(presence) for presence in supervisor.runtime.foreign]
        left = (presence for presence in unclaimed(supervisor) if presence.uid not in states)
        rows += [unclaimed_row(supervisor, presence) for presence in left]
        return tuple(sorted(rows, key=lambda row: (row.namespace, row.name, row.uid)))

    def pod_list(self) -> bytes:
        """Return a v1 PodList with status, as JSON, without environment values."""
        items = [
            without_secrets(msgspec.structs.replace(state.desired, status=state.base))
            for state in self._states().values()
            if state.desired is not None
        ]
        items.sort(key=lambda pod: (pod.metadata.namespace, pod.metadata.name))
        # Clients need `items` even when empty; the type leaves out empty fields.
        return msgspec.json.encode({**msgspec.to_builtins(PodList()), "items": items})

    def explain(self, pod: str) -> Explanation:
        """Explain one pod."""
        states = self._states()
        supervisor = self._supervisor()
        names = claimed(states, supervisor)
        left = {one.uid: one for one in unclaimed(supervisor) if one.uid not in states}
        names += [(one.namespace, one.name, one.uid) for one in left.values()]
        uid = find(pod, names)
        if uid in left:
            return unclaimed_explanation(supervisor, left[uid])
        if uid in states:
            explained = pods.explain(states[uid], self._now(), self._wall())
            prober = self._kernel.committed(paths.PROBES)
            rows = probe_rows(prober, uid, self._now()) if isinstance(prober, ProberState) else ()
            return msgspec.structs.replace(explained, probes=rows)
        return entry_explanation(supervisor, supervisor.entries[uid], self._now(), self._admission_of(uid))

    def eviction(self) -> EvictionRow:
        """Return thresholds and readings, the next eviction action and the rank of each pod."""
        state = self._kernel.committed(paths.EVICTION)
        if not isinstance(state, EvictionState):
            raise UnavailableError("EvictionManager has not started; see `nodeagent trace /node/eviction`")
        explained = explain_eviction(state, self._now())
        watcher = self._kernel.committed(paths.OOM)
        kills = kill_lines(watcher, self._wall()) if isinstance(watcher, OomState) else ()
        return msgspec.structs.replace(explained, oom_kills=kills)

    def events(self, pod: str) -> tuple[EventRow, ...]:
        """Return the events of one pod, or of all and of the node for an empty name, oldest first."""
        recorder = self._kernel.committed(paths.EVENTS)
        seen = recorder if isinstance(recorder, EventsState) else EventsState()
        uid = self._uid_of(pod, seen) if pod else None
        rows = [*event_rows(seen, uid)]
        for path, kind in () if pod else NODE_EVENT_SOURCES:
            state = self._kernel.committed(path)
            if isinstance(state, kind):
                rows += node_event_rows(state.node_events, state.node_name)
        rotator = self._kernel.committed(paths.LOGS)
        if isinstance(rotator, LogRotatorState):
            inits = frozenset(
                (state.uid, one.name)
                for state in self._states().values()
                if state.desired is not None
                for one in state.desired.spec.init_containers
            )
            rows += log_rows(rotator, uid, inits)
        return tuple(sorted(rows, key=lambda row: row.at))

    def event_list(self, pod: str, kind: str) -> bytes:
        """Return the events of one pod or of all as a v1 EventList, as JSON; `kind`: only those of this type."""
        items = [event_object(row) for row in self.events(pod) if kind in ("", row.type)]
        return msgspec.json.encode({**msgspec.to_builtins(EventList()), "items": items})

    def log_target(self, pod: str, container: str, *, previous: bool) -> LogTarget:
        """Return where a container's log is; an empty `container` means the only one."""
        state = self._state(pod)
        name = container_named(state, container)
        _, pod_name = namespace_and_name(state)
        if state.observed is None:
            # A follower retries: a new incarnation of the pod's actor has not received a listing yet.
            raise UnavailableError(
                f'the container runtime has not listed pod "{pod_name}" yet; see `nodeagent explain`'
            )
        known = instances_of(state.observed, name)
        instances = [i for i in known if i.state is not RuntimeContainerState.CREATED]
        if previous:
            # A waiting container has no current run: its last run is the previous one.
            status = status_named(state.base, name)
            waits = status is not None and status.state.waiting is not None
            current = () if waits else known[:1]
            instances = [i for i in instances if i not in current and i.state is RuntimeContainerState.EXITED]
            if not instances:
                raise NotFoundError(f'previous terminated container "{name}" in pod "{pod_name}" not found')
        if not instances:
            ended = status_named(state.base, name)
            if ended is not None and ended.state.terminated is not None:
                place = f"its log, if kept, is in {state.memo.log_directory}"
                gone = "its log was removed when the node was short of disk"
                raise NotFoundError(
                    f'container "{name}" in pod "{pod_name}" has ended and the runtime has no record of it;'
                    f" {gone if state.cleaned else place}"
                )
            raise RejectedError(f'container "{name}" in pod "{pod_name}" is {waiting(state, name)}')
        chosen = instances[0]
        root = chosen.log_path.rpartition("/")[0].rpartition("/")[0]
        return LogTarget(
            path=chosen.log_path, root=root, running=chosen.state is RuntimeContainerState.RUNNING
        )

    def exec(self, pod: str, container: str, command: tuple[str, ...], timeout_s: float) -> ExecResult:
        """Run a command in a running container and wait for it."""
        state = self._state(pod)
        name = container_named(state, container)
        running = self._running(state, name)
        call = ExecInContainer(uid=state.uid, container_id=running.id, command=command, timeout_s=timeout_s)
        result = self._ports.runtime(call, timeout_s + EDGE_DEADLINE_S)
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
        """Prepare a command in a running container and return the URL of its streams, valid once and for a short time."""
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
        result = self._ports.streams(call, EDGE_DEADLINE_S)
        assert isinstance(result, StreamUrl)
        return result.url

    # ------------------------------------------------------------ sources and health

    def sources(self) -> tuple[SourceRow, ...]:
        """Return the state of each file and URL, and of the API server."""
        rows: list[SourceRow] = []
        files, urls, api, config = (
            self._kernel.committed(path) for path in (paths.FILE, paths.HTTP, paths.API, paths.CONFIG)
        )
        if isinstance(files, FileState):
            rows += file_rows(files)
        if isinstance(urls, HttpState):
            rows += http_rows(urls)
        if isinstance(api, ApiSourceState):
            rows += self._with_bootstrap(api_rows(api))
        if isinstance(config, ConfigState):
            rows += config_rows(config)
        return tuple(rows)

    def _with_bootstrap(self, rows: tuple[SourceRow, ...]) -> tuple[SourceRow, ...]:
        """Return the rows of the API server; while the node has no identity yet, the first says what that waits for."""
        state = self._kernel.committed(paths.CERTIFICATES)
        waits = without_identity(state, self._now()) if isinstance(state, CertificatesState) else ""
        if not waits:
            return rows
        top = msgspec.structs.replace(rows[0], status="waiting", problems=(waits, *rows[0].problems))
        return (top, *rows[1:])

    def _certificate_health(self) -> tuple[HealthRow, ...]:
        """Return until when the client certificate is valid, on a node of a cluster; reported, not unhealthy."""
        state = self._kernel.committed(paths.CERTIFICATES)
        if not isinstance(state, CertificatesState):
            return ()
        detail = certificate_sentence(state, self._now(), self._wall())
        return (HealthRow(name="certificates", ok=True, detail=detail),)

    def _inside(self, reader: UsageState) -> list[Family]:
        state = self._kernel.committed(paths.CERTIFICATES)
        certificate = (
            certificate_families(state, self._wall()) if isinstance(state, CertificatesState) else []
        )
        return [*super()._inside(reader), *certificate]

    def health(self) -> tuple[HealthRow, ...]:
        """Return every health check: actors answer, and the runtime was listed recently."""
        stuck = self._kernel.summarize_actors().stuck
        pleg, groups = self._kernel.committed(paths.PLEG), self._kernel.committed(paths.CGROUPS)
        evictor = self._kernel.committed(paths.EVICTION)
        watcher = self._kernel.committed(paths.OOM)
        pressures = evictor.pressure.conditions if isinstance(evictor, EvictionState) else ()
        fresh, doing = (
            pleg_health(pleg, self._now()) if isinstance(pleg, PlegState) else (False, "Pleg has not started")
        )
        text = f"fault injection is on ({self._breaks})"
        faults = (HealthRow(name="faults", ok=True, detail=text),) if self._breaks else ()
        return (
            *faults,
            HealthRow(name="actors", ok=not stuck, detail="; ".join(stuck)),
            HealthRow(name="pleg", ok=fresh, detail=doing),
            # Pods run without their limits: reported, not unhealthy.
            HealthRow(
                name="cgroups", ok=True, detail=groups.notice if isinstance(groups, CgroupsState) else ""
            ),
            # A node under pressure is not unhealthy: eviction handles it.
            HealthRow(name="pressure", ok=True, detail=" ".join(pressures)),
            HealthRow(
                name="oom", ok=True, detail=oom_notice(watcher) if isinstance(watcher, OomState) else ""
            ),
            *self._certificate_health(),
        )

    def ready(self) -> tuple[HealthRow, ...]:
        """Return the readiness checks."""
        return (self._runtime_health(), self._sources_health())

    def _sources_health(self) -> HealthRow:
        state = self._kernel.committed(paths.PODS)
        if not isinstance(state, SupervisorState):
            # Without its state the sources are unknown.
            return HealthRow(name="sources", ok=False, detail="PodSupervisor has not started")
        missing = state.sources.missing
        text = f"no list yet from: {', '.join(missing)}" if missing else ""
        return HealthRow(name="sources", ok=not missing, detail=text)

    def _runtime_health(self) -> HealthRow:
        state = self._kernel.committed(paths.NODE)
        ready, text = runtime_health(state) if isinstance(state, NodeState) else (False, "it has not begun")
        return HealthRow(name="runtime", ok=ready, detail=text)

    # ------------------------------------------------------------ finding things

    def _states(self) -> dict[Uid, PodState]:
        children = self._kernel.committed_children(paths.PODS)
        return {state.uid: state for _, state in children if isinstance(state, PodState)}

    def _supervisor(self) -> SupervisorState:
        state = self._kernel.committed(paths.PODS)
        return state if isinstance(state, SupervisorState) else SupervisorState()

    def _admission_of(self, uid: Uid) -> str:
        state = self._kernel.committed(paths.ADMISSION)
        return (
            wait_for_admission(state, uid)
            if isinstance(state, AdmissionState)
            else "AdmissionManager to begin"
        )

    def _state(self, pod: str) -> PodState:
        states, supervisor = self._states(), self._supervisor()
        return states[find(pod, [(*called(s, supervisor), s.uid) for s in states.values()])]

    def _uid_of(self, pod: str, seen: EventsState) -> Uid:
        """Return the pod of this name, or the last removed one."""
        known = claimed(self._states(), self._supervisor())
        try:
            return find(pod, known)
        except NotFoundError:
            there = {uid for _, _, uid in known}
            gone = [
                (one.record.gone_at or 0, uid, one.record)
                for uid, one in seen.entries.items()
                if uid not in there
            ]
            last = {(one.namespace, one.pod): uid for _, uid, one in sorted(gone, key=lambda row: row[:2])}
            return find(pod, [(*name, uid) for name, uid in last.items()])

    def _running(self, state: PodState, name: str) -> RuntimeContainer:
        for instance in instances_of(state.observed, name):
            if instance.state is RuntimeContainerState.RUNNING:
                return instance
        raise RejectedError(f'container "{name}" is not running; {waiting(state, name)}')


def called(state: PodState, supervisor: SupervisorState) -> tuple[str, str]:
    """Return namespace and name of a pod; its supervisor may know them before its actor."""
    entry = supervisor.entries.get(state.uid)
    return (entry.namespace, entry.name) if entry is not None and entry.name else namespace_and_name(state)


def claimed(states: Mapping[Uid, PodState], supervisor: SupervisorState) -> list[tuple[str, str, Uid]]:
    """Return namespace, name and UID of every pod that has an actor or waits for one."""
    names = [(*called(state, supervisor), state.uid) for state in states.values()]
    waiting = (entry for entry in supervisor.entries.values() if entry.uid not in states)
    return names + [(entry.namespace, entry.name, entry.uid) for entry in waiting]


def find(pod: str, named: list[tuple[str, str, Uid]]) -> Uid:
    """Return the UID of a pod by ``namespace/name``, ``name`` or the name without the node's suffix.

    Raises NotFoundError for no match, RejectedError for several.
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
            raise RejectedError(f'"{pod}" is ambiguous: {names}; give namespace and full name')
    raise NotFoundError(f'no pod "{pod}" on this node; see `nodeagent pods`')


def container_named(state: PodState, name: str) -> str:
    """Return the name of a container: the only regular one for an empty name."""
    names = [c.name for c in pods.containers_of(state)]
    names = names or sorted({c.name for c in (state.observed.containers if state.observed else ())})
    regular = [c.name for c in state.desired.spec.containers] if state.desired is not None else names
    if not name and len(regular) == 1:
        return regular[0]
    names += [c.name for c in pods.all_of(state) if c.name not in names]
    if name in names:
        return name
    wanted = f'no container "{name}"' if name else "several containers"
    raise RejectedError(f"{wanted} in this pod; choose one with -c: {', '.join(names)}")


def waiting(state: PodState, name: str) -> str:
    """Return the state of a container that does not run, in words."""
    status = status_named(state.base, name)
    return pods.doing(status, 0) if status is not None else "in an unknown state"


def without_secrets(pod: Pod) -> Pod:
    """Return the pod without any environment value."""
    spec = msgspec.structs.replace(
        pod.spec,
        containers=tuple(without_values(c) for c in pod.spec.containers),
        init_containers=tuple(without_values(c) for c in pod.spec.init_containers),
        ephemeral_containers=tuple(without_values(c) for c in pod.spec.ephemeral_containers),
    )
    annotations = {
        key: value
        for key, value in pod.metadata.annotations.items()
        if key != "kubectl.kubernetes.io/last-applied-configuration"
    }
    meta = msgspec.structs.replace(pod.metadata, annotations=annotations)
    return msgspec.structs.replace(pod, metadata=meta, spec=spec)


def without_values(container: C) -> C:
    """Return a container without the values of its environment."""
    env = (
        EnvVar(name=e.name, value="<hidden>" if e.value else "", value_from=e.value_from)
        for e in container.env
    )
    return msgspec.structs.replace(container, env=tuple(env))
