"""The process around the agent: signals, the lock on the root directory, where things are, who this machine is.

Everything here is for the composition root and raises an `OperatingError` whose text is the one line to show.
"""

import contextlib
import errno
import fcntl
import os
import re
import resource
import select
import signal
import tempfile
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from api.errors import AlreadyExistsError, DeniedError, ExhaustedError, RejectedError, UnavailableError
from runtime.trust import require_trusted

LOCK_NAME = "nodeagent.lock"
UMASK = 0o022
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
FAULTS = "NODEAGENT_FAULTS"
"""Environment variable: a file with an `api.faults.FaultPlan` as JSON, to break this agent on purpose, if a flag allows it."""
CGROUP_ROOT = Path("/sys/fs/cgroup")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


# ---------------------------------------------------------------- places


def prepare_root(root: Path) -> Path:
    """Make the root directory (mode 0750) when missing, try to write in it, and return its absolute path.

    Raises DeniedError for one that another user owns or could swap. One without room is used all the same: the agent is who can free some. `lacks_room` tells.
    """
    root = root.absolute()
    require_trusted(root)
    try:
        root.mkdir(mode=0o750, parents=True, exist_ok=True)
        _write_in(root)
    except OSError as error:
        if error.errno not in NO_ROOM or not root.is_dir():
            raise _root_failure(root, error) from error
    return root


def lacks_room(root: Path) -> str:
    """Return why nothing can be written in a root directory for want of room, empty when it can."""
    try:
        _write_in(root)
    except OSError as error:
        return (error.strerror or "no room") if error.errno in NO_ROOM else ""
    return ""


def _write_in(root: Path) -> None:
    with tempfile.TemporaryFile(dir=root) as probe:
        probe.write(b"x")


def _root_failure(root: Path, error: OSError) -> Exception:
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        culprit = next((p for p in (root, *root.parents) if p.exists() and not p.is_dir()), root)
        return RejectedError(
            f"cannot use the root directory {root}: {culprit} is not a folder; choose another with --root-dir"
        )
    if error.errno in NO_ROOM:
        return ExhaustedError(f"cannot make the root directory {root}: {error.strerror}; free space there")
    why = f"cannot write to the root directory {root} as user {os.geteuid()}: {error.strerror}"
    return DeniedError(f"{why}; give that user the right to it, or choose another with --root-dir")


# ---------------------------------------------------------------- one agent per root directory


class RootLock:
    """An exclusive lock on a root directory, held as long as this process (or this object) lives.

    The file stays when the lock goes: removing it would let two agents hold locks on two files of one name.
    """

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self.path = path

    @classmethod
    def acquire(cls, root: Path) -> Self:
        """Take the lock and write our pid into it; raises `AlreadyExistsError` naming the pid of who holds it."""
        path = root / LOCK_NAME
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise DeniedError(f"cannot open the lock file {path}: {error.strerror}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
            cls._sign(fd)
        except BlockingIOError as error:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(fd)
            raise AlreadyExistsError(
                f"another nodeagent runs on the root directory {root} (pid {holder}); stop it, or choose another with"
                " --root-dir"
            ) from error
        except OSError as error:
            os.close(fd)
            raise UnavailableError(f"cannot lock {path}: {error.strerror}") from error
        return cls(fd, path)

    @staticmethod
    def _sign(fd: int) -> None:
        try:
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            # The lock holds without our pid, which only people read.
            if error.errno not in NO_ROOM:
                raise

    def release(self) -> None:
        """Give the lock back; more than once is fine."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


# ---------------------------------------------------------------- signals


class StopSignals:
    """Waits in the main thread for the word to stop.

    A handler only writes a byte into a pipe: taking a lock there could hang on the thread that it interrupted. A
    second signal, after the first was seen, ends the process at once with 128 + its number. What the parent ignored or
    blocked counts for SIGHUP only, as in a kubelet: a service manager's SIGTERM must end an agent however it was started.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._stopping = False
        # Who was started with nohup goes on when the terminal is closed.
        ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        numbers = [n for n in STOP_SIGNALS if not (ignored and n is signal.SIGHUP)]
        self._before = {number: signal.signal(number, self._note) for number in numbers}
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)

    def wait(self, timeout_s: float | None = None) -> str:
        """Return the name of the signal, or an empty text after `timeout_s`."""
        ready, _, _ = select.select([self._read], [], [], timeout_s)
        if not ready:
            return ""
        self._stopping = True
        return signal.Signals(os.read(self._read, 1)[0]).name

    def close(self) -> None:
        """Put back the handlers that were there before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
        if self._read >= 0:
            os.close(self._read)
            os.close(self._write)
            self._read = self._write = -1

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._stopping:
            os.write(2, b"nodeagent: told to stop a second time; ending at once, pods keep running\n")
            os._exit(128 + number)
        # The pipe may be full of unread requests to stop: one more says nothing new.
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, bytes([number]))


# ---------------------------------------------------------------- what this process may have, and what ends it


def raise_open_files() -> tuple[int, int]:
    """Raise the soft limit of open files to the hard one; return the soft limit before and after."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft, hard


class ThreadEnds:
    """Notices when an exception ends a thread: what that one did is done by nobody then, so the process must end too."""

    def __init__(self) -> None:
        self.failure = ""
        """Which thread ended first and by what, empty while none did."""
        self._before = threading.excepthook
        threading.excepthook = self._note

    def close(self) -> None:
        """Put back what was there before."""
        threading.excepthook = self._before

    def _note(self, args: threading.ExceptHookArgs) -> None:
        self._before(args)
        if not self.failure and not issubclass(args.exc_type, SystemExit):
            name = args.thread.name if args.thread is not None else "unknown"
            self.failure = f"thread {name} ended by {args.exc_type.__name__}: {args.exc_value}"


# ---------------------------------------------------------------- who this machine is


def boot_id(path: Path = BOOT_ID) -> str:
    """Return the id of this boot of the machine."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise UnavailableError(f"cannot read the boot id from {path}: {error.strerror}") from error


def has_cgroup_v2(root: Path = CGROUP_ROOT) -> bool:
    """Return whether the machine's cgroups are version 2 only: what `failCgroupV1` asks about."""
    return (root / "cgroup.controllers").exists()


def node_name(override: str = "", hostname: str | None = None) -> str:
    """Return the node's name: `override` or the host's name, trimmed and in lower case."""
    given = override or (os.uname().nodename if hostname is None else hostname)
    name = given.strip().lower()
    if len(name) > 253 or _NODE_NAME.fullmatch(name) is None:
        where = "--hostname-override" if override else "the host's name"
        raise RejectedError(
            f"{where} {given!r} is no node name: it must be letters, digits, '-' and '.', begin and end with a letter"
            " or digit, and have at most 253 characters; choose one with --hostname-override"
        )
    return name


def set_umask() -> None:
    """Fix the umask, so that the modes of our files do not depend on who started us."""
    os.umask(UMASK)


# ---------------------------------------------------------------- breaking on purpose


def faults_file() -> str:
    """Return the path of the plan of faults that the environment names, empty for none."""
    return os.environ.get(FAULTS, "")


def home_folder() -> Path | None:
    """Return where the agent's user lives, None when the environment does not say."""
    home = os.environ.get("HOME", "")
    return Path(home) if home.startswith("/") else None


def kill_self() -> None:
    """End this process as SIGKILL from outside would: nothing is tidied up, nothing is said."""
    os.kill(os.getpid(), signal.SIGKILL)
