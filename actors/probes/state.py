r"""What the Prober knows: one worker for each probe of each running instance, and when each is due.

```text
          +--------------- closed: the container has not started yet
          v                         |
new --> waiting --due--> (queued, exec only) --> asking --verdict--> waiting
                                                    |  \__ error: up to 3 tries at once
                                                    v
                              held: liveness failed, startup decided; until another instance
```
"""

from collections.abc import Mapping

import msgspec

from api.ids import Instant, OpId, Uid
from api.messages.pod import ProbeResult, ProbeTrouble
from api.messages.probes import ProbeKind, ProbePlan, ProbeTarget


class ProbeKey(msgspec.Struct, frozen=True, order=True):
    """Which probe: of which container of which pod."""

    uid: Uid
    container: str
    kind: ProbeKind


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """One probe of one instance."""

    place: ProbeKey
    container_id: str
    plan: ProbePlan
    not_before: Instant
    """When the initial delay is over."""
    result: ProbeResult
    due: Instant | None = None
    """When it is asked next; None while it is held, gated, queued or being asked."""
    op: OpId | None = None
    asked_at: Instant = 0.0
    """When the check under way, or the last one, was due."""
    queued: bool = False
    held: bool = False
    tries: int = 0
    """Of the check under way: how many ended in an error."""
    run: int = 0
    """Equal answers in a row, the last one being `well`."""
    well: bool | None = None
    failures: int = 0
    failing_since: Instant | None = None
    checked: int = 0
    trouble: ProbeTrouble = ProbeTrouble.NONE
    message: str = ""


class PodProbes(msgspec.Struct, frozen=True, kw_only=True):
    """What is probed of one pod."""

    targets: tuple[ProbeTarget, ...] = ()
    workers: tuple[Worker, ...] = ()

    def worker(self, container: str, kind: ProbeKind) -> Worker | None:
        """Return one of the pod's workers."""
        for worker in self.workers:
            if worker.place.container == container and worker.place.kind is kind:
                return worker
        return None


class ProberState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the Prober knows."""

    deadline_s: float = 120.0
    """How long the runtime may take beyond a command's own time."""
    exec_limit: int = 32
    """Commands that run at the same time, for all pods."""
    exec_limit_of_pod: int = 8
    """The same for one pod: a pod whose commands hang must not delay the probes of all others."""
    began_at: Instant = 0.0
    seed: int = 0
    pods: Mapping[Uid, PodProbes] = {}
    agenda: tuple[tuple[Instant, ProbeKey], ...] = ()
    """Who is due when, ascending."""
    queue: tuple[ProbeKey, ...] = ()
    """Commands that wait for one of those under way to end, first come first served."""
    execs: int = 0
    """Commands under way."""
    flights: Mapping[OpId, ProbeKey] = {}
    leftover: frozenset[OpId] = frozenset()
    """Calls of an earlier incarnation, whose end teaches nothing."""
