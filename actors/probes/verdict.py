"""The result of a check: success, failure or unknown, with a kubelet's messages (reference ``pod-lifecycle`` 9.3)."""

from typing import assert_never

import msgspec

from api.duration import write
from api.errors import Failure, FailureKind
from api.messages.kernel import Outcome
from api.messages.probes import ProbeCall
from api.ports.net import UNREADABLE, GrpcAnswer, GrpcHealth, HttpAnswer, HttpGet, TcpConnect
from api.ports.runtime import ExecInContainer, ExecResult
from api.shortening import shortened

MESSAGE_LIMIT = 1024
"""Characters of a check's message that are kept and published: as many as an event may have."""
COUNTED = (FailureKind.UNAVAILABLE, FailureKind.TIMED_OUT)
"""Network failures that are results of the container."""


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

    well: bool | None
    """None: an error, which counts neither way."""
    message: str = ""
    warned: bool = False


def verdict_of(call: ProbeCall, outcome: Outcome) -> CheckResult:
    """Return the result that the end of `call` means."""
    failure, result = outcome.failure, outcome.result
    match call:
        case ExecInContainer():
            verdict = of_failed_exec(call, failure) if failure is not None else of_exec(result)
        case HttpGet():
            verdict = of_failed_talk(failure) if failure is not None else of_http(result)
        case TcpConnect():
            verdict = of_failed_talk(failure) if failure is not None else CheckResult(well=True)
        case GrpcHealth():
            verdict = of_failed_talk(failure) if failure is not None else of_grpc(result)
        case _:
            assert_never(call)
    return msgspec.structs.replace(verdict, message=printable(shortened(verdict.message, MESSAGE_LIMIT)))


def of_exec(result: msgspec.Struct | None) -> CheckResult:
    """Judge a command that ended."""
    assert isinstance(result, ExecResult)
    if result.exit_code == 0:
        return CheckResult(well=True)
    return CheckResult(well=False, message=(result.stdout + result.stderr).decode(errors="replace"))


def of_failed_exec(call: ExecInContainer, failure: Failure) -> CheckResult:
    """Judge a command of which no exit code is known: only that it took too long is the container's fault."""
    if failure.kind is FailureKind.TIMED_OUT:
        command = " ".join(call.command)
        span = write(round(call.timeout_s * 1e9))
        return CheckResult(well=False, message=f'command timed out: "{command}" timed out after {span}')
    return CheckResult(well=None, message=failure.message)


def of_http(result: msgspec.Struct | None) -> CheckResult:
    """Judge an answer."""
    assert isinstance(result, HttpAnswer)
    if not 200 <= result.status < 400:
        return CheckResult(well=False, message=f"HTTP probe failed with statuscode: {result.status}")
    if result.status >= 300:
        text = f"Probe terminated redirects, Response body: {result.body.decode(errors='replace')}"
        return CheckResult(well=True, message=text, warned=True)
    return CheckResult(well=True)


def of_grpc(result: msgspec.Struct | None) -> CheckResult:
    """Judge the answer of a gRPC health service."""
    assert isinstance(result, GrpcAnswer)
    if result.status == "SERVING":
        return CheckResult(well=True)
    return CheckResult(well=False, message=f'service unhealthy (responded with "{result.status}")')


def of_failed_talk(failure: Failure) -> CheckResult:
    """Judge a failed conversation; an unreadable body and our own failures have no result."""
    counts = failure.kind in COUNTED and failure.reason != UNREADABLE
    return CheckResult(well=False if counts else None, message=failure.message)


def printable(text: str) -> str:
    """Return output of a container or server as text that is safe in an event."""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
