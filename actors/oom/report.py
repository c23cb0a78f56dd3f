"""OomWatcher's lines for the log, for ``explain eviction`` and for the health check ``oom``."""

from collections.abc import Mapping

import msgspec

from actors.oom.state import AttributedKill, OomCount, OomState
from actors.rules.subscription import newly_failed
from api.ids import Uid, WallNs

NS = 1_000_000_000


class OomLogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log, always a warning."""

    text: str
    facts: Mapping[str, object] = {}


def report(before: OomState, after: OomState) -> tuple[OomLogLine, ...]:
    """Return log lines for the changes between two states; repeated events each time their count doubles."""
    lines = []
    if newly_failed(before.subscription, after.subscription):
        instead = "counters of the containers' cgroups"
        lines.append(
            OomLogLine(
                text="kernel log not readable", facts={"why": after.subscription.why, "instead": instead}
            )
        )
    known = {one.message: one.count for one in before.node_events}
    for fact in after.node_events:
        if fact.count != known.get(fact.message) and is_power_of_two(fact.count):
            facts = {"reason": fact.reason, "message": fact.message, "count": fact.count}
            lines.append(OomLogLine(text="node event", facts=facts))
    known_kills = {(one.uid, one.container): one.kills for one in before.oom_counts}
    lines += [
        OomLogLine(text="container OOM kill", facts=count_facts(row, after.kills))
        for row in after.oom_counts
        if row.kills > known_kills.get((row.uid, row.container), 0) and has_doubled(row, known_kills)
    ]
    return tuple(lines)


def is_power_of_two(count: int) -> bool:
    """Return whether a count has just doubled."""
    return not count & (count - 1)


def has_doubled(row: OomCount, known: Mapping[tuple[Uid, str], int]) -> bool:
    """Return whether the kills of a container have doubled since the last log line."""
    return row.kills.bit_length() > known.get((row.uid, row.container), 0).bit_length()


def count_facts(row: OomCount, kills: tuple[AttributedKill, ...]) -> Mapping[str, object]:
    """Return the log fields of a container's OOM count, with the last kill if known."""
    name = f"{row.namespace}/{row.pod}/{row.container}"
    facts: dict[str, object] = {"container": name, "kills": row.kills}
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
    """Return which limit was reached."""
    return "system OOM" if seen.kill.is_system else f"limit of {seen.kill.group}"


def notice(state: OomState) -> str:
    """Return why the kernel's log cannot be read, empty where it can."""
    if state.subscription.is_open or not state.subscription.why:
        return ""
    return f"OOM kills are counted by cgroup only, and system OOMs are not reported: {state.subscription.why}"
