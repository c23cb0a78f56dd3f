"""gRPC servers for tests on a Unix socket: one that serves an object's methods as CRI calls, and some that misbehave.

A method of the served object is called as the RPC is (``ContainerStatus``), with the request and the `Call` around it.
What it does not have is answered UNIMPLEMENTED.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from runtime.wire.generated import cri_pb2 as pb

SERVICES = ("runtime.v1.RuntimeService", "runtime.v1.ImageService")
WORKERS = 64


class CriError(Exception):
    """What a runtime answers instead of a reply."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


def unknown(text: str) -> CriError:
    """Return the error that runtimes make of most of their failures."""
    return CriError(grpc.StatusCode.UNKNOWN, text)


def not_found(text: str) -> CriError:
    """Return the error for what is not there."""
    return CriError(grpc.StatusCode.NOT_FOUND, text)


class Call:
    """One call under way: whether its caller still waits."""

    def __init__(self, context: grpc.ServicerContext) -> None:
        self.over = threading.Event()
        self._then: list[Callable[[], None]] = []
        if not context.add_callback(self._end):
            self.over.set()

    def when_over(self, then: Callable[[], None]) -> None:
        """Call `then` when the caller has gone or has its answer."""
        self._then.append(then)
        if self.over.is_set():
            then()

    def _end(self) -> None:
        self.over.set()
        for then in self._then:
            then()


class Hold:
    """Calls that are held back: see `CriServer.hold`."""

    def __init__(self, method: str, matches: Callable[[Any], bool], after: bool) -> None:
        self.method, self.matches, self.after = method, matches, after
        self.held = 0
        """How many calls were held so far."""
        self._free = threading.Event()

    def release(self) -> None:
        """Let all go on, also those to come."""
        self._free.set()

    def wait(self, call: Call) -> None:
        """Hold one call until it is released or its caller has gone."""
        self.held += 1
        while not self._free.is_set() and not call.over.is_set():
            self._free.wait(0.02)


class CriServer:
    """A server on a socket. Its state is the served object's, so it may be stopped and started again."""

    def __init__(self, path: str, served: object) -> None:
        self.path = path
        self.served = served
        self.calls: list[tuple[str, Any]] = []
        """Every call so far: name and request."""
        self.limits_s: list[tuple[str, float]] = []
        """Every call so far: name and how long its caller would have waited."""
        self._holds: list[Hold] = []
        self._failures: list[tuple[str, CriError]] = []
        self._lock = threading.Lock()
        self._server: grpc.Server | None = None

    @property
    def endpoint(self) -> str:
        """Return what an agent is told."""
        return f"unix://{self.path}"

    def start(self) -> "CriServer":
        """Listen on the socket."""
        assert self._server is None
        Path(self.path).unlink(missing_ok=True)
        pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="personality")
        self._server = grpc.server(pool, options=(("grpc.max_receive_message_length", 16 << 20),))
        self._server.add_generic_rpc_handlers((_Handler(self),))
        self._server.add_insecure_port(f"unix:{self.path}")
        self._server.start()
        return self

    def stop(self) -> None:
        """Break off all calls and close the socket."""
        if self._server is not None:
            self._server.stop(0).wait(10)
            self._server = None

    def hold(
        self, method: str, matches: Callable[[Any], bool] = lambda _: True, *, after: bool = False
    ) -> Hold:
        """Hold back calls of `method` whose request matches, before their effect or `after` it."""
        hold = Hold(method, matches, after)
        self._holds.append(hold)
        return hold

    def fail(self, method: str, error: CriError, times: int = 1) -> None:
        """Let the next calls of `method` fail without an effect."""
        with self._lock:
            self._failures += [(method, error)] * times

    def count(self, method: str) -> int:
        """Return how often a method was called so far."""
        return sum(name == method for name, _ in list(self.calls))

    def answer(self, method: str, request: Any, context: grpc.ServicerContext) -> Any:
        """Carry out one call."""
        call = Call(context)
        with self._lock:
            self.calls.append((method, request))
            self.limits_s.append((method, context.time_remaining()))
            planned = next((entry for entry in self._failures if entry[0] == method), None)
            if planned is not None:
                self._failures.remove(planned)
        holds = [hold for hold in self._holds if hold.method == method and hold.matches(request)]
        for hold in holds:
            if not hold.after:
                hold.wait(call)
        try:
            if planned is not None:
                raise planned[1]
            reply = getattr(self.served, method)(request, call)
        except CriError as error:
            context.abort(error.code, error.text)
        for hold in holds:
            if hold.after:
                hold.wait(call)
        return reply

    def stream(self, method: str, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """Carry out one call that answers with a stream."""
        with self._lock:
            self.calls.append((method, request))
        yield from getattr(self.served, method)(request, Call(context))


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, server: CriServer) -> None:
        self._server = server

    def service(self, handler_call_details):
        service, _, method = handler_call_details.method.lstrip("/").partition("/")
        if service not in SERVICES or not hasattr(self._server.served, method):
            return None
        kind = pb.GetEventsRequest if method == "GetContainerEvents" else getattr(pb, f"{method}Request")
        make = (
            grpc.unary_stream_rpc_method_handler
            if method == "GetContainerEvents"
            else grpc.unary_unary_rpc_method_handler
        )
        act = self._server.stream if method == "GetContainerEvents" else self._server.answer
        return make(
            lambda request, context: act(method, request, context),
            request_deserializer=kind.FromString,
            response_serializer=lambda reply: reply.SerializeToString(),
        )


class _Outdated(grpc.GenericRpcHandler):
    def service(self, handler_call_details):
        if not handler_call_details.method.startswith("/runtime.v1alpha2."):
            return None
        # The first fields of both versions' answers are the same.
        reply = pb.VersionResponse(
            version="0.1.0", runtime_name="antique", runtime_version="1.0", runtime_api_version="v1alpha2"
        )
        return grpc.unary_unary_rpc_method_handler(lambda _request, _context: reply.SerializeToString())


@contextlib.contextmanager
def outdated_runtime(path: str):
    """Serve v1alpha2 only, as runtimes did before 2022: every call of v1 is answered UNIMPLEMENTED."""
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((_Outdated(),))
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        yield f"unix://{path}"
    finally:
        server.stop(0).wait(10)


@contextlib.contextmanager
def silent_socket(path: str):
    """Listen, take every connection and never say a word."""
    links: list[socket.socket] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(128)

        def take() -> None:
            with contextlib.suppress(OSError):
                while True:
                    links.append(listener.accept()[0])

        taker = threading.Thread(target=take, name="silent-socket", daemon=True)
        taker.start()
        try:
            yield f"unix://{path}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            taker.join(5)
            for link in links:
                link.close()
            Path(path).unlink(missing_ok=True)
