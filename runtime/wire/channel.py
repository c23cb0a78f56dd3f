"""One gRPC channel to one endpoint: calls that complete by callback, each with its deadline.

```text
call  --> channel.future --(gRPC's own thread)--> done(reply, None) | done(None, Failure)
stream --> items on gRPC's thread --> push ...  --> ended(Failure or None)
```

The connection is made with the first call and made again by itself, with back-off. gRPC keeps one thread while a call
is under way and none otherwise; nothing here has threads, except one for each open stream.
"""

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

# Read when gRPC is loaded. What it would print is in the failures; nothing here lives through a fork.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc

from api.errors import Failure, FailureKind
from api.ports.port import Undo
from runtime.wire.endpoint import Endpoint
from runtime.wire.rpc import Rpc, Wired
from runtime.wire.status import BROKEN, failure_of

MAX_MESSAGE_BYTES = 16 << 20
"""As containerd's own limit: listings of a full node pass gRPC's 4 MiB."""
OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # Go's servers refuse the percent-encoded path of a socket as an authority.
    ("grpc.default_authority", "localhost"),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 3_000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    # A stream is read by the thread that waits for it, not by a second one.
    ("SingleThreadedUnaryStream", 1),
    # Without it two channels to one endpoint in a process share a connection, and each other's fate.
    ("grpc.use_local_subchannel_pool", 1),
)
Q = TypeVar("Q", bound=Wired)
R = TypeVar("R")
Reply = Callable[[R | None, Failure | None], None]


class Channel:
    """Calls to one endpoint. `begin` and `follow` may be called on any thread."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._channel = grpc.insecure_channel(endpoint.target, options=OPTIONS)
        self._lock = threading.Lock()
        self._methods: dict[str, Any] = {}
        self._closed = False

    def begin(self, rpc: Rpc[Q, R], request: Q, timeout_s: float, done: Reply[R], *, what: str = "") -> Undo:
        """Make a call; `what` says in errors what was asked. The undo cancels it, and `done` then tells so."""
        name = what or rpc.name
        try:
            future = self._method(rpc).future(request, timeout=max(0.0, timeout_s))
        except ValueError:
            # That is how gRPC says that the channel was closed.
            done(None, self._closed_failure(name))
            return _nothing

        def ended(call: Any) -> None:
            if call.code() is grpc.StatusCode.OK:
                done(call.result(), None)
            else:
                done(None, self._failure(call, name))

        future.add_done_callback(ended)
        cancel: Undo = future.cancel
        return cancel

    def follow(
        self,
        rpc: Rpc[Q, R],
        request: Q,
        push: Callable[[R], None],
        ended: Callable[[Failure | None], None],
    ) -> Undo:
        """Read a stream on a daemon thread of its own until it ends; None at its end is the server's own wish."""
        assert rpc.streams
        try:
            call = self._method(rpc)(request)
        except ValueError:
            ended(self._closed_failure(rpc.name))
            return _nothing

        def read() -> None:
            failure: Failure | None = None
            try:
                for item in call:
                    push(item)
            except grpc.RpcError:
                failure = self._failure(call, rpc.name)
            finally:
                ended(failure)

        threading.Thread(target=read, name=f"wire.{rpc.name}", daemon=True).start()
        cancel: Undo = call.cancel
        return cancel

    def close(self) -> None:
        """End the connection; calls under way fail with Cancelled."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._channel.close()

    def _method(self, rpc: Rpc[Any, Any]) -> Any:
        with self._lock:
            method = self._methods.get(rpc.path)
            if method is None:
                make = self._channel.unary_stream if rpc.streams else self._channel.unary_unary
                method = make(
                    rpc.path,
                    request_serializer=rpc.request.SerializeToString,
                    response_deserializer=rpc.decode,
                )
                self._methods[rpc.path] = method
        return method

    def _closed_failure(self, what: str) -> Failure:
        return Failure(
            kind=FailureKind.CANCELLED, message=f"{what}: the connection to {self.endpoint.path} was closed"
        )

    def _failure(self, call: Any, what: str) -> Failure:
        code = call.code()
        details = call.details() or ""
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            trouble = self.endpoint.trouble()
            if code is grpc.StatusCode.UNAVAILABLE:
                return Failure(
                    kind=FailureKind.UNAVAILABLE,
                    message=f"{what}: {trouble or self._said(details)}",
                    reason=BROKEN,
                )
            if trouble:
                return Failure(
                    kind=FailureKind.TIMED_OUT,
                    message=f"{what}: not answered in time, and {trouble}",
                    reason=BROKEN,
                )
        return failure_of(code.name, details, what=what, where=f"socket {self.endpoint.path}")

    def _said(self, details: str) -> str:
        """Return what became of a connection that can be made but does not serve."""
        where = f"socket {self.endpoint.path}"
        if "SETTINGS" in details or "timed out" in details or "imeout" in details:
            return f"{where} accepted the connection and never answered: the server behind it hangs, or is no container runtime"
        return f"the server behind {where} broke off the call ({' '.join(details.split())}); it is tried again by itself"


def _nothing() -> None:
    """Take back what never began."""
