"""The way to the API server as the world breaks it: outages, watches that hang, boots in the dark."""

from __future__ import annotations

from random import Random

from api.ids import Uid
from api.ports.runtime import RuntimeContainerState
from runtime.drivers.memory.history import Happening
from tests.harness.check.clusterbook import ClusterBook
from tests.harness.world.apiserver import NOT_KNOWN, ApiServer
from tests.harness.world.hand import Hands

OUTAGES_S = (3.0, 30.0, 90.0, 200.0)
DARK_S, AGAIN_S = 200.0, 130.0
"""How long no API server answers after a boot, and within which one of the pods is started again, whatever fails meanwhile."""


class OutageHands(Hands):
    """Breaks the way to the API server, and does what `Hands` does; `book` knows what is asked of the node."""

    def __init__(self, api: ApiServer, book: ClusterBook, hands: Hands) -> None:
        super().__init__(hands.world, hands.checker, hands.random)
        self.api, self.book = api, book
        self.chance = Random(f"{hands.world.seed}/cluster hands")
        self._outages = 0

    def note(self, what: str) -> None:
        """Count an act."""
        self.checker.coverage.note("cluster", what)

    def outage(self) -> None:
        """Have the server go away for a while."""
        self.away(self.chance.choice(OUTAGES_S))

    def away(self, for_s: float) -> None:
        """Have the server go away for so long."""
        self._outages += 1
        self.api.go_away()
        self.note("outage")
        self.tell(f"the API server goes away for {for_s:g} s")
        self.at(self.world.time.now() + for_s, self.come_back)
        if self.chance.random() < 0.4:
            self.at(self.world.time.now() + for_s * self.chance.random(), self.kill_away)
        for _ in range(2):
            self.at(self.world.time.now() + for_s * self.chance.random(), self.kill_container)

    def kill_away(self) -> None:
        """Kill the agent while the server is away."""
        if self.api.down is not None:
            self.note("killed in an outage")
            self.kill_agent()

    def come_back(self) -> None:
        """Have the server answer again, once the last outage that was drawn is over."""
        self._outages -= 1
        if self.api.down is not None and not self._outages:
            self.api.come_back()
            self.tell("the API server answers again")

    def unknown_identity(self) -> None:
        """Have the server not know the node, until its identity is renewed."""
        self._outages += 1
        self.api.go_away(NOT_KNOWN)
        self.note("identity expired")
        self.tell("the identity has expired")
        self.at(self.world.time.now() + self.chance.choice((5.0, 60.0)), self.come_back)

    def hang(self) -> None:
        """Have the watches hang."""
        for_s = self.chance.choice((10.0, 60.0, 150.0))
        self.api.hang(for_s)
        self.note("watch hangs")
        self.tell(f"the watches hang for {for_s:g} s")

    def compact(self) -> None:
        """Have the watches be too old."""
        self.api.compact()
        self.note("compaction")
        self.tell("the watches are too old")

    def be_rough(self) -> None:
        """Have requests go wrong for a while."""
        self.api.rough = self.chance.choice((0.1, 0.3, 0.6, 0.9))
        self.tell(f"{self.api.rough:.0%} of requests go wrong")

        def be_well() -> None:
            self.api.rough = 0.0
            self.tell("requests go well again")

        self.at(self.world.time.now() + self.chance.choice((10.0, 40.0, 100.0)), be_well)

    def cut_api_streams(self) -> None:
        """End the streams, as a driver that is broken would."""
        for stream in (self.api.kube.pods, self.api.kube.node):
            stream.cut()
        self.tell("cut the streams of the API server")

    def boot_in_the_dark(self) -> None:
        """Cut the power while no API server answers, and for a while after that."""
        self.away(DARK_S)
        self.note("booted in an outage")
        ran = {uid for uid in self.book.plain if self.runs(uid)}
        self.reboot()
        booted_at = self.world.time.now()
        self.at(booted_at + DARK_S - 1.0, lambda: self.look_into_the_dark(ran, booted_at))

    def runs(self, uid: Uid) -> bool:
        """Tell whether a container of a pod runs."""
        containers = self.world.runtime._world.pod(uid).containers
        return any(one.state is RuntimeContainerState.RUNNING for one in containers)

    def look_into_the_dark(self, ran: set[Uid], booted_at: float) -> None:
        """Look whether pods were started that ran before the machine was booted, with no API server since."""
        now = self.world.time.now()
        left = (ran & self.book.plain) - self.book.deleted_at.keys()
        fresh = not self.world.alive or now < self.world.started_at + AGAIN_S
        if self.api.down is None or self.api.down_since > booted_at or fresh or not left:
            return
        if any(at > booted_at - AGAIN_S for at in self.checker.wall_jumps):
            # A back-off that began before the boot is counted by the wall clock.
            return
        self.note("ran again in an outage")
        history = self.world.runtime._world.history
        if not any(
            row.what is Happening.STARTED and row.uid in left and row.at > booted_at
            for row in reversed(history)
        ):
            self.checker.fail(
                "pods run again after a boot without an API server",
                f"{sorted(left)} do not after {AGAIN_S:g} s",
            )

    def jump_an_hour(self) -> None:
        """Set the wall clock an hour on, or back."""
        by_s = self.chance.choice((-3600.0, 3600.0))
        self.world.time.jump_wall(by_s)
        self.checker.wall_jumped()
        self.note("clock jumped")
        self.tell(f"wall clock {by_s:+g} s")
