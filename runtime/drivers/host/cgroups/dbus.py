"""Calls over D-Bus, as few as it takes to have systemd make a slice: connect, authenticate by user id, call, read the answer.

The wire format is that of the D-Bus specification, version 1, little-endian; of its types those that these calls need.
"""

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any

ALIGNMENT = {"y": 1, "b": 4, "u": 4, "t": 8, "s": 4, "o": 4, "g": 1, "a": 4, "(": 8, "v": 1}
CALL, RETURN, ERROR, SIGNAL = 1, 2, 3, 4
PATH, INTERFACE, MEMBER, ERROR_NAME, REPLY_SERIAL, DESTINATION, _, SIGNATURE = range(1, 9)
LONGEST = 1 << 20
"""A larger message is not an answer to our calls."""
BUS = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")


class DbusError(Exception):
    """The other side answered with an error."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message or name)
        self.name = name


class Bus:
    """One connection to a message bus. Raises OSError for what breaks it, `DbusError` for what is refused."""

    def __init__(self, path: str, deadline_s: float) -> None:
        self._sock = socket.socket(socket.AF_UNIX)
        self._serial = 0
        self._unread = b""
        try:
            self._sock.settimeout(max(0.1, deadline_s))
            self._sock.connect(path)
            user = str(os.geteuid()).encode().hex()
            self._sock.sendall(b"\0AUTH EXTERNAL " + user.encode() + b"\r\n")
            self._expect_ok()
            self._sock.sendall(b"BEGIN\r\n")
            self.call(BUS, "Hello")
        except BaseException:
            self._sock.close()
            raise

    def close(self) -> None:
        """Hang up."""
        self._sock.close()

    def call(
        self, target: tuple[str, str, str], member: str, signature: str = "", *values: object
    ) -> tuple[object, ...]:
        """Call a method of `target` (name on the bus, object, interface) and return what it answers."""
        self._serial += 1
        name, path, interface = target
        fields = [(PATH, ("o", path)), (INTERFACE, ("s", interface)), (MEMBER, ("s", member))]
        fields.append((DESTINATION, ("s", name)))
        if signature:
            fields.append((SIGNATURE, ("g", signature)))
        self._sock.sendall(message(CALL, self._serial, fields, signature, values))
        while True:
            kind, _, answered, body = self.receive()
            if kind in (RETURN, ERROR) and answered.get(REPLY_SERIAL) == self._serial:
                break
        if kind == ERROR:
            told = body[0] if body and isinstance(body[0], str) else ""
            raise DbusError(str(answered.get(ERROR_NAME, "")), told)
        return body

    def receive(self) -> tuple[int, int, dict[int, object], tuple[object, ...]]:
        """Return kind, serial, header fields and body of the next message."""
        start = self._read(16)
        if start[:1] != b"l":
            raise ConnectionError("the bus speaks big-endian")
        length, serial, fields_length = struct.unpack_from("<III", start, 4)
        rest = fields_length + -fields_length % 8 + length
        if rest > LONGEST:
            raise ConnectionError("the bus sent a message that is too long")
        data = start + self._read(rest)
        try:
            fields, _ = take(data, 12, "a(yv)")
            header = {code: value for code, (_, value) in fields}
            body, at = [], len(data) - length
            for one in complete_types(str(header.get(SIGNATURE, ""))):
                value, at = take(data, at, one)
                body.append(value)
        except (struct.error, IndexError, KeyError) as error:
            raise ConnectionError("the bus sent what is no message") from error
        return start[1], serial, header, tuple(body)

    def answer(self, to: str, serial: int, signature: str = "", *values: object, error: str = "") -> None:
        """Answer a call that was received from `to`; `error` names what went wrong."""
        self._serial += 1
        fields: list[tuple[int, tuple[str, object]]] = [
            (REPLY_SERIAL, ("u", serial)),
            (DESTINATION, ("s", to)),
        ]
        if error:
            fields.append((ERROR_NAME, ("s", error)))
        if signature:
            fields.append((SIGNATURE, ("g", signature)))
        self._sock.sendall(message(ERROR if error else RETURN, self._serial, fields, signature, values))

    def _expect_ok(self) -> None:
        while b"\r\n" not in self._unread:
            self._unread += self._some()
        line, _, self._unread = self._unread.partition(b"\r\n")
        if not line.startswith(b"OK "):
            raise PermissionError(1, "the bus does not take this user")

    def _read(self, size: int) -> bytes:
        while len(self._unread) < size:
            self._unread += self._some()
        data, self._unread = self._unread[:size], self._unread[size:]
        return data

    def _some(self) -> bytes:
        data = self._sock.recv(1 << 16)
        if not data:
            raise ConnectionError("the bus hung up")
        return data


def message(
    kind: int,
    serial: int,
    fields: Sequence[tuple[int, tuple[str, object]]],
    signature: str,
    values: tuple[object, ...],
) -> bytes:
    """Return a message as it goes over the wire."""
    body = bytearray()
    for one, value in zip(complete_types(signature), values, strict=True):
        put(body, one, value)
    head = bytearray(struct.pack("<BBBBII", ord("l"), kind, 0, 1, len(body), serial))
    put(head, "a(yv)", fields)
    pad(head, 8)
    return bytes(head + body)


def complete_types(signature: str) -> Iterator[str]:
    """Yield the complete types that a signature is made of."""
    at = 0
    while at < len(signature):
        end = end_of_type(signature, at)
        yield signature[at:end]
        at = end


def end_of_type(signature: str, at: int) -> int:
    """Return where the complete type that begins at `at` ends."""
    if signature[at] == "a":
        return end_of_type(signature, at + 1)
    if signature[at] == "(":
        at += 1
        while signature[at] != ")":
            at = end_of_type(signature, at)
    return at + 1


def pad(out: bytearray, boundary: int) -> None:
    """Fill up to a boundary."""
    out += bytes(-len(out) % boundary)


def put(out: bytearray, kind: str, value: Any) -> None:  # noqa: C901  # one case per type
    """Write a value of one complete type; a variant is a pair of its type and its value."""
    pad(out, ALIGNMENT[kind[0]])
    match kind[0]:
        case "y":
            out.append(value)
        case "b" | "u":
            out += struct.pack("<I", value)
        case "t":
            out += struct.pack("<Q", value)
        case "s" | "o":
            data = value.encode()
            out += struct.pack("<I", len(data)) + data + b"\0"
        case "g":
            out += bytes((len(value),)) + value.encode() + b"\0"
        case "v":
            put(out, "g", value[0])
            put(out, value[0], value[1])
        case "(":
            for one, part in zip(complete_types(kind[1:-1]), value, strict=True):
                put(out, one, part)
        case "a":
            place = len(out)
            out += bytes(4)
            pad(out, ALIGNMENT[kind[1]])
            start = len(out)
            for part in value:
                put(out, kind[1:], part)
            struct.pack_into("<I", out, place, len(out) - start)


def take(data: bytes, at: int, kind: str) -> tuple[Any, int]:
    """Read a value of one complete type; return it and where the next one may begin."""
    at += -at % ALIGNMENT[kind[0]]
    match kind[0]:
        case "y":
            return data[at], at + 1
        case "b" | "u":
            return struct.unpack_from("<I", data, at)[0], at + 4
        case "t":
            return struct.unpack_from("<Q", data, at)[0], at + 8
        case "s" | "o":
            size = struct.unpack_from("<I", data, at)[0]
            return data[at + 4 : at + 4 + size].decode(errors="replace"), at + 5 + size
        case "g":
            return data[at + 1 : at + 1 + data[at]].decode(errors="replace"), at + 2 + data[at]
        case "v":
            inner, at = take(data, at, "g")
            value, at = take(data, at, inner)
            return (inner, value), at
        case "(":
            parts = []
            for one in complete_types(kind[1:-1]):
                part, at = take(data, at, one)
                parts.append(part)
            return tuple(parts), at
        case _:
            size = struct.unpack_from("<I", data, at)[0]
            at += 4
            at += -at % ALIGNMENT[kind[1]]
            end, items = at + size, []
            while at < end:
                item, at = take(data, at, kind[1:])
                items.append(item)
            return items, end
