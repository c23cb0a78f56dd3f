"""What an answer of the API server means: which failure a status is, with what the server says of it."""

import re
from collections.abc import Mapping

import msgspec

from api.decoding import UndecodableError, from_json
from api.errors import Failure, FailureKind
from api.shortening import shortened

SAID_LIMIT = 500
"""Characters of what the server says."""
RETRY_AFTER_LIMIT_S = 60.0
DIGITS = re.compile(r"[0-9]{1,6}", re.ASCII)
GONE = "Expired"
"""The reason of a Status with code 410: what was asked for is too old."""

KINDS = {
    400: FailureKind.REJECTED,
    401: FailureKind.DENIED,
    403: FailureKind.DENIED,
    404: FailureKind.NOT_FOUND,
    405: FailureKind.REJECTED,
    406: FailureKind.REJECTED,
    409: FailureKind.CONFLICT,
    410: FailureKind.CONFLICT,
    413: FailureKind.REJECTED,
    415: FailureKind.REJECTED,
    422: FailureKind.REJECTED,
    504: FailureKind.TIMED_OUT,
}
"""By code; any other is ``Unavailable``."""
ALREADY_EXISTS = "AlreadyExists"


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of a request that it did not carry out: a v1 Status."""

    kind: str = ""
    reason: str = ""
    message: str = ""
    code: int = 0


def retry_after_s(headers: Mapping[str, str]) -> float:
    """Return the seconds for which a server asks not to be asked, at most `RETRY_AFTER_LIMIT_S`; 0 where it gives none."""
    said = headers.get("retry-after", "")
    return min(float(said), RETRY_AFTER_LIMIT_S) if DIGITS.fullmatch(said) else 0.0


def failure_of(code: int, headers: Mapping[str, str], body: bytes, what: str, server: str) -> Failure:
    """Return what it means that a server answered a request (`what`) with this code, which is no success."""
    try:
        status = from_json(body, ServerStatus)
    except UndecodableError:
        status = ServerStatus()
    if status.kind != "Status":
        return foreign(code, headers, what, server)
    return status_failure(status, code, what)


def status_failure(status: ServerStatus, code: int, what: str) -> Failure:
    """Return the failure that a Status is."""
    kind = KINDS.get(code, FailureKind.UNAVAILABLE)
    if status.reason == ALREADY_EXISTS:
        kind = FailureKind.ALREADY_EXISTS
    said = shortened(status.message, SAID_LIMIT) or f"code {code}"
    reason = GONE if code == 410 else shortened(status.reason, 64)
    return Failure(kind=kind, message=f"{what}: {said}", reason=reason)


def foreign(code: int, headers: Mapping[str, str], what: str, server: str) -> Failure:
    """Return the failure of an answer that no API server gives."""
    media = shortened(headers.get("content-type", "").partition(";")[0], 64) or "no content"
    kind = FailureKind.DENIED if code in (401, 403) else FailureKind.UNAVAILABLE
    return Failure(
        kind=kind,
        message=f"{what}: {server} answered {code} with {media}, as no Kubernetes API server does; is the address right, or is a"
        " proxy in between?",
    )
