"""What is known of each sandbox and container by its id, so that an unchanged pod costs two listings and nothing more.

Most of an object never changes, and states only go forward: created, running, exited. So a row of a listing is
compared by its state alone, and what an inspection told of a state holds for as long as that state does. Only the
amounts that confine a container change within a state, by our own hand: an inspection that began before such a change
may tell of what was, whenever its answer comes. An object is *settled* when nothing that can be known of its present
state is missing.
"""

import threading
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from api.ids import Uid
from api.ports.confinement import Resources
from api.ports.runtime import LABEL_POD_UID, RuntimeContainer, RuntimeContainerState, Sandbox, SandboxState
from runtime.drivers.cri import annotation, shown
from runtime.wire.generated import cri_pb2 as pb

RANKS = {RuntimeContainerState.CREATED: 0, RuntimeContainerState.RUNNING: 1, RuntimeContainerState.EXITED: 2}
Lives = Callable[[str, Uid, int, bool], None]
"""Told (id on the wire, UID of the pod, pid, whether it is a sandbox) when something is first seen to run."""


class Known:
    """Everything known, by the ids of the wire. Its methods may be called on any thread."""

    def __init__(self, lives: Lives, gone: Callable[[str], None]) -> None:
        self.scheme = ""
        """What container ids begin with; set by the handshake."""
        self._lives, self._gone = lives, gone
        self._lock = threading.Lock()
        self._count = 0
        self._since: dict[str, int] = {}
        """When each id was first seen, as a count of sightings."""
        self._sandboxes: dict[str, Sandbox] = {}
        self._containers: dict[str, RuntimeContainer] = {}
        self._settled: set[str] = set()
        self._resized: dict[str, int] = {}
        """The moment at which the amounts of each container may last have become others."""
        self._digests: dict[str, str] = {}

    @property
    def moment(self) -> int:
        """Return a number that grows with every new id and every change of amounts."""
        return self._count

    def sandbox(self, identity: str) -> Sandbox | None:
        """Return what is known of a sandbox."""
        return self._sandboxes.get(identity)

    def container(self, identity: str) -> RuntimeContainer | None:
        """Return what is known of a container."""
        return self._containers.get(identity)

    def settled(self, identity: str) -> bool:
        """Return whether nothing is missing."""
        return identity in self._settled

    def digest(self, identity: str) -> str:
        """Return the digest of the spec that an object was made from, empty when another agent made it."""
        return self._digests.get(identity, "")

    def set_amounts(self, identity: str, given: Resources | None) -> None:
        """Record a container's new amounts, or, with None, that they may have changed.

        It must be inspected again, for runtimes that report them.
        """
        with self._lock:
            known = self._containers.get(identity)
            if known is None:
                return
            self._settled.discard(identity)
            self._count += 1
            self._resized[identity] = self._count
            if given is not None and known.resources is not None:
                self._containers[identity] = replace(known, resources=known.resources.updated(given))

    def of_pod(self, uid: Uid) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the ids of the sandboxes that are known of a pod, and of the containers in them."""
        with self._lock:
            boxes = tuple(identity for identity, box in self._sandboxes.items() if box.uid == uid)
            inside = tuple(identity for identity, one in self._containers.items() if one.sandbox_id in boxes)
        return boxes, inside

    def uid_of(self, row: pb.Container) -> Uid:
        """Return the pod's UID of a container: of its sandbox, else of its label, empty when there is neither."""
        sandbox = self._sandboxes.get(row.pod_sandbox_id)
        return sandbox.uid if sandbox is not None else Uid(row.labels.get(LABEL_POD_UID, ""))

    # -- rows of listings

    def absorb_sandbox_row(self, row: pb.PodSandbox) -> None:
        """Take in a row."""
        with self._lock:
            known = self._sandboxes.get(row.id)
            if known is None:
                self._add_sandbox(row)
            elif known.state is SandboxState.READY and row.state != pb.SANDBOX_READY:
                self._sandboxes[row.id] = replace(
                    known, state=SandboxState.NOT_READY, ips=(), network_known=False
                )

    def _add_sandbox(self, row: pb.PodSandbox) -> None:
        sandbox = shown.sandbox(row)
        host = annotation.host_network(row.annotations)
        if host is not None:
            ready = sandbox.state is SandboxState.READY
            sandbox = replace(sandbox, host_network=host, network_known=host and ready)
            if not ready:
                self._settled.add(row.id)
        self._sandboxes[row.id] = sandbox
        self._number(row)

    def _number(self, row: pb.PodSandbox | pb.Container) -> None:
        self._count += 1
        self._since[row.id] = self._count
        if annotation.SPEC in row.annotations:
            self._digests[row.id] = row.annotations[annotation.SPEC]

    def absorb_container_row(self, row: pb.Container) -> None:
        """Take in a row."""
        with self._lock:
            known = self._containers.get(row.id)
            if known is None:
                self._containers[row.id] = shown.container(row, self.scheme)
                self._number(row)
                return
            state = shown.STATES.get(row.state, RuntimeContainerState.UNKNOWN)
            if overtakes(state, known.state):
                self._containers[row.id] = replace(known, state=state)
                self._settled.discard(row.id)

    # -- answers of inspections

    def absorb_sandbox_status(self, status: pb.PodSandboxStatus, pid: int) -> None:
        """Take in an inspection."""
        with self._lock:
            known = self._sandboxes.get(status.id)
            if known is None or (known.state is SandboxState.NOT_READY and status.state == pb.SANDBOX_READY):
                return
            sandbox = shown.with_network(known, status)
            self._sandboxes[status.id] = sandbox
            ready = sandbox.state is SandboxState.READY
            if not ready or sandbox.host_network or sandbox.ips:
                self._settled.add(status.id)
        if ready and pid:
            self._lives(status.id, sandbox.uid, pid, True)

    def absorb_container_status(self, status: pb.ContainerStatus, pid: int, begun: int) -> bool:
        """Absorb an inspection that began at the moment `begun`; return whether it must be repeated.

        An outdated answer changes nothing. It must be repeated where the amounts have changed since `begun`, or while the
        exit code is not recorded.
        """
        with self._lock:
            known = self._containers.get(status.id)
            if known is None or (known.state is RuntimeContainerState.EXITED and status.id in self._settled):
                return False
            if self._resized.get(status.id, 0) > begun:
                return True
            container = shown.with_details(known, status, pid)
            self._containers[status.id] = container
            if container.state is RuntimeContainerState.UNKNOWN or is_unfinished(status):
                self._settled.discard(status.id)
            else:
                self._settled.add(status.id)
            sandbox = self._sandboxes.get(container.sandbox_id)
        if container.state is RuntimeContainerState.RUNNING and container.pid:
            uid = sandbox.uid if sandbox is not None else Uid(status.labels.get(LABEL_POD_UID, ""))
            self._lives(status.id, uid, container.pid, False)
        return is_unfinished(status)

    def set_start_failure(self, identity: str, message: str) -> None:
        """Record why a container failed to start, where the runtime does not show it."""
        with self._lock:
            known = self._containers.get(identity)
            if known is None or known.state is not RuntimeContainerState.EXITED:
                return
            if known.started_at is None or known.exit_code == shown.UNKNOWN_EXIT:
                self._containers[identity] = replace(
                    known,
                    started_at=None,
                    exit_code=128,
                    reason="StartError",
                    message=known.message or message,
                )

    # -- leaving

    def keep(self, present: Iterable[str], before: int) -> None:
        """Forget what a complete listing, begun at `before`, does not hold."""
        there = set(present)
        with self._lock:
            gone = [
                identity
                for identity, since in self._since.items()
                if since <= before and identity not in there
            ]
            for identity in gone:
                del self._since[identity]
                self._sandboxes.pop(identity, None)
                self._containers.pop(identity, None)
                self._settled.discard(identity)
                self._digests.pop(identity, None)
                self._resized.pop(identity, None)
        for identity in gone:
            self._gone(identity)


def overtakes(state: RuntimeContainerState, known: RuntimeContainerState) -> bool:
    """Return whether a listed state is newer than the known one: an exit is final, the rest goes forward."""
    if known is RuntimeContainerState.EXITED or state is known:
        return False
    return RuntimeContainerState.UNKNOWN in (state, known) or RANKS[state] > RANKS[known]


def is_unfinished(status: pb.ContainerStatus) -> bool:
    """Return whether an exit is shown whose code the runtime has not recorded yet."""
    return status.state == pb.CONTAINER_EXITED and status.finished_at <= 0
