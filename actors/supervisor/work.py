"""One turn of the supervisor: the pods that it touches, and what follows for others when one of them changes.

```text
changed by a message --+
due by the agenda -----+--> queue, as they came --> attended, each once
of a changed one's name+
```

Pod entries change only by `put` or `drop`, which keep the index up to date and queue the entries that it concerns.
So a turn costs what it touches, however many pods there are.
"""

from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush

import msgspec

from actors.rules.agenda import Entry
from actors.rules.membership import sort_member
from actors.supervisor.standing import (
    active_pod,
    admitted,
    is_active,
    is_cleanable,
    is_ending,
    is_leaving,
    is_unanswered,
    is_unheard,
    is_waiting,
    stake,
)
from actors.supervisor.state import Index, PodEntry, SupervisorState
from api.ids import Instant, Uid
from api.lifecycle import Action
from api.messages.eviction import ActivePod

QUESTIONS: tuple[tuple[str, Callable[[PodEntry], bool]], ...] = (
    ("unanswered", is_unanswered),
    ("unheard", is_unheard),
    ("waiting", is_waiting),
    ("leaving", is_leaving),
    ("cleanable", is_cleanable),
)


class Work:
    """Entries and actions as one turn collects them; lives no longer than that turn."""

    def __init__(self, state: SupervisorState) -> None:
        self.entries: dict[Uid, PodEntry] = dict(state.entries)
        self.actions: list[Action] = []
        self.wakes: list[Instant] = []
        """When the next turn is due at the latest, for other reasons than an entry."""
        self.looks: list[Instant] = []
        """When the current entry is due again at the latest."""
        self.looks_due: list[Entry] = []
        """When entries are due: what the agenda does not have yet."""
        self.strays_due = state.due.strays
        self.later: dict[Uid, PodEntry | None] = {}
        """Whom the next turn looks at."""
        self.dropped: list[Uid] = []
        self.names: Mapping[str, tuple[Uid, ...]] = state.index.names
        self.members: dict[str, Mapping[Uid, None]] = {
            name: getattr(state.index, name) for name, _ in QUESTIONS
        }
        self.active: Mapping[Uid, ActivePod] = state.index.active
        self._kept = state.index
        self._before: dict[Uid, PodEntry | None] = {}
        """How the last turn left those that have changed since."""
        self._queue: list[tuple[int, Uid]] = []
        self._queued: set[Uid] = set()
        self._passed: tuple[int, Uid] | None = None
        self._over = False
        for uid, before in state.touched.items():
            after = self.entries.get(uid)
            self._note(uid, before, after)
            if after is not None:
                self.queue(uid)

    # ------------------------------------------------------------ changes

    def put(self, entry: PodEntry) -> None:
        """Have this entry in place of the UID's last, and have it attended."""
        before = self.entries.get(entry.uid)
        self.entries[entry.uid] = entry
        self._note(entry.uid, before, entry)
        self.queue(entry.uid)

    def settle(self, entry: PodEntry) -> None:
        """Have this entry, which was attended, in place of the UID's last."""
        before = self.entries[entry.uid]
        if entry is not before:
            self.entries[entry.uid] = entry
            self._note(entry.uid, before, entry)

    def drop(self, uid: Uid) -> None:
        """Forget a pod."""
        self._note(uid, self.entries.pop(uid), None)
        self.dropped.append(uid)

    def _note(self, uid: Uid, before: PodEntry | None, after: PodEntry | None) -> None:
        if before is after:
            return
        self._before.setdefault(uid, before)
        if stake(before) != stake(after):
            if (
                before is None
                or after is None
                or (before.desired.pod is None) is not (after.desired.pod is None)
            ):
                self.strays_due = True
            self._rename(uid, before, after)
            for one in (before, after):
                for rival in self.names.get(one.full_name, ()) if one is not None else ():
                    if rival != uid:
                        self.queue(rival)
        sort_member(self.members, self._kept, QUESTIONS, uid, after)
        self._show(uid, before, after)

    def _show(self, uid: Uid, before: PodEntry | None, after: PodEntry | None) -> None:
        shown = active_key(after)
        if shown is not None and uid in self.active and active_key(before) == shown:
            return
        if shown is None and uid not in self.active:
            return
        changed = dict(self.active) if self.active is self._kept.active else self.active
        assert isinstance(changed, dict)
        pod = active_pod(after) if after is not None else None
        if pod is None:
            del changed[uid]
        else:
            changed[uid] = pod
        self.active = changed

    def _rename(self, uid: Uid, before: PodEntry | None, after: PodEntry | None) -> None:
        old = before.full_name if before is not None else None
        new = after.full_name if after is not None else None
        if old == new:
            return
        names = dict(self.names) if self.names is self._kept.names else self.names
        assert isinstance(names, dict)
        if old is not None:
            left = tuple(one for one in names[old] if one != uid)
            if left:
                names[old] = left
            else:
                del names[old]
        if new is not None:
            names[new] = (*names.get(new, ()), uid)
        self.names = names

    # ------------------------------------------------------------ whose turn it is

    def queue(self, uid: Uid) -> None:
        """Have a pod attended: in this turn, or in the next one when its place has been passed."""
        entry = self.entries.get(uid)
        if entry is None or uid in self._queued:
            return
        place = (entry.desired.order, uid)
        if self._over or (self._passed is not None and place <= self._passed):
            self.later[uid] = entry
            return
        self._queued.add(uid)
        heappush(self._queue, place)

    def attended(self) -> Iterator[PodEntry]:
        """Yield those who are to be attended, in the order in which they came."""
        while self._queue:
            self._passed = place = heappop(self._queue)
            self._queued.discard(place[1])
            entry = self.entries.get(place[1])
            if entry is not None:
                yield entry
        self._over = True

    def changed_rows(self, row_of: Callable[[PodEntry], object]) -> list[Uid]:
        """Return whose row is another one than after the last turn."""
        changed = []
        for uid, before in self._before.items():
            after = self.entries.get(uid)
            if before is after:
                continue
            if before is None or after is None or row_of(before) != row_of(after):
                changed.append(uid)
        return changed

    def namesakes(self, entry: PodEntry) -> tuple[PodEntry, ...]:
        """Return those who have the name of `entry`, itself among them."""
        return tuple(self.entries[uid] for uid in self.names.get(entry.full_name, ()))

    def index(self) -> Index:
        """Return the index as this turn leaves it."""
        return msgspec.structs.replace(self._kept, names=self.names, active=self.active, **self.members)


def active_key(entry: PodEntry | None) -> tuple[object, ...] | None:
    """Return what makes an active pod another one than before, None for a pod that is not active."""
    answer = admitted(entry) if entry is not None else None
    if entry is None or answer is None or not is_active(entry):
        return None
    return (entry.desired.revision, is_ending(entry), answer.allocated)
