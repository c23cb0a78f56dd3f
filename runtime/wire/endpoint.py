"""Where a server listens: parse what people write, and say in one line why nobody answers there."""

import contextlib
import errno
import os
import socket
from dataclasses import dataclass

from api.errors import RejectedError

MAX_SOCKET_PATH_BYTES = 107
"""The kernel's limit on the path of a Unix socket."""
SCHEME = "unix://"


@dataclass(frozen=True)
class Endpoint:
    """A Unix socket, by its absolute path."""

    path: str

    @property
    def target(self) -> str:
        """Return how gRPC calls it."""
        return f"unix:{self.path}"

    def trouble(self) -> str:
        """Return in one line why a connection is not possible now and what to do; empty when it is."""
        try:
            with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
                probe.setblocking(False)
                probe.connect(self.path)
        except BlockingIOError:
            return f"socket {self.path} is there, but its server takes no more connections: is it hanging?"
        except OSError as error:
            return _explain(self.path, error)
        return ""


def _explain(path: str, error: OSError) -> str:
    match error.errno:
        case errno.ENOENT:
            return f"there is no socket {path}: start the container runtime, or name its socket"
        case errno.EACCES | errno.EPERM:
            return f"socket {path} may not be opened by user {os.geteuid()}: run as root, or give that user access to it"
        case errno.ECONNREFUSED:
            return f"nobody listens on socket {path}: start the container runtime"
        case errno.ENOTSOCK | errno.EPROTOTYPE | errno.ENOTDIR:
            return f"{path} is not a socket of a container runtime: name its socket"
        case _:
            return f"socket {path}: {error.strerror}"


def parse_endpoint(text: str, *, field: str = "the container runtime endpoint") -> Endpoint:
    """Return what `text` names: ``unix:///path``, or the older bare ``/path``.

    `field` is how the user knows the value. Raises RejectedError with one line.
    """
    advice = "write unix:///path/of/the.sock, for example unix:///run/containerd/containerd.sock"
    path = text.removeprefix(SCHEME)
    if not text:
        raise RejectedError(f"{field} is empty: {advice}")
    if "://" in path:
        raise RejectedError(f"{field} {text!r}: only Unix sockets are supported; {advice}")
    if not path.startswith("/"):
        raise RejectedError(f"{field} {text!r} has no absolute path: {advice}")
    if "\0" in path or len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        raise RejectedError(
            f"{field} {text!r}: the path of a socket has at most {MAX_SOCKET_PATH_BYTES} bytes; use a shorter one"
        )
    return Endpoint(path=os.path.normpath(path))
