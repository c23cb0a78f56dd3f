"""Everything that the admin socket answers, from a `Window` alone: no route asks an actor or waits for one.

Routes are one table; a path that leads nowhere is answered with the routes that exist. `-` as a namespace means
whichever namespace has the pod, a missing container the only one.
"""

import base64
import time
from collections.abc import Callable
from typing import Any

import msgspec

from api.decoding import UndecodableError, from_json
from api.errors import FailureKind, OperatingError
from api.ids import Path
from api.shown.introspection import ActorRow, Levels, LogQuery, LogReader, LogTarget, Window
from api.shown.metric import CONTENT_TYPE as METRICS
from runtime.server.health import ROUTES as HEALTH_ROUTES
from runtime.server.health import health_response
from runtime.server.query import container_of, flag, number, pod_of
from runtime.server.streaming import exec_streams
from runtime.server.wire import TEXT, Request, RequestRefusedError, Response

STATUS = {
    FailureKind.UNAVAILABLE: 503,
    FailureKind.TIMED_OUT: 504,
    FailureKind.EXHAUSTED: 429,
    FailureKind.NOT_FOUND: 404,
    FailureKind.ALREADY_EXISTS: 409,
    FailureKind.CONFLICT: 409,
    FailureKind.REJECTED: 400,
    FailureKind.DENIED: 403,
    FailureKind.CANCELLED: 503,
}
DELIVERIES = 16
"""Deliveries shown with one actor, and by default in a trace."""
EXEC_LIMIT_S = 3600.0
COLLECT_LIMIT_S = 3600.0
UNKNOWN_LIMIT_S = 10.0
"""How long a collection may be unknown to the image manager before it is taken for lost."""
COLLECT_PAUSE_S = 0.05
DETAIL = (
    "oldest_pending_s",
    "handling_s",
    "conflated",
    "dead_lettered",
    "operations",
    "alarm_in_s",
    "incarnation",
)
"""Fields of an actor that are shown with ``detail`` only."""


class ExecBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``POST /exec/...`` takes."""

    command: tuple[str, ...]
    timeout_s: float = 60.0


class PullBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``POST /images/pull`` takes."""

    image: str


class Admin:
    """The admin socket's answers."""

    def __init__(
        self,
        window: Window,
        read_log: LogReader,
        levels: Levels,
        *,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        self._window, self._read_log, self._levels = window, read_log, levels
        self._now, self._wall = now, wall
        self._routes: tuple[tuple[str, str, Callable[[Request], Response]], ...] = (
            ("GET", "/actors", self._actors),
            ("GET", "/actors/summary", self._summary),
            ("GET", "/actors/<path>...", self._actor),
            ("GET", "/trace/<path>...", self._trace),
            ("GET", "/dead-letters", self._dead_letters),
            ("GET", "/pods", self._pods),
            ("GET", "/explain/<namespace>/<pod>", self._explain),
            ("GET", "/eviction", self._eviction),
            ("GET", "/events", self._events),
            ("GET", "/sources", self._sources),
            ("GET", "/usage", self._usage),
            ("GET", "/stats/summary", self._stats),
            ("POST", "/stats/summary", self._stats),
            ("GET", "/metrics", self._metrics),
            ("GET", "/metrics/resource", self._resource_metrics),
            ("GET", "/images", self._images),
            ("DELETE", "/images", self._remove_image),
            ("POST", "/images/pull", self._pull_image),
            ("GET", "/images/gc", self._image_gc),
            ("POST", "/images/gc", self._collect_images),
            ("GET", "/logs/<namespace>/<pod>", self._logs),
            ("GET", "/logs/<namespace>/<pod>/<container>", self._logs),
            ("POST", "/exec/<namespace>/<pod>", self._exec),
            ("POST", "/exec/<namespace>/<pod>/<container>", self._exec),
            ("GET", "/exec/<namespace>/<pod>", self._exec_streams),
            ("GET", "/exec/<namespace>/<pod>/<container>", self._exec_streams),
            ("GET", "/loglevel", self._get_levels),
            ("PUT", "/loglevel", self._set_level),
        )

    def __call__(self, request: Request) -> Response:
        """Answer one request. Raises `RequestRefusedError` for one that is answered with an error."""
        try:
            if request.segments and request.segments[0] in HEALTH_ROUTES:
                return health_response(self._window, request)
            return self._route(request)(request)
        except OperatingError as failure:
            raise RequestRefusedError(
                STATUS[failure.kind], failure.reason or failure.kind.value, str(failure)
            ) from None

    @staticmethod
    def is_long(request: Request) -> bool:
        """Return whether the answer may take as long as a container lives."""
        return (
            request.segments[:1] == ("exec",)
            or (request.segments[:1] == ("logs",) and flag(request, "follow"))
            or (request.segments[:1] == ("images",) and request.method in {"POST", "DELETE"})
        )

    def _route(self, request: Request) -> Callable[[Request], Response]:
        found = [
            (method, view) for method, pattern, view in self._routes if _matches(pattern, request.segments)
        ]
        if not found:
            known = ", ".join(
                [*sorted({pattern for _, pattern, _ in self._routes}), *(f"/{h}" for h in HEALTH_ROUTES)]
            )
            raise RequestRefusedError(
                404, "NotFound", f"there is no {request.path} here", f"there are: {known}"
            )
        asked = "GET" if request.method == "HEAD" else request.method
        for method, view in found:
            if method == asked:
                return view
        allow = ", ".join(sorted({method for method, _ in found}))
        raise RequestRefusedError(
            405,
            "MethodNotAllowed",
            f"{request.method} {request.path} is not supported",
            f"use {allow}",
            allow=allow,
        )

    # The actor system.

    def _actors(self, request: Request) -> Response:
        state, prefix, detail = (
            request.last("state").upper(),
            request.last("prefix"),
            flag(request, "detail"),
        )
        rows = [
            row
            for row in self._window.actors()
            if (not state or row.state.value == state) and (not prefix or is_below(row.path, prefix))
        ]
        return _json({"actors": [_actor(row, detail=detail) for row in rows], "total": len(rows)})

    def _summary(self, _request: Request) -> Response:
        kernel = self._window.kernel()
        shown = msgspec.to_builtins(kernel)
        return _json({**shown, "by_state": dict(kernel.by_state), "by_class": dict(kernel.by_class)})

    def _actor(self, request: Request) -> Response:
        path = Path("/" + "/".join(request.segments[1:]))
        for row in self._window.actors():
            if row.path == path:
                rows = self._window.trace(path, DELIVERIES)
                return _json({"actor": row, "now": self._now(), "deliveries": rows})
        raise RequestRefusedError(404, "NotFound", f"there is no actor {path}", "GET /actors lists them")

    def _trace(self, request: Request) -> Response:
        path = Path("/" + "/".join(request.segments[1:]))
        limit = number(request, "n", default=DELIVERIES, least=1)
        return _json(
            {"path": path, "now": self._now(), "deliveries": self._window.trace(path, limit or DELIVERIES)}
        )

    def _dead_letters(self, _request: Request) -> Response:
        return _json({"now": self._now(), "dead_letters": self._window.dead_letters()})

    # Pods.

    def _pods(self, request: Request) -> Response:
        match request.last("format"):
            case "":
                return Response(body=self._window.pod_list())
            case "rows":
                rows = self._window.pods()
                return _json({"pods": rows, "total": len(rows)})
            case other:
                raise RequestRefusedError(
                    400, "BadQuery", f"format={other} is not known", "leave it out, or use format=rows"
                )

    def _explain(self, request: Request) -> Response:
        return _json(self._window.explain(pod_of(request)))

    def _eviction(self, _request: Request) -> Response:
        return _json(self._window.eviction())

    def _events(self, request: Request) -> Response:
        pod, kind = request.last("pod"), request.last("type")
        match request.last("format"):
            case "v1":
                return Response(body=self._window.event_list(pod, kind))
            case "":
                rows = [row for row in self._window.events(pod) if kind in ("", row.type)]
                return _json({"now_ns": self._wall(), "events": rows})
            case other:
                raise RequestRefusedError(
                    400, "BadQuery", f"format={other} is not known", "leave it out, or use format=v1"
                )

    def _sources(self, _request: Request) -> Response:
        return _json({"sources": self._window.sources()})

    def _usage(self, _request: Request) -> Response:
        return _json(self._window.usage())

    def _stats(self, request: Request) -> Response:
        short = flag(request, "only_cpu_and_memory")
        return Response(body=self._window.stats_summary(short=short) + b"\n")

    def _metrics(self, _request: Request) -> Response:
        return Response(content_type=METRICS, body=self._window.metrics(resource=False))

    def _resource_metrics(self, _request: Request) -> Response:
        return Response(content_type=METRICS, body=self._window.metrics(resource=True))

    def _images(self, _request: Request) -> Response:
        return _json({"images": self._window.images()})

    def _remove_image(self, request: Request) -> Response:
        return _json({"removed": self._window.remove_image(_reference(request.last("ref"), "?ref=REF"))})

    def _pull_image(self, request: Request) -> Response:
        try:
            asked = from_json(request.body, PullBody)
        except UndecodableError as error:
            raise RequestRefusedError(
                400, "BadBody", f"the body has no image: {error}", 'send {"image": "registry/name:tag"}'
            ) from None
        image = _reference(asked.image, '{"image": "registry/name:tag"}')
        return _json({"pulled": self._window.pull_image(image)})

    def _image_gc(self, _request: Request) -> Response:
        return _json(self._window.image_gc())

    def _collect_images(self, request: Request) -> Response:
        """Plan a collection of all unused images, or have one made and wait for its end."""
        if flag(request, "dry_run"):
            return _json(self._window.plan_collection())
        run = self._window.start_collection()
        unknown_since, until = time.monotonic(), time.monotonic() + COLLECT_LIMIT_S
        while (now := time.monotonic()) < until:
            found = self._window.collection(run)
            if found is not None and found.done:
                return _json(found)
            unknown_since = unknown_since if found is None else now
            if now - unknown_since > UNKNOWN_LIMIT_S:
                lost = "ImageGCManager does not know the run: it was restarted, or hangs"
                raise RequestRefusedError(503, "Unavailable", lost, "see GET /images/gc, and retry")
            time.sleep(COLLECT_PAUSE_S)
        raise RequestRefusedError(
            504,
            "TimedOut",
            f"the garbage collection takes more than {COLLECT_LIMIT_S:g} s",
            "see GET /images/gc",
        )

    def _logs(self, request: Request) -> Response:
        pod, container, previous = pod_of(request), container_of(request), flag(request, "previous")
        query = LogQuery(
            follow=flag(request, "follow") and not previous,
            tail=number(request, "tail"),
            since_ns=self._since(request),
            timestamps=flag(request, "timestamps"),
            limit_bytes=number(request, "limit_bytes", least=1),
        )
        target = self._window.log_target(pod, container, previous=previous)

        def running() -> bool:
            return self._still_running(pod, container, target)

        stream = self._read_log(target, query, running=running, hangup=request.hangup)
        return Response(content_type=TEXT, pieces=stream)

    def _still_running(self, pod: str, container: str, target: LogTarget) -> bool:
        try:
            current = self._window.log_target(pod, container, previous=False)
        except OperatingError as failure:
            # A removed container ends the log; an unreachable runtime does not.
            return failure.kind in {FailureKind.UNAVAILABLE, FailureKind.TIMED_OUT}
        return current.path == target.path and current.running

    def _since(self, request: Request) -> int | None:
        """Read ``since``: seconds back from now."""
        text = request.last("since")
        if not text:
            return None
        try:
            seconds = float(text)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < 1e10:
            raise RequestRefusedError(400, "BadQuery", f"since={text} is not a number of seconds")
        return self._wall() - int(seconds * 1e9)

    def _exec(self, request: Request) -> Response:
        if request.upgrade:
            return self._exec_streams(request)
        try:
            asked = from_json(request.body, ExecBody)
        except UndecodableError as error:
            raise RequestRefusedError(
                400,
                "BadBody",
                f"the body is not a command: {error}",
                'send {"command": ["ls"], "timeout_s": 60}',
            ) from None
        if not asked.command or not asked.command[0]:
            raise RequestRefusedError(400, "BadBody", "the command is empty")
        if not 0 < asked.timeout_s <= EXEC_LIMIT_S:
            raise RequestRefusedError(
                400, "BadBody", f"timeout_s must be above 0 and at most {EXEC_LIMIT_S:g}"
            )
        result = self._window.exec(pod_of(request), container_of(request), asked.command, asked.timeout_s)
        return _json(
            {
                "exit_code": result.exit_code,
                "stdout": base64.b64encode(result.stdout).decode(),
                "stderr": base64.b64encode(result.stderr).decode(),
                "truncated": result.truncated,
            }
        )

    def _exec_streams(self, request: Request) -> Response:
        return exec_streams(self._window, request)

    # Log levels.

    def _get_levels(self, _request: Request) -> Response:
        return _json({"levels": self._levels.levels()})

    def _set_level(self, request: Request) -> Response:
        self._levels.set_level(request.last("path"), request.last("level"))
        return self._get_levels(request)


def is_below(path: str, prefix: str) -> bool:
    """Return whether an actor is at `prefix` or below it; ``/node/po`` is not a prefix of ``/node/pods``."""
    wanted = "/" + prefix.strip("/")
    return wanted in {"/", path} or path.startswith(wanted + "/")


def _matches(pattern: str, segments: tuple[str, ...]) -> bool:
    parts = pattern[1:].split("/")
    if parts[-1].endswith("..."):
        return segments[: len(parts) - 1] == tuple(parts[:-1]) and len(segments) >= len(parts)
    return len(parts) == len(segments) and all(
        part.startswith("<") or part == segment for part, segment in zip(parts, segments, strict=True)
    )


def _actor(row: ActorRow, *, detail: bool) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(row)
    if not detail:
        for field in DETAIL:
            shown.pop(field, None)
    return shown


def _reference(text: str, expected: str) -> str:
    if not text.strip():
        raise RequestRefusedError(400, "BadQuery", "image required", f"give its id or a name: {expected}")
    return text.strip()


def _json(value: object) -> Response:
    try:
        body = msgspec.json.encode(value)
    except UnicodeEncodeError:
        # The name of a file may be no UTF-8, and one such file must not hide all others.
        body = msgspec.json.encode(_speakable(msgspec.to_builtins(value)))
    return Response(body=body + b"\n")


def _speakable(value: Any) -> Any:
    """Return a value with every text made UTF-8; what was none is written as a backslash escape."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list() | tuple():
            return [_speakable(item) for item in value]
        case dict():
            return {_speakable(key): _speakable(item) for key, item in value.items()}
        case _:
            return value
