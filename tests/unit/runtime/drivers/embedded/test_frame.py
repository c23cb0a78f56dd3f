"""Frames and versions between driver and keeper."""

import contextlib
import json
import random
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.drivers.embedded.keeper.frame import (
    MAX_FRAME_BYTES,
    NEWEST,
    FrameError,
    FrameReader,
    agreed_version,
    pack,
)

BODIES = st.lists(
    st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=20), max_size=3), max_size=5
)


@given(bodies=BODIES, size=st.integers(1, 50))
def test_frames_survive_any_cutting(bodies, size):
    data = b"".join(map(pack, bodies))
    inbox = FrameReader()
    found = [body for start in range(0, len(data), size) for body in inbox.feed(data[start : start + size])]
    assert found == bodies


def test_an_absurd_length_ends_the_connection():
    with pytest.raises(FrameError):
        FrameReader().feed(struct.pack(">I", MAX_FRAME_BYTES + 1))


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        json.dumps([1]).encode(),
        b"\xff\xfe",
        b'{"a":NaN}',
        b'{"a":' + b"1" * 10_000 + b"}",
        pytest.param(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="deep"),
    ],
)
def test_nonsense_ends_the_connection(data):
    with pytest.raises(FrameError):
        FrameReader().feed(struct.pack(">I", len(data)) + data)


@pytest.mark.parametrize(
    ("oldest", "newest", "version"),
    [(NEWEST, NEWEST, NEWEST), (1, NEWEST + 5, NEWEST), (NEWEST + 1, NEWEST + 5, None), (0, 0, None)],
)
def test_both_sides_speak_the_newest_version_that_both_know(oldest, newest, version):
    assert agreed_version(oldest, newest) == version


def test_a_socket_is_read_until_the_other_side_has_gone_or_speaks_no_frames():
    near, far = socket.socketpair()
    near.setblocking(False)
    inbox = FrameReader()
    with near, far:
        assert inbox.receive(near) == [], "nothing has come yet"
        data = pack({"id": 1}) + pack({"id": 2})
        far.sendall(data[:-3])
        assert inbox.receive(near) == [{"id": 1}]
        far.sendall(data[-3:])
        assert inbox.receive(near) == [{"id": 2}]
        far.sendall(struct.pack(">I", MAX_FRAME_BYTES + 1))
        assert inbox.receive(near) is None
        far.close()
        assert FrameReader().receive(near) is None


def test_whatever_a_peer_sends_is_objects_or_a_frame_error():
    chance = random.Random(9)
    body = {"id": 7, "ok": {"stdout": "äöü" * 10, "exit_code": -1, "nested": [[{"a": None}], 1.5e300, True]}}
    whole = pack(body) + pack({"record": body})
    for _ in range(100_000):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data))
            data[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(4))
        with contextlib.suppress(FrameError):
            assert all(isinstance(found, dict) for found in FrameReader().feed(data))
