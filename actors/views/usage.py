"""Usage for users and monitoring: the last reading, never a new one."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from actors.apievents.report import families as event_families
from actors.apievents.state import ApiEventState
from actors.apistatus.report import families as status_families
from actors.apistatus.state import ApiStatusState
from actors.eviction.state import EvictionState
from actors.oom.state import OomState
from actors.supervisor.state import SupervisorState
from actors.usage.state import UsageState
from actors.views import metrics
from actors.views.summary import summary
from api import paths
from api.errors import UnavailableError
from api.ids import Instant, Path
from api.shown.introspection import ActorRow, HopRow, KernelRow
from api.shown.metric import Family, render
from api.usage import Usage


class Counted(Protocol):
    """What is needed of the actor system."""

    def list_actors(self) -> tuple[ActorRow, ...]:
        """Return every actor."""
        ...

    def summarize_actors(self) -> KernelRow:
        """Return the figures of the system."""
        ...

    def hops(self) -> tuple[HopRow, ...]:
        """Return how long each kind of hop took."""
        ...

    def dead_letter_counts(self) -> tuple[tuple[str, int], ...]:
        """Return how many dead letters there were, by reason."""
        ...

    def committed(self, path: Path) -> msgspec.Struct | None:
        """Return the last committed state of an actor."""
        ...


class UsageView:
    """The part of a `Window` that is about usage and metrics."""

    def __init__(self, system: Counted, now: Callable[[], Instant]) -> None:
        self._system, self._moment = system, now

    def usage(self) -> Usage:
        """Return the last round of usage as it was read. Raises `UnavailableError` while nothing was read yet."""
        usage = self._reader().usage
        if usage is None:
            raise UnavailableError(
                "usage was not read yet; try again in a moment, and see `nodeagent trace /node/usage`"
            )
        return usage

    def stats_summary(self, *, short: bool) -> bytes:
        """Return what node and pods use, as a kubelet's ``/stats/summary``; `short`: CPU time and memory only."""
        return summary(self.usage(), short=short)

    def metrics(self, *, resource: bool) -> bytes:
        """Return everything that is counted in Prometheus' text format; with `resource` only what pods and node use."""
        reader = self._reader()
        families = metrics.usage_families(reader.usage)
        if not resource:
            families += self._inside(reader)
        return render(families)

    def _inside(self, reader: UsageState) -> list[Family]:
        supervisor = self._system.committed(paths.PODS)
        found = self._system.committed(paths.EVICTION)
        evictor = found if isinstance(found, EvictionState) else EvictionState()
        told = self._system.committed(paths.OOM)
        watcher = told if isinstance(told, OomState) else OomState()
        entries = supervisor.entries if isinstance(supervisor, SupervisorState) else {}
        writer = self._system.committed(paths.APISTATUS)
        recorder = self._system.committed(paths.APIEVENTS)
        return [
            *(status_families(writer) if isinstance(writer, ApiStatusState) else ()),
            *(event_families(recorder) if isinstance(recorder, ApiEventState) else ()),
            *metrics.disk_families(reader.usage),
            *metrics.eviction_families(evictor.evicted.counts, evictor.pressure.conditions),
            *metrics.oom_families(reader.listed, watcher.oom_counts),
            *metrics.round_families(reader.usage, reader.rounds.took_s, self._moment()),
            *metrics.pod_families(reader.policy.node_name, reader.listed, len(entries)),
            *metrics.actor_families(self._system.list_actors(), self._system.summarize_actors()),
            *metrics.hop_families(self._system.hops(), self._system.dead_letter_counts()),
        ]

    def _reader(self) -> UsageState:
        state = self._system.committed(paths.USAGE)
        return state if isinstance(state, UsageState) else UsageState()
