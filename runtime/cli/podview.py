"""``pods``, ``explain`` and ``sources``."""

import argparse
import sys
from collections.abc import Iterator

import msgspec

from api.shown.introspection import Explanation, PodRow, ProbeRow, SourceRow, Step
from runtime.cli.client import Client, VerbError
from runtime.cli.table import Column, Screen, TableCell, age, clean, screen_of, table, wrapped

EVICTION = "eviction"
HEALTHY = frozenset({"Running", "Completed", "Succeeded"})
UNDER_WAY = frozenset({"Pending", "ContainerCreating", "PodInitializing", "Terminating", "Waiting"})


class Pods(msgspec.Struct, frozen=True, kw_only=True):
    """What ``GET /pods?format=rows`` returns."""

    pods: tuple[PodRow, ...]


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """What ``GET /sources`` returns."""

    sources: tuple[SourceRow, ...]


def pod_parts(pod: str) -> tuple[str, str]:
    """Return namespace and name of a pod for a request path; `-` is any namespace."""
    namespace, slash, name = pod.partition("/")
    parts = (namespace, name) if slash else ("-", namespace)
    if not all(parts) or "/" in parts[1]:
        raise VerbError(f"{pod!r} is not the name of a pod; give NAME or NAMESPACE/NAME")
    return parts


def print_json(raw: bytes) -> int:
    """Print an answer of the agent as indented JSON."""
    sys.stdout.write(msgspec.json.format(raw, indent=2).decode() + "\n")
    return 0


def pods(args: argparse.Namespace, client: Client) -> int:
    """Carry out ``nodeagent pods``."""
    if args.output == "json":
        with client.ask("GET", ("pods",)) as answer:
            return print_json(answer.body())
    found, _ = client.get(Pods, ("pods",), (("format", "rows"),))
    if not found.pods:
        print("no pods; see 'nodeagent sources'")
        return 0
    sys.stdout.write(pod_table(found.pods, screen_of(), wide=args.output == "wide"))
    return 0


def pod_table(rows: tuple[PodRow, ...], screen: Screen, *, wide: bool) -> str:
    """Return pods as a table, with kubectl's columns first."""
    columns: tuple[Column, ...] = (
        Column("NAMESPACE", least=11),
        Column("NAME", least=20),
        Column("READY"),
        Column("STATUS", least=16),
        Column("RESTARTS"),
        Column("AGE"),
    )
    if wide:
        columns += (
            Column("IP"),
            Column("SOURCE"),
            Column("UID"),
            Column("CONTAINERS", least=12, optional=True),
        )
    columns += (Column("WHY", least=16, optional=not wide),)
    return table(columns, [_pod_row(row, wide=wide) for row in rows], screen)


def _pod_row(row: PodRow, *, wide: bool) -> tuple[TableCell | str, ...]:
    ready, _, of = row.ready.partition("/")
    restarts = str(row.restarts)
    if row.restarts and row.last_restart_ago_s is not None:
        restarts += f" ({age(row.last_restart_ago_s)} ago)"
    style = "bad"
    if row.status in HEALTHY:
        style = "good"
    elif row.status in UNDER_WAY or row.status.startswith("Init:"):
        style = "warn"
    cells: tuple[TableCell | str, ...] = (
        row.namespace,
        row.name,
        TableCell(row.ready, "" if ready == of or row.status in {"Completed", "Succeeded"} else "warn"),
        TableCell(row.status, style),
        restarts,
        age(row.age_s),
    )
    if wide:
        cells += (row.ip or "-", row.source or "-", row.uid, ",".join(row.containers) or "-")
    return (*cells, row.why)


def explain(args: argparse.Namespace, client: Client) -> int:
    """Carry out ``nodeagent explain``; a pod named ``eviction`` needs its namespace."""
    if args.pod == EVICTION:
        from runtime.cli.evictionview import eviction  # noqa: PLC0415  # loaded only when needed

        return eviction(args, client)
    if args.dry_run:
        args.refuse("--dry-run is only for `explain eviction`")
    found, raw = client.get(Explanation, ("explain", *pod_parts(args.pod)))
    if args.output == "json":
        return print_json(raw)
    sys.stdout.write(explanation(found, screen_of()))
    return 0


def explanation(found: Explanation, screen: Screen) -> str:
    """Return the explanation of a pod as text: the answer first, the history last."""
    return "\n".join(_explanation(found, screen)) + "\n"


def _explanation(found: Explanation, screen: Screen) -> Iterator[str]:
    yield screen.paint(clean(f"{found.namespace}/{found.name}"), "strong") + f"  ({clean(found.uid)})"
    yield ""
    yield from wrapped("State", found.state, screen)
    if found.waits_for:
        since = "" if found.since_s is None else f" (for {age(found.since_s)})"
        yield from wrapped("Waits for", found.waits_for.rstrip(".") + since, screen)
    else:
        yield from wrapped("Waits for", "nothing", screen)
    if not found.next:
        yield from wrapped("Next", "nothing scheduled", screen)
    for at, step in enumerate(sorted(found.next, key=lambda step: step.in_s)):
        at_once = "then: " if found.waits_for else "now: "
        when = f"in {age(step.in_s)}: " if step.in_s > 0 else at_once
        yield from wrapped("Next" if at == 0 else "", when + _step(step), screen)
    if found.sync_step in found.sync_steps:
        at, of = found.sync_steps.index(found.sync_step) + 1, len(found.sync_steps)
        yield from wrapped("Sync step", f"{at} of {of}: {found.sync_step.replace('_', ' ')}", screen)
    if found.kill:
        yield from wrapped("Last kill", found.kill, screen)
    for at, problem in enumerate(found.problems):
        yield from wrapped("Problems" if at == 0 else "", problem, screen, "bad")
    for at, line in enumerate(found.containers):
        yield from wrapped("Containers" if at == 0 else "", line, screen)
    for at, probe in enumerate(found.probes):
        bad = "bad" if probe.failures else ""
        yield from wrapped("Probes" if at == 0 else "", _probe(probe), screen, bad)
    for at, step in enumerate(sorted(found.tried, key=lambda step: step.in_s)):
        when = "just now" if step.in_s > -1 else f"{age(-step.in_s)} ago"
        yield from wrapped("Tried" if at == 0 else "", f"{when:>9}  {_step(step)}", screen)


def _probe(probe: ProbeRow) -> str:
    parts = [f"{probe.what}: {probe.result}"]
    if probe.failures:
        times = "once" if probe.failures == 1 else f"{probe.failures} times in a row"
        parts.append(f"failed {times}, for {age(probe.failing_s)}")
    if probe.message:
        parts.append(f"message: {probe.message}")
    if probe.next_in_s is not None:
        parts.append(f"next check in {age(probe.next_in_s)}")
    if probe.waits:
        parts.append(probe.waits)
    return "; ".join(parts)


def _step(step: Step) -> str:
    return step.what + (f" -> {step.result}" if step.result else "")


def sources(args: argparse.Namespace, client: Client) -> int:
    """Carry out ``nodeagent sources``."""
    found, raw = client.get(Sources, ("sources",))
    if args.output == "json":
        return print_json(raw)
    if not found.sources:
        print("no sources; set --pod-manifest-path or --manifest-url")
        return 0
    sys.stdout.write(source_table(found.sources, screen_of()))
    return 0


def source_table(found: tuple[SourceRow, ...], screen: Screen) -> str:
    """Return sources as a table, followed by each problem in full."""
    style = {"accepted": "good", "waiting": "warn", "ignored": "faint"}
    rows: list[tuple[TableCell | str, ...]] = [
        (row.source, row.where, TableCell(row.status, style.get(row.status, "bad")), row.pod or "-")
        for row in found
    ]
    columns = (Column("SOURCE"), Column("WHERE", least=24), Column("STATUS"), Column("POD", least=12))
    out = table(columns, rows, screen)
    for row in found:
        if row.problems:
            out += f"\n{clean(row.where)} ({clean(row.status)}):\n"
            out += "".join(
                f"{line}\n" for text in row.problems for line in wrapped("", text, screen, indent=2)
            )
    return out
