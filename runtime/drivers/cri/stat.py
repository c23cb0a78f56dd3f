"""Container stats of the runtime: above all writable layers, which only it knows."""

from typing import Any

from api.errors import OperatingError, RejectedError
from api.ports.usage import ContainerStat, ContainerStats
from api.usage import CpuUsage, FsUsage, MemoryUsage, SwapUsage
from runtime.drivers.cri.known import Known
from runtime.drivers.cri.link import Channels
from runtime.drivers.cri.opencall import Steps
from runtime.drivers.cri.view import PodLister
from runtime.wire import cri
from runtime.wire.generated import cri_pb2 as pb
from runtime.wire.status import UNIMPLEMENTED


class StatCalls:
    """The steps of the call on stats."""

    def __init__(self, link: Channels, known: Known, view: PodLister) -> None:
        self._link, self._known, self._view = link, known, view

    def read(self) -> Steps[ContainerStats]:
        """ReadContainerStats; a runtime that does not know the call counts nothing."""
        yield from self._view.hello()
        try:
            reply = yield self._link.ask(cri.LIST_STATS, pb.ListContainerStatsRequest())
        except OperatingError as error:
            if error.reason == UNIMPLEMENTED:
                raise RejectedError("the runtime reports no container stats") from None
            raise
        rows = (row_of(stats, self._known.scheme) for stats in reply.stats if stats.attributes.id)
        return ContainerStats(rows=tuple(sorted(rows, key=lambda row: row.id)))


def row_of(stats: pb.ContainerStats, scheme: str) -> ContainerStat:
    """Return what the runtime says of one container; what it leaves out is not known."""
    cpu = memory = swap = layer = None
    total, used = _value(stats.cpu, "usage_core_nano_seconds"), _value(stats.memory, "usage_bytes")
    in_use = _value(stats.memory, "working_set_bytes")
    if total is not None and stats.cpu.timestamp:
        cpu = CpuUsage(
            at=stats.cpu.timestamp,
            clock_ns=stats.cpu.timestamp,
            total_ns=total,
            nano_cores=_value(stats.cpu, "usage_nano_cores"),
        )
    if in_use is not None:
        memory = MemoryUsage(
            at=stats.memory.timestamp,
            usage_bytes=in_use if used is None else used,
            working_set_bytes=in_use,
            available_bytes=_value(stats.memory, "available_bytes") or None,
            rss_bytes=_value(stats.memory, "rss_bytes"),
            page_faults=_value(stats.memory, "page_faults"),
            major_page_faults=_value(stats.memory, "major_page_faults"),
        )
    swapped = _value(stats.swap, "swap_usage_bytes")
    if swapped is not None:
        swap = SwapUsage(
            at=stats.swap.timestamp,
            usage_bytes=swapped,
            available_bytes=_value(stats.swap, "swap_available_bytes"),
        )
    written = _value(stats.writable_layer, "used_bytes")
    if written is not None:
        layer = FsUsage(
            at=stats.writable_layer.timestamp,
            used_bytes=written,
            inodes_used=_value(stats.writable_layer, "inodes_used"),
        )
    identity = f"{scheme}://{stats.attributes.id}"
    return ContainerStat(id=identity, cpu=cpu, memory=memory, swap=swap, layer=layer)


def _value(message: Any, field: str) -> int | None:
    """Return a wrapped number, None when it is absent: that is not 0."""
    return int(getattr(message, field).value) if message.HasField(field) else None
