"""The way to the API server for one kind of request: a connection when there is something to send, again when it ended."""

import random
import time
from collections import deque

from api.errors import Failure, FailureKind
from runtime.drivers.kube.exchange import ApiExchange
from runtime.drivers.kube.identity import Identity, KnownAccess
from runtime.drivers.kube.session import ApiConnection
from runtime.net.kubeaccess import Access
from runtime.net.loop import Loop
from runtime.net.resolver import Resolver

FIRST_S, LIMIT_S, JITTER = 0.2, 5.0, 0.5
"""Between attempts to connect: after the first that failed, doubled up to a limit, and up to so much longer by chance."""
SESSIONS = 32
"""Connections at once, where the server speaks HTTP/1 and each carries one exchange."""
RENEWED = Failure(kind=FailureKind.UNAVAILABLE, message="the connection is made again with another identity")


class Link:
    """Carries exchanges, first come first served. Used on the loop's thread only."""

    def __init__(self, loop: Loop, resolver: Resolver, identity: Identity) -> None:
        self._loop, self._resolver, self._identity = loop, resolver, identity
        self._queue: deque[ApiExchange] = deque()
        self._current: ApiConnection | None = None
        self._sessions: list[ApiConnection] = []
        self._access: Access | None = None
        self._wanting = self._pumping = False
        self._failures = 0
        self._next_at = float("-inf")
        self.failure: Failure | None = None
        """Why the last connection could not be made; None while one works."""

    @property
    def access(self) -> Access | None:
        """Return the access of the newest connection."""
        return self._access

    def send(self, exchange: ApiExchange) -> None:
        """Send a request as soon as a connection can carry it."""
        self._queue.append(exchange)
        self._pump()

    def renew(self) -> None:
        """Make connections again with another identity; what is under way ends on the old ones, watches at once."""
        self._current = None
        for session in list(self._sessions):
            session.retire(RENEWED)
        self._pump()

    def drop(self, why: str) -> None:
        """End the connections and all that is on them."""
        for session in list(self._sessions):
            session.close(Failure(kind=FailureKind.UNAVAILABLE, message=f"{session.server}: {why}"))

    def close(self, failure: Failure) -> None:
        """End everything."""
        queue, self._queue = self._queue, deque()
        for exchange in queue:
            exchange.end(failure)
        for session in list(self._sessions):
            session.close(failure)

    def _pump(self) -> None:
        # An exchange that begins comes back here: without this, as deep as there are exchanges.
        if self._pumping:
            return
        self._pumping = True
        try:
            self._begin_waiting()
        finally:
            self._pumping = False

    def _begin_waiting(self) -> None:
        while self._queue:
            if self._queue[0].over:
                self._queue.popleft()
                continue
            session = self._current
            if session is None or session.takes_no_more:
                self._connect()
                return
            if not session.has_room:
                return
            session.begin(self._queue.popleft())

    def _connect(self) -> None:
        wait_s = self._next_at - time.monotonic()
        if self._wanting or len(self._sessions) >= SESSIONS:
            return
        self._wanting = True
        if wait_s > 0:
            self._loop.after(wait_s, lambda: self._identity.want(self._known))
        else:
            self._identity.want(self._known)

    def _known(self, found: KnownAccess | Failure) -> None:
        self._wanting = False
        if isinstance(found, Failure):
            self._failed(found)
            return
        self._access = found.access
        session = ApiConnection(
            self._loop,
            self._resolver,
            found.access,
            found.settings,
            lambda: self._moved(session),
            lambda why: self._lost(session, why),
        )
        self._current = session
        self._sessions.append(session)
        session.open()

    def _moved(self, session: ApiConnection) -> None:
        if session is self._current and session.was_open:
            self._failures, self.failure = 0, None
        self._pump()

    def _lost(self, session: ApiConnection, why: Failure) -> None:
        self._sessions.remove(session)
        if session.is_distrusted and self._access is not None:
            # The kubeconfig may name other certificates by now.
            self._identity.refused(self._access)
        if session is self._current:
            self._current = None
            if not session.was_open:
                self._failed(why)
                return
        # Where each request has a connection, the end of one makes room for another.
        self._pump()

    def _failed(self, why: Failure) -> None:
        """End what waits for a connection that cannot be made, and wait before the next attempt."""
        self.failure = why
        wait_s = min(FIRST_S * 2.0 ** min(self._failures, 8), LIMIT_S)
        self._next_at = time.monotonic() + wait_s * (1.0 + JITTER * random.random())  # noqa: S311
        self._failures += 1
        queue, self._queue = self._queue, deque()
        for exchange in queue:
            exchange.end(why)
