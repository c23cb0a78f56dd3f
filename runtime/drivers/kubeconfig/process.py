"""The agent's side of the short-lived child processes: starts one, waits for its answer, and believes none that is too long or too late."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TypeVar

import msgspec

from api.decoding import UndecodableError, from_json
from api.errors import Failure, OperatingError, TimedOutError, UnavailableError
from api.shortening import shortened
from runtime.drivers.kubeconfig.plugin import PASSED_ON

PACKAGE = "runtime.drivers.kubeconfig"
OUR_CODE = Path(__file__).parents[3]
ANSWER_LIMIT_BYTES = 1 << 20
SAID_LIMIT = 1_000
"""Characters of an error."""
REAP_S = 2.0


class ChildAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a child prints, in JSON: a subclass adds the result, which is there where `failure` is not."""

    failure: Failure | None = None


A = TypeVar("A", bound=ChildAnswer)


def ask_child(
    module: str, words: tuple[str, ...], kind: type[A], where: str, deadline_s: float, given: bytes = b""
) -> A:
    """Return the answer of a module of this package that is run with these words, and `given` as its input (at most 64 KiB).

    Raises an `OperatingError` of one line that begins with `where`. When it returns, nothing that the child started runs.
    """
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-m", f"{PACKAGE}.{module}", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env=_environment(),
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "its path holds a null byte"
        raise UnavailableError(
            f"{where}: the child process cannot be started: {why}; free memory or tasks"
        ) from error
    try:
        answer = _answer(process, given, deadline_s, where)
    finally:
        _end(process)
    return _believed(answer, kind, process.returncode, where)


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


def _answer(process: subprocess.Popen[bytes], given: bytes, deadline_s: float, where: str) -> bytes:
    """Return what the child prints until it ends."""
    assert process.stdout is not None
    assert process.stdin is not None
    end = time.monotonic() + deadline_s
    # A pipe takes as much at once; a child that has ended already has said why.
    with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(given)
    received = bytearray()
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    while True:
        if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
            raise TimedOutError(
                f"{where}: no answer within {deadline_s:g} s; is it, or what it names, on a disk that hangs?"
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


def _believed(answer: bytes, kind: type[A], status: int | None, where: str) -> A:
    try:
        found = from_json(answer, kind)
    except UndecodableError:
        raise UnavailableError(
            f"{where}: the child process ended without an answer (status {status}); are the Python packages kubernetes"
            " and cryptography installed whole?"
        ) from None
    if found.failure is not None:
        kinds = {one.kind: one for one in OperatingError.__subclasses__()}
        # Names and paths of the file may hold line ends, and be long.
        said = "".join(c if c.isprintable() else "?" for c in shortened(found.failure.message, SAID_LIMIT))
        raise kinds[found.failure.kind](f"{where}: {said}", reason=found.failure.reason)
    return found
