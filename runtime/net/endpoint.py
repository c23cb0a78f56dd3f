"""Where the server listens and the verbs connect: Unix sockets of any path length, and TCP.

An address of a Unix socket has room for 108 bytes, a root folder may be longer. So both sides open the folder and name
the socket through ``/proc/self/fd/<folder>/<name>``, which is always short and cannot be diverted in between.
"""

import contextlib
import errno
import fcntl
import os
import socket
import stat
import struct
from pathlib import Path

from api.errors import AlreadyExistsError, DeniedError, NotFoundError, RejectedError, UnavailableError

BACKLOG = 64


class UnixListener:
    """A listening Unix socket that only its owner and root may open."""

    def __init__(self, path: str, sock: socket.socket, identity: tuple[int, int]) -> None:
        self.path = path
        self.sock = sock
        self._identity = identity

    def close(self) -> None:
        """Stop listening and remove the socket file, unless another process has replaced it."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        with contextlib.suppress(OSError):
            found = Path(self.path).lstat()
            if (found.st_dev, found.st_ino) == self._identity:
                Path(self.path).unlink()


def listen_unix(path: str) -> UnixListener:
    """Listen on `path` with mode 0600 from its first instant; the folder is made (0700) when missing.

    A socket file without a listener is replaced. Raises `AlreadyExistsError` naming the process that listens there,
    `RejectedError` when something else than a socket is in the way, `DeniedError` or `UnavailableError` for the folder.
    """
    folder, name = _split(path)
    try:
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _folder_failure(folder, error) from None
    try:
        # Two agents that start at once must not both find the old socket stale: they check and bind one at a time.
        fcntl.flock(at, fcntl.LOCK_EX)
        _clear_stale(at, name, path)
        return _bind(at, name, path)
    except PermissionError:
        raise DeniedError(
            f"cannot make the socket {path}: no permission to write in {folder}; run as its owner"
        ) from None
    except OSError as error:
        raise UnavailableError(f"cannot make the socket {path}: {error.strerror}") from None
    finally:
        os.close(at)


def _bind(at: int, name: str, path: str) -> UnixListener:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Linux gives the file the mode of the unbound socket, so there is no instant in which it is open to others
        # and no need for the process-wide umask.
        os.fchmod(sock.fileno(), 0o600)
        sock.bind(f"/proc/self/fd/{at}/{name}")
        found = os.stat(name, dir_fd=at, follow_symlinks=False)
        _check_private(at, name, path, found)
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    return UnixListener(str(Path(path).absolute()), sock, (found.st_dev, found.st_ino))


def _check_private(at: int, name: str, path: str, found: os.stat_result) -> None:
    if stat.S_IMODE(found.st_mode) & 0o177:
        os.unlink(name, dir_fd=at)
        raise DeniedError(
            f"cannot make the socket {path} private: its mode is {stat.filemode(found.st_mode)}"
        )


def _clear_stale(at: int, name: str, path: str) -> None:
    try:
        found = os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise RejectedError(
            f"{path} is in the way and is not a socket; move it, or choose another --root-dir"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(f"/proc/self/fd/{at}/{name}")
        except BlockingIOError:
            # Its queue is full: a process listens, but is too busy to accept.
            raise AlreadyExistsError(
                f"another agent already listens on {path}; stop it, or choose another --root-dir"
            ) from None
        except ConnectionRefusedError:
            os.unlink(name, dir_fd=at)
            return
        raise AlreadyExistsError(
            f"another agent (pid {peer_pid(probe)}) already listens on {path}; stop it, or choose another --root-dir"
        )


def peer_pid(sock: socket.socket) -> int:
    """Return the process id on the other end of a connected Unix socket."""
    return peer_of(sock)[0]


def peer_of(sock: socket.socket) -> tuple[int, int]:
    """Return process id and user id of who listens, or connected, on the other end of a Unix socket."""
    size = struct.calcsize("3i")
    pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(pid), int(uid)


def connect_unix(path: str, timeout_s: float) -> socket.socket:
    """Connect to the socket at `path`, of any length.

    Raises `NotFoundError` when there is none, `UnavailableError` without a listener, `DeniedError` when it is not ours.
    """
    folder, name = _split(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    at = -1
    try:
        sock.settimeout(timeout_s)
        at = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        sock.connect(f"/proc/self/fd/{at}/{name}")
    except OSError as error:
        sock.close()
        if isinstance(error, (FileNotFoundError, NotADirectoryError)):
            raise NotFoundError(f"there is no socket {path}") from None
        if isinstance(error, PermissionError):
            raise DeniedError(f"the socket {path} belongs to another user") from None
        if isinstance(error, ConnectionRefusedError):
            raise UnavailableError(f"no process listens on {path}") from None
        raise UnavailableError(f"cannot connect to {path}: {error.strerror or error}") from None
    finally:
        if at >= 0:
            os.close(at)
    return sock


def listen_tcp(address: str, port: int, *, setting: str = "healthzPort") -> socket.socket:
    """Listen on a TCP port; 0 lets the kernel choose. `setting` is the knob that an error message names.

    Raises `AlreadyExistsError` for a port in use, `DeniedError` for one we may not have, `RejectedError` for an address
    that is not this machine's.
    """
    where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise AlreadyExistsError(
                f"cannot serve health on {where}: the port is in use; stop the process that uses it, or set {setting} (0 is off)"
            ) from None
        if error.errno == errno.EACCES:
            raise DeniedError(f"cannot serve health on {where}: not permitted; set {setting}") from None
        raise RejectedError(f"cannot serve health on {where}: {error.strerror or error}") from None
    return sock


def _split(path: str) -> tuple[str, str]:
    """Return folder and name; links are not resolved, so that errors name what the user wrote."""
    where = Path(path).absolute()
    return str(where.parent), where.name


def _folder_failure(folder: str, error: OSError) -> DeniedError | RejectedError | UnavailableError:
    if isinstance(error, PermissionError):
        return DeniedError(
            f"cannot use the folder {folder}: no permission; run as its owner, or choose another --root-dir"
        )
    if isinstance(error, (NotADirectoryError, FileExistsError)):
        return RejectedError(f"cannot use the folder {folder}: it is not a folder; choose another --root-dir")
    return UnavailableError(f"cannot use the folder {folder}: {error.strerror}")
