"""The port ``runtime`` on plain processes of this host; see `api.ports.runtime` for the rules that it keeps."""

import base64
import hashlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_never

import msgspec

from api.errors import (
    ConflictError,
    Failure,
    FailureKind,
    NotFoundError,
    OperatingError,
    RejectedError,
    UnavailableError,
)
from api.ids import Uid
from api.messages import Message
from api.ports import runtime as c
from api.ports import usage as usagecall
from api.ports.call import Done as NothingMore
from api.ports.port import Done, Undo
from api.ports.runtimecall import Call
from runtime.drivers.embedded import record as records
from runtime.drivers.embedded.fleet import Fleet
from runtime.drivers.embedded.image import EmbeddedImages, require_own_user, require_runnable
from runtime.drivers.embedded.keeper.text import reason
from runtime.drivers.embedded.keeperserver import KeeperServer
from runtime.drivers.embedded.kept import Kept
from runtime.drivers.embedded.streaming import EmbeddedStreams
from runtime.drivers.embedded.volume import require_mountable
from runtime.net.address import host_address
from runtime.net.loop import Loop

VERSION = "0.1.0"
KEEPER_PATIENCE_S = 15.0
"""A keeper that has not answered a stop of its sandbox by then hangs: it is killed, and what it held with it."""
OPEN_AGAIN_S = 1.0
"""Between tries to read what pods there are."""
CLOSE_PATIENCE_S = 2.0
MAX_OUTPUT_BYTES = 16 << 20
"""Output limit of an exec per stream, at most."""
MOUNTS = 3
"""The protocol version from which on a keeper mounts a container's volumes."""
NO_NEW_PRIVILEGES = 4
"""The protocol version from which on a keeper takes from a container what would let it gain privileges."""
REOPENS_LOGS = 2
"""The protocol version from which on a keeper can reopen a log."""
NO_TIMEOUT_S = 365 * 86400.0

Push = Callable[[Message], None]
Ended = Callable[[Failure | None], None]


class Ticket:
    """A call under way: completed once, by its result, its failure, its deadline or its cancellation."""

    def __init__(self, call: c.RuntimeCall, deadline_s: float, done: Done) -> None:
        self.call = call
        self.deadline_at = time.monotonic() + deadline_s
        self.is_open = True
        self.withdraw: Callable[[], None] | None = None
        """What ends the work itself, where that is allowed."""
        self._done = done

    def succeed(self, result: msgspec.Struct) -> None:
        """Complete with a result."""
        if self.is_open:
            self.is_open = False
            self._done(result, None)

    def fail(self, failure: Failure) -> None:
        """Complete with a failure."""
        if self.is_open:
            self.is_open = False
            self._done(None, failure)


class RuntimeEvents:
    """The stream ``runtime.events``: one `RuntimeChanged` whenever a keeper reports, at once."""

    name = "runtime.events"

    def __init__(self, start: Callable[[], None]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._listeners: list[tuple[Push, Ended]] = []

    def open(self, push: Push, ended: Ended) -> Undo:
        """Begin to feed `push` from the loop's thread."""
        entry = (push, ended)
        with self._lock:
            self._listeners.append(entry)
        self._start()

        def undo() -> None:
            with self._lock:
                self._listeners = [known for known in self._listeners if known is not entry]

        return undo

    def push(self, uid: Uid) -> None:
        """Notify every subscriber that a pod changed."""
        with self._lock:
            listeners = list(self._listeners)
        for push, _ in listeners:
            push(c.RuntimeChanged(uid=uid))

    def end(self, failure: Failure) -> None:
        """End every subscription."""
        with self._lock:
            listeners, self._listeners = self._listeners, []
        for _, ended in listeners:
            ended(failure)


def cgroup_name(root: str) -> str:
    """Return what the cgroups of the pods of this root folder are below: a name that no other root folder has."""
    digest = hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()
    return f"nodeagent-{digest[:12]}"


class EmbeddedRuntime:
    """The embedded runtime on one root folder. Pods outlive it; a later one on the same folder adopts them.

    `root` is any absolute path. Its thread and its keeper server start with the first use. Without `cgroups` none is touched,
    as on a machine that does not permit them. Containers have the soft limit of open files `open_files`; 0: this process's.
    """

    name = "runtime"

    def __init__(self, *, root: str, cgroups: bool = True, address: str = "", open_files: int = 0) -> None:
        self._root = Path(root)
        self._address = address
        self.events = RuntimeEvents(self._start)
        self.images = EmbeddedImages()
        self.streams = EmbeddedStreams()
        self._lock = threading.Lock()
        self._started = False
        self._closed = False
        self._loop = Loop("embedded-runtime", self._on_end)
        self._keeper_server = KeeperServer(
            self._loop, self._root / "run", cgroup_name(root) if cgroups else "", open_files
        )
        self._fleet = Fleet(self._loop, self._root, self.events.push, self._keeper_server.places)
        self._trouble: Failure | None = None
        self._over: Failure | None = None
        """Why no call is taken any more."""
        self._open_tickets: set[Ticket] = set()
        self._running: dict[tuple[Uid, int], list[Ticket]] = {}
        """Calls that wait for a sandbox that is being made."""

    def begin(self, call: msgspec.Struct, deadline_s: float, done: Done) -> Undo:
        """Start one call of `RuntimeCall`; the deadline is in seconds."""
        assert isinstance(call, Call)
        ticket = Ticket(call, deadline_s, done)  # type: ignore[arg-type]
        self._start()
        if not self._loop.submit(lambda: self._accept(ticket)):
            ticket.fail(_unavailable("the embedded runtime's driver is closed"))
        return lambda: _ignore(self._loop.submit(lambda: self._cancel(ticket)))

    def close(self) -> None:
        """Let go of everything; pods run on. Calls under way fail with Cancelled."""
        with self._lock:
            self._closed = True
        self._loop.stop(CLOSE_PATIENCE_S)

    # -- the thread

    def _start(self) -> None:
        with self._lock:
            if self._started or self._closed:
                return
            self._started = True
            self._loop.submit(self._open)

    def _open(self) -> None:
        try:
            self._fleet.open()
        except OperatingError as error:
            self._trouble = error.failure()
            self._loop.after(OPEN_AGAIN_S, self._open)
            return
        self._trouble = None
        self._keeper_server.when_ready(
            lambda failure: None if failure else self._fleet.remove_unused_groups()
        )

    def _on_end(self) -> None:
        """Leave in order, also after a bug on the thread."""
        if self._closed:
            self._over = Failure(
                kind=FailureKind.CANCELLED, message="the embedded runtime's driver was closed"
            )
        else:
            self._over = _unavailable("the embedded runtime's thread failed (a bug); restart the agent")
        for ticket in list(self._open_tickets):
            ticket.fail(self._over)
        self._open_tickets.clear()
        self._fleet.close()
        self._keeper_server.close()
        if not self._closed:
            self.events.end(self._over)

    def _accept(self, ticket: Ticket) -> None:
        if self._over is not None:
            ticket.fail(self._over)
            return
        self._open_tickets.add(ticket)
        self._loop.at(ticket.deadline_at, lambda: self._expire(ticket))
        if self._trouble is None:
            self._fleet.when_adopted(lambda: self._begin(ticket))
        elif isinstance(ticket.call, c.RuntimeStatus):
            self._begin(ticket)
        else:
            self._fail(ticket, self._trouble)

    def _begin(self, ticket: Ticket) -> None:
        if not ticket.is_open:
            return
        try:
            self._dispatch(ticket, ticket.call)
        except OperatingError as error:
            self._fail(ticket, error.failure())
        except Exception as error:  # noqa: BLE001 what ends one call must not end the thread of all
            self._fail(ticket, _unavailable(f"{ticket.call.brief()}: {reason(error)}"))

    def _expire(self, ticket: Ticket) -> None:
        if ticket.is_open:
            if isinstance(ticket.call, c.ExecInContainer) and ticket.withdraw:
                ticket.withdraw()
            message = f"{ticket.call.brief()}: no answer from the embedded runtime in time"
            self._fail(ticket, Failure(kind=FailureKind.TIMED_OUT, message=message))

    def _cancel(self, ticket: Ticket) -> None:
        if not ticket.is_open or not isinstance(ticket.call, c.ExecInContainer | c.StopContainer):
            # A change of a pod is completed: half of it is no use.
            return
        if ticket.withdraw:
            ticket.withdraw()
        self._fail(
            ticket, Failure(kind=FailureKind.CANCELLED, message=f"{ticket.call.brief()} was cancelled")
        )

    def _fail(self, ticket: Ticket, failure: Failure) -> None:
        self._open_tickets.discard(ticket)
        ticket.fail(failure)

    def _succeed(self, ticket: Ticket, result: msgspec.Struct) -> None:
        self._open_tickets.discard(ticket)
        ticket.succeed(result)

    def _show(self, ticket: Ticket, uid: Uid) -> None:
        self._succeed(ticket, self._fleet.pod(uid))

    # -- calls

    def _dispatch(self, ticket: Ticket, call: c.RuntimeCall) -> None:  # noqa: C901 one case per call
        match call:
            case c.ListPods():
                self._succeed(ticket, c.PodListing(pods=self._fleet.pods(), complete=True))
            case c.InspectPod():
                self._show(ticket, call.uid)
            case c.RunSandbox():
                self._run_sandbox(ticket, call)
            case c.StopSandbox():
                self._stop_sandbox(ticket, call.uid, call.sandbox_id, remove=False)
            case c.RemoveSandbox():
                self._stop_sandbox(ticket, call.uid, call.sandbox_id, remove=True)
            case c.CreateContainer():
                self._create_container(ticket, call)
            case c.StartContainer():
                self._start_container(ticket, call)
            case c.StopContainer():
                self._stop_container(ticket, call)
            case c.RemoveContainer():
                self._remove_container(ticket, call)
            case c.ExecInContainer():
                self._exec(ticket, call)
            case c.UpdateContainer():
                raise RejectedError(
                    f"container {call.container_id}: the embedded runtime has no resource limits"
                )
            case c.ReopenContainerLog():
                self._reopen_log(ticket, call)
            case usagecall.ReadContainerStats():
                raise RejectedError("the embedded runtime has no container statistics of its own")
            case c.RuntimeStatus():
                self._status(ticket)
            case c.SetPodCidr():
                # Its pods are on the host's network.
                ticket.succeed(NothingMore())
            case _:
                assert_never(call)

    def _status(self, ticket: Ticket) -> None:
        def answer(failure: Failure | None) -> None:
            trouble = failure or self._trouble
            sentences = [trouble.message] if trouble else []
            if self._keeper_server.permitted is not None:
                sentences += self._keeper_server.permitted.refused
            if os.geteuid() != 0:
                sentences.append(f"not root: every container runs as user {os.geteuid()}")
            sentences += self._fleet.troubles()
            sentences += [f"damaged, moved aside: {what}" for what in self._fleet.damaged]
            info = c.RuntimeInfo(
                name="embedded", version=VERSION, ready=trouble is None, detail="; ".join(sentences)
            )
            self._succeed(ticket, info)

        if self._trouble is not None:
            answer(None)
        else:
            self._keeper_server.when_ready(answer)

    def _run_sandbox(self, ticket: Ticket, call: c.RunSandbox) -> None:
        spec = call.spec
        key = (spec.uid, spec.attempt)
        for kept in self._fleet.of_pod(spec.uid):
            there = kept.record.sandbox.spec if kept.record else None
            if there is not None and there.attempt == spec.attempt:
                if there == spec:
                    self._show(ticket, spec.uid)
                else:
                    message = f"sandbox of {spec.namespace}/{spec.name} attempt {spec.attempt} already exists with another spec"
                    self._fail(ticket, Failure(kind=FailureKind.ALREADY_EXISTS, message=message))
                return
        if key in self._running:
            # An earlier call for the same is still in flight: check again when it has ended.
            self._running[key].append(ticket)
            return
        if not spec.log_directory.startswith("/") or "\0" in spec.log_directory:
            raise RejectedError(
                f"pod {spec.namespace}/{spec.name}: log directory {spec.log_directory!r} is not absolute"
            )
        kept = self._fleet.add(os.urandom(16).hex())
        try:
            link = self._keeper_server.fork_keeper(kept.id, kept.folder, kept.fail_all)
        except OSError as error:
            self._fleet.discard(kept)
            raise UnavailableError(
                f"sandbox of {spec.namespace}/{spec.name} cannot be made: {error.strerror}"
            ) from None
        self._running[key] = []

        def answer(_: dict[str, Any] | None, failure: Failure | None) -> None:
            if failure is not None:
                self._fleet.discard(kept)
                self._fail(ticket, failure)
            else:
                self._show(ticket, spec.uid)
            for other in self._running.pop(key):
                self._begin(other)

        kept.attach(link)
        kept.request(
            "run",
            answer,
            spec=msgspec.to_builtins(spec),
            ips=[self._address or host_address()],
            created_after=self._newest(spec.uid),
        )

    def _newest(self, uid: Uid) -> int:
        pod = self._fleet.pod(uid)
        return max([0, *(s.created_at for s in pod.sandboxes), *(k.created_at for k in pod.containers)])

    def _stop_sandbox(self, ticket: Ticket, uid: Uid, sandbox_id: str, *, remove: bool) -> None:
        kept = self._fleet.sandbox(sandbox_id)
        if kept is None or kept.record is None:
            self._show(ticket, uid)
            return

        def removed(failure: Failure | None) -> None:
            if failure is not None:
                self._fail(ticket, failure)
            else:
                self._show(ticket, uid)

        def answer(_: dict[str, Any] | None, failure: Failure | None) -> None:
            if failure is not None and kept.is_live:
                # Not a dead keeper, whose sandbox is as stopped as can be, but one that refuses.
                self._fail(ticket, failure)
            elif remove:
                self._fleet.remove(kept, removed)
            else:
                self._show(ticket, uid)

        if not kept.is_live:
            answer(None, None)
            return
        number = kept.request("stop_sandbox", answer, remove=remove)
        self._loop.after(KEEPER_PATIENCE_S, lambda: self._lose_patience(kept, number))

    def _lose_patience(self, kept: Kept, number: int) -> None:
        if (
            kept.waits_for(number)
            and kept.is_live
            and kept.record is not None
            and kept.record.sandbox.state == "ready"
        ):
            kept.kill_keeper()

    def _find(self, uid: Uid, container_id: str) -> tuple[Kept, str]:
        """Return the sandbox and the bare id of a container. Raises NotFoundError."""
        identity = container_id.removeprefix(records.SCHEME)
        kept = self._fleet.of_container(identity)
        if kept is None or kept.record is None or all(row.id != identity for row in kept.record.containers):
            raise NotFoundError(f"the embedded runtime holds no container {container_id} of pod {uid}")
        return kept, identity

    def _relay(self, ticket: Ticket, uid: Uid, kept: Kept, op: str, **fields: Any) -> None:
        """Call the keeper and complete the call with the resulting state of the pod."""

        def answer(_: dict[str, Any] | None, failure: Failure | None) -> None:
            if failure is not None:
                self._fail(ticket, failure)
            else:
                self._show(ticket, uid)

        kept.request(op, answer, **fields)

    def _create_container(self, ticket: Ticket, call: c.CreateContainer) -> None:
        spec = call.spec
        require_runnable(spec)
        require_own_user(spec)
        require_mountable(spec)
        kept = self._fleet.sandbox(call.sandbox_id)
        if kept is None or kept.record is None:
            raise NotFoundError(f"the embedded runtime holds no sandbox {call.sandbox_id} of pod {call.uid}")
        if not kept.is_ready:
            raise ConflictError(
                f"container {spec.name}: sandbox {call.sandbox_id} is not ready; make a new one"
            )
        if spec.mounts and not kept.speaks(MOUNTS):
            raise RejectedError(
                f"container {spec.name}: its pod's keeper is of an older agent and cannot mount volumes; recreate the pod",
                reason="CreateContainerError",
            )
        if spec.security.no_new_privileges and not kept.speaks(NO_NEW_PRIVILEGES):
            raise RejectedError(
                f"container {spec.name}: its pod's keeper is of an older agent and does not support allowPrivilegeEscalation:"
                " false; recreate the pod",
                reason="CreateContainerError",
            )
        body = msgspec.to_builtins(spec)
        body["env"] = [[variable.name, variable.value] for variable in spec.env]
        body["pods"] = os.path.realpath(self._root / "pods")
        self._relay(
            ticket,
            call.uid,
            kept,
            "create",
            container=os.urandom(16).hex(),
            spec=body,
            created_after=self._newest(call.uid),
        )

    def _start_container(self, ticket: Ticket, call: c.StartContainer) -> None:
        kept, identity = self._find(call.uid, call.container_id)
        if not kept.is_ready:
            raise ConflictError(
                f"container {call.container_id} cannot start: its sandbox is not ready; make a new one"
            )
        self._relay(ticket, call.uid, kept, "start", container=identity)

    def _stop_container(self, ticket: Ticket, call: c.StopContainer) -> None:
        try:
            kept, identity = self._find(call.uid, call.container_id)
        except NotFoundError:
            self._show(ticket, call.uid)
            return
        if not kept.is_live:
            self._show(ticket, call.uid)
            return

        def answer(_: dict[str, Any] | None, failure: Failure | None) -> None:
            if failure is not None and kept.is_live:
                self._fail(ticket, failure)
            else:
                # Answered, or the keeper died and the record says that nothing runs: stopped either way.
                self._show(ticket, call.uid)

        kept.request("stop", answer, container=identity, grace_s=call.grace_s)

    def _remove_container(self, ticket: Ticket, call: c.RemoveContainer) -> None:
        try:
            kept, identity = self._find(call.uid, call.container_id)
        except NotFoundError:
            self._show(ticket, call.uid)
            return
        if kept.is_live:
            self._relay(ticket, call.uid, kept, "remove_container", container=identity)
            return
        if kept.record is not None:
            rest = tuple(row for row in kept.record.containers if row.id != identity)
            try:
                kept.save(msgspec.structs.replace(kept.record, containers=rest))
            except OSError as error:
                message = f"container {call.container_id}: its record in {kept.folder} cannot be written: {error.strerror}"
                self._fail(ticket, _unavailable(message))
                return
            self._fleet.changed(kept)
        self._show(ticket, call.uid)

    def _reopen_log(self, ticket: Ticket, call: c.ReopenContainerLog) -> None:
        kept, identity = self._find(call.uid, call.container_id)
        if not kept.is_live:
            raise ConflictError(f"container {call.container_id} is not running")
        if not kept.speaks(REOPENS_LOGS):
            raise RejectedError(
                f"container {call.container_id}: its keeper is of an older agent and cannot reopen a log;"
                " restart the pod"
            )
        self._relay(ticket, call.uid, kept, "reopen_log", container=identity)

    def _exec(self, ticket: Ticket, call: c.ExecInContainer) -> None:
        kept, identity = self._find(call.uid, call.container_id)
        if not call.command or any("\0" in word for word in call.command):
            raise RejectedError(
                f"container {call.container_id}: the command to run is empty or holds a NUL byte"
            )
        if not kept.is_live:
            raise ConflictError(f"container {call.container_id} is not running")

        def answer(body: dict[str, Any] | None, failure: Failure | None) -> None:
            if failure is not None or body is None:
                self._fail(ticket, failure or _unavailable("the keeper gave no answer"))
                return
            try:
                result = c.ExecResult(
                    exit_code=body["exit_code"],
                    stdout=base64.b64decode(body["stdout"]),
                    stderr=base64.b64decode(body["stderr"]),
                    truncated=body["truncated"],
                )
            except (KeyError, TypeError, ValueError) as error:
                self._fail(ticket, _unavailable(f"the keeper's answer cannot be understood: {reason(error)}"))
                return
            self._succeed(ticket, result)

        number = kept.request(
            "exec",
            answer,
            container=identity,
            command=list(call.command),
            timeout_s=call.timeout_s if call.timeout_s > 0 else NO_TIMEOUT_S,
            limit_bytes=max(0, min(call.limit_bytes, MAX_OUTPUT_BYTES)),
        )
        ticket.withdraw = lambda: _ignore(kept.request("cancel", lambda _, __: None, request=number))


def _unavailable(message: str) -> Failure:
    return Failure(kind=FailureKind.UNAVAILABLE, message=message)


def _ignore(_: object) -> None:
    """Drop a result that no caller waits for."""
