"""Processes: starting one so that a failure has words, finding a tree, killing exactly whom we mean."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
from functools import partial

from runtime.drivers.embedded.keeper import mount, small
from runtime.drivers.embedded.keeper.text import quoted, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SANDBOX_MARK = "NODEAGENT_SANDBOX_ID"
CONTAINER_MARK = "NODEAGENT_CONTAINER_ID"
"""Environment variables of every process of a pod: how a process without a keeper is recognised for certain."""
IGNORED_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
"""Signals that Python, the keeper server or a keeper may ignore: ignored signals would survive into the program."""
NOBODY_GROUP = 65534
"""Group of a container whose user has none of its own: never root's, these are the host's files."""

_libc = ctypes.CDLL(None, use_errno=True)


class Launch:
    """What to start. `oom_score_adj` is the agent's own value, given back to the process; None leaves it."""

    __slots__ = (
        "argv",
        "binds",
        "cgroups",
        "cwd",
        "env",
        "group",
        "no_new_privileges",
        "oom_score_adj",
        "pods",
        "user",
    )

    def __init__(
        self,
        *,
        argv: tuple[str, ...],
        env: dict[str, str],
        cwd: str,
        user: int | None,
        group: int | None,
        cgroups: tuple[str, ...],
        oom_score_adj: str | None,
        binds: tuple[mount.Bind, ...] = (),
        pods: str = "",
        no_new_privileges: bool = False,
    ) -> None:
        self.argv = argv
        self.binds = binds
        self.pods = pods
        """Folder below which the volumes of all pods are."""
        self.env = env
        self.cwd = cwd
        self.user = user
        self.group = group
        self.cgroups = cgroups
        self.oom_score_adj = oom_score_adj
        self.no_new_privileges = no_new_privileges
        """Whether no program that it runs may gain rights, as by setuid."""


class ProcessStat:
    """A process as /proc shows it. `start` is in clock ticks since boot: with the boot id it names one process for ever."""

    __slots__ = ("parent", "pid", "session", "start", "state")

    def __init__(self, pid: int, state: str, parent: int, session: int, start: int) -> None:
        self.pid = pid
        self.state = state
        self.parent = parent
        self.session = session
        self.start = start


def boot_id() -> str:
    """Return the identity of this run of the kernel."""
    return small.read("/proc/sys/kernel/random/boot_id").strip().decode()


def become_subreaper() -> None:
    """Have orphaned descendants become children of this process instead of init's."""
    if _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def look(pid: int) -> ProcessStat | None:
    """Return the /proc status of a process, None when there is none or it cannot be read."""
    try:
        return _read(pid)
    except OSError:
        return None


def _read(pid: int) -> ProcessStat:
    """Return the /proc status of a process. Raises OSError."""
    line = small.read(f"/proc/{pid}/stat")
    fields = line[line.rindex(b")") + 2 :].split()
    return ProcessStat(pid, fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]))


def is_alive(pid: int, start: int) -> bool:
    """Return whether the process `pid` started at `start` still runs; a zombie does not. Raises OSError where /proc cannot be read."""
    try:
        seen = _read(pid)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return seen.start == start and seen.state not in "ZX"


def all_pids() -> list[int]:
    """Return every process id of the machine."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208


def children(pid: int) -> list[int]:
    """Return the children of a process, zombies too."""
    found: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
        for task in tasks:
            found += map(int, small.read(f"/proc/{pid}/task/{task}/children").split())
    except FileNotFoundError:
        if not os.path.exists("/proc/self/task") or os.path.exists(f"/proc/self/task/{os.getpid()}/children"):  # noqa: PTH110
            return found
        # A kernel without CONFIG_PROC_CHILDREN: ask every process for its parent.
        return [other for other in all_pids() if (seen := look(other)) and seen.parent == pid]
    except OSError:
        return found
    return found


def descendants(pid: int) -> list[int]:
    """Return all processes below `pid`, nearest first, as of now."""
    found: list[int] = []
    queue = [pid]
    while queue:
        below = children(queue.pop())
        found += below
        queue += below
    return found


def marks(pid: int) -> tuple[str, str]:
    """Return the sandbox and container id in a process's environment, empty when unreadable or absent."""
    try:
        words = small.read(f"/proc/{pid}/environ").split(b"\0")
    except OSError:
        return "", ""
    values = dict(word.split(b"=", 1) for word in words if b"=" in word)
    sandbox, container = (values.get(mark.encode(), b"") for mark in (SANDBOX_MARK, CONTAINER_MARK))
    return sandbox.decode("ascii", "replace"), container.decode("ascii", "replace")


def kill_exactly(seen: ProcessStat, number: int = signal.SIGKILL) -> None:
    """Signal the process that was seen, never a later one of the same number."""
    try:
        fd = os.pidfd_open(seen.pid)
    except OSError:
        return
    try:
        now = look(seen.pid)
        if now is not None and now.start == seen.start:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(fd, number)
    finally:
        os.close(fd)


def exit_of(status: int) -> tuple[int, int]:
    """Return exit code and signal of a wait status: a death by signal n is 128 + n."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return 128 + number, number
    return os.WEXITSTATUS(status), 0


def forget_inherited_signals() -> None:
    """Set back what the agent's parent ignored or blocked: it would reach containers, which never learn of their stop signal."""
    for number in signal.valid_signals():
        if number not in IGNORED_SIGNALS and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


class NotStartedError(Exception):
    """A process could not be run; the text has the reason, at most a few hundred characters."""


def spawn(launch: Launch) -> tuple[int, tuple[int, int]]:
    """Start a process in a session of its own; return its pid and where its output and its errors are read.

    Raises NotStartedError, and OSError where this process lacks what it takes to try.
    """
    descriptors: list[int] = []
    kept: tuple[int, ...] = ()
    try:
        for _ in range(3):
            descriptors += os.pipe()
        out, stdout, err, stderr, report, tell = descriptors
        keeper = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            raise NotStartedError(f"fork: {reason(error)}") from None
        if pid == 0:
            _become(launch, stdout, stderr, tell, keeper)
        os.close(descriptors.pop())
        why = b"".join(iter(partial(os.read, report, 4096), b"")).decode(errors="replace")
        if why:
            os.waitpid(pid, 0)
            raise NotStartedError(why)
        kept = (out, err)
        return pid, (out, err)
    finally:
        for descriptor in descriptors:
            if descriptor not in kept:
                os.close(descriptor)


def _become(launch: Launch, stdout: int, stderr: int, tell: int, keeper: int) -> NoReturn:
    """Turn this fork into the program, or report why not and exit with 128."""
    what = "start"
    try:
        what = "join its cgroup"
        for group in launch.cgroups:
            small.write(group + "/cgroup.procs", b"0")
        what = "prepare"
        os.setsid()
        null = os.open("/dev/null", os.O_RDONLY)
        for source, target in ((null, 0), (stdout, 1), (stderr, 2)):
            os.dup2(source, target)
        if launch.oom_score_adj is not None:
            small.write("/proc/self/oom_score_adj", launch.oom_score_adj.encode())
        os.umask(0o022)
        signal.set_wakeup_fd(-1)
        for number in IGNORED_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        env = dict(launch.env)
        env.setdefault("PATH", DEFAULT_PATH)
        if launch.binds:
            for step in mount.steps(launch.binds, launch.pods):
                what = step
        what = "change user"
        _change_user(launch, env)
        what = "give up new privileges"
        _give_up_new_privileges(launch)
        # Dies with its keeper, so that no process runs unsupervised. Set after the change of
        # user, which clears it; the keeper may have died before.
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != keeper:
            os._exit(128)
        what = f"working directory {quoted(launch.cwd or '/')}"
        os.chdir(launch.cwd or "/")
        what = ""
        _execute(launch.argv, env)
    except Exception as error:  # noqa: BLE001 also what is no text, no number of a user and the like is answered
        text = f"{what}: {reason(error)}" if what else _not_run(launch, error)
        os.write(tell, text.encode(errors="backslashreplace"))
    finally:
        os._exit(128)


def _change_user(launch: Launch, env: dict[str, str]) -> None:
    import pwd  # noqa: PLC0415 built in, and needed by few

    wanted = os.geteuid() if launch.user is None else launch.user
    known = None
    if "HOME" not in env or (launch.user is not None and launch.group is None):
        with contextlib.suppress(KeyError):
            known = pwd.getpwuid(wanted)
    env.setdefault("HOME", known.pw_dir if known else "/")
    if launch.user is None and launch.group is None:
        return
    group = launch.group
    if os.geteuid() == 0:
        if group is None:
            group = known.pw_gid if known else NOBODY_GROUP
        os.setgroups([group])
    elif group is None:
        # Without root there is only the group that this user has now, whatever the machine's files name.
        group = os.getegid()
    if group != os.getegid():
        os.setresgid(group, group, group)
    if wanted != os.geteuid():
        os.setresuid(wanted, wanted, wanted)


def _give_up_new_privileges(launch: Launch) -> None:
    if launch.no_new_privileges and _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _execute(argv: tuple[str, ...], env: dict[str, str]) -> None:
    """Replace this process; raise the most specific OSError."""
    if "/" in argv[0]:
        os.execve(argv[0], argv, env)
    denied: OSError | None = None
    for folder in env["PATH"].split(":"):
        try:
            os.execve((folder or ".") + "/" + argv[0], argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            denied = error
    raise denied or FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def _not_run(launch: Launch, error: Exception) -> str:
    where = " in $PATH" if isinstance(error, FileNotFoundError) and "/" not in launch.argv[0] else ""
    return f"exec {quoted(launch.argv[0])}: {reason(error)}{where}"
