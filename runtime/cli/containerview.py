"""``logs`` and ``exec``: the output of a container, byte for byte."""

import argparse
import base64
import sys

import msgspec

from runtime.cli.client import ANSWER_S, Client, VerbError, decoded
from runtime.cli.podview import pod_parts

EXEC_S = 60.0
"""Default time limit of a command without streams."""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """What ``POST /exec/...`` returns; output in base64."""

    exit_code: int
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False


def logs(args: argparse.Namespace, client: Client) -> int:
    """Carry out ``nodeagent logs``; bytes go through as they are."""
    container = args.container or args.container_name
    query = [(name, "true") for name in ("follow", "previous", "timestamps") if getattr(args, name)]
    query += [("tail", str(args.tail))] if args.tail is not None else []
    query += [("since", f"{args.since:g}")] if args.since is not None else []
    parts = ("logs", *pod_parts(args.pod), *((container,) if container else ()))
    with client.ask("GET", parts, tuple(query), wait_s=None if args.follow else ANSWER_S) as answer:
        for piece in answer.pieces():
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
    return 0


def exec(args: argparse.Namespace, client: Client) -> int:  # noqa: A001 - named after its verb
    """Carry out ``nodeagent exec``; returns the command's own exit code."""
    if not args.argv:
        raise VerbError("exec needs a command: nodeagent exec POD -- COMMAND [ARGUMENT ...]")
    container = (args.container,) if args.container else ()
    if args.stdin or args.tty:
        return _exec_streams(args, client, ("exec", *pod_parts(args.pod), *container))
    timeout_s = EXEC_S if args.timeout is None else args.timeout
    body = msgspec.json.encode({"command": args.argv, "timeout_s": timeout_s})
    parts = ("exec", *pod_parts(args.pod), *container)
    with client.ask("POST", parts, body=body, wait_s=timeout_s + ANSWER_S) as answer:
        ran = decoded(answer.body(), Ran)
    for said, stream in ((ran.stdout, sys.stdout), (ran.stderr, sys.stderr)):
        stream.buffer.write(_bytes_of(said))
        stream.buffer.flush()
    if ran.truncated:
        print("nodeagent: the output was too long and is truncated", file=sys.stderr)
    return ran.exit_code


def _bytes_of(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except ValueError:
        raise VerbError(
            "cannot read the agent's answer: the output in it is not base64; is its version different?"
        ) from None


def _exec_streams(args: argparse.Namespace, client: Client, parts: tuple[str, ...]) -> int:
    from runtime.cli import interactive  # noqa: PLC0415 - most commands need no streams

    if args.timeout is not None:
        raise VerbError("--timeout cannot be used with -i or -t")
    wanted = interactive.wanted_streams(stdin=args.stdin, tty=args.tty)
    query = interactive.query_of(args.argv, wanted)
    with client.upgrade(parts, query, protocol=interactive.PROTOCOL, subprotocol=interactive.SUBPROTOCOL) as (
        sock,
        early,
    ):
        return interactive.run_streams(sock, early, wanted)
