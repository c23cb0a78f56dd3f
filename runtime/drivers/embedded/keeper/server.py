"""The keeper server: a small process without state that forks one keeper for each pod, so that they share their memory.

It lives as long as the driver's end of its socket, in a session (and, where permitted, a cgroup) of its own. Each
request is one datagram with the keeper's first connection attached; the answer is the keeper itself. The keepers are
no worse off without it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import signal
import socket
import time

from runtime.drivers.embedded.keeper import cgroup, process, store
from runtime.drivers.embedded.keeper.frame import NEWEST, pack
from runtime.drivers.embedded.keeper.pod import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

TAKEN = b"t"
GONE = b"g"
"""The message of the waiting child: it has a pod, or the driver is gone."""
KEEPER_OOM_SCORE = "-998"
"""As other runtimes set it for the parent of a container: the container is killed first."""


def main(fd: int, name: str, open_files: int) -> None:
    """Serve the socket `fd` until it is closed; `name` is our folder among the cgroups.

    `open_files` is the soft limit of open files for keepers and containers; 0 leaves the agent's own.
    """
    if os.fork():
        # The starter may wait for this one: the keeper server itself has no parent.
        os._exit(0)
    os.set_inheritable(fd, False)
    link = socket.socket(fileno=fd)
    process.forget_inherited_signals()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Keepers that end are reaped by the kernel; each sets its own disposition back.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.umask(0o077)
    if open_files:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(open_files, hard), hard))
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
    """Keep one child that waits to become a keeper, until the driver is gone.

    The child reads the request, not this process: each memory page touched here between two forks is one that each
    keeper then has for itself alone.
    """
    while True:
        report, tell = os.pipe()
        try:
            child = os.fork()
        except OSError as error:
            os.close(report)
            os.close(tell)
            if not _refuse(link, f"fork: {os.strerror(error.errno or 0)}"):
                return
            continue
        if child == 0:
            os.close(report)
            _wait_for_a_pod(link, tell, survey, own_score)
        os.close(tell)
        word = os.read(report, 1)
        os.close(report)
        # Without a word the child was killed before it had a pod: the next one takes its place.
        if word == GONE:
            return


def _receive(link: socket.socket) -> tuple[dict[str, str], socket.socket] | None:
    """Return the next request and the keeper's first connection, None when the driver is gone."""
    try:
        data, fds, _, _ = socket.recv_fds(link, 1 << 16, 1)
    except ConnectionError:
        return None
    if not data:
        return None
    # Descriptors that arrive in a message are inherited through exec unless told otherwise: a
    # container must not hold its keeper's connection to the driver.
    os.set_inheritable(fds[0], False)
    return json.loads(data), socket.socket(fileno=fds[0])


def _refuse(link: socket.socket, why: str) -> bool:
    received = _receive(link)
    if received is None:
        return False
    with contextlib.suppress(OSError):
        received[1].send(pack({"fatal": why}))
    received[1].close()
    return True


def _wait_for_a_pod(link: socket.socket, tell: int, survey: cgroup.Survey, own_score: str | None) -> NoReturn:
    """Become the keeper of the next pod that the driver requests."""
    received = None
    try:
        received = _receive(link)
        if received is None:
            _step_out(survey)
        with contextlib.suppress(OSError):
            os.write(tell, TAKEN if received else GONE)
        os.close(tell)
        link.close()
    finally:
        if received is None:
            os._exit(0)
    request, first = received
    _keep(request, first, survey, own_score)


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
    request: dict[str, str], first: socket.socket, survey: cgroup.Survey, own_score: str | None
) -> NoReturn:
    status = 70
    try:
        Keeper(request["sandbox"], request["directory"], survey, own_score, first).run()
        status = 0
    finally:
        if status:
            store.write_down(request["directory"], store.CRASH)
        os._exit(status)


def _step_out(survey: cgroup.Survey) -> None:
    """Go back to where we came from, so that our empty cgroups can be removed."""
    for origin in survey.origins:
        with contextlib.suppress(OSError):
            cgroup.join(origin, os.getpid())


def _leave(survey: cgroup.Survey) -> None:
    corners = [cgroup.own_corner(place) for place in survey.places]
    _step_out(survey)
    for place, corner in zip(survey.places, corners, strict=True):
        with contextlib.suppress(OSError):
            os.rmdir(corner)  # noqa: PTH106
            os.rmdir(place)  # noqa: PTH106
