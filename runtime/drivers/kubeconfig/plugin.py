"""Runs an exec plugin (client.authentication.k8s.io) for a credential, bounded in time and output.

It gets the search path, home, locale, proxies and certificate stores of the agent, and what ``env`` of its entry says: the
agent's own environment may hold secrets of others.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import msgspec

from api.decoding import UndecodableError, from_json
from api.errors import DeniedError, NotFoundError, RejectedError, TimedOutError, UnavailableError
from runtime.drivers.kubeconfig.schema import ClusterEntry, PluginEntry

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
OUTPUT_LIMIT_BYTES = 1 << 20
SAID_LIMIT = 200
"""Characters of the last line of its error output that an error repeats."""
EXTENSION = "client.authentication.k8s.io/exec"
PASSED_ON = (
    "PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip
"""Names of variables."""


class PluginStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The credential."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None

    def __repr__(self) -> str:
        return f"PluginStatus(until {self.expiration_timestamp})"


class ExecCredential(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a plugin prints."""

    api_version: str
    kind: str
    status: PluginStatus | None = None


def run_plugin(
    entry: PluginEntry, cluster: ClusterEntry, ca: bytes, folder: Path, end: float
) -> tuple[PluginStatus, float | None]:
    """Return the credential and until when it is good, seconds of wall clock or None; wait until `end`, of the monotonic clock.

    Raises an `OperatingError`.
    """
    command = _checked(entry, folder)
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment |= {one.name: one.value for one in entry.env or ()}
    environment["KUBERNETES_EXEC_INFO"] = json.dumps(_exec_info(entry, cluster, ca))
    try:
        process = subprocess.Popen(
            [command, *(entry.args or ())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd="/",
        )
    except FileNotFoundError as error:
        hint = " ".join((entry.install_hint or "").split())[:SAID_LIMIT]
        raise NotFoundError(
            f"there is no such program; {hint or 'install it, or change the command'}"
        ) from error
    except (OSError, ValueError) as error:
        why = (
            error.strerror if isinstance(error, OSError) else "its arguments or environment hold a null byte"
        )
        raise RejectedError(f"it cannot be run: {why}; change the command") from error
    with process:
        try:
            printed, said = _listen(process, end)
        finally:
            process.kill()
    if process.returncode != 0:
        raise UnavailableError(
            f"it {_ending(process.returncode)}{_last_line(said, entry)}; run it by hand to see why"
        )
    return _credential(printed, entry)


def _checked(entry: PluginEntry, folder: Path) -> str:
    """Return the program to run: a name for the search path, or an absolute path."""
    if entry.api_version not in VERSIONS:
        raise RejectedError(f"apiVersion must be one of {', '.join(VERSIONS)}")
    if not entry.command:
        raise RejectedError("command is required")
    if entry.interactive_mode == "Always":
        raise RejectedError(
            "interactiveMode is Always, and a node agent has no terminal; use a plugin that asks nobody"
        )
    return str(folder / entry.command) if "/" in entry.command else entry.command


def _exec_info(entry: PluginEntry, cluster: ClusterEntry, ca: bytes) -> Mapping[str, object]:
    spec: dict[str, object] = {"interactive": False}
    if entry.provide_cluster_info:
        named = {str(one.get("name")): one.get("extension") for one in cluster.extensions or ()}
        about = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
            "certificate-authority-data": msgspec.to_builtins(ca) if ca else None,
            "config": named.get(EXTENSION),
        }
        spec["cluster"] = {name: value for name, value in about.items() if value is not None}
    return {"apiVersion": entry.api_version, "kind": "ExecCredential", "spec": spec}


def _listen(process: subprocess.Popen[bytes], end: float) -> tuple[bytes, bytes]:
    """Return output and error output of a process that ended. Raises `TimedOutError`, `RejectedError`.

    What it leaves running may hold its output open: the process's own end is what counts.
    """
    begun = time.monotonic()
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = process.stdout.fileno(), process.stderr.fileno()
    received = {out: bytearray(), err: bytearray()}
    with contextlib.closing(selectors.DefaultSelector()) as selector:
        watched = os.pidfd_open(process.pid)
        try:
            for descriptor in (watched, out, err):
                selector.register(descriptor, selectors.EVENT_READ)
            for descriptor in (out, err):
                os.set_blocking(descriptor, False)
            while True:
                ready = {key.fd for key, _ in selector.select(max(0.0, end - time.monotonic()))}
                if not ready:
                    raise TimedOutError(
                        f"it did not end within {max(0.0, end - begun):.0f} s; run it by hand to see why"
                    )
                for descriptor in ready - {watched}:
                    if _take(descriptor, received[descriptor]):
                        selector.unregister(descriptor)
                if watched in ready and not ready & received.keys():
                    break
        finally:
            os.close(watched)
    process.wait()
    return bytes(received[out]), bytes(received[err])


def _take(descriptor: int, into: bytearray) -> bool:
    """Add what is there to read; return whether that was the end."""
    data = os.read(descriptor, 1 << 16)
    into += data
    if len(into) > OUTPUT_LIMIT_BYTES:
        raise RejectedError(f"it prints more than {OUTPUT_LIMIT_BYTES >> 20} MiB; is it a credential plugin?")
    return not data


def _ending(status: int) -> str:
    if status < 0:
        names = {number.value: number.name for number in signal.Signals}
        return f"was killed by {names.get(-status, -status)}"
    return f"ended with status {status}"


def _last_line(said: bytes, entry: PluginEntry) -> str:
    """Return the last line that it said, without the values of its entry's environment."""
    lines = said.decode(errors="replace").split("\n")
    line = next((line for line in reversed(lines) if line.strip()), "")
    for one in sorted(entry.env or (), key=lambda one: -len(one.value)):
        line = line.replace(one.value, "***") if one.value else line
    shown = "".join(c for c in line.strip() if c.isprintable())[:SAID_LIMIT]
    return f", saying {shown!r}" if shown else ""


def _credential(printed: bytes, entry: PluginEntry) -> tuple[PluginStatus, float | None]:
    what_to_do = "run it by hand and look at its output"
    try:
        found = from_json(printed, ExecCredential)
    except UndecodableError:
        raise RejectedError(f"it prints no ExecCredential in JSON; {what_to_do}") from None
    if found.kind != "ExecCredential" or found.api_version != entry.api_version:
        raise RejectedError(f"it prints no ExecCredential of {entry.api_version}; {what_to_do}")
    status = found.status or PluginStatus()
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise RejectedError(
            f"it prints a certificate without a key, or a key without a certificate; {what_to_do}"
        )
    if not status.token and not status.client_key_data:
        raise RejectedError(f"it prints neither a token nor a client certificate; {what_to_do}")
    if not status.expiration_timestamp:
        return status, None
    try:
        until = datetime.fromisoformat(status.expiration_timestamp)
    except ValueError:
        until = datetime.min  # noqa: DTZ901  # replaced by the error below, as any time without a zone
    if until.tzinfo is None:
        raise RejectedError(f"its expirationTimestamp is not a time of RFC 3339; {what_to_do}")
    if until.timestamp() <= time.time():
        raise DeniedError(f"its credential expired at {until.isoformat()}; log in with it again")
    return status, until.timestamp()
