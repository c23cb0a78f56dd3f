"""Envelopes for what is kept on disk: a version, a checksum, a kind, the data.

```text
"nodeagent" | version (1 byte) | BLAKE2b-128 of all that follows (16 bytes) | msgpack [kind, data]
```

The checksum is verified before anything is decoded, so damaged bytes never reach the decoder. The kind says what the
data is and where it belongs: data that turns up under another name is damage too.
"""

from hashlib import blake2b

import msgpack

MAGIC = b"nodeagent"
VERSION = 1
DIGEST_BYTES = 16
HEADER_BYTES = len(MAGIC) + 1 + DIGEST_BYTES


class DamagedError(ValueError):
    """Bytes that are not what was sealed: cut, changed, of another kind, or not an envelope at all."""


class UnknownVersionError(DamagedError):
    """An envelope of a version that this agent does not read, most likely written by a newer one."""


def seal(data: bytes, kind: str) -> bytes:
    """Put `data` into an envelope of this kind."""
    body: bytes = msgpack.packb([kind, data], use_bin_type=True)
    return MAGIC + bytes([VERSION]) + _digest(body) + body


def unseal(sealed: bytes, kind: str) -> bytes:
    """Return the data of an envelope of this kind; raises `DamagedError` or `UnknownVersionError`, which say why."""
    if len(sealed) < HEADER_BYTES:
        raise DamagedError(f"it has {len(sealed)} bytes; the header alone has {HEADER_BYTES}")
    if not sealed.startswith(MAGIC):
        raise DamagedError("it does not begin like one of our files")
    version = sealed[len(MAGIC)]
    if version != VERSION:
        raise UnknownVersionError(f"it has format version {version}; this agent reads version {VERSION}")
    digest, body = sealed[len(MAGIC) + 1 : HEADER_BYTES], sealed[HEADER_BYTES:]
    if _digest(body) != digest:
        raise DamagedError("its checksum does not match its content")
    found, data = msgpack.unpackb(body, raw=False, use_list=True)
    if found != kind:
        raise DamagedError(f"it holds {found!r} where {kind!r} belongs")
    assert isinstance(data, bytes)
    return data


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=DIGEST_BYTES).digest()
