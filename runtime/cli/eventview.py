"""``events``."""

import argparse
import sys
import time
from collections.abc import Iterable

import msgspec

from api.shown.introspection import EventRow
from runtime.cli.client import Client
from runtime.cli.podview import print_json
from runtime.cli.table import Column, TableCell, age, clean, screen_of, table

LOOK_S = 1.0
"""Between two polls for new events."""

Times = dict[tuple[str, str, str, str, str], int]
"""How often each event had happened when it was last printed."""


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """What ``GET /events`` returns."""

    now_ns: int
    events: tuple[EventRow, ...]


def events(args: argparse.Namespace, client: Client) -> int:
    """Carry out ``nodeagent events``."""
    query = tuple((name, value) for name, value in (("pod", args.pod), ("type", args.type)) if value)
    if args.output == "json" and not args.follow:
        with client.ask("GET", ("events",), (*query, ("format", "v1"))) as answer:
            return print_json(answer.body())
    if args.follow:
        return follow(args, client, query)
    found, _ = client.get(Events, ("events",), query)
    if not found.events:
        print(f"no events of {args.pod}" if args.pod else "no events")
        return 0
    sys.stdout.write(event_table(found.events, found.now_ns))
    return 0


def event_table(rows: Iterable[EventRow], now_ns: int) -> str:
    """Return events as a table."""
    columns = (
        Column("AGO", right=True),
        Column("TYPE"),
        Column("REASON", least=10),
        Column("POD", least=16),
        Column("CONTAINER", least=9, optional=True),
        Column("TIMES", right=True),
        Column("MESSAGE", least=24),
    )
    cells: list[tuple[TableCell | str, ...]] = [
        (
            age((now_ns - row.at) / 1e9),
            TableCell(row.type, "warn" if row.type == "Warning" else ""),
            row.reason,
            whose(row),
            part(row),
            str(row.count),
            row.message,
        )
        for row in rows
    ]
    return table(columns, cells, screen_of())


def whose(row: EventRow) -> str:
    """Return what it happened to."""
    return f"{row.namespace}/{row.pod}" if row.namespace else row.pod


def part(row: EventRow) -> str:
    """Return the container that it happened to, of which the path is ``spec.containers{NAME}``; empty for the whole pod."""
    _, _, name = row.field_path.partition("{")
    return name.removesuffix("}")


def follow(args: argparse.Namespace, client: Client, query: tuple[tuple[str, str], ...]) -> int:
    """Print events as they happen, those there are first, until interrupted: one line each, or one JSON object."""
    seen: Times = {}
    while True:
        found, _ = client.get(Events, ("events",), query)
        for row in found.events:
            key = (row.namespace, row.pod, row.reason, row.field_path, row.message)
            if seen.get(key) != row.count:
                seen[key] = row.count
                print_one(row, as_json=args.output == "json")
        sys.stdout.flush()
        time.sleep(LOOK_S)


def print_one(row: EventRow, *, as_json: bool) -> None:
    """Print one event."""
    if as_json:
        sys.stdout.write(msgspec.json.encode(row).decode() + "\n")
        return
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(row.at / 1e9))
    times = f" ({row.count} times)" if row.count > 1 else ""
    what = " ".join(word for word in (whose(row), part(row)) if word)
    sys.stdout.write(f"{at}  {row.type:7}  {clean(row.reason)}  {what}  {clean(row.message)}{times}\n")
