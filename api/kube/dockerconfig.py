"""Reads credentials for registries from the files and secrets that Docker's tools write.

```text
.dockerconfigjson, config.json   {"auths": {"<where>": {"auth": base64("user:password")}}}
.dockercfg                       {"<where>": {"username": ..., "password": ...}}
```

Errors never contain a part of the content.
"""

import base64
import binascii
from typing import Any

import msgspec

from api.errors import RejectedError
from api.messages.images import Credential
from api.ports.images import ImageAuth

CONFIG = ".dockercfg"
"""Key of a secret of type ``kubernetes.io/dockercfg``."""


def read_config_json(content: bytes | str) -> tuple[Credential, ...]:
    """Return the credentials of a ``config.json``, in its own order. Raises `RejectedError`."""
    document = _object(content)
    auths = document.get("auths")
    if auths is None:
        return ()
    if not isinstance(auths, dict):
        raise RejectedError('the field "auths" is not an object; write {"auths": {"<registry>": {...}}}')
    return _credentials(auths)


def read_config(content: bytes | str) -> tuple[Credential, ...]:
    """Return the credentials of a ``.dockercfg``, in its own order. Raises `RejectedError`."""
    return _credentials(_object(content))


def _object(content: bytes | str) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # The decoder's text may quote what it stumbles over.
        raise RejectedError("the content is not JSON") from None
    if not isinstance(document, dict):
        raise RejectedError("the content is JSON, but not an object")
    return document


def _credentials(entries: dict[str, Any]) -> tuple[Credential, ...]:
    found = []
    for number, (where, entry) in enumerate(entries.items()):
        auth = _auth(entry, number)
        # An empty entry refers to a credential helper: it must not hide other credentials.
        if auth != ImageAuth():
            found.append(Credential(where=where, auth=auth))
    return tuple(found)


def _auth(entry: object, number: int) -> ImageAuth:
    place = f"entry number {number + 1}"
    if not isinstance(entry, dict):
        raise RejectedError(f"{place} is not an object")
    fields = {}
    for name in ("username", "password", "auth", "identitytoken", "registrytoken"):
        value = entry.get(name)
        if value is not None and not isinstance(value, str):
            raise RejectedError(f'{place}: the field "{name}" is not a string')
        fields[name] = value or ""
    username, password = fields["username"], fields["password"]
    if fields["auth"]:
        username, password = _decoded(fields["auth"], place)
    return ImageAuth(
        username=username,
        password=password,
        identity_token=fields["identitytoken"],
        registry_token=fields["registrytoken"],
    )


def _decoded(text: str, place: str) -> tuple[str, str]:
    padded = text.strip().rstrip("=")
    try:
        plain = base64.b64decode(padded + "=" * (-len(padded) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        raise RejectedError(f'{place}: the field "auth" is not base64') from None
    username, colon, password = plain.partition(":")
    if not colon:
        raise RejectedError(f'{place}: the field "auth" is not base64 of user:password')
    return username, password.rstrip("\0")
