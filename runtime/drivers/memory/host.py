"""The machine in memory: manifests, URLs, the ledger, the pods' folders and files. All survive a kill of the agent."""

import random
import threading
from hashlib import sha256

import msgspec

from api.errors import DeniedError, ExhaustedError, RejectedError, UnavailableError
from api.manifestname import why_ignored
from api.ports.call import Done
from api.ports.ledger import Forget, Recall, RecallAll, Recalled, RecalledAll, Remember, check_ledger_names
from api.ports.manifests import (
    MANIFEST_LIMIT_BYTES,
    FileSettled,
    ManifestFile,
    ManifestListing,
    Problem,
    ReadManifests,
)
from api.ports.podfiles import LEDGER_LIMIT_BYTES
from api.ports.urls import FetchedManifests, FetchManifests
from runtime.drivers.memory.stream import MemoryStream


class MemoryManifests:
    """The port ``manifests`` and the stream ``manifests.changes`` over virtual folders of JSON documents."""

    name = "manifests"

    def __init__(self) -> None:
        self.changes = MemoryStream("manifests.changes")
        self._files: dict[str, bytes] = {}
        self._folders: set[str] = set()
        self._lock = threading.Lock()

    def put(self, path: str, document: bytes) -> None:
        """Write a file at this absolute path, making its folder, and notify listeners."""
        with self._lock:
            self._files[path] = document
            self._folders.add(path.rpartition("/")[0])
        self.changes.push(FileSettled(path=path))

    def remove(self, path: str) -> None:
        """Remove a file; its folder stays."""
        with self._lock:
            self._files.pop(path, None)
        self.changes.push(FileSettled(path=path))

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:  # noqa: ARG002
        """Carry out `ReadManifests` on a folder or a file."""
        if not isinstance(call, ReadManifests):
            raise TypeError(f"the port manifests takes no {type(call).__name__}")
        with self._lock:
            if call.path in self._files:
                return ManifestListing(files=(_manifest(call.path, self._files[call.path]),))
            if call.path not in self._folders:
                return ManifestListing(missing=True)
            inside = sorted(
                (path, document)
                for path, document in self._files.items()
                if path.rpartition("/")[0] == call.path
            )
        reasons = {path: why_ignored(path.rpartition("/")[2]) for path, _ in inside}
        return ManifestListing(
            files=tuple(_manifest(path, document) for path, document in inside if not reasons[path]),
            ignored=tuple(
                Problem(where=path, message=f"ignored: {why}") for path, why in reasons.items() if why
            ),
        )


def _manifest(path: str, document: bytes) -> ManifestFile:
    name = path.rpartition("/")[2]
    if len(document) > MANIFEST_LIMIT_BYTES:
        digest = sha256(f"{name} {len(document)}".encode()).hexdigest()
        message = f"the file has {len(document)} bytes; the limit is {MANIFEST_LIMIT_BYTES}"
        return ManifestFile(path=path, digest=digest, problems=(Problem(where=name, message=message),))
    compact, problems = _compact(document, name)
    return ManifestFile(path=path, digest=sha256(document).hexdigest(), document=compact, problems=problems)


def _compact(document: bytes, where: str) -> tuple[bytes | None, tuple[Problem, ...]]:
    try:
        return msgspec.json.encode(msgspec.json.decode(document)), ()
    except msgspec.DecodeError as error:
        return None, (Problem(where=where, message=str(error)),)


class MemoryUrls:
    """The port ``urls``: what virtual web servers answer."""

    name = "urls"

    def __init__(self) -> None:
        self._answers: dict[str, tuple[int, bytes]] = {}

    def put(self, url: str, body: bytes, status: int = 200) -> None:
        """Let a URL answer with this status and body."""
        self._answers[url] = (status, body)

    def remove(self, url: str) -> None:
        """Make a URL unreachable."""
        self._answers.pop(url, None)

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:  # noqa: ARG002
        """Carry out `FetchManifests`; raises an `OperatingError` for an unreachable URL and a status other than 200."""
        if not isinstance(call, FetchManifests):
            raise TypeError(f"the port urls takes no {type(call).__name__}")
        answer = self._answers.get(call.url)
        if answer is None:
            raise UnavailableError(f"could not fetch {call.url}: connection refused")
        status, body = answer
        if status in (401, 403):
            raise DeniedError(f"could not fetch {call.url}: status {status}; see the headers that are sent")
        if status != 200:
            raise UnavailableError(f"could not fetch {call.url}: status {status}")
        if len(body) > 10 * MANIFEST_LIMIT_BYTES:
            raise RejectedError(f"{call.url} has {len(body)} bytes; the limit is {10 * MANIFEST_LIMIT_BYTES}")
        digest = sha256(body).hexdigest()
        if digest == call.known_digest:
            return FetchedManifests(digest=digest, unchanged=True)
        if not body.strip():
            return FetchedManifests(digest=digest)
        compact, problems = _compact(body, call.url)
        return FetchedManifests(digest=digest, document=compact, problems=problems)


class MemoryLedger:
    """The port ``ledger`` in memory.

    It survives a kill of the agent. A kill of the machine (`lose_power`) may lose what was not written durably, and
    may bring back what was not forgotten durably.
    """

    name = "ledger"

    def __init__(self, *, seed: int = 0) -> None:
        self.full = False
        """Whether the disk is full: every write fails with `Exhausted`."""
        self._now: dict[tuple[str, str], bytes] = {}
        self._disk: dict[tuple[str, str], bytes] = {}
        self._damaged: set[tuple[str, str]] = set()
        self._random = random.Random(seed)  # noqa: S311  # a simulation repeats its seed
        self._lock = threading.Lock()

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:  # noqa: ARG002
        """Carry out a call of the ledger; raises an `OperatingError`."""
        with self._lock:
            match call:
                case Remember():
                    return self._remember(call)
                case Forget():
                    check_ledger_names(call.section, call.key)
                    self._now.pop((call.section, call.key), None)
                    if call.durable:
                        self._disk.pop((call.section, call.key), None)
                    self._damaged.discard((call.section, call.key))
                    return Done()
                case Recall():
                    check_ledger_names(call.section, call.key)
                    return self._recall(call.section, call.key)
                case RecallAll():
                    check_ledger_names(call.section)
                    return self._recall_all(call.section, only_look=call.only_look)
                case _:
                    raise TypeError(f"the port ledger takes no {type(call).__name__}")

    def _remember(self, call: Remember) -> Done:
        check_ledger_names(call.section, call.key)
        name = f"{call.section}/{call.key}"
        if len(call.data) > LEDGER_LIMIT_BYTES:
            raise RejectedError(
                f"ledger entry {name} has {len(call.data)} bytes; the limit is {LEDGER_LIMIT_BYTES}"
            )
        if self.full:
            raise ExhaustedError(f"could not write ledger entry {name}: no space left on device; free some")
        self._now[call.section, call.key] = call.data
        self._damaged.discard((call.section, call.key))
        if call.durable:
            self._disk[call.section, call.key] = call.data
        return Done()

    def _recall(self, section: str, key: str, *, only_look: bool = False) -> Recalled:
        if (section, key) in self._damaged and only_look:
            return Recalled(damaged=f"ledger entry {section}/{key} is damaged")
        if (section, key) in self._damaged:
            self._damaged.discard((section, key))
            for entries in (self._now, self._disk):
                entries.pop((section, key), None)
            return Recalled(damaged=f"ledger entry {section}/{key} is damaged; set aside")
        return Recalled(data=self._now.get((section, key)))

    def _recall_all(self, section: str, *, only_look: bool) -> RecalledAll:
        keys = sorted(key for found, key in self._now if found == section)
        recalled = [(key, self._recall(section, key, only_look=only_look)) for key in keys]
        return RecalledAll(
            entries=tuple((key, one.data) for key, one in recalled if one.data is not None),
            damaged=tuple((key, one.damaged) for key, one in recalled if one.damaged),
        )

    def damage(self, section: str, key: str) -> None:
        """Damage an entry on disk: the next read moves it aside."""
        with self._lock:
            if (section, key) in self._now:
                self._damaged.add((section, key))

    def write_back(self) -> None:
        """Bring everything to disk, as an operating system does after some seconds."""
        with self._lock:
            self._disk = dict(self._now)

    def lose_power(self) -> None:
        """Kill the machine: each entry that is not on disk as it is now keeps its new or gets back its old state."""
        with self._lock:
            for name in sorted({*self._now, *self._disk}):
                if self._now.get(name) != self._disk.get(name) and self._random.random() < 0.5:
                    if name in self._disk:
                        self._now[name] = self._disk[name]
                    else:
                        del self._now[name]
            self._disk = dict(self._now)
