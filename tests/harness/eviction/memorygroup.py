"""A real memory cgroup of a test, with a limit, and programs that take memory inside; nothing of it is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from runtime.drivers.host.usage.usagegroup import Hierarchies
from tests.harness.part import need
from tests.harness.wait import until

TAKE = """
import os, sys
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
held = []
print("in", flush=True)
for line in sys.stdin:
    held = [bytearray(b"x") * (int(line) << 20)] if int(line) else []
    print("held", flush=True)
"""


class MemoryGroup:
    """A version 1 memory cgroup directly below the root."""

    def __init__(self, limit_mib: int) -> None:
        need("root")
        root = Hierarchies().root("memory")
        if root is None or root.v2:
            pytest.skip("needs the memory hierarchy of cgroup version 1, whole: boot with it")
        self.name = f"/nodeagent-test-{uuid.uuid4().hex[:12]}"
        self.folder = Path(root.folder + self.name)
        self._limit_mib = limit_mib
        self._takers: list[subprocess.Popen[str]] = []
        self.make()

    def make(self) -> None:
        """Make the cgroup."""
        self.folder.mkdir()
        (self.folder / "memory.limit_in_bytes").write_text(str(self._limit_mib << 20))

    def taker(self) -> subprocess.Popen[str]:
        """Start a program inside that holds as many MiB as each line of its input says."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        taker = subprocess.Popen([sys.executable, "-c", TAKE, str(self.folder)], **pipes)
        self._takers.append(taker)
        assert taker.stdout.readline() == "in\n"
        return taker

    def take(self, taker: subprocess.Popen[str], mib: int) -> bool:
        """Have it hold so many MiB; return False when it was killed for that."""
        taker.stdin.write(f"{mib}\n")
        return taker.stdout.readline() == "held\n"

    def remove(self) -> None:
        """End everything inside and remove the cgroup."""
        for taker in self._takers:
            taker.kill()
            taker.wait()
            taker.stdin.close()
            taker.stdout.close()
        self._takers = []
        if not self.folder.exists():
            return
        for pid in (self.folder / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        until(self._gone, f"{self.folder} is removed")

    def _gone(self) -> bool:
        try:
            self.folder.rmdir()
        except OSError:
            return False
        return True
