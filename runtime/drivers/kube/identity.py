"""Who we are and where the server is: found out on a thread of its own, again when that expires, changes on disk, or is refused."""

import ssl
import threading
import time
from collections.abc import Callable

import msgspec

from api.errors import Failure, FailureKind, OperatingError
from runtime.drivers.kube.tls import settings_of
from runtime.net.kubeaccess import Access, AccessFile, FileMark, file_mark
from runtime.net.loop import Loop

RENEW_BEFORE_S = 30.0
RENEW_SHARE = 0.1
"""Of the time that an access is valid for: found out again so long before it ends, and at most `RENEW_BEFORE_S`."""
AGAIN_S = 10.0
"""Between two questions, whatever the server refuses."""
LOOK_S = 2.0
"""Between two looks at the files that an access came from: a stat call for each, on the loop's thread."""
FILES_LIMIT = 8
"""So many files are looked at; a kubeconfig names four at most."""

Renewed = Callable[[Failure | None], None]
"""Is called with why a known access could not be found out again, once for each reason; with None when another one is used,
and when it can be found out again."""


class KnownAccess(msgspec.Struct, frozen=True, kw_only=True):
    """An access, and the TLS settings that follow from it."""

    access: Access
    settings: ssl.SSLContext


class Identity:
    """Keeps the access up to date. Used on the loop's thread only; `changed` is called after each change."""

    def __init__(
        self, loop: Loop, find: Callable[[], Access], changed: Callable[[], None], renewed: Renewed
    ) -> None:
        self._loop, self._find, self._changed, self._renewed = loop, find, changed, renewed
        self._waiting: list[Callable[[KnownAccess | Failure], None]] = []
        self._asking = False
        self._asked_at = float("-inf")
        self._known: KnownAccess | None = None
        self._answers = 0
        self._failure: Failure | None = None
        self._files: tuple[AccessFile, ...] = ()
        self._tried: tuple[FileMark, ...] = ()
        self._looks = False

    def want(self, then: Callable[[KnownAccess | Failure], None]) -> None:
        """Call `then` with what is known, or with why nothing is."""
        if self._known is not None:
            then(self._known)
            return
        self._waiting.append(then)
        self._ask()

    def refused(self, access: Access) -> bool:
        """Take in that the server does not know us by this access; return whether another is looked for."""
        if self._known is None or self._known.access is not access:
            return True
        if time.monotonic() < self._asked_at + AGAIN_S:
            return False
        self._ask()
        return True

    def when_asked(self, then: Callable[[KnownAccess | Failure], None]) -> None:
        """Call `then` when the question under way is answered."""
        if self._asking:
            self._waiting.append(then)
        else:
            self.want(then)

    def _ask(self) -> None:
        if self._asking:
            return
        self._asking, self._asked_at = True, time.monotonic()
        threading.Thread(target=self._work, name="kube.identity", daemon=True).start()

    def _work(self) -> None:
        found: KnownAccess | Failure
        try:
            access = self._find()
            found = KnownAccess(access=access, settings=settings_of(access))
        except OperatingError as error:
            found = error.failure()
        except Exception as error:  # noqa: BLE001  # whoever waits must be answered; its text may hold a secret
            why = f"{type(error).__name__} in the agent while it read the kubeconfig; this is a bug"
            found = Failure(kind=FailureKind.UNAVAILABLE, message=why)
        self._loop.submit(lambda: self._found(found))

    def _found(self, found: KnownAccess | Failure) -> None:
        self._asking = False
        self._answers += 1
        if isinstance(found, KnownAccess):
            self._take(found)
        elif self._known is not None:
            self._ask_in(AGAIN_S)
            if found != self._failure:
                self._failure = found
                self._renewed(found)
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(self._known if isinstance(found, KnownAccess) and self._known is not None else found)

    def _take(self, found: KnownAccess) -> None:
        known, self._files = self._known, found.access.files[:FILES_LIMIT]
        changed = known is None or replaces(found.access, known.access)
        if changed:
            self._known = found
        self._wait_for_end(found.access)
        if self._files and not self._looks:
            self._looks = True
            self._loop.after(LOOK_S, self._look)
        if known is not None and (changed or self._failure is not None):
            self._renewed(None)
        self._failure = None
        if changed and known is not None:
            self._changed()

    def _look(self) -> None:
        """Ask again where a file has changed since it was read, once for each state in which it is seen."""
        self._loop.after(LOOK_S, self._look)
        marks = tuple(file_mark(one.path) for one in self._files)
        if not self._asking and marks not in (self._tried, tuple(one.mark for one in self._files)):
            self._tried = marks
            self._ask()

    def _wait_for_end(self, access: Access) -> None:
        if access.expires_at is None:
            return
        left_s = access.expires_at - time.time()
        self._ask_in(max(AGAIN_S, left_s - min(RENEW_BEFORE_S, RENEW_SHARE * left_s)))

    def _ask_in(self, seconds: float) -> None:
        """Ask again after a while, unless there is another answer by then, which sets a time of its own."""
        answers = self._answers
        self._loop.after(seconds, lambda: self._ask() if answers == self._answers else None)


def replaces(new: Access, old: Access) -> bool:
    """Return whether connections must be made again: its end and its files do not count."""
    bare = (
        msgspec.structs.replace(one, expires_at=None, ca_file="", cert_file="", files=())
        for one in (new, old)
    )
    return next(bare) != next(bare)
