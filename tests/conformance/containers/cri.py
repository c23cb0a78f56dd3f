"""The CRI driver in the suite, on a private containerd that all tests of a session share: busybox scripts as containers."""

import shlex
import signal
import tempfile
from pathlib import Path
from typing import assert_never

from api.ports.confinement import NamespaceMode, Namespaces
from api.ports.runtime import RuntimeContainer
from runtime.drivers.cri.driver import CriRuntime
from tests.conformance.containers.driver import Driver
from tests.conformance.containers.script import (
    DieBySignal,
    ExitWith,
    IgnoreTerm,
    Missing,
    Print,
    Run,
    Script,
    SleepThenExit,
    SlowTerm,
)
from tests.harness.cri.containerd import Containerd
from tests.harness.cri.image import BUSYBOX_NAME
from tests.harness.part import containerd_folder

SHARED: dict[str, tuple[Containerd, tempfile.TemporaryDirectory]] = {}


def shared(version: str) -> Containerd:
    """Return the session's containerd of this version, started with the first use."""
    if version not in SHARED:
        programs = containerd_folder(version)
        folder = tempfile.TemporaryDirectory(prefix="nodeagent-suite-")
        SHARED[version] = (Containerd(Path(folder.name), programs).start(), folder)
    return SHARED[version][0]


def clean_up_shared() -> None:
    """End every containerd of the session and leave nothing of it."""
    while SHARED:
        _, (runtime, folder) = SHARED.popitem()
        try:
            runtime.clean_up()
        finally:
            folder.cleanup()


class CriDriver(Driver):
    scheme = "containerd://"
    image = BUSYBOX_NAME
    shows_signals = False
    escalates_after_cancel = False

    def __init__(self, folder: Path, version: str) -> None:
        super().__init__(folder)
        self.containerd = shared(version)
        self.socket = self.containerd.socket
        self._open()

    def command_for(self, script: Script) -> tuple[tuple[str, ...], tuple[str, ...]]:
        match script:
            case Run():
                # Process number 1 is not ended by a signal that it leaves alone.
                text = "trap 'exit 143' TERM; sleep 1000000 & wait $!"
            case ExitWith(code=code):
                text = f"exit {code}"
            case SleepThenExit(seconds=seconds, code=code):
                text = f"sleep {seconds}; exit {code}"
            case IgnoreTerm():
                text = "trap '' TERM; echo ready; exec sleep 1000000"
            case SlowTerm(seconds=seconds, code=code):
                text = f"trap 'sleep {seconds}; exit {code}' TERM; sleep 1000000 & echo ready; wait $!"
            case DieBySignal(signal=signal):
                text = f"kill -{signal} $$"
            case Missing():
                return ("no-such-program",), ()
            case Print(lines=lines):
                echo = (
                    f"echo {shlex.quote(text)} >&{1 if stream == 'stdout' else 2}" for stream, text in lines
                )
                text = "; sleep 0.05; ".join(echo)
            case _:
                assert_never(script)
        return ("/bin/sh", "-c"), (text,)

    def amounts(self, container: RuntimeContainer) -> tuple[int, int, int]:
        shown = container.resources
        groups = cgroups_of(container.pid)
        real = tuple(
            int(Path(f"/sys/fs/cgroup/{controller}{groups[controller]}/{name}").read_text())
            for controller, name in (
                ("cpu", "cpu.cfs_quota_us"),
                ("cpu", "cpu.shares"),
                ("memory", "memory.limit_in_bytes"),
            )
        )
        assert shown is not None
        assert (shown.cpu_quota_us, shown.cpu_shares, shown.memory_limit_bytes) == real
        return real

    def listens(self, container: RuntimeContainer) -> bool:
        # Process number 1 of a namespace loses a SIGTERM that it has no handler for yet.
        status = Path(f"/proc/{container.pid}/status").read_text()
        caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
        return bool(int(caught.split()[1], 16) & 1 << (signal.SIGTERM - 1))

    def fields_for(self, script: Script) -> dict[str, object]:
        # Process number 1 of a namespace cannot be killed from within it.
        shares = isinstance(script, DieBySignal)
        return {"namespaces": Namespaces(pid=NamespaceMode.POD)} if shares else {}

    def sandbox_fields(self) -> dict[str, object]:
        return {"cgroup_parent": f"{self.containerd.cgroup_root}/suite"}

    def reopen(self) -> None:
        self.runtime.close()
        self._open()

    def close(self) -> None:
        self.runtime.close()

    def _open(self) -> None:
        self.runtime = CriRuntime(endpoint=self.containerd.endpoint)


def cgroups_of(pid: int) -> dict[str, str]:
    """Return the path of a process in each hierarchy of cgroup version 1, by controller."""
    rows = (line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines())
    return {controller: path for _, controllers, path in rows for controller in controllers.split(",")}
