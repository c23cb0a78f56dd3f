"""ApiStatusWriter's lines for the log, and its metrics."""

from collections.abc import Mapping

import msgspec

from actors.apistatus.state import ApiStatusEntry, ApiStatusState
from api.messages.apistatus import ApiStatusMessage
from api.messages.kernel import KernelMessage, Outcome
from api.shown.metric import Family, MetricKind, Sample

PREFIX = "nodeagent_pod_status_write"


class ApiStatusLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log."""

    text: str
    facts: Mapping[str, object] = {}
    warning: bool = False


def report(
    before: ApiStatusState, after: ApiStatusState, message: ApiStatusMessage | KernelMessage
) -> tuple[ApiStatusLine, ...]:
    """Return log lines for what a call's end changed: the first failure of a pod in a row, and another one than the last."""
    uid = before.calls.get(message.op) if isinstance(message, Outcome) else None
    old, new = (before.pods.get(uid), after.pods.get(uid)) if uid is not None else (None, None)
    if old is None or new is None:
        return ()
    facts: dict[str, object] = {"pod": full_name(old)}
    if new.failure is not None and (
        old.failure is None
        or (new.failure.kind, new.failure.message) != (old.failure.kind, old.failure.message)
    ):
        facts |= {"why": new.failure.message}
        return (ApiStatusLine(text="status of pod not written to the API server", facts=facts, warning=True),)
    if new.ended and not old.ended:
        return (ApiStatusLine(text="deleted pod ended", facts=facts),)
    return ()


def full_name(entry: ApiStatusEntry) -> str:
    """Return ``namespace/name``, the UID for a pod without one."""
    if entry.own is not None:
        return f"{entry.own.namespace}/{entry.own.name}"
    if entry.target is not None:
        return f"{entry.target.metadata.namespace}/{entry.target.metadata.name}"
    return entry.uid


def families(state: ApiStatusState) -> list[Family]:
    """Return the metrics of writes: how long a new version took to be on the API server, and what waits."""
    told = state.summary
    lacking = sum(
        one.own is not None and one.target is not None and one.number < one.own.number
        for one in state.pods.values()
    )
    values: tuple[tuple[str, MetricKind, str, float], ...] = (
        ("seconds_count", MetricKind.COUNTER, "Versions of pod statuses that were written", told.count),
        ("seconds_sum", MetricKind.COUNTER, "Seconds from a version to its write, summed up", told.sum_s),
        ("seconds_max", MetricKind.GAUGE, "The longest of them", told.max_s),
        ("seconds_last", MetricKind.GAUGE, "The last of them", told.last_s),
        ("failures_total", MetricKind.COUNTER, "Calls that failed", told.failures),
        ("pods_waiting", MetricKind.GAUGE, "Pods whose newest status is not on the API server", lacking),
    )
    return [
        Family(name=f"{PREFIX}_{name}", kind=kind, help=text, samples=(Sample(value),))
        for name, kind, text, value in values
    ]
