"""Collections that are read from memory: listed and watched from the first read on."""

from collections.abc import Callable
from typing import Generic, TypeVar

from api.decoding import UndecodableError, from_json
from api.errors import Failure, FailureKind
from api.messages import Message
from api.ports.kube import WatchChecked
from runtime.drivers.kube.client import ApiClient
from runtime.drivers.kube.reflector import Reflector
from runtime.drivers.kube.store import Key, ListedObject, name_in

T = TypeVar("T")
LIMIT = 50_000
"""Objects of one collection; more are not kept."""


class ObjectCache(Generic[T]):
    """What is kept of each object, by namespace and name. Used on the loop's thread only."""

    def __init__(
        self,
        client: ApiClient,
        what: str,
        target: str,
        decode: Callable[[bytes], T],
        problem: Callable[[str], None],
    ) -> None:
        """`decode` raises `UndecodableError`; `problem` is called with why an object is left out."""
        self._client, self._what, self._target = client, what, target
        self._decode, self._problem = decode, problem
        self._objects: dict[Key, T] = {}
        self._reflector: Reflector | None = None
        self._is_listed = False
        self._failure: Failure | None = None
        self._waiting: list[Callable[[], None]] = []

    def read(
        self,
        answered: Callable[[dict[Key, T] | None, Failure | None], None],
        within_s: float,
        *,
        at_once: bool = False,
        in_outage: bool = False,
    ) -> None:
        """Call `answered` with all objects, after the first list or why there is none yet; `at_once` with what there is.

        `in_outage`: with none, where there is no list because the server cannot be reached.
        """
        if self._reflector is None:
            self._reflector = Reflector(self._client, self._what, self._target, self, self._heard)
            self._reflector.open()
        is_away = self._failure is not None and not self._failure.reason
        if self._is_listed or at_once or (in_outage and is_away):
            answered(self._objects, None)
            return
        over = False

        def answer() -> None:
            nonlocal over
            if not over:
                over = True
                if answer in self._waiting:
                    self._waiting.remove(answer)
                none_is_fine = in_outage and (self._failure is None or not self._failure.reason)
                known = self._is_listed or none_is_fine
                answered(*((self._objects, None) if known else (None, self._unread())))

        self._waiting.append(answer)
        self._client.loop.after(within_s, answer)

    def close(self) -> None:
        """End the watch."""
        if self._reflector is not None:
            self._reflector.close()

    def _unread(self) -> Failure:
        why = f": {self._failure.message}" if self._failure is not None else ""
        kind = self._failure.kind if self._failure is not None else FailureKind.UNAVAILABLE
        return Failure(kind=kind, message=f"{self._what} have not yet been read at least once{why}")

    def _heard(self, message: Message) -> None:
        if isinstance(message, WatchChecked):
            self._failure = message.failure
            if message.failure is not None:
                self._answer()

    def _answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            answer()

    # ------------------------------------------------------------ what the reflector keeps here

    def set_all(self, objects: tuple[bytes, ...]) -> None:
        """Take these for all that there is."""
        self._objects = {}
        for body in objects:
            self.put(body)
        self._is_listed = True
        self._answer()

    def put(self, body: bytes) -> None:
        """Take in that an object was added or changed."""
        try:
            key, kept = key_in(body), self._decode(body)
        except UndecodableError as error:
            self._problem(f"{self._what}: {name_in(body)}: {error}")
            return
        if key in self._objects or len(self._objects) < LIMIT:
            self._objects[key] = kept

    def remove(self, body: bytes) -> None:
        """Take in that an object is gone."""
        try:
            self._objects.pop(key_in(body), None)
        except UndecodableError:
            return

    def news(self) -> Message | None:
        """Return nothing: this is read, and sends no levels."""
        return None


def key_in(body: bytes) -> Key:
    """Return an object's place; raises `UndecodableError`."""
    meta = from_json(body, ListedObject).metadata
    return meta.namespace, meta.name
