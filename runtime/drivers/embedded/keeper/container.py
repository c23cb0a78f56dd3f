"""One container in its keeper: its record, and state that only memory has (its environment, its pipes)."""

from __future__ import annotations

import os
import select
import signal
import time

from runtime.drivers.embedded.keeper import mount, process
from runtime.drivers.embedded.keeper.log import LogWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

READ_BYTES = 64 << 10
DRAIN_READS = 64

Row = dict[str, "Any"]


class Asker:
    """Who waits for an answer: a connection and the number of its request."""

    __slots__ = ("link", "number")

    def __init__(self, link: Any, number: int) -> None:
        self.link = link
        self.number = number


class KeptContainer:
    """A container of this keeper, or of a keeper's record."""

    def __init__(self, identity: str, spec: dict[str, Any], log_path: str, created_at: int) -> None:
        self.spec = spec
        """As sent by the driver. Contains environment values: never written, never shown."""
        self.row: Row = {
            "id": identity,
            "name": spec["name"],
            "attempt": spec["attempt"],
            "image": spec["image"],
            "labels": spec["labels"],
            "annotations": spec["annotations"],
            "log_path": log_path,
            "state": "created",
            "created_at": created_at,
        }
        self.pid = 0
        """The main process, 0 when it does not run or was waited for."""
        self.session = 0
        """The main process's id also after its death: its session's name."""
        self.groups: tuple[str, ...] = ()
        self.pipes: dict[int, str] = {}
        self.log: LogWriter | None = None
        self.ending_since: float | None = None
        """Monotonic instant since when the main process is dead and the rest is being removed."""
        self.kill_at: float | None = None
        """Monotonic instant of SIGKILL; set when a stop began."""
        self.stoppers: list[Asker] = []

    @property
    def identity(self) -> str:
        """The container's id, without the runtime's scheme."""
        return str(self.row["id"])

    @property
    def is_live(self) -> bool:
        """Whether any of its processes may still run."""
        return bool(self.pid) or self.ending_since is not None

    def launch(self, sandbox: str, argv: tuple[str, ...], own_score: str | None) -> process.Launch:
        """Return how to start `argv` in this container's context."""
        env = {name: value for name, value in self.spec["env"]}  # noqa: C416 pairs from JSON are lists
        env[process.SANDBOX_MARK] = sandbox
        env[process.CONTAINER_MARK] = self.identity
        return process.Launch(
            argv=argv,
            env=env,
            cwd=self.spec["working_dir"],
            user=self.spec["user"],
            group=self.spec["group"],
            cgroups=self.groups,
            oom_score_adj=own_score,
            binds=mount.binds_of(self.spec.get("mounts", [])),
            pods=self.spec.get("pods", ""),
            no_new_privileges=self.spec.get("security", {}).get("no_new_privileges", False),
        )

    def start(self, sandbox: str, own_score: str | None) -> str:
        """Start the main process; return why it could not be run, or an empty text."""
        argv = (*self.spec["command"], *self.spec["args"])
        try:
            pid, pipes = process.spawn(self.launch(sandbox, argv, own_score))
        except process.NotStartedError as error:
            why = str(error)
            LogWriter(self.row["log_path"]).close()
            now = time.time_ns()
            self.row |= {
                "started_at": now,
                "state": "exited",
                "finished_at": now,
                "exit_code": 128,
                "reason": "StartError",
                "message": why,
                "settled": True,
            }
            return why
        self.log = LogWriter(self.row["log_path"])
        self.row["started_at"] = time.time_ns()
        self.pid = self.session = pid
        seen = process.look(pid)
        self.row |= {"state": "running", "pid": pid, "pid_start": seen.start if seen else 0}
        self.pipes = dict(zip(pipes, ("stdout", "stderr"), strict=True))
        for pipe in self.pipes:
            os.set_blocking(pipe, False)
        return ""

    def read(self, pipe: int) -> bool:
        """Move output from one pipe to the log; return False once the pipe has no writer left."""
        try:
            data = os.read(pipe, READ_BYTES)
        except BlockingIOError:
            return True
        if data and self.log:
            self.log.write(self.pipes[pipe], data)
        return bool(data)

    def drain(self) -> None:
        """Take what is left in the pipes and close them and the log."""
        for pipe in self.pipes:
            # Bounded, since a writer that could not be killed may still be at it.
            for _ in range(DRAIN_READS):
                if not (_has_more(pipe) and self.read(pipe)):
                    break
            os.close(pipe)
        self.pipes = {}
        if self.log:
            self.log.close()
            self.note_log()

    def note_log(self) -> bool:
        """Record dropped log lines; return whether the record changed enough to report it."""
        if self.log is None or not (self.log.dropped or self.row.get("dropped_log_lines")):
            return False
        before = (self.row.get("log_trouble"), bool(self.row.get("dropped_log_lines")))
        self.row["dropped_log_lines"] = self.log.dropped
        self.row["log_trouble"] = self.log.trouble
        return before != (self.log.trouble, bool(self.log.dropped))

    def died(self, status: int, *, oom_killed: bool) -> None:
        """Record how the main process ended."""
        code, number = process.exit_of(status)
        reason = (
            "OOMKilled" if oom_killed and number == signal.SIGKILL else "Completed" if code == 0 else "Error"
        )
        self.pid = 0
        self.row |= {
            "state": "exited",
            "pid": 0,
            "finished_at": max(time.time_ns(), self.row["started_at"]),
            "exit_code": code,
            "signal": number,
            "reason": reason,
            "settled": False,
        }


def _has_more(pipe: int) -> bool:
    """Return whether a read would give something; the writers may still be there."""
    return bool(select.select([pipe], [], [], 0)[0])
