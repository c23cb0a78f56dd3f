"""What requests say in their paths and queries. What cannot be understood is a `RequestRefusedError`."""

from runtime.server.wire import Request, RequestRefusedError


def pod_of(request: Request) -> str:
    """Return the pod that a path names, ``/<verb>/<namespace>/<pod>``; ``-`` is whichever namespace has it."""
    namespace, name = request.segments[1:3]
    return name if namespace == "-" else f"{namespace}/{name}"


def container_of(request: Request) -> str:
    """Return the container that a path names after its pod, empty for the only one."""
    return request.segments[3] if len(request.segments) > 3 else ""


def flag(request: Request, name: str) -> bool:
    """Return a parameter that is true or false; one without a value is true."""
    values = request.every(name)
    if not values or values[-1] in {"false", "0"}:
        return False
    if values[-1] in {"", "true", "1"}:
        return True
    raise RequestRefusedError(400, "BadQuery", f"{name}={values[-1]} is neither true nor false")


def number(request: Request, name: str, *, default: int | None = None, least: int = 0) -> int | None:
    """Return a parameter that is a whole number of at least `least`."""
    text = request.last(name)
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 16) or int(text) < least:
        raise RequestRefusedError(400, "BadQuery", f"{name}={text} is not a whole number of at least {least}")
    return int(text)
