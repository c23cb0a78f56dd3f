"""The keeper: one process per pod sandbox with the pod's processes, logs and records, with or without the agent.

One thread and one loop (`keeper.loop`). The record on disk is written before anything is answered. A request is a
method named `op_...`; `frame` says what travels.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable
from functools import partial

from runtime.drivers.embedded.keeper import cgroup, process, store
from runtime.drivers.embedded.keeper.belonging import alive, belonging
from runtime.drivers.embedded.keeper.command import Command
from runtime.drivers.embedded.keeper.container import Asker, KeptContainer
from runtime.drivers.embedded.keeper.frame import NEWEST, OLDEST, Body
from runtime.drivers.embedded.keeper.link import DriverConnection, Links
from runtime.drivers.embedded.keeper.loop import KeeperLoop
from runtime.drivers.embedded.keeper.text import quoted, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SWEEP_LIMIT_S = 5.0
"""How long a dead container's other processes may resist SIGKILL before the exit is shown regardless."""
RECORD_RETRY_S = 2.0
LAST_RECORD_LIMIT_S = 3600.0
"""How long a keeper whose pod has ended waits for disk space for its last record."""
TROUBLE_PAUSE_S = 0.1


class RefusedError(Exception):
    """A request that fails: `kind` is a word of `api.errors.FailureKind`."""

    def __init__(self, kind: str, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.reason = reason


class Keeper:
    """All of one pod sandbox; `run` returns when the sandbox was stopped and everything is written."""

    def __init__(
        self,
        sandbox: str,
        directory: str,
        survey: cgroup.Survey,
        own_score: str | None,
        first: socket.socket,
    ) -> None:
        self._id = sandbox
        self._directory = directory
        self._groups = tuple(f"{place}/{sandbox}" for place in survey.places)
        self._limiting = survey.limiting
        self._own_score = own_score
        self._containers: dict[str, KeptContainer] = {}
        self._commands: dict[int, Command] = {}
        self._sandbox: dict[str, Any] | None = None
        self._loop = KeeperLoop()
        self._links = Links(self._loop, self._greeting, self._answer, self._left_alone)
        self._last_created_at = 0
        self._stopping_since: float | None = None
        self._stoppers: list[Asker] = []
        self._unwritten = False
        self._ended_at: float | None = None
        self._forgettable = False
        """The sandbox will be removed, so its record is not needed."""
        self._done = False
        self._me = process.look(os.getpid())
        self._boot = process.boot_id()
        self._first = first

    # -- life

    def run(self) -> None:
        """Serve until the sandbox is stopped."""
        process.become_subreaper()
        os.setsid()
        wake, waker = socket.socketpair()
        for end in (wake, waker):
            end.setblocking(False)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _noticed)
        signal.signal(signal.SIGTERM, _noticed)
        for group in self._groups:
            # A hierarchy that stopped permitting it is as good as none: descent still finds the tree.
            with contextlib.suppress(OSError):
                os.makedirs(group + "/keeper", 0o755, exist_ok=True)  # noqa: PTH103
                cgroup.join(group + "/keeper", os.getpid())
        self._groups = tuple(group for group in self._groups if os.path.isdir(group))  # noqa: PTH112
        os.makedirs(self._directory, 0o700, exist_ok=True)  # noqa: PTH103
        # A relative name has room in a socket's address, however long the folder's path is.
        os.chdir(self._directory)
        self._links.listen(store.SOCKET)
        self._loop.watch(wake, lambda _: self._signalled(wake))
        self._links.greet(self._first)
        while not self._done:
            self._step()
        with contextlib.suppress(OSError):
            os.unlink(store.SOCKET)  # noqa: PTH108
        self._links.say_goodbye()

    def _step(self) -> None:
        try:
            self._loop.turn()
        except Exception:  # noqa: BLE001 an error costs what it happened to, never the pod
            store.write_down(".", store.TROUBLE)
            # What it left ready or unread is tried again, no faster than this.
            time.sleep(TROUBLE_PAUSE_S)
            self._loop.at(time.monotonic(), self._reap)

    def _signalled(self, wake: socket.socket) -> None:
        numbers = wake.recv(4096)
        if signal.SIGTERM in numbers and self._sandbox is not None and self._stopping_since is None:
            # A signal ends the machine or this process: the pod gets the grace period of its spec.
            self._begin_stop(float(self._sandbox["spec"]["grace_s"]))
        self._reap()

    # -- drivers

    def _greeting(self) -> Body:
        hello = {
            "oldest": OLDEST,
            "newest": NEWEST,
            "sandbox": self._id,
            "pid": os.getpid(),
            "start": self._me.start if self._me else 0,
        }
        return {"hello": hello, "record": self._record()}

    def _left_alone(self) -> None:
        """End because the creator died before its first request: there is no pod."""
        if self._sandbox is None:
            with contextlib.suppress(OSError):
                os.unlink(store.SOCKET)  # noqa: PTH108
                os.rmdir(self._directory)  # noqa: PTH106
            self._done = True

    def _answer(self, link: DriverConnection, body: Body) -> None:
        if "op" not in body:
            return
        asker = Asker(link, body.get("id", 0))
        try:
            answer = self._operation(body["op"])(asker, body)
        except RefusedError as error:
            failure = {"kind": error.kind, "message": str(error), "reason": error.reason}
            self._tell(asker, {"error": failure})
            return
        except OSError as error:
            # Descriptors, memory or the like ran out: this request fails, the pod lives on.
            message = f"the keeper of sandbox {self._id} cannot {body['op']}: {os.strerror(error.errno or 0)}"
            self._tell(asker, {"error": {"kind": "Unavailable", "message": message, "reason": ""}})
            return
        except Exception as error:  # noqa: BLE001 a request that makes no sense ends nothing but itself
            store.write_down(".", store.TROUBLE)
            message = f"the keeper of sandbox {self._id} cannot {quoted(str(body['op']))}: {reason(error)}"
            self._tell(asker, {"error": {"kind": "Rejected", "message": message, "reason": ""}})
            return
        if answer is not None:
            self._tell(asker, {"ok": answer})

    def _operation(self, op: str) -> Callable[[Asker, Body], Body | None]:
        found: Callable[[Asker, Body], Body | None] | None = getattr(self, "op_" + op, None)
        if found is None:
            raise RefusedError("Unavailable", f"this keeper does not know the operation {op!r}")
        if self._sandbox is None and op != "run":
            raise RefusedError("NotFound", f"sandbox {self._id} was never run")
        return found

    def _tell(self, asker: Asker, answer: Body) -> None:
        self._links.send(asker.link, {"id": asker.number} | answer)

    # -- the record

    def _record(self) -> Body | None:
        if self._sandbox is None:
            return None
        return {
            "boot": self._boot,
            "keeper": {"pid": os.getpid(), "start": self._me.start if self._me else 0},
            "cgroups": self._groups
            + tuple(
                group
                for container in self._containers.values()
                for group in container.groups
                if not group.startswith(self._groups or " ")
            ),
            "sandbox": self._sandbox,
            "containers": [container.row for container in self._containers.values()],
        }

    def _changed(self, *, durable: bool = False) -> None:
        """Write the record and show it to every driver; a full disk delays the writing, never the pod."""
        record = self._record()
        if record is None:
            return
        self._write(record, durable=durable)
        self._links.send_all({"record": record})

    def _write(self, record: Body, *, durable: bool) -> None:
        try:
            store.write(".", record, durable=durable)
        except OSError:
            if not self._unwritten:
                self._unwritten = True
                self._loop.at(time.monotonic() + RECORD_RETRY_S, self._write_again)
        else:
            self._unwritten = False

    def _write_again(self) -> None:
        if self._unwritten:
            self._unwritten = False
            self._write(self._record() or {}, durable=True)
        if self._ended_at is not None:
            self._leave()

    def _try_record(self, what: str) -> None:
        """Write the record or refuse: nothing new begins that a crash would forget."""
        try:
            store.write(".", self._record() or {}, durable=False)
        except OSError as error:
            raise RefusedError(
                "Unavailable",
                f"{what}: the runtime's record cannot be written in {self._directory}: "
                f"{os.strerror(error.errno or 0)}; make room there",
            ) from None

    def _new_created_at(self, floor: int) -> int:
        self._last_created_at = max(time.time_ns(), self._last_created_at + 1, floor + 1)
        return self._last_created_at

    def _find(self, body: Body) -> KeptContainer:
        found = self._containers.get(body["container"])
        if found is None:
            raise RefusedError("NotFound", f"no container {body['container']} in sandbox {self._id}")
        return found

    # -- requests

    def op_run(self, _: Asker, body: Body) -> Body:
        """Become the keeper of a sandbox; again with the same spec is nothing."""
        spec = body["spec"]
        if self._sandbox is not None:
            if self._sandbox["spec"] != spec:
                raise RefusedError("AlreadyExists", f"sandbox {self._id} was run with another spec")
            return {}
        log_directory = spec["log_directory"]
        try:
            os.makedirs(log_directory, 0o755, exist_ok=True)  # noqa: PTH103
            os.chmod(log_directory, 0o755)  # noqa: PTH101, S103 log readers of the node go through it
        except OSError as error:
            # A pod that cannot log still runs; each container reports dropped lines.
            if not os.path.isdir(os.path.dirname(log_directory)) or error.errno not in (28, 122):  # noqa: PTH112, PTH120
                raise RefusedError(
                    "Unavailable",
                    f"the pod's log folder {log_directory} cannot be made: {os.strerror(error.errno or 0)}",
                ) from None
        self._sandbox = {
            "id": self._id,
            "spec": spec,
            "state": "ready",
            "created_at": self._new_created_at(body["created_after"]),
            "ips": body["ips"],
        }
        try:
            self._try_record(f"sandbox of {spec['namespace']}/{spec['name']}")
        except Exception:
            self._sandbox = None
            raise
        self._changed()
        return {}

    def op_create(self, _: Asker, body: Body) -> Body:
        """Make a container; again with the same spec is nothing."""
        spec = body["spec"]
        if self._sandbox is None or self._stopping_since is not None:
            raise RefusedError("Conflict", f"sandbox {self._id} is being stopped")
        for other in self._containers.values():
            if (other.spec["name"], other.spec["attempt"]) == (spec["name"], spec["attempt"]):
                if other.spec == spec:
                    return {}
                raise RefusedError(
                    "AlreadyExists",
                    f"container {spec['name']} attempt {spec['attempt']} already exists with another spec",
                )
        path = self._sandbox["spec"]["log_directory"] + "/" + spec["log_path"]
        created_at = self._new_created_at(body["created_after"])
        container = KeptContainer(body["container"], spec, path, created_at)
        self._containers[container.identity] = container
        try:
            self._try_record(f"container {spec['name']}")
        except Exception:
            del self._containers[container.identity]
            raise
        self._changed()
        return {}

    def op_start(self, _: Asker, body: Body) -> Body:
        """Start a created container."""
        container = self._find(body)
        if self._stopping_since is not None:
            raise RefusedError("Conflict", f"sandbox {self._id} is being stopped")
        if container.row["state"] != "created":
            how = "runs already" if container.is_live else "has ended; create a new attempt"
            raise RefusedError("Conflict", f"container {container.row['name']} {how}")
        self._try_record(f"container {container.row['name']}")
        container.groups = self._make_groups(container.identity)
        if container.start(self._id, self._own_score):
            self._remove_groups(container)
        for pipe in container.pipes:
            self._loop.watch(pipe, partial(self._read, container, pipe))
        container.note_log()
        self._changed(durable=not container.is_live)
        return {}

    def _make_groups(self, identity: str) -> tuple[str, ...]:
        """Make the cgroups that a container's processes are in: ours to find them by, and the pod's to limit them."""
        spec = (self._sandbox or {}).get("spec", {})
        limited = cgroup.pod_groups(self._limiting, spec.get("cgroup_parent", ""))
        # A process is in one cgroup of each hierarchy: where there is a limit it is found there too.
        taken = tuple(
            mount + "/" for mount in self._limiting if any(g.startswith(mount + "/") for g in limited)
        )
        found = [group for group in self._groups if not group.startswith(taken)] if taken else self._groups
        groups = []
        for group in (*found, *limited):
            own = f"{group}/{identity}"
            with contextlib.suppress(OSError):
                os.makedirs(own, 0o755, exist_ok=True)  # noqa: PTH103
                groups.append(own)
        return tuple(groups)

    def op_stop(self, asker: Asker, body: Body) -> Body | None:
        """SIGTERM, then SIGKILL at the earliest requested deadline; answered after the exit."""
        container = self._containers.get(body["container"])
        if container is None or not container.is_live:
            return {}
        container.stoppers.append(asker)
        self._stop(container, body["grace_s"])
        return None

    def op_reopen_log(self, _: Asker, body: Body) -> Body:
        """Write a running container's log to what has its name now, after a rotation."""
        container = self._find(body)
        if not container.is_live or container.log is None:
            raise RefusedError("Conflict", f"container {container.row['name']} is not running")
        why = container.log.reopen()
        if why:
            raise RefusedError(
                "Unavailable", f"the log of container {container.row['name']} cannot be opened: {why}"
            )
        return {}

    def op_remove_container(self, _: Asker, body: Body) -> Body:
        """Forget a container that does not run."""
        container = self._containers.get(body["container"])
        if container is None:
            return {}
        if container.is_live:
            raise RefusedError("Conflict", f"container {container.row['name']} still runs; stop it first")
        del self._containers[container.identity]
        self._remove_groups(container)
        self._changed()
        return {}

    def op_exec(self, asker: Asker, body: Body) -> None:
        """Run a command in a container; answered when it ended."""
        container = self._find(body)
        name = container.row["name"]
        if not container.pid:
            raise RefusedError("Conflict", f"container {name} is not running")
        command = Command(asker, container, body["limit_bytes"], time.monotonic() + body["timeout_s"])
        try:
            command.start(container.launch(self._id, tuple(body["command"]), self._own_score))
        except process.NotStartedError as error:
            raise RefusedError("Rejected", f"container {name}: {error}") from None
        self._commands[command.pid] = command
        for pipe in command.pipes:
            self._loop.watch(pipe, partial(self._read_output, command, pipe))
        self._loop.at(command.kill_at, lambda: self._expire(command))

    def op_cancel(self, asker: Asker, body: Body) -> Body:
        """End an exec that no caller waits for any more, or stop waiting for an exit."""
        for command in self._commands.values():
            if command.asker.link is asker.link and command.asker.number == body["request"]:
                command.cancelled = True
                self._kill_command(command)
        return {}

    def op_stop_sandbox(self, asker: Asker, body: Body) -> None:
        """Kill all processes; answered when none is left. The keeper ends then, as soon as its record says so.

        With ``remove`` the record is not needed.
        """
        self._forgettable = self._forgettable or bool(body.get("remove"))
        self._stoppers.append(asker)
        self._begin_stop(0.0)

    # -- output

    def _read(self, container: KeptContainer, pipe: int, _: int) -> None:
        if not container.read(pipe):
            self._loop.forget(pipe)
            os.close(pipe)
            del container.pipes[pipe]
        if container.note_log():
            self._changed()

    def _read_output(self, command: Command, pipe: int, _: int) -> None:
        if not command.read(pipe):
            # End of output; the pipe itself is closed with its command.
            self._loop.forget(pipe)

    # -- ends

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            command = self._commands.pop(pid, None)
            if command is not None:
                self._finish(command, status)
            for container in self._containers.values():
                if container.pid == pid:
                    self._end(container, status)
                    break

    def _finish(self, command: Command, status: int) -> None:
        for pipe in command.pipes:
            with contextlib.suppress(KeyError):
                self._loop.forget(pipe)
        answer = command.finish(status)
        if command.timed_out:
            message = f"container {command.container.row['name']}: the command timed out and was killed"
            self._tell(command.asker, {"error": {"kind": "TimedOut", "message": message, "reason": ""}})
        elif not command.cancelled:
            self._tell(command.asker, {"ok": answer})

    def _expire(self, command: Command) -> None:
        if self._commands.get(command.pid) is command:
            command.timed_out = True
            self._kill_command(command)

    def _kill_command(self, command: Command) -> None:
        for pid in (command.pid, *process.descendants(command.pid)):
            seen = process.look(pid)
            if seen is not None:
                process.kill_exactly(seen)

    def _end(self, container: KeptContainer, status: int) -> None:
        oom = any(cgroup.oom_kills(group) for group in container.groups)
        container.died(status, oom_killed=oom)
        container.ending_since = time.monotonic()
        self._kill_rest(container, 0.002)

    def _stop(self, container: KeptContainer, grace_s: float) -> str:
        """Begin to stop a container; return an error for the callers that wait, or an empty string."""
        begun = container.kill_at is not None
        kill_at = time.monotonic() + max(0.0, grace_s)
        if not begun or kill_at < (container.kill_at or 0.0):
            container.kill_at = kill_at
            if grace_s <= 0:
                return self._kill(container)
            self._loop.at(kill_at, lambda: self._kill_when_due(container))
        return "" if begun else self._refused(container, self._signal(container, signal.SIGTERM))

    def _kill_when_due(self, container: KeptContainer) -> None:
        if container.pid and container.kill_at is not None and container.kill_at <= time.monotonic():
            self._kill(container)

    def _kill(self, container: KeptContainer) -> str:
        """SIGKILL all processes of a container; a scan after its exit kills those forked meanwhile. Returns as `_stop`."""
        done = [cgroup.kill_members(group) for group in container.groups]
        for seen in belonging(container, self._containers.values(), self._commands):
            process.kill_exactly(seen)
        why = self._signal(container, signal.SIGKILL)
        return "" if any(done) else self._refused(container, why)

    def _signal(self, container: KeptContainer, number: int) -> str:
        """Signal the main process, if there is one; return why that cannot be, or an empty text."""
        if not container.pid:
            return ""
        try:
            os.kill(container.pid, number)
        except PermissionError:
            return (
                f"container {container.row['name']}: its main process {container.pid} became another user, which user"
                f" {os.geteuid()} may not signal; stop that process as root, or run the agent as root"
            )
        return ""

    def _refused(self, container: KeptContainer, why: str) -> str:
        """Answer those who wait for a container's end where there is a reason why not; the next stop begins again."""
        if why:
            container.kill_at = None
            self._refuse(container.stoppers, why)
        return why

    def _refuse(self, askers: list[Asker], why: str) -> None:
        for asker in askers:
            self._tell(asker, {"error": {"kind": "Denied", "message": why, "reason": ""}})
        askers.clear()

    def _kill_rest(self, container: KeptContainer, pause_s: float) -> None:
        """Kill what a dead container left behind, again until there is nothing, then show the exit."""
        rest = belonging(container, self._containers.values(), self._commands)
        waited = time.monotonic() - (container.ending_since or 0.0)
        if rest and waited < SWEEP_LIMIT_S:
            if pause_s <= 0.002:
                # The exit code is safe on disk before the wait for the rest begins.
                self._changed(durable=True)
            for group in container.groups:
                cgroup.kill_members(group)
            for seen in rest:
                process.kill_exactly(seen)
            self._loop.at(
                time.monotonic() + pause_s, lambda: self._kill_rest(container, min(0.1, pause_s * 2))
            )
            return
        if rest:
            pids = " ".join(str(seen.pid) for seen in rest)
            container.row["message"] = f"processes that did not end on SIGKILL: {pids}"
        for pipe in container.pipes:
            self._loop.forget(pipe)
        container.drain()
        container.ending_since = None
        container.row["settled"] = True
        self._remove_groups(container)
        self._changed(durable=True)
        for asker in container.stoppers:
            self._tell(asker, {"ok": {}})
        container.stoppers.clear()
        if self._stopping_since is not None:
            self._advance_stop()

    def _remove_groups(self, container: KeptContainer) -> None:
        container.groups = tuple(group for group in container.groups if not cgroup.remove(group))

    # -- the end of the sandbox

    def _begin_stop(self, grace_s: float) -> None:
        if self._stopping_since is None:
            self._stopping_since = time.monotonic()
        whys = [
            self._stop(container, grace_s) for container in self._containers.values() if container.is_live
        ]
        if any(whys):
            # The others end, and so does the sandbox once these do.
            self._refuse(self._stoppers, "; ".join(filter(None, whys)))
        self._advance_stop()

    def _advance_stop(self) -> None:
        if self._sandbox is None or self._done or any(c.is_live for c in self._containers.values()):
            return
        rest = alive(process.descendants(os.getpid()))
        since = self._stopping_since or 0.0
        if rest and time.monotonic() - since < SWEEP_LIMIT_S:
            for seen in rest:
                process.kill_exactly(seen)
            self._loop.at(time.monotonic() + 0.01, self._advance_stop)
            return
        self._sandbox["state"] = "stopped"
        self._changed(durable=True)
        for asker in self._stoppers:
            self._tell(asker, {"ok": {}})
        self._stoppers.clear()
        if self._ended_at is None:
            self._ended_at = time.monotonic()
        self._leave()

    def _leave(self) -> None:
        """End, unless the record still has to wait for room: then `_write_again` comes back here."""
        waited = time.monotonic() - (self._ended_at or 0.0)
        self._done = not self._unwritten or self._forgettable or waited > LAST_RECORD_LIMIT_S


def _noticed(number: int, frame: object) -> None:
    """Take a signal; its number arrives through the wake-up socket."""
