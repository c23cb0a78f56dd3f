"""The nursery: a small process without state that forks one keeper for each pod, so that they share their memory.

It lives as long as the driver's end of its socket, in a session (and, where permitted, a cgroup) of its own. Each
request is one datagram with the keeper's first connection attached; the answer is the keeper itself. The keepers are
no worse off without it.
"""

import contextlib
import gc
import json
import os
import signal
import socket
import sys
import time
import types

from runtime.drivers.embedded.keeper import cgroup
from runtime.drivers.embedded.keeper.frame import NEWEST, pack
from runtime.drivers.embedded.keeper.pod import Keeper

KEEPER_OOM_SCORE = "-998"
"""As other runtimes choose for what holds a container: the container goes first."""


def main(fd: int, name: str) -> None:
    """Serve the socket `fd` until it is closed; `name` is our folder among the cgroups."""
    if os.fork():
        # The starter may wait for this one: the nursery itself is nobody's child.
        os._exit(0)
    os.set_inheritable(fd, False)
    link = socket.socket(fileno=fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Keepers that end are reaped by the kernel; each sets its own disposition back.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.umask(0o077)
    own_score = _shield()
    # The first use of a module's functions fills caches: once here instead of once for every keeper.
    time.strftime("%Y", time.gmtime(0))
    survey = cgroup.survey(name)
    hello = {"protocol": NEWEST, "pid": os.getpid(), "cgroups": survey.places, "refused": survey.refused}
    with contextlib.suppress(OSError):
        # A driver that is gone already is noticed by the first read.
        link.send(json.dumps(hello).encode())
    gc.collect()
    gc.freeze()
    try:
        _serve(link, survey, own_score)
    finally:
        _leave(survey)


def _serve(link: socket.socket, survey: cgroup.Survey, own_score: str | None) -> None:
    while True:
        try:
            data, fds, _, _ = socket.recv_fds(link, 1 << 16, 1)
        except ConnectionError:
            return
        if not data:
            return
        request = json.loads(data)
        # Descriptors that arrive in a message are inherited through exec unless told otherwise: a
        # container must not hold its keeper's line to the driver.
        os.set_inheritable(fds[0], False)
        first = socket.socket(fileno=fds[0])
        try:
            child = os.fork()
        except OSError as error:
            first.send(pack({"fatal": f"fork: {os.strerror(error.errno or 0)}"}))
            first.close()
            continue
        if child == 0:
            link.close()
            _keep(request, first, survey.places, own_score)
        first.close()


def _shield() -> str | None:
    """Protect this process and its keepers from the OOM killer; return the value that containers get back."""
    try:
        with open("/proc/self/oom_score_adj", "r+") as file:  # noqa: PTH123
            own = file.read().strip()
            file.seek(0)
            file.write(KEEPER_OOM_SCORE)
    except OSError:
        # Only CAP_SYS_RESOURCE may lower it; without it keepers are as mortal as their containers.
        return None
    return own


def _keep(
    request: dict[str, str], first: socket.socket, places: tuple[str, ...], own_score: str | None
) -> None:
    folder = request["directory"]

    def crashed(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
        import traceback  # noqa: PLC0415 only a bug needs it

        lines = traceback.format_exception(kind, error, trace)
        with open(folder + "/crash.txt", "a") as file:  # noqa: PTH123
            file.writelines(lines)

    sys.excepthook = crashed
    status = 70
    try:
        Keeper(request["sandbox"], folder, places, own_score, first).run()
        status = 0
    except BaseException as error:  # noqa: BLE001 the last frame of a process: write it down and end
        crashed(type(error), error, error.__traceback__)
    finally:
        os._exit(status)


def _leave(survey: cgroup.Survey) -> None:
    """Go back to where we came from, so that our empty cgroups can be removed."""
    for place, origin in zip(survey.places, survey.origins, strict=True):
        with contextlib.suppress(OSError):
            cgroup.join(origin, os.getpid())
            os.rmdir(cgroup.own_corner(place))  # noqa: PTH106
            os.rmdir(place)  # noqa: PTH106
