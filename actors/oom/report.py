"""What OomWatcher tells the operator's log, the events of the node, and who asks whether the kernel is heard."""

from collections.abc import Mapping

import msgspec

from actors.oom.state import AttributedKill, OomState, Toll
from actors.rules.subscription import newly_failed
from api.ids import Uid, WallNs

NS = 1_000_000_000


class OomLogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log, always a warning."""

    text: str
    facts: Mapping[str, object] = {}


def report(before: OomState, after: OomState) -> tuple[OomLogLine, ...]:
    """Return what became true between two states; what repeats is told again each time its count has doubled."""
    lines = []
    if newly_failed(before.subscription, after.subscription):
        instead = "what the containers' cgroups count"
        lines.append(
            OomLogLine(
                text="kernel log is not heard", facts={"why": after.subscription.why, "instead": instead}
            )
        )
    known = {one.message: one.count for one in before.happenings}
    for fact in after.happenings:
        if fact.count != known.get(fact.message) and is_power_of_two(fact.count):
            told_of = {"reason": fact.reason, "message": fact.message, "count": fact.count}
            lines.append(OomLogLine(text="node event", facts=told_of))
    told = {(one.uid, one.container): one.kills for one in before.tolls}
    lines += [
        OomLogLine(text="container was short of memory", facts=toll_facts(toll, after.kills))
        for toll in after.tolls
        if toll.kills > told.get((toll.uid, toll.container), 0) and is_news(toll, told)
    ]
    return tuple(lines)


def is_power_of_two(count: int) -> bool:
    """Tell whether a count has just doubled."""
    return not count & (count - 1)


def is_news(toll: Toll, told: Mapping[tuple[Uid, str], int]) -> bool:
    """Tell whether the kills of a container have doubled since they were told last."""
    return toll.kills.bit_length() > told.get((toll.uid, toll.container), 0).bit_length()


def toll_facts(toll: Toll, kills: tuple[AttributedKill, ...]) -> Mapping[str, object]:
    """Return what is told of a container's kills, with the last one where it is known."""
    name = f"{toll.namespace}/{toll.pod}/{toll.container}"
    facts: dict[str, object] = {"container": name, "kills": toll.kills}
    last = next((one.kill for one in reversed(kills) if one.container == name), None)
    if last is not None:
        facts.update(process=last.process, pid=last.pid, limit_of=last.group)
    return facts


def kill_lines(state: OomState, wall: WallNs) -> tuple[str, ...]:
    """Return the last kills in words, newest first."""
    rows = reversed((*state.kills, *state.open))
    return tuple(
        f"{seen.container or seen.kill.victim_group}: {seen.kill.process} ({seen.kill.pid}),"
        f" {(wall - seen.at) / NS:.0f} s ago, {limit_of(seen)}"
        for seen in rows
    )


def limit_of(seen: AttributedKill) -> str:
    """Return whose want of memory a kill was for."""
    return "the machine had none left" if seen.kill.is_system else f"limit of {seen.kill.group}"


def notice(state: OomState) -> str:
    """Return why kills are not heard of at once, empty where they are."""
    if state.subscription.is_open or not state.subscription.why:
        return ""
    return f"kills for want of memory are counted by cgroup only, and none of the machine's own is told: {state.subscription.why}"
