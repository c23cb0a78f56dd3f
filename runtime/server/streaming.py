"""Requests for commands whose input and output are the connection itself."""

from api.shown.introspection import Window
from runtime.server.query import container_of, flag, pod_of
from runtime.server.relay import open_relay
from runtime.server.wire import SWITCHING, Request, RequestRefusedError, Response

UPGRADES = frozenset({"spdy/3.1", "websocket"})


def exec_streams(window: Window, request: Request) -> Response:
    """Run a command whose streams are the connection's, in a protocol that client and runtime agree on.

    The query is a kubelet's (``input=1&output=1&error=1``) or the API server's (``stdin=true&stdout=true...``).
    """
    if request.upgrade.lower() not in UPGRADES:
        raise RequestRefusedError(
            400,
            "UpgradeRequired",
            "streams of a command need a connection that is upgraded to SPDY/3.1 or websocket",
            "send Connection: Upgrade and Upgrade: SPDY/3.1; without streams, POST a JSON body",
        )
    command = request.every("command")
    if not command or not command[0]:
        raise RequestRefusedError(400, "BadQuery", "the command is empty", "send command=WORD for each word")
    tty = flag(request, "tty")
    stdin, stdout, stderr = (
        any(flag(request, name) for name in names)
        for names in (("stdin", "input"), ("stdout", "output"), ("stderr", "error"))
    )
    # A terminal has one output; a kubelet leaves the second stream out as well.
    stderr = stderr and not tty
    if not (stdin or stdout or stderr):
        raise RequestRefusedError(
            400, "BadQuery", "none of the command's streams is asked for", "add stdin, stdout or stderr"
        )
    url = window.open_exec(
        pod_of(request),
        container_of(request),
        command,
        tty=tty,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
    )
    return Response(status=SWITCHING, tunnel=open_relay(url, request))
