"""``/healthz``, ``/livez`` and ``/readyz`` in Kubernetes' format, with the reason of a failure.

```text
/healthz                  200 ok            | 500 [+]ping ok / [-]<name> failed: <who, on what, since when> / healthz check failed
/healthz?verbose          the lines also when all is well; ?exclude=<name> leaves one out, more than once
/healthz/<name>           one check: 200 ok | 500 internal server error: <why>
```
"""

from collections.abc import Callable

from api.shown.introspection import HealthRow, Window
from runtime.server.wire import TEXT, Request, RequestRefusedError, Response

ROUTES = ("healthz", "livez", "readyz")
PING = HealthRow(name="ping", ok=True)


def health_answer(window: Window) -> Callable[[Request], Response]:
    """Return what answers the health port: these three routes and nothing else."""

    def answer(request: Request) -> Response:
        if not request.segments or request.segments[0] not in ROUTES:
            raise RequestRefusedError(
                404, "NotFound", f"there is no {request.path} here", "try /healthz, /livez or /readyz"
            )
        return health_response(window, request)

    return answer


def health_response(window: Window, request: Request) -> Response:
    """Answer one of the three routes."""
    if request.method not in {"GET", "HEAD"}:
        raise RequestRefusedError(
            405, "MethodNotAllowed", f"{request.path} is read-only", "use GET", allow="GET, HEAD"
        )
    route, *rest = request.segments
    rows = (PING, *(window.ready() if route == "readyz" else window.health()))
    if len(rest) > 1:
        raise RequestRefusedError(
            404, "NotFound", f"there is no {request.path}", f"a check is /{route}/<name>"
        )
    if rest:
        return _one(route, rest[0], rows)
    return _all(route, request, rows)


def _one(route: str, name: str, rows: tuple[HealthRow, ...]) -> Response:
    found = [row for row in rows if row.name == name]
    if not found:
        names = ", ".join(row.name for row in rows)
        raise RequestRefusedError(
            404, "NotFound", f"there is no check {name!r} in /{route}", f"there are: {names}"
        )
    bad = [row for row in found if not row.ok]
    if bad:
        return _text(500, f"internal server error: {_why(bad[0])}\n")
    return _text(200, "ok")


def _all(route: str, request: Request, rows: tuple[HealthRow, ...]) -> Response:
    excluded = frozenset(request.every("exclude"))
    lines = []
    failed = False
    for row in rows:
        if row.name in excluded:
            lines.append(f"[+]{row.name} excluded: ok")
        elif row.ok:
            lines.append(f"[+]{row.name} ok{f': {_why(row)}' if row.detail else ''}")
        else:
            failed = True
            lines.append(f"[-]{row.name} failed: {_why(row)}")
    unknown = sorted(excluded - {row.name for row in rows})
    if unknown:
        lines.append(f"warn: some health checks cannot be excluded: no matches for {', '.join(unknown)}")
    if failed:
        return _text(500, "\n".join([*lines, f"{route} check failed", ""]))
    if any(key == "verbose" for key, _ in request.query):
        return _text(200, "\n".join([*lines, f"{route} check passed", ""]))
    return _text(200, "ok")


def _why(row: HealthRow) -> str:
    # One check is one line: line breaks in a detail must not look like another check.
    return " ".join(row.detail.split()) or "no reason given"


def _text(status: int, text: str) -> Response:
    return Response(status=status, body=text.encode("utf-8", "replace"), content_type=TEXT)
