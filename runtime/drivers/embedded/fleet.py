r"""All sandboxes of one root folder: finding them again, settling what a dead keeper left, removing every trace.

::

    found on disk --connect--> live --stopped, goodbye--> kept on disk --remove--> gone
                  \--no listener--> settling (kill its processes) --> kept on disk
"""

import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path

from api.errors import DeniedError, Failure, FailureKind, UnavailableError
from api.ids import Uid
from api.ports.runtime import RuntimePod
from runtime.drivers.embedded import record as records
from runtime.drivers.embedded.keeper import cgroup, process, store
from runtime.drivers.embedded.kept import Kept
from runtime.net.loop import Loop

ADOPTION_PATIENCE_S = 3.0
"""How long listings wait at the start for keepers that were found and have not answered."""
SETTLE_LIMIT_S = 10.0
LOOK_AGAIN_S = 0.2
"""Between scans of the machine's processes when one failed."""
STORE_AGAIN_S = 2.0
"""Between retries to write a record that a keeper sent and could not write."""
REMOVE_LIMIT_S = 10.0
MAX_DAMAGED = 16
"""Damaged records that are kept for inspection; older ones are dropped."""

Gone = Callable[[Failure | None], None]


class Fleet:
    """Owner of every `Kept`. All methods on the loop's thread."""

    def __init__(
        self, loop: Loop, root: Path, notify: Callable[[Uid], None], places: Callable[[], tuple[str, ...]]
    ) -> None:
        self._loop = loop
        self._notify = notify
        self._places = places
        self.run = root / "run"
        self._folder = self.run / "sandboxes"
        self._kept: dict[str, Kept] = {}
        self._pods: dict[Uid, RuntimePod] = {}
        """What the port shows, built on demand and dropped on change."""
        self._container_ids: dict[str, str] = {}
        self._settling: dict[str, float] = {}
        self._removing: dict[str, list[Gone]] = {}
        self._adopted = False
        self._waiting: list[Callable[[], None]] = []
        self.damaged: list[str] = []
        """Damaged records of the start, for users."""

    # -- views

    def when_adopted(self, then: Callable[[], None]) -> None:
        """Run `then` as soon as listings are true."""
        if self._adopted:
            then()
        else:
            self._waiting.append(then)

    def sandbox(self, identity: str) -> Kept | None:
        """Return a sandbox by its id."""
        return self._kept.get(identity)

    def of_container(self, identity: str) -> Kept | None:
        """Return the sandbox of a container, by the container's bare id."""
        return self._kept.get(self._container_ids.get(identity, ""))

    def of_pod(self, uid: Uid) -> list[Kept]:
        """Return the sandboxes of a pod that have a record."""
        return [k for k in self._kept.values() if k.record is not None and k.record.sandbox.spec.uid == uid]

    def pod(self, uid: Uid) -> RuntimePod:
        """Return what the runtime shows of one pod."""
        found = self._pods.get(uid)
        if found is None:
            found = records.show(uid, [k.record for k in self.of_pod(uid) if k.record is not None])
            if found.sandboxes:
                self._pods[uid] = found
        return found

    def pods(self) -> tuple[RuntimePod, ...]:
        """Return every pod, by UID ascending."""
        uids = {k.record.sandbox.spec.uid for k in self._kept.values() if k.record is not None}
        return tuple(self.pod(uid) for uid in sorted(uids))

    def troubles(self) -> tuple[str, ...]:
        """Return which keepers cannot be reached now and why, as one sentence; nothing when all can."""
        found = [k.trouble for k in self._kept.values() if k.trouble]
        return (f"{found[0]} ({len(found)} such pods); retrying",) if found else ()

    # -- the start

    def open(self) -> None:
        """Make our folders and take up again everything found there. Raises an OperatingError; then it may be tried again."""
        for folder in (self.run, self._folder):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                _require_own(folder)
                folder.chmod(0o700)
                found = sorted(folder.iterdir())
            except OSError as error:
                raise UnavailableError(
                    f"the embedded runtime's folder {folder} cannot be made or read: {error.strerror}; "
                    "choose another --root-dir or make it writable; retrying"
                ) from None
        damaged = self._load(found)
        for kept in list(self._kept.values()):
            if kept.connect():
                continue
            if kept.id in damaged:
                self._set_aside(kept, damaged[kept.id])
            else:
                self._settle(kept)
        for kept in self._kept.values():
            self._refresh(kept)
        self._loop.after(ADOPTION_PATIENCE_S, self._give_up_adopting)
        self._check_adopted()

    def _load(self, places: list[Path]) -> dict[str, str]:
        """Read all records, before connections take the descriptors; return what is damaged, by sandbox, and how.

        Raises UnavailableError when this process cannot read one: without it a pod would be taken for new.
        """
        damaged = {}
        for place in places:
            kept = self.add(place.name)
            try:
                kept.load()
            except store.DamagedRecordError as error:
                damaged[kept.id] = str(error)
            except OSError as error:
                self._kept.clear()
                raise UnavailableError(
                    f"the record of sandbox {kept.id} cannot be read now: {error.strerror}; retrying"
                ) from None
        return damaged

    def add(self, identity: str) -> Kept:
        """Return a new sandbox, still without keeper and record."""
        kept = Kept(self._loop, identity, self._folder / identity, self._on_change, self._on_loss)
        self._kept[identity] = kept
        return kept

    def discard(self, kept: Kept) -> None:
        """Forget a sandbox that never came to be; its keeper ends with its only connection."""
        kept.disconnect()
        self.remove(kept, lambda _: None)

    def remove_unused_groups(self) -> None:
        """Remove cgroups of sandboxes that never came to be."""
        for place in self._places():
            cgroup.sweep(place, tuple(self._kept))

    def close(self) -> None:
        """Leave all keepers to themselves."""
        self.remove_unused_groups()
        for kept in self._kept.values():
            kept.disconnect()

    def _check_adopted(self) -> None:
        if self._adopted or any(
            (k.is_joining and not k.trouble) or k.is_settling for k in self._kept.values()
        ):
            return
        self._give_up_adopting()

    def _give_up_adopting(self) -> None:
        self._adopted = True
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()

    def _set_aside(self, kept: Kept, why: str) -> None:
        del self._kept[kept.id]
        aside = self.run / "damaged"
        try:
            aside.mkdir(mode=0o700, exist_ok=True)
            kept.folder.rename(aside / kept.id)
            for old in sorted(aside.iterdir(), key=lambda p: p.stat().st_mtime)[:-MAX_DAMAGED]:
                shutil.rmtree(old, ignore_errors=True)
        except OSError as error:
            why += f" (and it cannot be moved to {aside}: {error.strerror})"
        self.damaged.append(why)

    # -- changes

    def _refresh(self, kept: Kept) -> Uid | None:
        """Drop what was built from an older record; return the pod's UID."""
        if kept.record is None:
            return None
        uid = kept.record.sandbox.spec.uid
        self._pods.pop(uid, None)
        for row in kept.record.containers:
            self._container_ids[row.id] = kept.id
        return uid

    def _on_change(self, kept: Kept) -> None:
        uid = self._refresh(kept)
        if uid is not None:
            self._notify(uid)
        if not self._adopted:
            self._check_adopted()

    def changed(self, kept: Kept) -> None:
        """Show a record that the driver itself has changed."""
        self._on_change(kept)

    def _on_loss(self, kept: Kept) -> None:
        if kept.id in self._removing:
            # The removal waits for the end of the process.
            return
        self._settle(kept)

    # -- keepers that died

    def _settle(self, kept: Kept) -> None:
        record = kept.record
        if record is None:
            kept.fail_all(
                Failure(
                    kind=FailureKind.UNAVAILABLE,
                    message=f"the keeper of sandbox {kept.id} could not be started: {kept.fatal or self._last_error(kept) or 'it ended at once'}",
                )
            )
            self._kept.pop(kept.id, None)
            shutil.rmtree(kept.folder, ignore_errors=True)
            self._remove_groups_of(kept.id)
            self._check_adopted()
            return
        if record.sandbox.state == "stopped":
            self._finish_settling(kept, record)
            return
        kept.is_settling = True
        begun = bool(self._settling)
        self._settling[kept.id] = time.monotonic() + SETTLE_LIMIT_S
        if not begun:
            self._kill_leftovers()

    def _kill_leftovers(self) -> None:
        """Kill the remaining processes of dead keepers, in one scan of all processes; repeat until none is left."""
        now = time.monotonic()
        try:
            left = self._left_behind()
            alive = {i for i in self._settling if self._kept[i].keeper_is_alive()}
        except OSError:
            # The processes cannot be listed: none is taken for gone.
            self._settling = dict.fromkeys(self._settling, now + SETTLE_LIMIT_S)
            self._loop.after(LOOK_AGAIN_S, self._kill_leftovers)
            return
        for identity, limit in list(self._settling.items()):
            kept = self._kept[identity]
            pids = left.get(identity, [])
            if (pids or identity in alive) and now < limit:
                for seen in pids:
                    process.kill_exactly(seen)
                continue
            del self._settling[identity]
            kept.is_settling = False
            if kept.record is not None:
                self._finish_settling(
                    kept, records.abandoned(kept.record, time.time_ns(), self._obituary(kept))
                )
        if self._settling:
            self._loop.after(0.01, self._kill_leftovers)
        self._check_adopted()

    def _left_behind(self) -> dict[str, list[process.ProcessStat]]:
        boot = process.boot_id()
        here = [
            k for i in self._settling if (k := self._kept[i]).record is not None and k.record.boot == boot
        ]
        found: dict[str, list[process.ProcessStat]] = {}
        if not here:
            # After a restart of the machine, process ids in older records belong to other processes.
            return found
        wanted = {k.id for k in here}
        pids: dict[int, str] = {}
        for kept in here:
            for group in kept.record.cgroups if kept.record else ():
                cgroup.kill(group)
                pids |= dict.fromkeys(cgroup.members(group), kept.id)
        for pid in process.all_pids():
            mark, _ = process.marks(pid)
            if mark in wanted:
                pids[pid] = mark
        for pid, identity in pids.items():
            for number in (pid, *process.descendants(pid)):
                seen = process.look(number)
                if seen is not None and seen.state not in "ZX" and number != os.getpid():
                    found.setdefault(identity, []).append(seen)
        return found

    def _obituary(self, kept: Kept) -> str:
        if kept.record is not None and kept.record.boot != process.boot_id():
            return "the machine was restarted while it ran; how it ended is not known"
        text = "the keeper process of its pod ended unexpectedly; how the container ended is not known"
        words = self._last_error(kept)
        return f"{text} ({words})" if words else text

    def _last_error(self, kept: Kept) -> str:
        """Return why a keeper ended by a bug or a lack, if it could still write that down."""
        try:
            lines = (kept.folder / store.CRASH).read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""

    def _finish_settling(self, kept: Kept, record: records.SandboxRecord) -> None:
        kept.is_joining = False
        for group in record.cgroups:
            cgroup.remove(group)
        kept.record = record
        self._store(kept)
        self._on_change(kept)
        kept.fail_all(
            Failure(
                kind=FailureKind.UNAVAILABLE, message=f"the keeper of sandbox {kept.id} ended during the call"
            )
        )

    def _store(self, kept: Kept) -> None:
        """Write the last record of a dead keeper to disk: no other process has it."""
        if kept.record is None or self._kept.get(kept.id) is not kept or kept.id in self._removing:
            return
        try:
            if not kept.is_stored():
                kept.save(kept.record)
        except OSError:
            self._loop.after(STORE_AGAIN_S, lambda: self._store(kept))

    # -- removal

    def remove(self, kept: Kept, then: Gone) -> None:
        """Remove the traces of a sandbox whose keeper is gone or going; `then` follows when none is left."""
        waiting = self._removing.setdefault(kept.id, [])
        waiting.append(then)
        if len(waiting) == 1:
            self._remove_step(kept, time.monotonic() + REMOVE_LIMIT_S, 0.001)

    def _remove_step(self, kept: Kept, limit: float, pause_s: float) -> None:
        rest = ""
        if kept.is_settling or self._may_live(kept):
            rest = f"keeper process {kept.keeper.pid if kept.keeper else ''} is still there".replace(
                "  ", " "
            )
        elif not self._remove_groups_of(kept.id, kept.record.cgroups if kept.record else ()):
            rest = "its cgroup still holds processes"
        else:
            shutil.rmtree(kept.folder, ignore_errors=True)
            if kept.folder.exists():
                rest = f"{kept.folder} cannot be removed"
        if rest and time.monotonic() < limit:
            self._loop.after(pause_s, lambda: self._remove_step(kept, limit, min(0.05, pause_s * 2)))
            return
        waiting = self._removing.pop(kept.id)
        failure = None
        if rest:
            failure = Failure(
                kind=FailureKind.UNAVAILABLE, message=f"sandbox {kept.id} is not removed yet: {rest}"
            )
        else:
            kept.disconnect()
            self._kept.pop(kept.id, None)
            uid = self._refresh(kept)
            for row in kept.record.containers if kept.record else ():
                self._container_ids.pop(row.id, None)
            if uid is not None:
                self._notify(uid)
        for then in waiting:
            then(failure)

    def _may_live(self, kept: Kept) -> bool:
        try:
            return kept.keeper_is_alive()
        except OSError:
            return True

    def _remove_groups_of(self, identity: str, groups: tuple[str, ...] = ()) -> bool:
        mine = {group for group in groups if group.endswith("/" + identity)}
        mine.update(f"{place}/{identity}" for place in self._places())
        left = [group for group in sorted(mine) if not cgroup.remove(group)]
        return not left


def _require_own(folder: Path) -> None:
    """Refuse a folder that another user could have put there, or a link to elsewhere."""
    seen = folder.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid():
        raise DeniedError(
            f"the embedded runtime's folder {folder} is not a folder of user {os.geteuid()}; remove it or "
            "choose another --root-dir"
        )
