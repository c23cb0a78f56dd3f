"""Lists a collection, watches it from there on, and sends it as whole levels: for as long as its stream is open.

```text
list (pages of `PAGE`) --> watch ... bookmark ... --> its time is over, or its connection: watch again from the last version
   ^__________________ too old (410), or an event that makes no sense __|
```

A list or watch that fails is repeated with back-off; what was listed stands meanwhile.
"""

import random
import time
from collections.abc import Callable, Mapping
from urllib.parse import quote

import msgspec

from api.decoding import UndecodableError, from_json
from api.errors import Failure, FailureKind
from api.messages import Message
from api.ports.kube import WatchChecked
from runtime.drivers.kube.answer import GONE, ServerStatus, failure_of, retry_after_s, status_failure
from runtime.drivers.kube.client import ERROR_LIMIT_BYTES, OK_FROM, UNAUTHORIZED, ApiClient, ApiRequest
from runtime.drivers.kube.exchange import NOT_TAKEN, ApiExchange
from runtime.drivers.kube.link import RENEWED
from runtime.drivers.kube.store import ListedObject, Store

PAGE = 500
LIST_LIMIT_BYTES = 32 << 20
LINE_LIMIT_BYTES = 3 << 20
LIST_S = 60.0
WATCH_S = (300, 600)
"""For so long a watch is asked for, by chance between the two."""
OVERDUE_S = 30.0
"""A watch that the server did not end by then is of no use."""
GATHER_S = 0.03
"""For so long changes are gathered into one level."""
FIRST_S, LIMIT_S, JITTER = 0.8, 30.0, 0.5
STEADY_S = 120.0
"""A watch that lasted so long worked: the next failure is the first of a row."""
WATCHED_AGAIN = (401, 403, 429, 500, 502, 503)
"""Codes of a watch that say nothing about its version. After any other, the collection is listed: an API server whose
data was restored from a backup cannot watch from a version that it has not reached yet."""


class ListPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list."""

    class Meta(msgspec.Struct, frozen=True, kw_only=True):
        """Where the list is, and where it goes on."""

        resourceVersion: str = ""  # noqa: N815  # as on the wire
        more: str = msgspec.field(default="", name="continue")

    kind: str = ""
    metadata: Meta = Meta()
    items: tuple[msgspec.Raw, ...] | None
    """Null, or an empty list, for nothing."""

    def is_list(self) -> bool:
        """Return whether it is one: any JSON that a proxy answers with would else be a list of nothing."""
        return self.kind.endswith("List") and is_version(self.metadata.resourceVersion)


def is_version(version: str) -> bool:
    """Return whether this may be a resourceVersion: it goes into a URL."""
    return version.isascii() and version.isalnum()


class WatchEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a watch."""

    type: str
    object: msgspec.Raw = msgspec.Raw(b"")


class Reflector:
    """Keeps `store` up to date and pushes its levels. Used on the loop's thread only."""

    def __init__(
        self, client: ApiClient, what: str, target: str, store: Store, push: Callable[[Message], None]
    ) -> None:
        """Name the collection `what` in failures; `target` is its path with its selector, up to where more of the query may follow."""
        self._client, self._what, self._target = client, what, target
        self._store, self._push = store, push
        self._is_open = True
        self._version = ""
        """To watch from; empty: list first."""
        self._objects: list[bytes] = []
        self._listed_bytes = 0
        self._request: ApiRequest | None = None
        self._exchange: ApiExchange | None = None
        self._status, self._headers = 0, dict[str, str]()
        self._line = bytearray()
        self._gathering = False
        self._failures = 0
        self._since = time.monotonic()
        self._failure: Failure | None = None
        self._checked = False

    def open(self) -> None:
        """Begin."""
        self._list("")

    def close(self) -> None:
        """End; nothing is pushed any more."""
        self._is_open = False
        if self._request is not None:
            self._request.cancel()
        if self._exchange is not None:
            self._exchange.cancel()

    # ------------------------------------------------------------ list

    def _list(self, more: str) -> None:
        if not self._is_open:
            return
        if not more:
            self._objects, self._listed_bytes = [], 0
        suffix = f"limit={PAGE}" + (f"&continue={quote(more, safe='')}" if more else "")
        self._request = ApiRequest(
            self._client,
            method="GET",
            target=self._target + suffix,
            what=f"list of {self._what}",
            answered=self._listed,
            deadline_s=LIST_S,
            limit_bytes=LIST_LIMIT_BYTES,
        )
        self._request.start()

    def _listed(self, body: bytes | None, failure: Failure | None) -> None:
        request, self._request = self._request, None
        if not self._is_open:
            return
        if body is None:
            self._failed(failure, request.retry_after_s if request is not None else 0.0)
            return
        why = ""
        try:
            page = from_json(body, ListPage)
        except UndecodableError as error:
            why = str(error)
        else:
            why = "" if page.is_list() else "a list has a kind and a resourceVersion"
        self._listed_bytes += len(body)
        if why:
            why = f"{self._client.server()} sent no list: {why}; is it an API server?"
        elif self._listed_bytes > LIST_LIMIT_BYTES:
            why = f"it is bigger than {LIST_LIMIT_BYTES >> 10} KiB; that much is not read"
        if why:
            text = f"list of {self._what}: {why}"
            self._failed(Failure(kind=FailureKind.REJECTED, message=text))
            return
        self._objects += [bytes(item) for item in page.items or ()]
        if page.metadata.more:
            self._list(page.metadata.more)
            return
        objects, self._objects = tuple(self._objects), []
        self._version = page.metadata.resourceVersion
        self._store.set_all(objects)
        self._works()
        self._send()
        self._watch()

    # ------------------------------------------------------------ watch

    def _watch(self) -> None:
        if not self._is_open:
            return
        seconds = random.randint(*WATCH_S)  # noqa: S311
        self._line.clear()
        self._status = 0
        self._since = time.monotonic()
        exchange = self._exchange = ApiExchange(
            "GET",
            f"{self._target}watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}"
            f"&resourceVersion={self._version}",
            head=self._head,
            data=self._data,
            end=lambda failure: self._ended(exchange, failure),
            lasting=True,
        )
        self._client.send(exchange)
        self._client.loop.after(seconds + OVERDUE_S, lambda: self._overdue(exchange))

    def _overdue(self, exchange: ApiExchange) -> None:
        if exchange is self._exchange:
            self._exchange_over()
            self._again()

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self._status, self._headers = status, dict(headers)
        if status == OK_FROM:
            self._works()

    def _data(self, data: bytes) -> None:
        limit = LINE_LIMIT_BYTES if self._status == OK_FROM else ERROR_LIMIT_BYTES
        begin = 0
        if self._status == OK_FROM:
            while (end := data.find(b"\n", begin)) >= 0:
                line = bytes(self._line) + data[begin:end]
                self._line.clear()
                begin = end + 1
                if not self._take(line):
                    return
        self._line += data[begin:]
        if len(self._line) > limit:
            text = f"watch of {self._what}: a line is bigger than {limit >> 10} KiB; that much is not read"
            self._broken(Failure(kind=FailureKind.REJECTED, message=text))

    def _take(self, line: bytes) -> bool:
        """Take in one event; return whether the watch goes on."""
        if not line.strip():
            return True
        try:
            event = from_json(line, WatchEvent)
            body = bytes(event.object)
            if event.type == "ERROR":
                self._refused(from_json(body, ServerStatus))
                return False
            version = from_json(body, ListedObject).metadata.resource_version
        except UndecodableError as error:
            text = f"watch of {self._what}: {self._client.server()} sent what is no event: {error}"
            self._broken(Failure(kind=FailureKind.UNAVAILABLE, message=text))
            return False
        match event.type:
            case "ADDED" | "MODIFIED":
                self._store.put(body)
            case "DELETED":
                self._store.remove(body)
            case _:
                pass
        if is_version(version):
            self._version = version
        if event.type != "BOOKMARK":
            self._gather()
        return True

    def _refused(self, status: ServerStatus) -> None:
        failure = status_failure(status, status.code, f"watch of {self._what}")
        if failure.reason == GONE:
            self._exchange_over()
            self._version = ""
            self._again()
        else:
            self._broken(failure)

    def _broken(self, failure: Failure) -> None:
        """Give up a watch that cannot be understood, and list again."""
        self._exchange_over()
        self._version = ""
        self._failed(failure)

    def _exchange_over(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.cancel()

    def _ended(self, exchange: ApiExchange, failure: Failure | None) -> None:
        if exchange is not self._exchange or not self._is_open:
            return
        self._exchange = None
        if failure is not None:
            if failure is RENEWED or failure is NOT_TAKEN:
                self._again()
            else:
                self._failed(Failure(kind=failure.kind, message=f"watch of {self._what}: {failure.message}"))
            return
        if self._status == OK_FROM:
            self._again()
            return
        found = failure_of(
            self._status,
            self._headers,
            bytes(self._line),
            f"watch of {self._what}",
            self._client.server(),
        )
        if found.reason == GONE:
            self._version = ""
            self._again()
        elif self._status == UNAUTHORIZED and self._client.refused(heartbeat=False, then=self._again):
            return
        else:
            if self._status not in WATCHED_AGAIN:
                self._version = ""
            self._failed(found, retry_after_s(self._headers))

    # ------------------------------------------------------------ again

    def _again(self) -> None:
        """Go on: a watch from where the last one was, or a list. A server that ends each at once is not asked all the time."""
        if time.monotonic() - self._since < FIRST_S:
            self._client.loop.after(FIRST_S, self._go_on)
        else:
            self._go_on()

    def _go_on(self) -> None:
        if not self._is_open or self._request is not None or self._exchange is not None:
            return
        if self._version:
            self._watch()
        else:
            self._list("")

    def _failed(self, failure: Failure | None, at_least_s: float = 0.0) -> None:
        if time.monotonic() - self._since > STEADY_S:
            self._failures = 0
        wait_s = max(min(FIRST_S * 2.0 ** min(self._failures, 16), LIMIT_S), at_least_s)
        self._failures += 1
        self._since = time.monotonic()
        self._check(failure)
        self._client.loop.after(wait_s * (1.0 + JITTER * random.random()), self._go_on)  # noqa: S311

    def _works(self) -> None:
        self._check(None)

    def _check(self, failure: Failure | None) -> None:
        """Say when the collection cannot be read, or can be again."""
        if not self._checked or failure != self._failure:
            self._checked, self._failure = True, failure
            self._push(WatchChecked(failure=failure))

    # ------------------------------------------------------------ levels

    def _gather(self) -> None:
        if not self._gathering:
            self._gathering = True
            self._client.loop.after(GATHER_S, self._send)

    def _send(self) -> None:
        self._gathering = False
        if self._is_open and (level := self._store.news()) is not None:
            self._push(level)
