"""ApiEventWriter's lines for the log, and its metrics."""

from collections.abc import Mapping

import msgspec

from actors.apievents.state import ApiEventState
from api.shown.metric import Family, MetricKind, Sample


class ApiEventLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log."""

    text: str
    facts: Mapping[str, object] = {}
    warning: bool = False


def report(before: ApiEventState, after: ApiEventState) -> tuple[ApiEventLine, ...]:
    """Return log lines: for another answer that refuses than the last, for the first success after one, for lost events.

    That the server cannot be reached is said by those who need it more.
    """
    lines = []
    old, new = before.failure, after.failure
    if new is not None and new.reason and (old is None or (new.kind, new.message) != (old.kind, old.message)):
        facts = {"why": new.message, "waiting": len(after.waiting)}
        lines.append(ApiEventLine(text="event not written to the API server", facts=facts, warning=True))
    elif new is None and old is not None and old.reason:
        lines.append(ApiEventLine(text="events are written to the API server again"))
    for cause, count in msgspec.structs.asdict(after.dropped).items():
        if cause != "spam" and count > getattr(before.dropped, cause) and not count & (count - 1):
            lines.append(
                ApiEventLine(text="events dropped", facts={"cause": cause, "count": count}, warning=True)
            )
    return tuple(lines)


def families(state: ApiEventState) -> list[Family]:
    """Return the metrics of events: written, waiting and dropped."""
    dropped = tuple(
        Sample(float(count), (("cause", cause),))
        for cause, count in msgspec.structs.asdict(state.dropped).items()
    )
    prefix = "nodeagent_api_events"
    return [
        Family(
            name=f"{prefix}_written_total",
            kind=MetricKind.COUNTER,
            help="Requests that wrote an event to the API server",
            samples=(Sample(float(state.written)),),
        ),
        Family(
            name=f"{prefix}_waiting",
            kind=MetricKind.GAUGE,
            help="Events to be written",
            samples=(Sample(float(len(state.waiting))),),
        ),
        Family(
            name=f"{prefix}_dropped_total",
            kind=MetricKind.COUNTER,
            help="Events that were not written, by cause",
            samples=dropped,
        ),
    ]
