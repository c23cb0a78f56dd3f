"""A command run in a container's context (an exec): its output, its limit, its deadline."""

from __future__ import annotations

import binascii
import os

from runtime.drivers.embedded.keeper import process
from runtime.drivers.embedded.keeper.container import Asker, KeptContainer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

READ_BYTES = 64 << 10


class Command:
    """One running exec; owner of its pipes."""

    def __init__(self, asker: Asker, container: KeptContainer, limit_bytes: int, kill_at: float) -> None:
        self.asker = asker
        self.container = container
        self.kill_at = kill_at
        """Monotonic instant at which it is killed."""
        self.pid = 0
        self.timed_out = False
        self.cancelled = False
        self.pipes: dict[int, bytearray] = {}
        self._limit = limit_bytes
        self._truncated = False

    def start(self, launch: process.Launch) -> None:
        """Start the process. Raises what `process.spawn` raises."""
        self.pid, pipes = process.spawn(launch)
        self.pipes = {pipe: bytearray() for pipe in pipes}
        for pipe in pipes:
            os.set_blocking(pipe, False)

    def read(self, pipe: int) -> bool:
        """Read output from one pipe, keep what the limit allows; return False when there is none left now."""
        try:
            data = os.read(pipe, READ_BYTES)
        except BlockingIOError:
            return False
        kept = self.pipes[pipe]
        room = self._limit - len(kept)
        kept += data[:room]
        self._truncated = self._truncated or len(data) > room
        return bool(data)

    def finish(self, status: int) -> dict[str, Any]:
        """Return the answer for a process that ended with `status`; children it left keep running, unheard."""
        outputs = []
        for pipe in list(self.pipes):
            for _ in range(64):
                if not self.read(pipe):
                    break
            os.close(pipe)
            outputs.append(binascii.b2a_base64(bytes(self.pipes[pipe]), newline=False).decode())
        self.pipes = {}
        code, _ = process.exit_of(status)
        return {"exit_code": code, "stdout": outputs[0], "stderr": outputs[1], "truncated": self._truncated}
