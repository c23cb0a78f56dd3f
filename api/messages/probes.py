"""Messages to Prober, which runs the probes of containers.

Sent by: PodActors (`ProbePod`). Order: per sender. Delivery: a level, the newest wins; PodActors repeat it to a new
incarnation and about once a minute. Each is answered with `ProbeChanged` for all that is known of the pod's containers,
so a lost answer is repaired too.
"""

from enum import StrEnum

import msgspec

from api.ids import Uid, WallNs
from api.messages import Message
from api.ports.net import GrpcHealth, HttpGet, TcpConnect
from api.ports.runtime import ExecInContainer


class ProbeKind(StrEnum):
    """What a probe decides."""

    STARTUP = "Startup"
    LIVENESS = "Liveness"
    READINESS = "Readiness"


ProbeCall = ExecInContainer | HttpGet | TcpConnect | GrpcHealth


class ProbePlan(msgspec.Struct, frozen=True, kw_only=True):
    """One probe of a container: what to ask, how often, and how many answers count."""

    kind: ProbeKind
    call: ProbeCall | None = None
    """None when it cannot be asked: then `problem` says why."""
    problem: str = ""
    initial_delay_s: int = 0
    period_s: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3


class ProbeTarget(msgspec.Struct, frozen=True, kw_only=True):
    """One running instance of a container and its probes."""

    container: str
    container_id: str
    started_at: WallNs | None = None
    started: bool = False
    """What is published of it now; what a probe begins with."""
    ready: bool = False
    probes: tuple[ProbePlan, ...] = ()


class ProbePod(Message, frozen=True, kw_only=True):
    """All probes of a pod: what is not named any more is not probed any more."""

    uid: Uid
    targets: tuple[ProbeTarget, ...] = ()

    def brief(self) -> str:
        """Return one line for traces."""
        names = " ".join(f"{t.container}={'+'.join(p.kind for p in t.probes)}" for t in self.targets)
        return f"ProbePod {self.uid} {names or 'none'}"

    def conflation_key(self) -> str | None:
        """Keep the newest of each pod."""
        return f"probe:{self.uid}"


ProbesMessage = ProbePod
