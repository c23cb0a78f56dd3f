"""Short conversations over the network: the calls of the port ``net``, for probes and hooks.

Two drivers take them (`runtime.drivers.net.network` and a memory stand-in) and one conformance suite holds them to this
page. Rules of the port:

- A call is over within its own `timeout_s`, whatever the other side does; the deadline of the operation is a second bound.
- Whatever the other side says is a result, an HTTP status 500 too. A failure says that there was no conversation:
  TimedOut (not within `timeout_s`), Unavailable (it could not be reached, or broke off), Rejected (what was asked for is
  no address), Exhausted (this machine has no descriptors left: that says nothing of the other side), Cancelled.
- The message of a failure is what a kubelet publishes of it; `reason` is one of the words below, or empty.
- Certificates are not verified, no proxy is used, no connection is kept. A header's value is in no text.
"""

import msgspec

from api.ports.confinement import Pairs

BODY_LIMIT_BYTES = 10 << 10
REDIRECT_LIMIT = 10

PLAIN_HTTP = "PlainHttp"
"""Reason of a failure: HTTPS was spoken to a server that answers in plain HTTP."""
UNREADABLE = "Unreadable"
"""Reason of a failure: a status came, and then a body that could not be read."""
UNREACHED = "Unreached"
"""Reason of a failure: no connection was made."""


class NetCall(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One call on the port ``net``."""

    def brief(self) -> str:
        """Return one line for traces."""
        return type(self).__name__


class HttpGet(NetCall, frozen=True, kw_only=True):
    """GET a path -> HttpAnswer. Redirects are followed while they stay on the host, at most `REDIRECT_LIMIT`."""

    scheme: str = "http"
    """``http`` or ``https``."""
    host: str
    """An address, or a name that the node resolves."""
    port: int
    path: str = "/"
    """With its query. A path without a leading slash gets one."""
    headers: Pairs = ()
    """Sent as they are; a ``Host`` here replaces the one of the address. Values are secrets."""
    timeout_s: float = 1.0
    limit_bytes: int = BODY_LIMIT_BYTES
    """More of a body is not read."""

    def __repr__(self) -> str:
        names = ", ".join(name for name, _ in self.headers)
        return f"HttpGet({self.scheme}://{self.host}:{self.port}{self.path}, headers=<{names}>)"

    def brief(self) -> str:
        """Return one line for traces."""
        return f"HttpGet {self.scheme}://{self.host}:{self.port}{self.path}"


class TcpConnect(NetCall, frozen=True, kw_only=True):
    """Open a connection and close it -> TcpConnected."""

    host: str
    port: int
    timeout_s: float = 1.0

    def brief(self) -> str:
        """Return one line for traces."""
        return f"TcpConnect {self.host}:{self.port}"


class GrpcHealth(NetCall, frozen=True, kw_only=True):
    """Ask ``grpc.health.v1.Health/Check``, without TLS -> GrpcAnswer."""

    host: str
    port: int
    service: str = ""
    timeout_s: float = 1.0

    def brief(self) -> str:
        """Return one line for traces."""
        return f"GrpcHealth {self.host}:{self.port} {self.service}".rstrip()


AnyNetCall = HttpGet | TcpConnect | GrpcHealth


class HttpAnswer(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What a server answered in the end. A status from 300 to 399: a redirect that leaves the host, or leads nowhere."""

    status: int
    body: bytes = b""
    """Its first `limit_bytes`."""
    truncated: bool = False


class TcpConnected(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The connection was made."""


class GrpcAnswer(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What the service says of itself."""

    status: str
    """``SERVING``, ``NOT_SERVING``, ``UNKNOWN`` or ``SERVICE_UNKNOWN``."""


def host_port(host: str, port: int) -> str:
    """Return an address as it stands in URLs and texts."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
