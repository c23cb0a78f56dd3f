"""The user's terminal while a command in a container has it: raw, and given back on every way out.

A signal that ends the verb becomes an exception, so that the terminal is set back before the process ends.
"""

import contextlib
import os
import signal
import termios
import tty
from collections.abc import Iterator

import msgspec

ENDING = (signal.SIGTERM, signal.SIGHUP)


class EndedBySignalError(Exception):
    """A signal ended the verb."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by signal {number}")
        self.number = number


class Size(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """A window's size in characters, as the resize stream takes it."""

    width: int
    height: int


def size_of(fd: int) -> Size | None:
    """Return the size of a terminal, None when it has none."""
    try:
        found = os.get_terminal_size(fd)
    except OSError:
        return None
    return Size(width=found.columns, height=found.lines) if found.columns and found.lines else None


@contextlib.contextmanager
def raw(fd: int, *, keys: bool) -> Iterator[None]:
    """Print raw output; with `keys` also pass raw input; restore the terminal afterwards.

    What was typed ahead stays, and setting back does not wait for output that a stopped terminal does not take.
    """
    before = termios.tcgetattr(fd)
    if keys:
        tty.setraw(fd, termios.TCSANOW)
    else:
        termios.tcsetattr(fd, termios.TCSANOW, [before[0], before[1] & ~termios.OPOST, *before[2:]])
    try:
        yield
    finally:
        # The terminal itself may be gone.
        with contextlib.suppress(termios.error):
            termios.tcsetattr(fd, termios.TCSANOW, before)


@contextlib.contextmanager
def ending_signals() -> Iterator[None]:
    """Let `EndedBySignalError` be raised by the signals that would end the process at once: not by those it ignores, as after nohup."""

    def end(number: int, _frame: object) -> None:
        raise EndedBySignalError(number)

    numbers = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = [(number, signal.signal(number, end)) for number in numbers]
    try:
        yield
    finally:
        for number, old in before:
            signal.signal(number, old)


@contextlib.contextmanager
def window_changes() -> Iterator[int]:
    """Give a file descriptor that becomes readable when the window has another size; read it empty each time."""
    told, tell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.signal(signal.SIGWINCH, lambda _number, _frame: None)
    woken = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    try:
        yield told
    finally:
        signal.set_wakeup_fd(woken)
        signal.signal(signal.SIGWINCH, before)
        os.close(told)
        os.close(tell)


def drain(fd: int) -> None:
    """Read a descriptor of `window_changes` empty."""
    with contextlib.suppress(BlockingIOError):
        while os.read(fd, 512):
            pass
