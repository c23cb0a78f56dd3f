"""The ledger on disk: what neither the sources nor the runtime know, kept over a restart.

```text
ledger/<section>/<key>                one sealed entry (runtime.codec), mode 0600, folders 0700
ledger/<section>/<key>.damaged-<n>    an unreadable one, moved aside for inspection
ledger/<section>/.new-*               a write in progress; a crash may leave one, the next reading of all removes it
```

A write replaces the whole entry by a rename. A durable one is on disk, with its folder, before it completes, and so is
a durable removal; those of one section that come together share the folder's fsync. Nothing read here ever prevents a
start.
"""

import contextlib
import itertools
import os
import stat
import threading
from pathlib import Path

import msgspec

from api.errors import RejectedError
from api.ports.call import Done
from api.ports.ledger import (
    LEDGER_DAMAGED,
    LEDGER_NAME,
    Forget,
    Recall,
    RecallAll,
    Recalled,
    RecalledAll,
    Remember,
    check_ledger_names,
)
from api.ports.podfiles import LEDGER_LIMIT_BYTES
from runtime.codec import HEADER_BYTES, DamagedError, seal, unseal
from runtime.drivers.host.oserror import translate

FOLDER = "ledger"
NEW_PREFIX = ".new-"
SET_ASIDE_LIMIT = 9
"""So many damaged copies of one entry are kept; a further one replaces the last."""


class FileLedger:
    """The port ``ledger`` on files under ``<root>/ledger``; `root` is the agent's root directory. Calls may come on several threads."""

    name = "ledger"
    short = ("Recall", "Remember")
    """Calls that are done one after the other: see `runtime.kernel.offload`."""

    def __init__(self, root: Path) -> None:
        self._root = root / FOLDER
        self._numbers = itertools.count()
        self._folders: dict[str, _FolderSync] = {}
        self._lock = threading.Lock()

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:  # noqa: ARG002
        """Carry out a call of the ledger; raises an `OperatingError`. Local disks have no use for a deadline."""
        match call:
            case Remember():
                return self._remember(call)
            case Forget():
                return self._forget(call)
            case Recall():
                check_ledger_names(call.section, call.key)
                return self._recall(call.section, call.key)
            case RecallAll():
                check_ledger_names(call.section)
                return self._recall_all(call.section, only_look=call.only_look)
            case _:
                raise TypeError(f"the port ledger takes no {type(call).__name__}")

    # ------------------------------------------------------------ writing

    def _remember(self, call: Remember) -> Done:
        check_ledger_names(call.section, call.key)
        if len(call.data) > LEDGER_LIMIT_BYTES:
            raise RejectedError(
                f"ledger entry {call.section}/{call.key} has {len(call.data)} bytes; the limit is {LEDGER_LIMIT_BYTES}"
            )
        sealed = seal(call.data, f"{call.section}/{call.key}")
        folder = self._root / call.section
        try:
            try:
                self._replace(str(folder), call.key, sealed, durable=call.durable)
            except FileNotFoundError:
                self._make_folder(folder)
                self._replace(str(folder), call.key, sealed, durable=call.durable)
            if call.durable:
                self._sync_of(call.section).sync(folder)
        except OSError as error:
            raise translate(error, f"could not write ledger entry {folder / call.key}") from error
        return Done()

    def _make_folder(self, folder: Path) -> None:
        for path in (self._root, folder):
            try:
                path.mkdir(mode=0o700, parents=path == self._root)
            except FileExistsError:
                if not path.is_dir():
                    raise
            else:
                # The name of a new folder is part of what a durable entry needs.
                _fsync_folder(path.parent)

    def _replace(self, folder: str, key: str, sealed: bytes, *, durable: bool) -> None:
        # Paths are put together as text: this is done some hundred times when a hundred pods come at once.
        new = f"{folder}/{NEW_PREFIX}{os.getpid()}-{next(self._numbers)}"
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                rest = memoryview(sealed)
                while rest:
                    rest = rest[os.write(fd, rest) :]
                if durable:
                    os.fsync(fd)
            finally:
                os.close(fd)
            os.replace(new, f"{folder}/{key}")  # noqa: PTH105
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(new)  # noqa: PTH108
            raise

    def _forget(self, call: Forget) -> Done:
        check_ledger_names(call.section, call.key)
        folder = self._root / call.section
        path = folder / call.key
        try:
            path.unlink(missing_ok=True)
            if call.durable and folder.is_dir():
                self._sync_of(call.section).sync(folder)
        except OSError as error:
            raise translate(error, f"could not remove ledger entry {path}") from error
        return Done()

    # ------------------------------------------------------------ reading

    def _recall(self, section: str, key: str, *, only_look: bool = False) -> Recalled:
        path = self._root / section / key
        try:
            return Recalled(data=unseal(_read(path), f"{section}/{key}"))
        except FileNotFoundError:
            return Recalled()
        except DamagedError as error:
            if only_look:
                return Recalled(damaged=f"ledger entry {path} is damaged: {error}")
            return Recalled(damaged=self._set_aside(path, str(error)))
        except OSError as error:
            return Recalled(
                damaged=f"ledger entry {path} cannot be read: {error.strerror}; it counts as missing"
            )

    def _recall_all(self, section: str, *, only_look: bool) -> RecalledAll:
        folder = self._root / section
        try:
            names = sorted(entry.name for entry in folder.iterdir())
        except FileNotFoundError:
            return RecalledAll()
        except OSError as error:
            return RecalledAll(
                damaged=(
                    ("", f"ledger section {folder} cannot be read: {error.strerror}; it counts as empty"),
                )
            )
        entries: list[tuple[str, bytes]] = []
        damaged: list[tuple[str, str]] = []
        for name in names:
            if name.startswith(NEW_PREFIX):
                self._remove_leftover(folder / name)
            elif LEDGER_NAME.fullmatch(name) and LEDGER_DAMAGED not in name:
                recalled = self._recall(section, name, only_look=only_look)
                if recalled.data is not None:
                    entries.append((name, recalled.data))
                if recalled.damaged:
                    damaged.append((name, recalled.damaged))
        return RecalledAll(entries=tuple(entries), damaged=tuple(damaged))

    def _remove_leftover(self, path: Path) -> None:
        # A write of this very process may be in progress; only another process's is a leftover.
        if not path.name.startswith(f"{NEW_PREFIX}{os.getpid()}-"):
            try:
                path.unlink(missing_ok=True)
            except OSError:
                return

    def _set_aside(self, path: Path, why: str) -> str:
        """Rename a damaged entry and return the sentence that reports it."""
        taken = [n for n in range(1, SET_ASIDE_LIMIT) if os.path.lexists(f"{path}{LEDGER_DAMAGED}{n}")]
        aside = Path(f"{path}{LEDGER_DAMAGED}{len(taken) + 1}")
        try:
            path.rename(aside)
        except OSError as error:
            return f"ledger entry {path} is damaged: {why}; it could not be set aside: {error.strerror}"
        return f"ledger entry {path} is damaged: {why}; set aside as {aside.name}"

    def _sync_of(self, section: str) -> "_FolderSync":
        with self._lock:
            return self._folders.setdefault(section, _FolderSync())


class _FolderSync:
    """Folder fsyncs that writers share: one that begins after a writer's rename serves that writer."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._begun = 0
        self._ended = 0
        self._running = False

    def sync(self, folder: Path) -> None:
        with self._condition:
            needed = self._begun + 1
            while True:
                if self._ended >= needed:
                    return
                if not self._running:
                    break
                self._condition.wait()
            self._running = True
            self._begun += 1
            mine = self._begun
        try:
            _fsync_folder(folder)
        except OSError:
            with self._condition:
                self._running = False
                self._condition.notify_all()
            raise
        with self._condition:
            self._running = False
            self._ended = mine
            self._condition.notify_all()


def _fsync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _read(path: Path) -> bytes:
    """Read a plain file; raises `DamagedError` for anything else, or one over the limit."""
    try:
        # A named pipe in this place must not block the start.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise DamagedError("it is a symbolic link") from error
        raise
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise DamagedError("it is not a plain file")
        limit = LEDGER_LIMIT_BYTES + HEADER_BYTES + 1024
        if status.st_size > limit:
            raise DamagedError(f"it has {status.st_size} bytes, more than any entry")
        pieces = []
        while piece := os.read(fd, limit):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(fd)
