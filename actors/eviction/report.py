"""What EvictionManager tells the operator's log, and the events of the node."""

from collections.abc import Mapping

import msgspec

from actors.eviction.state import Clearing, EvictionState, Reclaiming
from actors.rules.subscription import newly_failed


class EvictionLogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log."""

    text: str
    facts: Mapping[str, object] = {}
    warning: bool = False


def report(before: EvictionState, after: EvictionState) -> tuple[EvictionLogLine, ...]:
    """Return what became true between two states."""
    lines = []
    for pressure in sorted({*before.conditions, *after.conditions}):
        if (pressure in before.conditions) != (pressure in after.conditions):
            begins = pressure in after.conditions
            text = "node is under pressure" if begins else "node is under pressure no more"
            lines.append(EvictionLogLine(text=text, facts={"condition": pressure.value}, warning=begins))
    for kind, what in (
        (Clearing, "what is kept of ended pods is to be removed"),
        (Reclaiming, "unused images are to be removed"),
    ):
        if isinstance(after.doing, kind) and not isinstance(before.doing, kind):
            lines.append(EvictionLogLine(text=what, facts={"signal": after.doing.signal.value}))
    known = {(one.uid, one.asked_at): one for one in before.victims}
    for victim in after.victims:
        facts = {"pod": victim.name, "signal": victim.signal}
        earlier = known.get((victim.uid, victim.asked_at))
        if earlier is None:
            told = {**facts, "message": victim.message.strip(), "grace_s": victim.grace_s}
            lines.append(EvictionLogLine(text="pod has to go", facts=told, warning=True))
        elif victim.outcome != earlier.outcome:
            lines.append(EvictionLogLine(text="pod was evicted", facts={**facts, "outcome": victim.outcome}))
    if after.note and after.note != before.note:
        lines.append(EvictionLogLine(text="nothing can be evicted", facts={"why": after.note}, warning=True))
    lines += [
        EvictionLogLine(text="reading refused", facts={"why": why}, warning=True)
        for why in after.absurd
        if why not in before.absurd
    ]
    if newly_failed(before.subscription, after.subscription):
        facts = {"why": after.subscription.why}
        lines.append(EvictionLogLine(text="memory is looked at in rounds only", facts=facts, warning=True))
    return tuple(lines)
