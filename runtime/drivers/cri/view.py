"""The view of a pod: listings for what exists, inspections for what is not known yet."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from api.errors import ConflictError, FailureKind, NotFoundError, OperatingError, UnavailableError
from api.ids import Uid
from api.ports.runtime import (
    ANNOTATION_OWNER,
    LABEL_POD_NAME,
    LABEL_POD_NAMESPACE,
    PodListing,
    RuntimeContainer,
    RuntimeContainerState,
    RuntimePod,
    Sandbox,
    SandboxState,
)
from runtime.drivers.cri import shown
from runtime.drivers.cri.known import Known
from runtime.drivers.cri.link import Channels
from runtime.drivers.cri.opencall import Ask, Steps, Together
from runtime.drivers.cri.pause import Pause
from runtime.drivers.cri.process import only_process
from runtime.drivers.cri.rows import ALL, PodRows, Rows
from runtime.net.loop import Loop
from runtime.wire import cri
from runtime.wire.generated import cri_pb2 as pb
from runtime.wire.status import BROKEN, UNIMPLEMENTED

UNFINISHED_PAUSE_S = 0.01
UNFINISHED_TRIES = 50
"""How often an inspection is repeated, above all for an exit whose code is not recorded yet."""


class PodLister:
    """Lists and inspects; its answers are as new as the call."""

    def __init__(self, link: Channels, known: Known, loop: Loop) -> None:
        self._link, self._known, self._loop = link, known, loop
        self._rows = Rows(link, known, loop.after)

    def hello(self) -> Steps[None]:
        """Ask the runtime's version, once: its name is part of every container's id."""
        if not self._known.scheme:
            try:
                version = yield self._link.ask(cri.VERSION, pb.VersionRequest())
            except OperatingError as error:
                raise self.explained(error) from None
            self.greet(version)

    def greet(self, version: pb.VersionResponse) -> None:
        """Absorb the runtime's version. Raises UnavailableError for a server that is no container runtime."""
        shown.check_version(version, self._where)
        self._known.scheme = version.runtime_name

    @property
    def _where(self) -> str:
        return f"socket {self._link.channel.endpoint.path}"

    def explained(self, error: OperatingError) -> OperatingError:
        """Return the error of a handshake; a server that does not know the call is told apart."""
        if error.reason != UNIMPLEMENTED:
            return error
        return UnavailableError(
            f"the server on {self._where} does not speak CRI v1 (runtime.v1): it is no container runtime, speaks only "
            "v1alpha2, or its CRI plugin is switched off; use containerd 1.6 or newer, or CRI-O 1.23 or newer",
            reason=UNIMPLEMENTED,
        )

    # -- one pod

    def pod(self, uid: Uid) -> Steps[RuntimePod]:
        """Show one pod as it is now."""
        yield from self.hello()
        rows: PodRows = yield self._rows.of(uid)
        gone = yield from self._complete(
            [row.id for row in rows.sandboxes if not self._known.settled(row.id)],
            [row.id for row in rows.containers if not self._known.settled(row.id)],
        )
        return self._compose(
            uid,
            [row for row in rows.sandboxes if row.id not in gone],
            [row for row in rows.containers if row.id not in gone],
        )

    def after_sandbox(self, uid: Uid, identity: str, parent: str) -> Steps[RuntimePod]:
        """Show a pod whose sandbox was just made: that alone, when nothing else is known of the pod.

        All that a runtime can say of a sandbox costs it several times what its state and address do. It is asked for
        that much only where the cgroup below `parent` does not tell the process.
        """
        if self._known.of_pod(uid) != ((), ()):
            return (yield from self.pod(uid))
        pid = only_process(parent, identity)
        try:
            answer = yield self._ask_sandbox(identity, verbose=not pid)
        except OperatingError:
            return (yield from self.pod(uid))
        self._known.absorb_sandbox_row(shown.row_of_sandbox(answer.status))
        self._known.absorb_sandbox_status(answer.status, pid or shown.pid_of(answer.info))
        return (yield from self._alone(uid, identity))

    def after_create(self, uid: Uid, asked: pb.CreateContainerRequest, identity: str) -> Steps[RuntimePod]:
        """Show a pod whose container was just made: what was asked for tells all of it, when the pod has no other.

        Its time is the end of the call until the runtime is asked. A pod with more containers is listed, because they
        may have changed meanwhile.
        """
        row = shown.row_of_made(asked, identity, time.time_ns())
        if row is None or self._known.of_pod(uid) != ((asked.pod_sandbox_id,), ()):
            return (yield from self.pod(uid))
        begun = self._known.moment
        self._known.absorb_container_row(row)
        self._known.absorb_container_status(shown.status_of_made(asked, identity), 0, begun)
        return (yield from self._alone(uid, asked.pod_sandbox_id, identity))

    def after_start(self, uid: Uid, sandbox_id: str, identity: str) -> Steps[RuntimePod]:
        """Show a pod whose container was just started: that alone, when it has no other. Two listings less."""
        if self._known.of_pod(uid) != ((sandbox_id,), (identity,)):
            return (yield from self.pod(uid))
        begun = self._known.moment
        try:
            answer = yield self.ask_container(identity, verbose=True)
        except OperatingError:
            return (yield from self.pod(uid))
        self._take(answer, begun)
        return (yield from self._alone(uid, sandbox_id, identity))

    def _alone(self, uid: Uid, *ids: str) -> Steps[RuntimePod]:
        """Put a pod together from what is known of it; what is not wholly known is listed."""
        if not all(self._known.settled(identity) for identity in ids):
            return (yield from self.pod(uid))
        sandboxes = [box for identity in ids if (box := self._known.sandbox(identity))]
        containers = [one for identity in ids if (one := self._known.container(identity))]
        return _put_together(uid, sandboxes, containers, {})

    def _complete(self, sandboxes: Sequence[str], containers: Sequence[str]) -> Steps[set[str]]:
        """Ask for what is missing of these ids, side by side; return those that are gone meanwhile."""
        gone: set[str] = set()
        for _ in range(UNFINISHED_TRIES):
            if not sandboxes and not containers:
                break
            asks: list[Ask] = [self._ask_sandbox(identity, verbose=True) for identity in sandboxes]
            asks += [self.ask_container(identity, verbose=True) for identity in containers]
            begun = self._known.moment
            answers = yield Together(asks)
            unfinished = []
            for identity, answer in zip((*sandboxes, *containers), answers, strict=True):
                if isinstance(answer, NotFoundError):
                    gone.add(identity)
                elif isinstance(answer, OperatingError):
                    raise answer
                elif self._take(answer, begun):
                    unfinished.append(identity)
            sandboxes, containers = (), unfinished
            if unfinished:
                yield Pause(self._loop, UNFINISHED_PAUSE_S)
        return gone

    def inspect(self, identity: str) -> Steps[None]:
        """Inspect one container, without its pid. Raises NotFoundError when it is gone."""
        begun = self._known.moment
        self._take((yield self.ask_container(identity, verbose=False)), begun)

    def raise_for_state(
        self,
        identity: str,
        error: OperatingError,
        fine: tuple[RuntimeContainerState, ...] = (RuntimeContainerState.RUNNING,),
    ) -> Steps[None]:
        """Raise Conflict for a container that does not run, else the failure itself."""
        if error.kind in (FailureKind.CANCELLED, FailureKind.NOT_FOUND) or error.reason == BROKEN:
            raise error
        try:
            reply = yield self.ask_container(identity, verbose=False)
        except OperatingError:
            raise error from None
        state = shown.STATES.get(reply.status.state, RuntimeContainerState.UNKNOWN)
        if state not in fine:
            raise ConflictError(
                f"container {reply.status.metadata.name} does not run: it is {state}"
            ) from None
        raise error from None

    def _take(self, answer: Any, begun: int) -> bool:
        """Absorb an inspection that began at the moment `begun`; return whether it must be repeated."""
        pid = shown.pid_of(answer.info)
        if isinstance(answer, pb.PodSandboxStatusResponse):
            self._known.absorb_sandbox_status(answer.status, pid)
            return False
        return self._known.absorb_container_status(answer.status, pid, begun)

    def _ask_sandbox(self, identity: str, *, verbose: bool) -> Ask:
        return self._link.ask(
            cri.SANDBOX_STATUS,
            pb.PodSandboxStatusRequest(pod_sandbox_id=identity, verbose=verbose),
        )

    def ask_container(self, identity: str, *, verbose: bool) -> Ask:
        """Ask for one container; `verbose` for its pid as well."""
        return self._link.ask(
            cri.CONTAINER_STATUS,
            pb.ContainerStatusRequest(container_id=identity, verbose=verbose),
        )

    def _compose(
        self, uid: Uid, sandbox_rows: Iterable[pb.PodSandbox], container_rows: Iterable[pb.Container]
    ) -> RuntimePod:
        """Put a pod together from what is known of its rows."""
        first: Mapping[str, str] = next((row.labels for row in container_rows), {})
        sandboxes = [s for row in sandbox_rows if (s := self._known.sandbox(row.id))]
        containers = [k for row in container_rows if (k := self._known.container(row.id))]
        return _put_together(uid, sandboxes, containers, first)

    def settled(self, pod: RuntimePod) -> bool:
        """Return whether nothing is missing of what a listing shows of a pod."""
        return all(self._known.settled(sandbox.id) for sandbox in pod.sandboxes) and all(
            self._known.settled(container.id.rpartition("://")[2]) for container in pod.containers
        )

    # -- all pods

    def listing(self) -> Steps[PodListing]:
        """List everything; complete when nothing is missing that an inspection would add.

        What has no pod's UID of any kind is listed under the empty UID and belongs to no one.
        """
        yield from self.hello()
        before = self._known.moment
        pods: Mapping[Uid, PodRows] = yield self._rows.of(ALL)
        ids = [identity for rows in pods.values() for identity in rows.ids]
        self._known.keep(ids, before)
        shown_pods = (self._compose(uid, pods[uid].sandboxes, pods[uid].containers) for uid in sorted(pods))
        complete = all(self._known.settled(identity) for identity in ids)
        return PodListing(
            pods=tuple(replace(pod, ours=pod.ours and bool(pod.uid)) for pod in shown_pods), complete=complete
        )


def _put_together(
    uid: Uid, sandboxes: Sequence[Sandbox], containers: Sequence[RuntimeContainer], labels: Mapping[str, str]
) -> RuntimePod:
    """Return a pod; without a sandbox its containers' labels name it."""
    sandboxes, containers = in_time(sandboxes, containers)
    newest = sandboxes[0] if sandboxes else None
    return RuntimePod(
        uid=uid,
        name=newest.name if newest else labels.get(LABEL_POD_NAME, ""),
        namespace=newest.namespace if newest else labels.get(LABEL_POD_NAMESPACE, ""),
        sandboxes=tuple(sandboxes),
        containers=tuple(containers),
        # A pod without sandboxes has no owner annotation: it may be ours.
        ours=not sandboxes or any(key == ANNOTATION_OWNER for s in sandboxes for key, _ in s.annotations),
    )


def in_time(
    sandboxes: Sequence[Sandbox], containers: Sequence[RuntimeContainer]
) -> tuple[list[Sandbox], list[RuntimeContainer]]:
    """Return both newest first, with creation times that strictly increase within the pod, also where the clock stood."""
    things = [(s.created_at, 0, s.attempt, s.id) for s in sandboxes]
    things += [(k.created_at, 1, k.attempt, k.id) for k in containers]
    last = 0
    times: dict[str, int] = {}
    for created_at, _, _, identity in sorted(things):
        last = times[identity] = max(created_at, last + 1)
    moved_sandboxes = [
        s if s.created_at == times[s.id] else replace(s, created_at=times[s.id]) for s in sandboxes
    ]
    moved = [c if c.created_at == times[c.id] else replace(c, created_at=times[c.id]) for c in containers]
    moved_sandboxes.sort(key=lambda s: (s.attempt, s.created_at), reverse=True)
    moved.sort(key=lambda c: c.created_at, reverse=True)
    return moved_sandboxes, moved


def is_ready(pod: RuntimePod, sandbox_id: str) -> bool | None:
    """Return whether a sandbox of the pod is ready; None when there is none of this id."""
    return next((s.state is SandboxState.READY for s in pod.sandboxes if s.id == sandbox_id), None)
