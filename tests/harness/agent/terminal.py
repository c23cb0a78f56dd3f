"""A program on a terminal of its own, with a person's keys and eyes."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
from pathlib import Path

from tests.harness.wait import until

REPOSITORY = Path(__file__).parents[3]


class Terminal:
    """The command line on a terminal of its own."""

    def __init__(self, words, columns=80, lines=24):
        self.fd, inside = pty.openpty()
        self.resize(columns, lines)
        self.before = termios.tcgetattr(self.fd)
        self.seen = b""
        self.process = subprocess.Popen(
            # It makes the terminal the one that controls the process, so that a change of size is told.
            ["setsid", "--ctty", *words],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            cwd=REPOSITORY,
        )
        self._inside = inside

    def resize(self, columns, lines):
        """Give the window another size."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))

    def type(self, text):
        """Press keys."""
        os.write(self.fd, text)

    def sees(self, text):
        """Wait until the screen has shown these bytes."""
        until(lambda: self._read(text), f"{text!r} is seen", seen=lambda: repr(self.seen))

    def _read(self, text):
        while select.select([self.fd], [], [], 0)[0]:
            self.seen += os.read(self.fd, 65536)
        return text in self.seen

    def is_raw(self):
        """Tell whether keys go through as they are."""
        return not termios.tcgetattr(self.fd)[3] & (termios.ICANON | termios.ISIG | termios.ECHO)

    def close(self):
        """End it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        os.close(self.fd)
        os.close(self._inside)
