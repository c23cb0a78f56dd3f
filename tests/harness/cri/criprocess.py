"""What a personality runs as a container: a real process of this machine with a log in the CRI's format."""

import contextlib
import datetime as dt
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

MAX_CHUNK = 16 << 10
"""Longer lines are written as several records, all but the last marked as partial."""


class LogFile:
    """A container's log: every line with time, stream and mark. Lines of two streams never mix."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)

    def copy(self, stream: str, source) -> None:
        """Copy everything from a pipe until its end."""
        while chunk := source.readline(MAX_CHUNK):
            mark = "F" if chunk.endswith(b"\n") else "P"
            now = time.time_ns()
            second = dt.datetime.fromtimestamp(now // 10**9, tz=dt.UTC)
            head = f"{second:%Y-%m-%dT%H:%M:%S}.{now % 10**9:09d}Z {stream} {mark} ".encode()
            with self._lock:
                self._file.write(head + chunk.removesuffix(b"\n") + b"\n")

    def reopen(self) -> None:
        """Go on in a new file at the same path."""
        with self._lock:
            self._file.close()
            self._file = self.path.open("ab", buffering=0)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()


class Process:
    """A running process in a session of its own; `on_exit` is called once with its code, on a thread of its own.

    Raises OSError when the program cannot be run.
    """

    def __init__(
        self,
        argv: tuple[str, ...],
        env: dict[str, str],
        folder: str,
        log: LogFile,
        on_exit: Callable[[int], None],
    ) -> None:
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder or "/",
            env={"PATH": os.environ["PATH"], **env},
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._log, self._on_exit = log, on_exit
        self._copies = [
            threading.Thread(target=log.copy, args=(name, pipe), name=f"personality.{name}", daemon=True)
            for name, pipe in (("stdout", self._process.stdout), ("stderr", self._process.stderr))
        ]
        self._waiter = threading.Thread(target=self._wait, name="personality.wait", daemon=True)
        for thread in (*self._copies, self._waiter):
            thread.start()

    def ask_to_end(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to the main process alone, as runtimes do."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the process and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def join(self) -> None:
        """Wait until all that belongs to it is over."""
        self._waiter.join(10)

    def _wait(self) -> None:
        # The exit is seen before the process is reaped: until then its number, and its group's, is its own.
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        self.kill()
        code = self._process.wait()
        for thread in self._copies:
            thread.join(5)
        for pipe in (self._process.stdout, self._process.stderr):
            pipe.close()
        self._log.close()
        self._on_exit(code if code >= 0 else 128 - code)


def run_and_wait(
    argv: tuple[str, ...], timeout_s: float | None, given_up: threading.Event
) -> tuple[int, bytes, bytes]:
    """Run a command to its end and return its code and output; raises OSError, and TimeoutError when it is killed."""
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    end = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        try:
            out, err = process.communicate(timeout=0.05)
        except subprocess.TimeoutExpired:
            late = end is not None and time.monotonic() >= end
            if not late and not given_up.is_set():
                continue
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            if late:
                raise TimeoutError from None
        return (process.returncode if process.returncode >= 0 else 128 - process.returncode), out, err
