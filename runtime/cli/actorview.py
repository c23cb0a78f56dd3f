"""``actors`` and ``trace``: who is there, what they do now, and what they did last."""

import argparse
import sys

import msgspec

from api.shown.introspection import ActorRow, ActorState, TraceRow
from runtime.cli.client import Client
from runtime.cli.table import Column, Screen, TableCell, age, clean, screen_of, table


class Actors(msgspec.Struct, frozen=True, kw_only=True):
    """What ``GET /actors`` returns."""

    actors: tuple[ActorRow, ...]
    total: int


class OneActor(msgspec.Struct, frozen=True, kw_only=True):
    """What ``GET /actors/<path>`` returns."""

    actor: ActorRow
    now: float
    deliveries: tuple[TraceRow, ...]


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """What ``GET /trace/<path>`` returns."""

    path: str
    now: float
    deliveries: tuple[TraceRow, ...]


STYLE = {
    ActorState.ALIVE: "good",
    ActorState.PENDING_CREATION: "faint",
    ActorState.RESTARTING: "warn",
    ActorState.DEAD: "bad",
}


def actors(args: argparse.Namespace, client: Client) -> int:
    """Carry out ``nodeagent actors``."""
    path = "/" + args.path.strip("/") if args.path.strip("/") else ""
    if path and args.detail and not args.tree:
        one, raw = client.get(OneActor, ("actors", *_parts(path)))
        _print(raw, args) or sys.stdout.write(card(one, screen_of()))
        return 0
    query = [("detail", "true")] if args.detail or args.tree else []
    query += [("prefix", path)] if path else []
    query += [("state", args.state)] if args.state else []
    found, raw = client.get(Actors, ("actors",), tuple(query))
    if _print(raw, args):
        return 0
    if not found.actors:
        print(
            "no actors"
            + (f" at or below {path}" if path else "")
            + (f" in state {args.state}" if args.state else "")
        )
        return 0
    screen = screen_of()
    sys.stdout.write(
        tree(found.actors, screen) if args.tree else listing(found.actors, screen, detail=args.detail)
    )
    return 0


def trace(args: argparse.Namespace, client: Client) -> int:
    """Carry out ``nodeagent trace``."""
    found, raw = client.get(Trace, ("trace", *_parts(args.path)), (("n", str(args.n)),))
    if not _print(raw, args):
        sys.stdout.write(
            deliveries(found.deliveries, found.now, screen_of())
            or f"{found.path} has received no message yet\n"
        )
    return 0


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)


def _print(raw: bytes, args: argparse.Namespace) -> bool:
    if args.output == "json":
        sys.stdout.write(msgspec.json.format(raw, indent=2).decode() + "\n")
        return True
    return False


def listing(rows: tuple[ActorRow, ...], screen: Screen, *, detail: bool) -> str:
    """Return actors as a table."""
    columns: tuple[Column, ...] = (
        # A path is there to be copied: one with a UID in it is never cut.
        Column("PATH", least=47),
        Column("NAME", least=12, optional=True),
        Column("CLASS", least=12, optional=True),
        Column("STATE"),
        Column("RESTARTS", right=True, optional=True),
        Column("MAILBOX", right=True),
    )
    if detail:
        columns += (
            Column("HIGH", right=True, optional=True),
            Column("HANDLED", right=True, optional=True),
            Column("TIME", right=True, optional=True),
            Column("OPS", right=True, optional=True),
            Column("ALARM", right=True, optional=True),
        )
    columns += (Column("NOW", least=20),)
    return table(columns, [_row(row, detail=detail) for row in rows], screen)


def _row(row: ActorRow, *, detail: bool) -> tuple[TableCell | str, ...]:
    cells: tuple[TableCell | str, ...] = (
        row.path,
        _name(row),
        row.class_name,
        TableCell(row.state.value, STYLE[row.state]),
        TableCell(str(row.num_restarts), "warn" if row.num_restarts else ""),
        TableCell(str(row.mailbox_depth), "warn" if row.mailbox_depth > 16 else ""),
    )
    if detail:
        cells += (
            str(row.mailbox_high_water),
            str(row.handled),
            age(row.handling_s),
            str(len(row.operations)),
            age(row.alarm_in_s),
        )
    return (*cells, _now(row))


def _name(row: ActorRow) -> str:
    """Return an actor's display name where its path does not have it: the path of a pod's actor ends in the UID."""
    return "" if row.path.endswith(f"/{row.name}") else row.name


def _now(row: ActorRow) -> TableCell:
    """Return what an actor does right now, the worst news first."""
    if row.unresponsive:
        return TableCell(f"stuck: {row.unresponsive}", "bad")
    if row.state in {ActorState.DEAD, ActorState.RESTARTING} and row.death_cause:
        return TableCell(row.death_cause, "bad" if row.state is ActorState.DEAD else "warn")
    if row.current_message:
        return TableCell(f"{row.current_message} for {age(row.current_message_age_s)}")
    if row.operations:
        longest = max(row.operations, key=lambda op: op.age_s)
        more = f" and {len(row.operations) - 1} more" if len(row.operations) > 1 else ""
        return TableCell(f"awaits {longest.port}.{longest.call} for {age(longest.age_s)}{more}", "faint")
    return TableCell("")


def tree(rows: tuple[ActorRow, ...], screen: Screen) -> str:
    """Return actors as a tree; one whose parent is not among them is a root."""
    paths = {row.path for row in rows}
    below: dict[str, list[ActorRow]] = {}
    for row in rows:
        below.setdefault(row.parent if row.parent in paths and row.parent != row.path else "", []).append(row)
    drawn: list[tuple[TableCell | str, ...]] = []

    def draw(row: ActorRow, lead: str, branch: str, below_lead: str) -> None:
        # Below its parent the last part of its path is the name that people know.
        name = row.path if not branch else row.path.rpartition("/")[2]
        now = _now(row)
        mailbox = TableCell(str(row.mailbox_depth), "warn" if row.mailbox_depth > 16 else "")
        drawn.append(
            (
                lead + branch + name,
                _name(row),
                row.class_name,
                TableCell(row.state.value, STYLE[row.state]),
                mailbox,
                now,
            )
        )
        children = below.get(row.path, [])
        for at, child in enumerate(children):
            last = at == len(children) - 1
            draw(child, below_lead, "└─ " if last else "├─ ", below_lead + ("   " if last else "│  "))

    for root in below.get("", []):
        draw(root, "", "", "")
    columns = (
        Column("ACTOR", least=42),
        Column("NAME", least=12, optional=True),
        Column("CLASS", least=12, optional=True),
        Column("STATE"),
        Column("MAILBOX", right=True),
        Column("NOW", least=20),
    )
    return table(columns, drawn, screen)


def deliveries(rows: tuple[TraceRow, ...], now: float, screen: Screen) -> str:
    """Return deliveries as a table, oldest first; empty for none."""
    if not rows:
        return ""
    columns = (
        Column("AGO", right=True),
        Column("TOOK", right=True),
        Column("MESSAGE", least=24),
        Column("OUTCOME", least=24),
    )
    cells: list[tuple[TableCell | str, ...]] = [
        (
            age(now - row.at),
            age(row.took_s),
            row.message,
            TableCell(row.outcome, "bad" if "Error" in row.outcome else ""),
        )
        for row in rows
    ]
    return table(columns, cells, screen)


def card(one: OneActor, screen: Screen) -> str:
    """Return everything about one actor."""
    row = one.actor
    facts = [
        ("class", row.class_name),
        ("state", screen.paint(row.state.value, STYLE[row.state])),
        ("incarnation", f"{row.incarnation} ({row.num_restarts} restarts)"),
        ("last failure", clean(row.death_cause)),
        ("stuck", screen.paint(clean(row.unresponsive), "bad")),
        (
            "now",
            f"{clean(row.current_message)} for {age(row.current_message_age_s)}"
            if row.current_message
            else "idle",
        ),
        (
            "mailbox",
            f"{row.mailbox_depth} waiting"
            + (f", the oldest for {age(row.oldest_pending_s)}" if row.mailbox_depth else "")
            + f"; maximum {row.mailbox_high_water}",
        ),
        (
            "messages",
            f"{row.handled} handled in {age(row.handling_s)}, {row.conflated} superseded, {row.dead_lettered} dead letters",
        ),
        ("next alarm", "none" if row.alarm_in_s is None else f"in {age(row.alarm_in_s)}"),
        ("parent", row.parent),
    ]
    lines = [screen.paint(row.path, "strong")]
    lines += [f"  {name + ':':<14}{value}" for name, value in facts if value]
    if row.operations:
        lines.append("  in flight:")
        lines += [
            f"    #{op.op} {clean(op.port)}.{clean(op.call)} for {age(op.age_s)}, timeout in {age(op.deadline_in_s)}"
            for op in row.operations
        ]
    last = deliveries(one.deliveries, one.now, screen)
    return "\n".join(lines) + "\n" + (f"\n{last}" if last else "")
