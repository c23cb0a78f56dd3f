"""EvictionManager's lines for the operator's log."""

from collections.abc import Mapping

import msgspec

from actors.eviction.state import Clearing, EvictionState, KernelHints, Reclaiming
from actors.rules.subscription import newly_failed


class EvictionLogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log."""

    text: str
    facts: Mapping[str, object] = {}
    warning: bool = False


def report(before: EvictionState, after: EvictionState) -> tuple[EvictionLogLine, ...]:
    """Return log lines for the changes between two states."""
    lines = []
    was, now = before.pressure.conditions, after.pressure.conditions
    for pressure in sorted({*was, *now}):
        if (pressure in was) != (pressure in now):
            begins = pressure in now
            text = "node under pressure" if begins else "node pressure ended"
            lines.append(EvictionLogLine(text=text, facts={"condition": pressure.value}, warning=begins))
    for kind, what in (
        (Clearing, "removing containers and logs of ended pods"),
        (Reclaiming, "removing unused images"),
    ):
        if isinstance(after.doing, kind) and not isinstance(before.doing, kind):
            lines.append(EvictionLogLine(text=what, facts={"signal": after.doing.signal.value}))
    known = {(one.uid, one.asked_at): one for one in before.evicted.victims}
    for victim in after.evicted.victims:
        facts = {"pod": victim.name, "signal": victim.signal}
        earlier = known.get((victim.uid, victim.asked_at))
        if earlier is None:
            details = {**facts, "message": victim.message.strip(), "grace_s": victim.grace_s}
            lines.append(EvictionLogLine(text="evicting pod", facts=details, warning=True))
        elif victim.outcome != earlier.outcome:
            lines.append(EvictionLogLine(text="pod evicted", facts={**facts, "outcome": victim.outcome}))
    if after.note and after.note != before.note:
        lines.append(EvictionLogLine(text="no pod can be evicted", facts={"why": after.note}, warning=True))
    lines += [
        EvictionLogLine(text="reading refused", facts={"why": why}, warning=True)
        for why in after.absurd
        if why not in before.absurd
    ]
    known_of, heard = before.kernel or KernelHints(), after.kernel or KernelHints()
    if newly_failed(known_of.subscription, heard.subscription):
        facts = {"why": heard.subscription.why}
        lines.append(
            EvictionLogLine(text="no memory notifications from the kernel", facts=facts, warning=True)
        )
    return tuple(lines)
