"""The CRI driver in the suite, on personalities: servers that differ as containerd 2 and CRI-O do, over host processes."""

from pathlib import Path

from runtime.drivers.cri.driver import CriRuntime
from tests.conformance.containers.driver import Driver
from tests.conformance.containers.embedded import EmbeddedDriver
from tests.conformance.containers.script import Script
from tests.harness.cri.cripersonality import IMAGE, Personality
from tests.harness.cri.critrait import Traits


class PersonalityDriver(Driver):
    image = IMAGE
    shows_signals = False

    def __init__(self, folder: Path, traits: Traits) -> None:
        super().__init__(folder)
        self.scheme = f"{traits.name}://"
        self.escalates_after_cancel = traits.short_stop_shortens
        self.personality = Personality(folder, traits)
        self.personality.server.start()
        self.socket = self.personality.endpoint.removeprefix("unix://")
        self._open()

    def command_for(self, script: Script) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return EmbeddedDriver.command_for(self, script)

    def reopen(self) -> None:
        self.runtime.close()
        self._open()

    def close(self) -> None:
        self.runtime.close()
        self.personality.close()

    def _open(self) -> None:
        self.runtime = CriRuntime(endpoint=self.personality.endpoint)
