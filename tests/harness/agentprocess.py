"""The real agent as a subprocess on folders of its own, watched from outside: its admin socket and /proc.

Everything that belongs to it is found by one mark, the name of its embedded runtime's cgroup, which nursery and keepers
carry in their command line: nothing of another agent on the machine is ever counted, or ended.
"""

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

from runtime.cli.client import Client, VerbError

REPOSITORY = Path(__file__).parents[2]
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PATIENCE_S = 60.0

MANIFEST = """apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: bench}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: nodeagent.local/host
    command: [sh, -c, exec sleep 600]
"""
CONFIGURATION = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
podLogsDir: {logs}
healthzPort: 0
"""


def wait_for(what: str, found: Callable[[], Any], every_s: float = 0.002, limit_s: float = PATIENCE_S) -> Any:
    """Return what `found` returns as soon as it is true. Ends the bench past the limit, saying `what` did not come."""
    until, pause = time.monotonic() + limit_s, Event()
    while not (answer := found()):
        if time.monotonic() > until:
            raise SystemExit(f"bench: {what}: not within {limit_s:.0f} s")
        pause.wait(every_s)
    return answer


class AgentProcess:
    """One agent on the embedded runtime; `close` leaves no process, cgroup or file."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="nodeagent-bench-"))
        self.root, self.manifests, self.stage = (
            self.folder / name for name in ("root", "manifests", "stage")
        )
        for folder in (self.root, self.manifests, self.stage):
            folder.mkdir()
        configuration = self.folder / "config.yaml"
        configuration.write_text(CONFIGURATION.format(logs=self.folder / "logs"))
        digest = hashlib.sha256(os.fsencode(self.root.resolve())).hexdigest()[:12]
        self.mark = f"nodeagent-{digest}"
        self.client = Client(str(self.root / "nodeagent.sock"))
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(
                        sys.executable,
                        "-m",
                        "actors.main",
                        "run",
                        "--config",
                        configuration,
                        "--root-dir",
                        self.root,
                    ),
                    *("--pod-manifest-path", self.manifests, "--container-runtime-endpoint", "embedded"),
                ],
                cwd=REPOSITORY,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    # ------------------------------------------------------------ what the agent says

    def pods(self) -> list[dict[str, Any]] | None:
        """Return the agent's pods, None while it does not answer yet."""
        if self.process.poll() is not None:
            raise SystemExit(f"bench: the agent ended: {(self.folder / 'log').read_text()[-2000:]}")
        try:
            return self.client.get(dict[str, Any], ("pods",))[0].get("items", [])
        except VerbError:
            return None

    def running(self, restarts: int = 0) -> int:
        """Return how many pods have their container running after so many restarts, as the agent says."""
        return sum(
            "running" in status.get("state", {}) and status.get("restartCount", 0) >= restarts
            for pod in self.pods() or ()
            for status in pod["status"].get("containerStatuses", ())
        )

    # ------------------------------------------------------------ manifests

    def write(self, names: list[str]) -> None:
        """Put the manifests of these pods into the folder at once, each whole when it appears."""
        for name in names:
            (self.stage / f"{name}.yaml").write_text(MANIFEST.format(name=name))
        for name in names:
            (self.stage / f"{name}.yaml").rename(self.manifests / f"{name}.yaml")

    def withdraw(self, names: list[str]) -> None:
        """Remove the manifests of these pods."""
        for name in names:
            (self.manifests / f"{name}.yaml").unlink()

    # ------------------------------------------------------------ what the machine says

    def keepers(self) -> list[int]:
        """Return the nursery and the keepers."""
        return [pid for pid in all_pids() if self.mark.encode() in read(f"/proc/{pid}/cmdline").split(b"\0")]

    def containers(self) -> list[int]:
        """Return the first process of each container: what a keeper has started, and what runs its command already."""
        keepers = set(self.keepers())
        return [
            pid
            for pid in all_pids()
            if pid not in keepers
            and parent(pid) in keepers
            and read(f"/proc/{pid}/cmdline").startswith(b"sleep\0")
        ]

    def cpu_s(self) -> float:
        """Return the CPU seconds of the agent itself so far."""
        fields = stat_fields(self.process.pid)
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def resident_bytes(self) -> int:
        """Return the agent's resident set."""
        return rollup(self.process.pid, "Rss")

    def keepers_private_bytes(self) -> int:
        """Return what nursery and keepers share with nobody."""
        return sum(rollup(pid, "Private_Clean", "Private_Dirty") for pid in self.keepers())

    # ------------------------------------------------------------ the end

    def stop(self) -> None:
        """Stop the agent itself; pods keep running."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15.0)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(5.0)

    def close(self) -> tuple[str, ...]:
        """End and remove whatever is left; return what should have been gone without that."""
        self.stop()
        # The nursery leaves by itself when its agent has.
        left = wait_quietly(self.keepers)
        for pid in (*left, *(child for child in all_pids() if parent(child) in left)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_quietly(self.keepers)
        groups = wait_quietly(self.cgroups)
        for group in sorted(groups, reverse=True):
            with contextlib.suppress(OSError):
                group.rmdir()
        shutil.rmtree(self.folder, ignore_errors=True)
        return (*(f"process {pid}" for pid in left), *(f"cgroup {group}" for group in groups))

    def cgroups(self) -> list[Path]:
        """Return every cgroup of the embedded runtime of this agent."""
        tops = (*Path("/sys/fs/cgroup").glob(self.mark), *Path("/sys/fs/cgroup").glob(f"*/{self.mark}"))
        return [Path(at) for top in tops for at, _, _ in os.walk(top)]


def wait_quietly(found: Callable[[], list[Any]], limit_s: float = 3.0) -> list[Any]:
    """Wait until `found` finds nothing; return what it still finds at the limit."""
    until, pause = time.monotonic() + limit_s, Event()
    while (left := found()) and time.monotonic() < until:
        pause.wait(0.02)
    return left


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  # names are all we want


def read(path: str) -> bytes:
    """Return a file of /proc, empty when its process is gone."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def stat_fields(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat behind the command, the state first; empty when it is gone."""
    return read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def parent(pid: int) -> int:
    fields = stat_fields(pid)
    return int(fields[1]) if fields else 0


def started_at(pid: int) -> float:
    """Return when a process was started, on the clock of `time.clock_gettime(CLOCK_BOOTTIME)`; 10 ms exact."""
    fields = stat_fields(pid)
    return int(fields[19]) / TICKS_PER_S if fields else 0.0


def rollup(pid: int, *names: str) -> int:
    """Return a sum of lines of a process's memory figures, in bytes."""
    wanted = {f"{name}:".encode() for name in names}
    lines = [line.split() for line in read(f"/proc/{pid}/smaps_rollup").splitlines()]
    return sum(int(line[1]) * 1024 for line in lines if line and line[0] in wanted)
