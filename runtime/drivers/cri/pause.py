"""A pause between two inspections, without a blocked thread."""

from api.ports.port import Undo
from runtime.drivers.cri.opencall import Answer, nothing
from runtime.net.loop import Loop


class Pause:
    """So many seconds; the answer is None."""

    def __init__(self, loop: Loop, seconds: float) -> None:
        self._loop, self._seconds = loop, seconds

    def begin(self, left_s: float, answer: Answer) -> Undo:
        """Answer on the loop's thread, at the latest when the time is up."""
        self._loop.after(min(left_s, self._seconds), lambda: answer(None, None))
        return nothing
