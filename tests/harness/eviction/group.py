"""Real cgroups of a test's own, as a runtime lays them out for pods, with processes in them; nothing is left afterwards."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Self

from runtime.drivers.host.usage.usagegroup import CONTROLLERS, V2, Hierarchies
from tests.harness.wait import until


class Groups:
    """A folder ``name`` in each hierarchy that counts something; a context."""

    def __init__(self, name: str) -> None:
        self.name = f"{name}-{os.getpid()}"
        mounts = Hierarchies().mounts
        kinds = [kind for kind in CONTROLLERS if kind in mounts] or [V2]
        self.roots = {kind: Path(mounts[kind].point) / self.name for kind in kinds if kind in mounts}
        self.processes: list[subprocess.Popen[bytes]] = []

    def why_not(self) -> str:
        """Return why this machine has no cgroups for a test, empty when it has."""
        if os.geteuid() != 0:
            return "cgroups of a test's own need root"
        if not set(CONTROLLERS) <= set(self.roots):
            return "needs the v1 controllers cpuacct, memory and pids"
        return ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
        for process in self.processes:
            process.wait(20)
        for root in self.roots.values():
            until(lambda root=root: self._removed(root), f"{root} is removed")  # type: ignore[misc]

    @staticmethod
    def _removed(root: Path) -> bool:
        with contextlib.suppress(OSError):
            for folder, _, _ in os.walk(root, topdown=False):
                Path(folder).rmdir()
        return not root.exists()

    def folder(self, kind: str, path: str) -> Path:
        """Return the folder of a cgroup in one hierarchy."""
        return self.roots[kind] / path

    def run(self, path: str, *words: str) -> int:
        """Run a command in the cgroup `path` of every hierarchy; return its pid."""
        for kind in self.roots:
            self.folder(kind, path).mkdir(parents=True, exist_ok=True)
        joins = "".join(f"echo $$ > {self.folder(kind, path)}/cgroup.procs; " for kind in self.roots)
        process = subprocess.Popen(("sh", "-c", f'{joins} exec "$@"', "sh", *words))
        self.processes.append(process)
        first = next(iter(self.roots))
        procs = self.folder(first, path) / "cgroup.procs"
        until(lambda: str(process.pid) in procs.read_text().split(), "the process is in its cgroup")
        return process.pid
