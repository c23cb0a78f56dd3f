"""Asks a server over gRPC whether one of its services is well: ``grpc.health.v1``, over a connection of its own."""

import os
from collections.abc import Callable
from typing import Any

# Read when gRPC is loaded. What it would print is in the failures; nothing here lives through a fork.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc

from api.duration import write
from api.errors import Failure, FailureKind
from api.ports.port import Undo
from api.shortening import shortened
from runtime.wire.generated import health_pb2 as pb

CHECK = "/grpc.health.v1.Health/Check"
OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.max_receive_message_length", 64 << 10),
    # A probe must see the server as it is now, not over a connection that an earlier one made.
    ("grpc.use_local_subchannel_pool", 1),
)
SAID_LIMIT = 1024
"""Characters of a server's own words that a text repeats."""
CODE_WORDS = {
    "CANCELLED": "Canceled",
    "OK": "OK",
}
"""gRPC's codes as Go writes them, where that is not the name in camel case."""


def check(
    place: str,
    service: str,
    timeout_s: float,
    agent: str,
    done: Callable[[str, Failure | None], None],
) -> tuple[Undo, Callable[[], None]]:
    """Ask the server at `place` (host:port) for the status of `service`; `done` gets its name, or a failure.

    Returns what cancels the call, and what closes the connection; that must not be called by `done`.
    """
    channel = grpc.insecure_channel(place, options=(*OPTIONS, ("grpc.primary_user_agent", agent)))
    method = channel.unary_unary(
        CHECK,
        request_serializer=pb.HealthCheckRequest.SerializeToString,
        response_deserializer=pb.HealthCheckResponse.FromString,
    )
    future = method.future(pb.HealthCheckRequest(service=service), timeout=timeout_s)

    def ended(call: Any) -> None:
        if call.code() is grpc.StatusCode.OK:
            done(status_name(call.result().status), None)
        else:
            done("", failure_of(call.code().name, call.details() or "", timeout_s))

    future.add_done_callback(ended)
    cancel: Undo = future.cancel
    return cancel, channel.close


def status_name(number: int) -> str:
    """Return the name of a status; one that this version of the protocol does not have is its number, as Go writes it."""
    known = pb.HealthCheckResponse.ServingStatus
    return str(known.Name(number)) if number in known.values() else str(number)


def failure_of(code: str, details: str, timeout_s: float) -> Failure:
    """Return a failed check in a kubelet's words."""
    said = shortened(" ".join(details.split()), SAID_LIMIT)
    match code:
        case "UNIMPLEMENTED":
            text = f"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {said}"
            return Failure(kind=FailureKind.UNAVAILABLE, message=text)
        case "DEADLINE_EXCEEDED":
            text = f"timeout: health rpc did not complete within {write(round(timeout_s * 1e9))}"
            return Failure(kind=FailureKind.TIMED_OUT, message=text)
        case _:
            word = CODE_WORDS.get(code) or "".join(part.capitalize() for part in code.split("_"))
            text = f"error: health rpc probe failed: rpc error: code = {word} desc = {said}"
            kind = FailureKind.CANCELLED if code == "CANCELLED" else FailureKind.UNAVAILABLE
            return Failure(kind=kind, message=text)
