"""The runtime's own events, where it has them: hints that something of a pod changed, and nothing more.

containerd 1.6 does not know the call; CRI-O with its events switched off ends the stream at once, again and again. Both
lose nothing: exits are watched by `runtime.drivers.cri.watch`, everything else is found by listings.
"""

import time
from collections.abc import Callable

from api.errors import Failure
from api.ids import Uid
from api.ports.port import Undo
from runtime.drivers.cri.link import Channels
from runtime.drivers.cri.opencall import nothing
from runtime.net.loop import Loop
from runtime.wire import cri
from runtime.wire.generated import cri_pb2 as pb
from runtime.wire.status import BROKEN, UNIMPLEMENTED

BARREN_STREAMS = 5
"""So many streams in a row that end without an event: this runtime has none to give."""
FIRST_DELAY_S, LAST_DELAY_S = 0.5, 10.0
URGENT = frozenset({pb.CONTAINER_STOPPED_EVENT, pb.CONTAINER_DELETED_EVENT})
SETTLED_S = 30.0
"""A stream that lasted so long counts as working, also without an event."""


class EventFollower:
    """Keeps a stream of events open as long as that makes sense. `start` may be called again and again."""

    def __init__(
        self,
        link: Channels,
        loop: Loop,
        now: Callable[[Uid], None],
        soon: Callable[[Uid], None],
    ) -> None:
        self._link, self._loop, self._now, self._soon = link, loop, now, soon
        self.given_up = ""
        """Why no events are followed any more."""
        self._started = False
        self._closed = False
        self._barren = 0
        self._delay_s = FIRST_DELAY_S
        self._fruitful = False
        self._opened_at = 0.0
        self._undo: Undo = nothing

    def start(self) -> None:
        """Begin to follow."""
        self._loop.submit(self._start)

    def close(self) -> None:
        """End the stream."""
        self._closed = True
        self._undo()

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._open()

    def _open(self) -> None:
        if self._closed:
            return
        self._fruitful = False
        self._opened_at = time.monotonic()

        def ended(failure: Failure | None) -> None:
            self._loop.submit(lambda: self._ended(failure))

        self._undo = self._link.channel.follow(cri.EVENTS, pb.GetEventsRequest(), self._take, ended)

    def _take(self, event: pb.ContainerEventResponse) -> None:
        """Slot an event into a hint, on the stream's own thread."""
        self._fruitful = True
        uid = event.pod_sandbox_status.metadata.uid
        if not uid:
            # Its pod is unknown without it; the next listing finds it.
            return
        if event.container_event_type in URGENT:
            self._now(Uid(uid))
        else:
            self._soon(Uid(uid))

    def _ended(self, failure: Failure | None) -> None:
        if self._closed:
            return
        if failure is not None and failure.reason == UNIMPLEMENTED:
            self.given_up = "this runtime offers no events"
            return
        worked = self._fruitful or time.monotonic() - self._opened_at >= SETTLED_S
        # A runtime that does not answer may still have events.
        away = failure is not None and failure.reason == BROKEN
        self._barren = 0 if worked else self._barren + (not away)
        self._delay_s = FIRST_DELAY_S if worked else min(self._delay_s * 2, LAST_DELAY_S)
        if self._barren >= BARREN_STREAMS:
            self.given_up = "this runtime ends the stream of its events at once: they are switched off there"
            return
        self._loop.after(self._delay_s, self._open)
