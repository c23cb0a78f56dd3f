"""Waiting a moment between two looks, without holding a thread."""

from api.ports.port import Undo
from runtime.drivers.cri.errand import Answer, nothing
from runtime.drivers.cri.poller import Poller


class Pause:
    """So many seconds; the answer is None."""

    def __init__(self, poller: Poller, seconds: float) -> None:
        self._poller, self._seconds = poller, seconds

    def begin(self, left_s: float, answer: Answer) -> Undo:
        """Answer on the poller's thread, at the latest when the time is up."""
        self._poller.after(min(left_s, self._seconds), lambda: answer(None, None))
        return nothing
