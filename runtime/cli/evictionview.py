"""``explain eviction``: pressure, thresholds, the next eviction action, the rank of each pod."""

import argparse
import sys
from collections.abc import Iterator

from api.shown.evictionrow import EvictionRow, RankingRow, ThresholdRow
from runtime.cli.client import Client
from runtime.cli.podview import print_json
from runtime.cli.table import Column, Screen, TableCell, age, screen_of, size, table, wrapped

UNKNOWN = "-"


def eviction(args: argparse.Namespace, client: Client) -> int:
    """Carry out ``nodeagent explain eviction``."""
    found, raw = client.get(EvictionRow, ("eviction",))
    if args.output == "json":
        return print_json(raw)
    sys.stdout.write(explanation(found, screen_of(), dry_run=args.dry_run))
    return 0


def explanation(found: EvictionRow, screen: Screen, *, dry_run: bool) -> str:
    """Return the state of eviction as text; `dry_run`: also the ranking for signals that are not short."""
    return "\n".join(_lines(found, screen, dry_run=dry_run)) + "\n"


def _lines(found: EvictionRow, screen: Screen, *, dry_run: bool) -> Iterator[str]:
    yield from wrapped("Now", found.doing, screen)
    for at, line in enumerate(found.conditions or ("none",)):
        style = "warn" if found.conditions else ""
        yield from wrapped("Pressure" if at == 0 else "", line, screen, style)
    yield from wrapped(
        "Usage", "not read yet" if found.usage_age_s is None else f"read {age(found.usage_age_s)} ago", screen
    )
    yield from wrapped("Kernel", found.kernel, screen)
    for at, line in enumerate(found.problems):
        yield from wrapped("Problems" if at == 0 else "", line, screen, "bad")
    for at, line in enumerate(found.over_limit):
        yield from wrapped("Over limit" if at == 0 else "", line, screen, "bad")
    yield ""
    if found.thresholds:
        yield threshold_table(found.thresholds, screen).rstrip("\n")
    else:
        yield "no thresholds configured: only local storage limits of pods are enforced"
    for signals, ranking in alike(found.short_of):
        yield from _ranking(f"order of eviction for {' and '.join(signals)}:", ranking, screen)
    for signals, ranking in alike(found.if_short if dry_run else ()):
        yield from _ranking(f"order of eviction if {' or '.join(signals)} were short:", ranking, screen)
    if not found.short_of and not dry_run and found.thresholds:
        yield ""
        yield screen.paint("--dry-run shows the order of eviction for every signal", "faint")
    yield from _happened(found, screen)


def _happened(found: EvictionRow, screen: Screen) -> Iterator[str]:
    for at, victim in enumerate(found.victims):
        if at == 0:
            yield ""
        text = (
            f"{victim.pod} for {victim.signal}, {age(victim.ago_s)} ago: {victim.message} -> {victim.outcome}"
        )
        yield from wrapped("Evicted" if at == 0 else "", text, screen)
    for at, line in enumerate(found.oom_kills):
        if at == 0:
            yield ""
        yield from wrapped("OOM kills" if at == 0 else "", line, screen)


def alike(rankings: tuple[RankingRow, ...]) -> Iterator[tuple[list[str], RankingRow]]:
    """Yield rankings with their signals; rankings with the same pods in the same order are merged."""
    left = list(rankings)
    while left:
        first = left[0]
        same = [one for one in left if (one.is_bytes, one.pods) == (first.is_bytes, first.pods)]
        left = [one for one in left if one not in same]
        yield [one.signal for one in same], first


def _ranking(title: str, ranking: RankingRow, screen: Screen) -> Iterator[str]:
    yield ""
    yield screen.paint(title, "strong")
    yield ranking_table(ranking, screen).rstrip("\n") if ranking.pods else "no active pods"


def threshold_table(thresholds: tuple[ThresholdRow, ...], screen: Screen) -> str:
    """Return a table of thresholds and readings."""
    columns = (
        Column("SIGNAL", least=10),
        Column("THRESHOLD", right=True),
        Column("KIND"),
        Column("MINIMUM", right=True),
        Column("RECLAIM TO", right=True),
        Column("AVAILABLE", right=True),
        Column("OF", right=True),
        Column("READ", right=True),
        Column("MET", right=True),
    )
    rows: list[tuple[TableCell | str, ...]] = [
        (
            one.signal,
            one.value,
            f"soft {age(one.grace_s)}" if one.grace_s else "hard",
            amount(one.least, is_bytes=one.is_bytes),
            amount(one.enough, is_bytes=one.is_bytes),
            amount(one.available, is_bytes=one.is_bytes),
            amount(one.capacity, is_bytes=one.is_bytes),
            "not read" if one.age_s is None else f"{age(one.age_s)} ago",
            TableCell("no" if one.met_s is None else age(one.met_s), "" if one.met_s is None else "bad"),
        )
        for one in thresholds
    ]
    return table(columns, rows, screen)


def ranking_table(ranking: RankingRow, screen: Screen) -> str:
    """Return the pods of a ranking, in its order."""
    columns = (
        Column("POD", least=12),
        Column("USES", right=True),
        Column("REQUESTS", right=True),
        Column("PRIORITY", right=True),
        Column("VERDICT", least=10),
    )
    rows: list[tuple[TableCell | str, ...]] = [
        (
            one.pod,
            amount(one.used, is_bytes=ranking.is_bytes),
            amount(one.requested, is_bytes=ranking.is_bytes),
            str(one.priority),
            TableCell(one.verdict, "warn" if one.verdict == "next" else ""),
        )
        for one in ranking.pods
    ]
    return table(columns, rows, screen)


def amount(number: int | None, *, is_bytes: bool) -> str:
    """Format bytes or a count; a dash for an unknown number."""
    if number is None:
        return UNKNOWN
    return size(number) if is_bytes else str(number)
