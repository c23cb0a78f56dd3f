"""The embedded runtime in the suite: shell scripts as real processes of this machine."""

import shlex
from pathlib import Path
from typing import assert_never

import msgspec

from api.ports.runtime import HOST_IMAGE, ListPods, PodListing, RemoveSandbox
from runtime.drivers.embedded.driver import EmbeddedRuntime
from tests.conformance.containers.driver import Driver, Pending
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


class EmbeddedDriver(Driver):
    has_streams = False
    scheme = "embedded://"
    image = f"{HOST_IMAGE}:latest"
    confines = False

    def __init__(self, folder: Path, *, cgroups: bool = True) -> None:
        super().__init__(folder)
        self.root = folder / "root"
        self._cgroups = cgroups
        self._open()

    def command_for(self, script: Script) -> tuple[tuple[str, ...], tuple[str, ...]]:
        match script:
            case Run():
                text = "exec sleep 1000000"
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

    def reopen(self) -> None:
        self.runtime.close()
        self._open()

    def close(self) -> None:
        self.reopen()
        listing = self._call(ListPods())
        assert isinstance(listing, PodListing)
        for pod in listing.pods:
            for sandbox in pod.sandboxes:
                self._call(RemoveSandbox(uid=pod.uid, sandbox_id=sandbox.id))
        self.runtime.close()
        assert list((self.root / "run" / "sandboxes").iterdir()) == []

    def _open(self) -> None:
        self.runtime = EmbeddedRuntime(root=str(self.root), cgroups=self._cgroups)

    def _call(self, call: msgspec.Struct) -> msgspec.Struct:
        pending = Pending()
        self.runtime.begin(call, 20.0, pending.done)
        while not pending.ended:
            self.let_time_pass(1.0)
        return pending.result
