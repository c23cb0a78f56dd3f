"""LeaseManager's lines for the log: once per change."""

from collections.abc import Mapping

import msgspec

from actors.lease.state import LeaseState


class LeaseLogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log."""

    text: str
    facts: Mapping[str, object] = {}
    warning: bool = False


def report(before: LeaseState, after: LeaseState) -> tuple[LeaseLogLine, ...]:
    """Return what changed between two states."""
    lines = []
    if after.failure is not None and after.failure != before.failure and before.exchange is not None:
        facts = {"cannot": before.exchange.step.value, "why": after.failure.message}
        lines.append(LeaseLogLine(text="request about the node's lease failed", facts=facts, warning=True))
    if after.renewed_at is not None and before.renewed_at is None:
        lines.append(LeaseLogLine(text="node lease is renewed"))
    elif after.failure is None and before.failure is not None:
        lines.append(LeaseLogLine(text="node lease is renewed again"))
    return tuple(lines)
