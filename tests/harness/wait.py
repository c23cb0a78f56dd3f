"""Waiting in tests: for a condition on a level, with a deadline, never for time to pass."""

import threading
import time


def until(condition, what, deadline_s=20.0, seen=None, every_s=0.03):
    """Wait for a condition on a level and return its value; `seen` describes what there was instead."""
    end = time.monotonic() + deadline_s
    pause = threading.Event()
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s:g} s: {what}\n{seen() if seen else ''}")
        pause.wait(every_s)
    return found
