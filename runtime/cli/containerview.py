"""``logs`` and ``exec``: what a container says, byte for byte."""

import argparse
import base64
import sys

import msgspec

from runtime.cli.client import ANSWER_S, Client, VerbError
from runtime.cli.podview import pod_parts


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
    if args.stdin or args.tty:
        flags = "".join(letter for letter, given in (("i", args.stdin), ("t", args.tty)) if given)
        raise VerbError(
            f"exec -{flags} is not on the embedded runtime yet: a command gets no input and no terminal; "
            "run it without, and it prints what it says when it ends"
        )
    if not args.argv:
        raise VerbError("exec needs a command: nodeagent exec POD -- COMMAND [ARGUMENT ...]")
    container = (args.container,) if args.container else ()
    body = msgspec.json.encode({"command": args.argv, "timeout_s": args.timeout})
    parts = ("exec", *pod_parts(args.pod), *container)
    with client.ask("POST", parts, body=body, wait_s=args.timeout + ANSWER_S) as answer:
        ran = msgspec.json.decode(answer.body(), type=Ran)
    sys.stdout.buffer.write(base64.b64decode(ran.stdout))
    sys.stdout.buffer.flush()
    sys.stderr.buffer.write(base64.b64decode(ran.stderr))
    sys.stderr.buffer.flush()
    if ran.truncated:
        print("nodeagent: the output was too long and is cut", file=sys.stderr)
    return ran.exit_code
