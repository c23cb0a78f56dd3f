"""Probes of the simulation's pods, and how their containers answer: what a probe asks says how it is answered.

The path of a GET, the service of a health check and the argument of a command hold a word:

```text
well    all is well
ill     it never is
flaky   it is ill or well or silent, by seed and time, until the world is healed; then it is well
```
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from zlib import crc32

from api.kube.objects.container import Probe as Asked
from api.ports.net import AnyNetCall, GrpcHealth, HttpGet
from runtime.drivers.memory.behaviour import Behaviour, ProcessExit
from runtime.drivers.memory.net import Peer

CALM_AT = 600.0
"""Virtual seconds from when on flaky containers are well: the end of the faults."""
SPELL_S = 7.0
PORT = 8080
FIELDS = ("startupProbe", "livenessProbe", "readinessProbe")

Probe = tuple[str, str, str, int, int]
"""Field, way, word, period and failure threshold."""


def draw_probes(random: Random) -> tuple[Probe, ...]:
    """Draw the probes of one container: none for most."""
    probes = []
    for field in FIELDS:
        if random.random() >= 0.3:
            continue
        words = ("well", "flaky") if field == "startupProbe" else ("well", "well", "flaky", "flaky", "ill")
        way = random.choice(("exec", "httpGet", "httpGet", "grpc"))
        threshold = random.choice((1, 2, 3))
        probes.append((field, way, random.choice(words), random.choice((4, 8, 15)), threshold))
    return tuple(probes)


def document(probes: tuple[Probe, ...]) -> dict[str, object]:
    """Return the fields of a container."""
    return {field: shape(way, word, period, threshold) for field, way, word, period, threshold in probes}


def shape(way: str, word: str, period: int, threshold: int) -> dict[str, object]:
    """Return one probe."""
    pace = {"periodSeconds": period, "failureThreshold": threshold, "timeoutSeconds": 1}
    match way:
        case "exec":
            return {"exec": {"command": ["probe", word]}, **pace}
        case "grpc":
            return {"grpc": {"port": PORT, "service": word}, **pace}
        case _:
            return {"httpGet": {"port": PORT, "path": f"/{word}"}, **pace}


def word_of(probe: Asked | None) -> str:
    """Return the word that a probe holds, empty for no probe."""
    if probe is None:
        return ""
    if probe.exec is not None:
        return probe.exec.command[-1]
    if probe.grpc is not None:
        return probe.grpc.service
    assert probe.http_get is not None
    return probe.http_get.path.removeprefix("/")


class Answers:
    """Answers probes, as containers of this seed's world would."""

    def __init__(self, seed: int, now: Callable[[], float]) -> None:
        self._seed, self._now = seed, now

    def state(self, word: str, who: str) -> str:
        """Return how a container is now: ``well``, ``ill``, ``silent`` or ``away``."""
        if word != "flaky":
            return word
        now = self._now()
        if now >= CALM_AT:
            return "well"
        spell = crc32(f"{self._seed}/{who}/{now // SPELL_S}".encode()) % 10
        return {7: "ill", 8: "silent", 9: "away"}.get(spell, "well")

    def peer(self, host: str, _port: int, call: AnyNetCall) -> Peer | None:
        """Return who answers a conversation."""
        word = call.service if isinstance(call, GrpcHealth) else ""
        word = call.path.removeprefix("/") if isinstance(call, HttpGet) else word
        match self.state(word, host):
            case "well":
                return Peer(grpc=isinstance(call, GrpcHealth), serving=((word, "SERVING"),))
            case "ill":
                return Peer(status=500, grpc=isinstance(call, GrpcHealth), serving=((word, "NOT_SERVING"),))
            case "silent":
                return Peer(deaf=True)
            case _:
                return None

    def command(self, name: str, command: tuple[str, ...]) -> Behaviour:
        """Return how a command in a container goes."""
        match self.state(command[-1], name):
            case "well":
                return Behaviour(ends_after_s=0.02)
            case "ill":
                return Behaviour(ends_after_s=0.02, ending=ProcessExit(code=1, reason="Error"))
            case "silent":
                return Behaviour()
            case _:
                return Behaviour(cannot_start="no such program: 'probe'")
