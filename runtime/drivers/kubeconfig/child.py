"""The child process: reads one kubeconfig and prints what it comes to, as JSON of `Resolved`.

```text
python -P -m runtime.drivers.kubeconfig.child PATH INSTANT CURRENT
```

Until INSTANT, of the monotonic clock, a plugin may run. CURRENT is the certificate that rotation stored last, empty for none.
Relative paths in the file are relative to its folder. A token file wins over a token, data over a file, as in kubectl.
"""

import base64
import binascii
import io
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from kubernetes.config import kube_config

from api.decoding import ready
from api.errors import DeniedError, OperatingError, RejectedError
from api.ports.certificate import EXPIRED
from api.shortening import shortened
from runtime.drivers.kubeconfig.certificate import (
    CertificateFacts,
    check_authorities,
    check_pair,
    facts_of,
)
from runtime.drivers.kubeconfig.plugin import PluginStatus, run_plugin
from runtime.drivers.kubeconfig.resolve import Resolved
from runtime.drivers.kubeconfig.schema import (
    ClusterEntry,
    ContextEntry,
    KubeConfig,
    NamedCluster,
    NamedContext,
    NamedUser,
    UserEntry,
)
from runtime.net.kubeaccess import Access, AccessFile, file_mark
from runtime.trust import read_regular

TOKEN_FILE_S = 300.0
"""A token file is read again after this time: who writes it replaces it well before the token expires."""
REFUSED = {
    "username": "username",
    "password": "password",
    "auth_provider": "auth-provider",
    "impersonate": "as",
    "impersonate_uid": "as-uid",
    "impersonate_groups": "as-groups",
    "impersonate_extra": "as-user-extra",
}
"""Fields of a user that are not supported, and their names in the file."""

T = TypeVar("T", NamedCluster, NamedUser, NamedContext)


class FileReader:
    """Reads a kubeconfig and what it names, relative to its folder, and keeps which files these were."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[AccessFile] = []

    def read(self, file: str | Path) -> bytes:
        """Return a file's bytes. Raises an `OperatingError`, or ValueError for what is no path."""
        path = str(self.folder / file)
        self.files.append(AccessFile(path=path, mark=file_mark(path)))
        return read_regular(path)

    def named(self, file: str, what: str) -> bytes:
        """Return the bytes of a file that an entry names, which may not be empty. Raises an `OperatingError`."""
        try:
            content = self.read(file)
        except (OperatingError, ValueError) as error:
            kind = type(error) if isinstance(error, OperatingError) else RejectedError
            raise kind(f"{what}: {error}; put it there, or change the entry") from None
        if not content.strip():
            raise RejectedError(
                f"{what}: {self.folder / file}: it is empty; write it again, or change the entry"
            )
        return content


def access_of(path: Path, end: float, current: str) -> Access:
    """Return what a kubeconfig comes to. Raises an `OperatingError` that does not name the file yet."""
    reader = FileReader(path.parent)
    try:
        content = reader.read(path)
    except OperatingError as error:
        why = str(error).removeprefix(f"{path}: ")
        raise type(error)(f"{why}; give the path of one that can be read with --kubeconfig") from None
    config = _parsed(content)
    if not config.current_context:
        raise RejectedError("it has no current-context; set one, as with kubectl config use-context")
    context = (
        _named(config.contexts, config.current_context, "context", "current-context").context
        or ContextEntry()
    )
    whose = f"context {shortened(config.current_context)!r}"
    if not context.cluster:
        raise RejectedError(f"{whose} names no cluster; add one to it")
    cluster = _named(config.clusters, context.cluster, "cluster", whose).cluster or ClusterEntry()
    user = UserEntry()
    if context.user:
        user = _named(config.users, context.user, "user", whose).user or user
    where, who = f"cluster {shortened(context.cluster)!r}", f"user {shortened(context.user or '')!r}"
    ca = _authorities(cluster, reader, where)
    server = _server(cluster, where)
    cert, key = _pair(user, reader, who)
    cert_file = str(reader.folder / (user.client_certificate or path)) if cert else ""
    if user.client_certificate_data:
        cert_file = str(path)
    token, expires_at = _token(user, reader, who)
    if user.exec is not None and not token:
        status, expires_at = _from_plugin(user, cluster, ca, reader.folder, who, end)
        token = status.token
        if status.client_key_data:
            cert, key = status.client_certificate_data.encode(), status.client_key_data.encode()
            cert_file = ""
    elif cert and current:
        cert, key, cert_file = _rotated(current, reader, facts_of(cert)) or (cert, key, cert_file)
    if cert:
        expires_at = _earlier(expires_at, _checked_pair(cert, key, who))
    return Access(
        server=server,
        ca=ca,
        cert=cert,
        key=key,
        token=token,
        server_name=cluster.tls_server_name or "",
        insecure=bool(cluster.insecure_skip_tls_verify),
        expires_at=expires_at,
        ca_file=_ca_file(cluster, reader.folder),
        cert_file=cert_file,
        files=tuple(reader.files),
    )


def _rotated(
    current: str, reader: FileReader, own: CertificateFacts | None
) -> tuple[bytes, bytes, str] | None:
    """Return the pair that rotation stored for the same subject, and its file, None where none can be used now."""
    try:
        content = reader.read(current)
    except (OperatingError, ValueError):
        return None
    facts = facts_of(content)
    if facts is None or own is None or facts.subject != own.subject or facts.until <= time.time():
        return None
    return None if check_pair(content, content) else (content, content, current)


def _ca_file(cluster: ClusterEntry, folder: Path) -> str:
    named = "" if cluster.certificate_authority_data else cluster.certificate_authority
    return str(folder / named) if named else ""


def _parsed(content: bytes) -> KubeConfig:
    library: Any = kube_config
    try:
        tree = library.KubeConfigMerger(io.StringIO(content.decode())).config
        return msgspec.convert(tree, ready(KubeConfig))
    except library.yaml.YAMLError as error:
        # Not what the library says: it quotes the line, which may hold a secret.
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark is not None else ""
        raise RejectedError(f"it is not YAML{line}; correct it") from None
    except library.ConfigException:
        raise RejectedError("it is empty; write it again") from None
    except msgspec.ValidationError as error:
        raise RejectedError(f"it is not a kubeconfig: {error}; correct that entry") from None
    except (ValueError, RecursionError):
        raise RejectedError("it is not YAML in UTF-8; correct it") from None


def _named(entries: tuple[T, ...] | None, name: str, kind: str, whose: str) -> T:
    found = [one for one in entries or () if one.name == name]
    if len(found) > 1:
        raise RejectedError(f"it has {len(found)} {kind}s of the name {shortened(name)!r}; leave one")
    if not found:
        raise RejectedError(
            f"{whose} names {kind} {shortened(name)!r}, which is not in the file; add it, or name another"
        )
    return found[0]


def _server(cluster: ClusterEntry, where: str) -> str:
    if cluster.proxy_url:
        raise RejectedError(
            f"{where} has a proxy-url, which is not supported; remove it and reach the server directly"
        )
    if not cluster.server:
        raise RejectedError(f"{where} has no server; add its URL, as https://HOST:6443")
    try:
        url = urlsplit(cluster.server)
        usable = url.scheme == "https" and bool(url.hostname) and (url.port is None or url.port > 0)
        plain = cluster.server.isascii() and cluster.server.isprintable() and " " not in cluster.server
    except ValueError:
        usable = plain = False
    if not usable or not plain or url.username is not None or url.query or url.fragment:
        raise RejectedError(
            f"server of {where} is no URL that can be used; write it as https://HOST:PORT/PREFIX"
        )
    return cluster.server.rstrip("/")


def _authorities(cluster: ClusterEntry, reader: FileReader, where: str) -> bytes:
    ca = _content(
        cluster.certificate_authority_data,
        cluster.certificate_authority,
        reader,
        f"certificate-authority of {where}",
    )
    if ca and cluster.insecure_skip_tls_verify:
        raise RejectedError(
            f"{where} has both a certificate-authority and insecure-skip-tls-verify; remove one of them"
        )
    if ca and (wrong := check_authorities(ca)):
        raise RejectedError(
            f"certificate-authority of {where}: {wrong}; give the certificate of the server's authority"
        )
    return ca


def _pair(user: UserEntry, reader: FileReader, who: str) -> tuple[bytes, bytes]:
    for field, name in REFUSED.items():
        if getattr(user, field):
            raise RejectedError(
                f"{who} has {name}, which is not supported; use a client certificate, token or exec plugin"
            )
    cert = _content(
        user.client_certificate_data, user.client_certificate, reader, f"client-certificate of {who}"
    )
    key = _content(user.client_key_data, user.client_key, reader, f"client-key of {who}")
    if bool(cert) != bool(key):
        there, missing = (
            ("client-certificate", "client-key") if cert else ("client-key", "client-certificate")
        )
        raise RejectedError(f"{who} has a {there} without a {missing}; add it")
    return cert, key


def _checked_pair(cert: bytes, key: bytes, who: str) -> float | None:
    """Return until when a client certificate is valid; raises an `OperatingError` if it is not, or not with this key."""
    if wrong := check_pair(cert, key):
        raise RejectedError(f"client-certificate of {who}: {wrong}; give both as they were issued")
    facts = facts_of(cert)
    if facts is not None and facts.until <= time.time():
        day = datetime.fromtimestamp(facts.until, UTC).isoformat()
        raise DeniedError(
            f"client-certificate of {who} was valid until {day}; have a new one issued", reason=EXPIRED
        )
    return facts.until if facts is not None else None


def _content(data: str | None, file: str | None, reader: FileReader, what: str) -> bytes:
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError):
            raise RejectedError(f"data for {what} is not base64; correct it") from None
    return reader.named(file, what) if file else b""


def _token(user: UserEntry, reader: FileReader, who: str) -> tuple[str, float | None]:
    token, expires_at = user.token or "", None
    if user.token_file:
        try:
            token = reader.named(user.token_file, f"tokenFile of {who}").decode("utf-8", "replace").strip()
        except OperatingError:
            if not token:
                raise
        expires_at = time.time() + TOKEN_FILE_S
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise RejectedError(f"token of {who} holds characters that no header may have; write it again")
    return token, expires_at


def _from_plugin(
    user: UserEntry, cluster: ClusterEntry, ca: bytes, folder: Path, who: str, end: float
) -> tuple[PluginStatus, float | None]:
    assert user.exec is not None
    try:
        return run_plugin(user.exec, cluster, ca, folder, end)
    except OperatingError as error:
        raise type(error)(f"exec plugin {user.exec.command or ''!r} of {who}: {error}") from None


def _earlier(one: float | None, other: float | None) -> float | None:
    both = [at for at in (one, other) if at is not None]
    return min(both) if both else None


def main(path: str, end: float, current: str) -> None:
    """Print what a kubeconfig comes to, or why it comes to nothing."""
    try:
        found = Resolved(access=access_of(Path(path), end, current))
    except OperatingError as error:
        found = Resolved(failure=error.failure())
    sys.stdout.buffer.write(msgspec.json.encode(found))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3])
