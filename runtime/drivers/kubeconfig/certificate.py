"""Looks at certificates before anybody dials: do they parse, do they fit the key, whose are they, from when until when."""

import os
import ssl
from datetime import UTC, datetime

import msgspec

SEQUENCE, VERSION, UTC_TIME, GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18
COMMON_NAME, ORGANIZATION = b"\x55\x04\x03", b"\x55\x04\x0a"
"""Object identifiers of X.520, as they are encoded."""


class CertificateFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a certificate says; times in seconds of wall clock."""

    since: float
    until: float
    common_name: str = ""
    organizations: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """Return the subject as people write it."""
        words = [f"O={one}" for one in self.organizations]
        return ", ".join((*words, f"CN={self.common_name}"))


def check_authorities(pem: bytes) -> str:
    """Return why these are no authorities that TLS can use, empty when they are."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem.decode("ascii"))
    except (ssl.SSLError, ValueError):
        return "it holds no certificate in PEM"
    return ""


def check_pair(cert: bytes, key: bytes) -> str:
    """Return why TLS cannot use this client certificate with this key, empty when it can."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    chain, secret = _in_memory(cert), _in_memory(key)
    try:
        # An empty password: OpenSSL would ask the terminal for that of an encrypted key.
        context.load_cert_chain(f"/proc/self/fd/{chain}", f"/proc/self/fd/{secret}", password=b"")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            return "the key is not the certificate's"
        whose = "the certificate" if facts_of(cert) is None else "the key"
        return f"{whose} is not PEM without a password"
    finally:
        os.close(chain)
        os.close(secret)
    return ""


def _in_memory(content: bytes) -> int:
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    os.write(descriptor, content)
    return descriptor


def facts_of(pem: bytes) -> CertificateFacts | None:
    """Return what the first certificate of a chain says, None if none parses.

    Reads as much of X.509 as it takes (RFC 5280, 4.1): the standard library has no public function for it.
    """
    begin, end = pem.find(ssl.PEM_HEADER.encode()), pem.find(ssl.PEM_FOOTER.encode())
    if begin < 0 or end < begin:
        return None
    try:
        der = ssl.PEM_cert_to_DER_cert(pem[begin : end + len(ssl.PEM_FOOTER)].decode("ascii"))
        certificate = _inside(der, 0, SEQUENCE)
        fields = _fields(_inside(certificate, 0, SEQUENCE))
        if fields[0][0] == VERSION:
            fields = fields[1:]
        # Serial number, algorithm, issuer, validity, subject.
        since, until = (_instant(kind, text.decode("ascii")) for kind, text in _fields(fields[3][1])[:2])
        names = [_fields(_inside(parts, 0, SEQUENCE)) for _, parts in _fields(fields[4][1])]
        words = [(kind, text.decode("utf-8", "replace")) for (_, kind), (_, text) in names]
    except (ValueError, IndexError):
        return None
    return CertificateFacts(
        since=since,
        until=until,
        common_name=next((text for kind, text in words if kind == COMMON_NAME), ""),
        organizations=tuple(text for kind, text in words if kind == ORGANIZATION),
    )


def _instant(kind: int, text: str) -> float:
    # A year of two digits is one of 1950 to 2049.
    century = {UTC_TIME: "20" if text[:2] < "50" else "19", GENERALIZED_TIME: ""}.get(kind)
    if century is None:
        raise ValueError("not a time")
    return datetime.strptime(f"{century}{text}", "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _fields(der: bytes) -> list[tuple[int, bytes]]:
    """Return tag and content of each value of a sequence."""
    found, at = [], 0
    while at < len(der):
        tag, content, at = _value(der, at)
        found.append((tag, content))
    return found


def _inside(der: bytes, at: int, expected: int) -> bytes:
    tag, content, _ = _value(der, at)
    if tag != expected:
        raise ValueError("another value")
    return content


def _value(der: bytes, at: int) -> tuple[int, bytes, int]:
    """Return tag, content and the end of the value that begins at `at`. Raises ValueError, IndexError."""
    tag, size, at = der[at], der[at + 1], at + 2
    if size & 0x80:
        count = size & 0x7F
        size, at = int.from_bytes(der[at : at + count], "big"), at + count
    if at + size > len(der):
        raise ValueError("cut off")
    return tag, der[at : at + size], at + size
