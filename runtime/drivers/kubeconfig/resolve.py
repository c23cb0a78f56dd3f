"""The agent's side: starts the child, waits for its answer, and believes none that is too long or too late."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from api.decoding import UndecodableError, from_json
from api.errors import Failure, OperatingError, TimedOutError, UnavailableError
from api.shortening import shortened
from runtime.drivers.kubeconfig.plugin import PASSED_ON
from runtime.net.kubeaccess import Access

CHILD = "runtime.drivers.kubeconfig.child"
OUR_CODE = Path(__file__).parents[3]
ANSWER_LIMIT_BYTES = 1 << 20
SAID_LIMIT = 1_000
"""Characters of an error."""
DEADLINE_S = 60.0
REAP_S = 2.0
REST = 0.8
"""This part of the time is the child's own, so that it can say what took so long."""


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """The child's answer: one of both."""

    access: Access | None = None
    failure: Failure | None = None


def resolve(path: str, deadline_s: float = DEADLINE_S) -> Access:
    """Return what a kubeconfig comes to: server, authorities, identity. Blocks for as long as its exec plugin takes.

    Raises an `OperatingError` of one line that names the file, what is wrong and what to do. When it returns, nothing that it
    started runs any more.
    """
    path = os.path.abspath(path)  # noqa: PTH100  # links stay: what the file names lies beside the link, as in kubectl
    where = f"kubeconfig {path}"
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-m", CHILD, path, str(time.monotonic() + deadline_s * REST)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env=_environment(),
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "its path holds a null byte"
        raise UnavailableError(
            f"{where}: the process that reads it cannot be started: {why}; free memory or tasks"
        ) from error
    try:
        answer = _answer(process, deadline_s, where)
    finally:
        _end(process)
    return _access(answer, process.returncode, where)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the child and what a plugin left running in its group; reap it, unless a disk that hangs still holds it."""
    # Its number is its own until it is waited for.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    assert process.stdout is not None
    process.stdout.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(REAP_S)


def _environment() -> dict[str, str]:
    """Return what the child gets: the way to our code, and what it may pass on to a plugin."""
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    code = [Path(place).absolute() for place in (str(OUR_CODE), *sys.path) if place]
    return {**passed, "PATH": passed.get("PATH", os.defpath), "PYTHONPATH": os.pathsep.join(map(str, code))}


def _answer(process: subprocess.Popen[bytes], deadline_s: float, where: str) -> bytes:
    """Return what the child prints until it ends."""
    assert process.stdout is not None
    end = time.monotonic() + deadline_s
    received = bytearray()
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    while True:
        if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
            raise TimedOutError(
                f"{where}: it was not read within {deadline_s:g} s; is it, or what it names, on a disk that hangs?"
            )
        data = os.read(process.stdout.fileno(), 1 << 16)
        if not data:
            break
        received += data
        if len(received) > ANSWER_LIMIT_BYTES:
            raise UnavailableError(
                f"{where}: what it comes to has more than {ANSWER_LIMIT_BYTES >> 20} MiB; give smaller certificates"
            )
    # It ends right after its answer; a status is worth no more than a moment.
    descriptor = os.pidfd_open(process.pid)
    try:
        select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
    finally:
        os.close(descriptor)
    return bytes(received)


def _access(answer: bytes, status: int | None, where: str) -> Access:
    try:
        found = from_json(answer, Resolved)
    except UndecodableError:
        found = Resolved()
    if found.failure is not None:
        kinds = {kind.kind: kind for kind in OperatingError.__subclasses__()}
        # Names and paths of the file may hold line ends, and be long.
        said = "".join(c if c.isprintable() else "?" for c in shortened(found.failure.message, SAID_LIMIT))
        raise kinds[found.failure.kind](f"{where}: {said}", reason=found.failure.reason)
    if found.access is None:
        raise UnavailableError(
            f"{where}: the process that reads it ended without an answer (status {status}); is the Python package kubernetes"
            " installed whole?"
        )
    return found.access
