"""Calls that a runtime answers as done without carrying them out, and the count of equal calls, which must not come hot."""

from __future__ import annotations

from collections import deque
from random import Random

import msgspec

from api.ids import Uid
from api.ports.runtime import RemoveContainer, RemoveSandbox, StopContainer, StopSandbox

ENDING = (StopSandbox, RemoveSandbox, RemoveContainer)
"""Calls that a runtime may answer with NotFound, which is done, while its listing goes on showing what they ended."""
HOT_CALLS = 7
HOT_WINDOW_S = 1.0
"""Waits of 0, 0.25, 0.5 s allow four equal calls within this; an actor that begins again meanwhile a few more."""


class IdleSpells:
    """When which calls have no effect, drawn for one seed: its last spell is over with the faults."""

    def __init__(self, seed: int, until: float) -> None:
        random = Random(f"{seed}/idle calls")
        self._until = until
        self._spells = [
            (random.choice(ENDING), start := random.uniform(0.0, until), start + random.uniform(2.0, 60.0))
            for _ in range(random.randint(0, 6))
        ]

    def ignores(self, call: msgspec.Struct, now: float) -> bool:
        """Tell whether this call is answered as done and not carried out."""
        return now < self._until and any(
            isinstance(call, kind) and start <= now < end for kind, start, end in self._spells
        )


class Pace:
    """Counts equal calls on pods in one life of the agent; `hot` has a sentence for each that came too often."""

    def __init__(self) -> None:
        self.hot: list[str] = []
        self._lately: dict[tuple[Uid, msgspec.Struct], deque[float]] = {}

    def begin(self) -> None:
        """Begin another life of the agent, which knows of no call of the last one."""
        self._lately.clear()

    def note(self, uid: Uid, call: msgspec.Struct, now: float) -> None:
        """Count a call, which is equal to another one whatever grace it gives."""
        same = msgspec.structs.replace(call, grace_s=0.0) if isinstance(call, StopContainer) else call
        made = self._lately.setdefault((uid, same), deque(maxlen=HOT_CALLS))
        made.append(now)
        if len(made) == HOT_CALLS and now - made[0] < HOT_WINDOW_S:
            self.hot.append(f"pod {uid}: {HOT_CALLS} equal calls within {now - made[0]:.2f} s: {same}")
