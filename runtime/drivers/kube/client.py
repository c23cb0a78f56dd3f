"""Requests to the API server: paced, bounded in time and size, with who we are renewed when the server asks for it."""

import time
from collections import deque
from collections.abc import Callable, Mapping

from api.errors import Failure, FailureKind
from runtime.drivers.kube.answer import failure_of, retry_after_s
from runtime.drivers.kube.exchange import NOT_TAKEN, ApiExchange
from runtime.drivers.kube.identity import Identity, Renewed
from runtime.drivers.kube.link import Link
from runtime.net.kubeaccess import Access
from runtime.net.loop import Loop
from runtime.net.resolver import Resolver

ERROR_LIMIT_BYTES = 64 << 10
ROUNDING = 1e-6
OK_FROM, OK_TO = 200, 299
UNAUTHORIZED = 401
NOT_TAKEN_LIMIT = 3
"""So often a request is sent again that the server did not take on."""
LATE_HEARTBEATS = 2
"""So many in a row without an answer, and their connection is made again: a dead one looks like a slow server."""

Answered = Callable[[bytes | None, Failure | None], None]


class ApiClient:
    """Sends requests on two connections. Used on the loop's thread only."""

    def __init__(
        self, loop: Loop, find: Callable[[], Access], qps: float, burst: int, renewed: Renewed
    ) -> None:
        self.loop = loop
        resolver = Resolver()
        self._identity = Identity(loop, find, self.renew, renewed)
        self._main = Link(loop, resolver, self._identity)
        self._heartbeats = Link(loop, resolver, self._identity)
        self._qps, self._burst = qps, float(burst)
        self._tokens, self._counted_at = float(burst), time.monotonic()
        self._waiting: deque[ApiExchange] = deque()
        self._late = 0

    def send(self, exchange: ApiExchange, *, heartbeat: bool = False, own_rate: bool = False) -> None:
        """Send an exchange: a heartbeat and one of a rate of its own at once, others as the rate allows."""
        if heartbeat:
            self._heartbeats.send(exchange)
            return
        if own_rate or not self._qps:
            self._main.send(exchange)
            return
        self._waiting.append(exchange)
        if len(self._waiting) == 1:
            self._let_go()

    def answered_late(self, *, heartbeat: bool, late: bool) -> None:
        """Take in whether a request was answered in time."""
        if not heartbeat:
            return
        self._late = self._late + 1 if late else 0
        if self._late >= LATE_HEARTBEATS:
            self._late = 0
            self._heartbeats.drop(f"{LATE_HEARTBEATS} heartbeats in a row were not answered")

    def refused(self, *, heartbeat: bool, then: Callable[[], None]) -> bool:
        """Look for another identity, since the server does not know this one; return False where that was just done."""
        access = (self._heartbeats if heartbeat else self._main).access
        if access is None or not self._identity.refused(access):
            return False
        self._identity.when_asked(lambda _: then())
        return True

    def why(self, *, heartbeat: bool) -> Failure | None:
        """Return why no connection can be made, None where one can, or none was tried."""
        return (self._heartbeats if heartbeat else self._main).failure

    def server(self, *, heartbeat: bool = False) -> str:
        """Return the URL of the server, as far as it is known."""
        access = (self._heartbeats if heartbeat else self._main).access
        return access.server if access is not None else "the API server"

    def close(self) -> None:
        """End all requests and connections."""
        failure = Failure(kind=FailureKind.CANCELLED, message="the agent is stopping")
        for exchange in self._waiting:
            exchange.end(failure)
        self._main.close(failure)
        self._heartbeats.close(failure)

    def renew(self) -> None:
        """Have the next requests go out on other connections, which are made for them."""
        self._main.renew()
        self._heartbeats.renew()

    def _let_go(self) -> None:
        """Send what the rate allows, first come first served; what is over by then takes nothing from it."""
        now = time.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._counted_at) * self._qps)
        self._counted_at = now
        while self._waiting:
            if not self._waiting[0].over:
                if self._tokens < 1.0 - ROUNDING:
                    self.loop.after((1.0 - self._tokens) / self._qps, self._let_go)
                    return
                self._tokens -= 1.0
                self._main.send(self._waiting[0])
            self._waiting.popleft()


class ApiRequest:
    """One request whose answer is taken in as a whole: its body, or why there is none. Repeated once where that is safe."""

    def __init__(
        self,
        client: ApiClient,
        *,
        method: str,
        target: str,
        what: str,
        answered: Answered,
        content_type: str = "",
        body: bytes = b"",
        heartbeat: bool = False,
        own_rate: bool = False,
        deadline_s: float,
        limit_bytes: int,
    ) -> None:
        self._client, self._method, self._target, self._what = client, method, target, what
        self._content_type, self._body, self._heartbeat = content_type, body, heartbeat
        self._own_rate, self._deadline_s, self._limit_bytes = own_rate, deadline_s, limit_bytes
        self._answered: Answered | None = answered
        self._exchange: ApiExchange | None = None
        self._status, self._headers = 0, dict[str, str]()
        self._parts, self._size = list[bytes](), 0
        self._repeats = 1
        self._not_taken = 0

    @property
    def retry_after_s(self) -> float:
        """Return for how long the server asks not to be asked."""
        return retry_after_s(self._headers)

    def start(self) -> None:
        """Send it."""
        if self._answered is not None:
            self._client.loop.after(self._deadline_s, self._expire)
            self._send()

    def cancel(self) -> None:
        """Take it back."""
        self._finish(None, Failure(kind=FailureKind.CANCELLED, message=f"{self._what}: cancelled"))

    def _send(self) -> None:
        if self._answered is None:
            return
        self._status, self._parts, self._size = 0, [], 0
        self._exchange = ApiExchange(
            self._method,
            self._target,
            head=self._head,
            data=self._data,
            end=self._end,
            content_type=self._content_type,
            body=self._body,
        )
        self._client.send(self._exchange, heartbeat=self._heartbeat, own_rate=self._own_rate)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self._status, self._headers = status, dict(headers)

    def _data(self, data: bytes) -> None:
        self._size += len(data)
        limit = self._limit_bytes if OK_FROM <= self._status <= OK_TO else ERROR_LIMIT_BYTES
        if self._size > limit:
            text = f"{self._what}: the answer is bigger than {limit >> 10} KiB; that much is not read"
            self._finish(None, Failure(kind=FailureKind.REJECTED, message=text))
            return
        self._parts.append(data)

    def _end(self, failure: Failure | None) -> None:
        exchange = self._exchange
        if failure is not None and exchange is not None:
            self._lost(failure, sent=exchange.sent)
            return
        self._client.answered_late(heartbeat=self._heartbeat, late=False)
        body = b"".join(self._parts)
        if OK_FROM <= self._status <= OK_TO:
            self._finish(body, None)
            return
        again = self._status == UNAUTHORIZED and self._may_repeat()
        if again and self._client.refused(heartbeat=self._heartbeat, then=self._send):
            return
        server = self._server()
        self._finish(None, failure_of(self._status, self._headers, body, self._what, server))

    def _lost(self, failure: Failure, *, sent: bool) -> None:
        """Take in that the connection ended before the answer was complete."""
        if failure is NOT_TAKEN and self._not_taken < NOT_TAKEN_LIMIT:
            self._not_taken += 1
            self._send()
            return
        harmless = self._method == "GET" or not sent
        if failure.kind is FailureKind.UNAVAILABLE and harmless and sent and self._may_repeat():
            self._send()
            return
        kind = failure.kind
        if kind is FailureKind.UNAVAILABLE and not harmless:
            kind = FailureKind.TIMED_OUT
        text = f"{self._what}: {failure.message}"
        self._finish(None, Failure(kind=kind, message=text, reason=failure.reason))

    def _may_repeat(self) -> bool:
        self._repeats -= 1
        return self._repeats >= 0

    def _expire(self) -> None:
        if self._answered is None:
            return
        sent = self._exchange is not None and self._exchange.sent
        why = self._client.why(heartbeat=self._heartbeat)
        if not sent and why is not None:
            self._finish(None, Failure(kind=why.kind, message=f"{self._what}: {why.message}"))
            return
        if sent:
            self._client.answered_late(heartbeat=self._heartbeat, late=True)
        text = f"{self._what}: {self._server()} did not answer within {self._deadline_s:g} s"
        kind = FailureKind.TIMED_OUT if sent else FailureKind.UNAVAILABLE
        self._finish(None, Failure(kind=kind, message=text))

    def _server(self) -> str:
        return self._client.server(heartbeat=self._heartbeat)

    def _finish(self, body: bytes | None, failure: Failure | None) -> None:
        answered, self._answered = self._answered, None
        if answered is None:
            return
        if self._exchange is not None:
            self._exchange.cancel()
        # Its deadline holds it for a while yet.
        self._exchange, self._parts, self._body = None, [], b""
        answered(body, failure)
