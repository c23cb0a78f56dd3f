"""What UsageManager tells the operator's log: a part that can not be read any more, and one that can again."""

from collections.abc import Mapping

import msgspec

from actors.usage.state import UsageState


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log."""

    text: str
    facts: Mapping[str, object] = {}
    warning: bool = False


def report(before: UsageState, after: UsageState) -> tuple[Line, ...]:
    """Return what became true of the parts as a whole; what is wrong with one row is in the usage itself."""
    lines = [
        Line(text="usage can not be read", facts={"what": part.value, "why": why}, warning=True)
        for part, why in sorted(after.failed.items())
        if part not in before.failed
    ]
    lines += [
        Line(text="usage is read again", facts={"what": part.value})
        for part in sorted(before.failed)
        if part not in after.failed
    ]
    lines += [
        Line(text="usage reading refused", facts={"what": part.value, "why": "; ".join(whys)}, warning=True)
        for part, whys in sorted(after.refused.items())
        if part not in before.refused
    ]
    return tuple(lines)
