"""The command line's verbs: what they are called, what they take, and who carries them out.

Only the module of the requested verb is imported, so that ``nodeagent pods`` starts fast.
"""

import argparse
import functools
import io
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from runtime.cli.location import default_root_dir, socket_path

if TYPE_CHECKING:
    from api.ports.manifests import Problem

    Check = Callable[[str], tuple[Problem, ...]]
    """Checks one file, by path, and returns what is wrong with it."""

ERROR_LIMIT = 4000
"""Characters of an error that are printed: an agent's own words may be anyone's."""
VERBS = frozenset(
    {"actors", "trace", "pods", "top", "explain", "events", "sources", "logs", "exec", "images", "validate"}
)


def add_verbs(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the verbs of this package to a command line; each sets ``args.verb``."""
    where = _where()
    outputs = _output("table", "json")

    actors = _verb(subparsers, "actors", "list the agent's actors", where, outputs)
    actors.add_argument(
        "path", nargs="?", default="", metavar="PATH", help="only this actor and those below it"
    )
    actors.add_argument("--tree", action="store_true", help="show parents and children as a tree")
    actors.add_argument("--state", default="", help="only actors in this state (ALIVE, RESTARTING, DEAD ...)")
    actors.add_argument(
        "--detail", action="store_true", help="all details; with the PATH of one actor also its last messages"
    )

    trace = _verb(subparsers, "trace", "show the last messages of an actor", where, outputs)
    trace.add_argument("path", metavar="PATH")
    trace.add_argument("-n", type=_count, default=16, metavar="N", help="how many messages (default 16)")

    pods = _verb(subparsers, "pods", "list pods", where, _output("table", "wide", "json"))
    pods.add_argument(
        "-A", "--all", action="store_true", help=argparse.SUPPRESS
    )  # habit from kubectl; it is so anyway

    top = _verb(
        subparsers,
        "top",
        "show CPU, memory and disk usage of the node and its pods, sorted by memory",
        where,
        outputs,
    )
    top.add_argument("--containers", action="store_true", help="also show each container")

    explain = _verb(
        subparsers, "explain", "show what a pod waits for, since when, and the next steps", where, outputs
    )
    explain.add_argument(
        "pod",
        metavar="POD",
        help="name or namespace/name; `eviction` shows node pressure and the order of eviction",
    )
    explain.add_argument(
        "--dry-run",
        action="store_true",
        help="with eviction: show the order of eviction for every signal",
    )
    explain.set_defaults(refuse=explain.error)

    events = _verb(subparsers, "events", "list events of a pod, or of all pods and the node", where, outputs)
    events.add_argument("pod", nargs="?", default="", metavar="POD", help="name or namespace/name")
    events.add_argument("--type", default="", choices=("Normal", "Warning"), help="only these")
    events.add_argument("-f", "--follow", action="store_true", help="keep watching and print new events")

    _verb(subparsers, "sources", "list manifest files and URLs with their state and problems", where, outputs)
    _add_logs(subparsers, where)
    _add_exec(subparsers, where)

    _add_images(subparsers, where, outputs)

    validate = _verb(
        subparsers, "validate", "check manifests and configuration without running anything", outputs
    )
    validate.add_argument("files", nargs="+", metavar="FILE")


def _add_images(
    subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]",
    where: argparse.ArgumentParser,
    outputs: argparse.ArgumentParser,
) -> None:
    images = _verb(subparsers, "images", "list, pull and remove images", where, outputs)
    images.usage = "%(prog)s [ls | pull REF | rm REF | gc [--dry-run]] [-o table|json]"
    images.add_argument(
        "action",
        nargs="?",
        choices=("ls", "pull", "rm", "gc"),
        default="ls",
        help="ls: list images (default); pull: pull one; rm: remove an unused one; gc: remove all unused ones",
    )
    images.add_argument(
        "reference",
        nargs="?",
        default="",
        metavar="REF",
        help="name of an image; for rm also its id or a prefix of it",
    )
    images.add_argument(
        "--dry-run",
        action="store_true",
        help="with gc: remove nothing, only show which images would be removed and why others are kept",
    )
    images.set_defaults(refuse=images.error)


def _add_logs(
    subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]", where: argparse.ArgumentParser
) -> None:
    logs = _verb(subparsers, "logs", "print a container's log", where)
    logs.add_argument("pod", metavar="POD", help="name or namespace/name")
    logs.add_argument("container_name", nargs="?", default="", metavar="CONTAINER", help=argparse.SUPPRESS)
    logs.add_argument(
        "-c", "--container", default="", metavar="C", help="container name (default: the only one)"
    )
    logs.add_argument("-f", "--follow", action="store_true", help="follow the log until the container ends")
    logs.add_argument(
        "-p", "--previous", action="store_true", help="print the log of the previous run of the container"
    )
    logs.add_argument("--tail", type=_tail, default=None, metavar="N", help="only the last N lines")
    logs.add_argument(
        "--since",
        type=_span,
        default=None,
        metavar="D",
        help="only lines newer than a duration: 30s, 5m, 1h30m",
    )
    logs.add_argument("--timestamps", action="store_true", help="print the timestamp of each line")


def _add_exec(
    subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]", where: argparse.ArgumentParser
) -> None:
    run = _verb(subparsers, "exec", "run a command in a container", where)
    run.usage = "%(prog)s [-i] [-t] POD [-c C] [--timeout D] -- COMMAND [ARGUMENT ...]"
    run.add_argument("pod", metavar="POD", help="name or namespace/name")
    run.add_argument(
        "-c", "--container", default="", metavar="C", help="container name (default: the only one)"
    )
    run.add_argument("-i", "--stdin", action="store_true", help="pass standard input to the command")
    run.add_argument("-t", "--tty", action="store_true", help="attach your terminal")
    run.add_argument(
        "--timeout",
        type=_span,
        default=None,
        metavar="D",
        help="time limit of the command (default 60s; not with -i or -t)",
    )
    run.set_defaults(argv=[])
    # argparse gives a list that may be empty to the first place where it could stand, so that it would never see what
    # comes after "POD -c C --"; the part after the dashes is cut off before argparse parses.
    setattr(run, "parse_known_args", functools.partial(_parse_exec, run))  # noqa: B010 - mypy: no other way to replace it


def _parse_exec(
    parser: argparse.ArgumentParser, words: list[str], namespace: argparse.Namespace | None = None
) -> tuple[argparse.Namespace, list[str]]:
    at = words.index("--") if "--" in words else len(words)
    known, rest = argparse.ArgumentParser.parse_known_args(parser, words[:at], namespace)
    known.argv = words[at + 1 :]
    return known, rest


def run_verb(args: argparse.Namespace, *, check: "Check | None" = None) -> int:
    """Carry out the verb that was parsed and return the exit code.

    `check` is what ``validate`` asks about each file. 1 is a failure with one line on standard error; ``exec`` returns
    the command's own code; a closed pipe ends quietly, as does Ctrl-C (130).
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # a terminal without these characters shows question marks, no traceback
    try:
        return _carry_out(args, check)
    except BrokenPipeError:
        # The reader has what it wanted. Python must not find the pipe broken again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def _carry_out(args: argparse.Namespace, check: "Check | None") -> int:
    from api.shortening import shortened  # noqa: PLC0415 - only when a verb runs
    from runtime.cli.client import Client, VerbError  # noqa: PLC0415
    from runtime.cli.table import clean  # noqa: PLC0415

    try:
        code = _run(
            args, Client(args.socket or socket_path(args.root_dir)) if "socket" in args else None, check
        )
        sys.stdout.flush()
    except VerbError as error:
        sys.stdout.flush()
        # One line, that gives a terminal no orders.
        print(f"nodeagent: {clean(shortened(str(error), ERROR_LIMIT))}", file=sys.stderr)
        return 1
    return code


def _run(args: argparse.Namespace, client: "object", check: "Check | None") -> int:
    match args.verb:
        case "actors" | "trace":
            from runtime.cli import actorview as module  # noqa: PLC0415
        case "logs" | "exec":
            from runtime.cli import containerview as module  # type: ignore[no-redef]  # noqa: PLC0415
        case "events":
            from runtime.cli import eventview as module  # type: ignore[no-redef]  # noqa: PLC0415
        case "images":
            from runtime.cli import imageview as module  # type: ignore[no-redef]  # noqa: PLC0415
        case "top":
            from runtime.cli import usageview as module  # type: ignore[no-redef]  # noqa: PLC0415
        case "validate":
            from runtime.cli.validation import validate  # noqa: PLC0415

            return validate(args, check)
        case _:
            from runtime.cli import podview as module  # type: ignore[no-redef]  # noqa: PLC0415
    return int(getattr(module, args.verb)(args, client))


def _verb(
    subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    what: str,
    *parents: argparse.ArgumentParser,
) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        name, help=what, description=what[0].upper() + what[1:] + ".", parents=list(parents)
    )
    parser.set_defaults(verb=name)
    return parser


def _where() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--root-dir",
        default=default_root_dir(),
        metavar="DIR",
        help="root directory of the agent (%(default)s)",
    )
    parser.add_argument(
        "--socket",
        default="",
        metavar="FILE",
        help="admin socket of the agent (default: in the root directory)",
    )
    return parser


def _output(*forms: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("-o", "--output", choices=forms, default=forms[0], help="output format (%(default)s)")
    return parser


def _count(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text) < 1 << 31:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")


def _tail(text: str) -> int | None:
    if text in {"-1", "all"}:  # kubectl's word for all of them
        return None
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines")


def _span(text: str) -> float:
    """Read ``90``, ``30s``, ``5m``, ``1h30m``, ``2d`` as seconds."""
    import re  # noqa: PLC0415 - only for this option

    factors = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|[smhd]|$)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; write 30s, 5m or 1h30m")
    return sum(float(number) * factors[unit] for number, unit in parts)
