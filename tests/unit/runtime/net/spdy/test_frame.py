"""SPDY frames: there and back, against what a real containerd sent, and against what no peer should send."""

import contextlib
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.net.spdy import frame as f
from runtime.net.spdy.header import HEADER_LIMIT_BYTES, Packer, SpdyError, Unpacker, dictionary

IDS = st.integers(1, f.STREAM_MASK)
U32 = st.integers(0, (1 << 32) - 1)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Lu", "Lt"]), max_size=20)
HEADERS = st.dictionaries(TEXTS.map(str.lower), TEXTS, max_size=5).map(
    lambda found: tuple(sorted(found.items()))
)
FRAMES = st.one_of(
    st.builds(
        f.SynStream,
        stream=IDS,
        headers=HEADERS,
        associated=st.integers(0, f.STREAM_MASK),
        priority=st.integers(0, 7),
        finish=st.booleans(),
        unidirectional=st.booleans(),
    ),
    st.builds(f.SynReply, stream=IDS, headers=HEADERS, finish=st.booleans()),
    st.builds(f.HeadersFrame, stream=IDS, headers=HEADERS, finish=st.booleans()),
    st.builds(f.RstStream, stream=IDS, status=U32),
    st.builds(
        f.SettingsFrame,
        entries=st.lists(st.tuples(st.integers(0, 0xFF_FFFF), U32), max_size=4).map(tuple),
    ),
    st.builds(f.Ping, id=U32),
    st.builds(f.GoAway, last=IDS, status=U32),
    st.builds(f.WindowUpdate, stream=st.integers(0, f.STREAM_MASK), delta=st.integers(0, f.STREAM_MASK)),
    st.builds(f.Data, stream=IDS, data=st.binary(max_size=300), finish=st.booleans()),
)

CONTAINERD = bytes.fromhex(
    "80030002000000140000000578f9e3c6a7c26260606000000000ffff800300020000000c00000001026100000000ffff"
    "800300020000000c00000003026100000000ffff000000030000000368690a00000005010000000000000301000000"
    "80030003000000080000000100000005800300070000000800000005"
    "00000000"
)
"""What containerd 1.6.20 answered to ``echo hi`` with three streams, its status left out."""


@given(st.lists(FRAMES, max_size=12), st.data())
def test_frames_come_out_as_they_went_in_however_they_are_cut(frames, data):
    encoder, decoder = f.Encoder(), f.Decoder()
    wire = b"".join(encoder.encode(frame) for frame in frames)
    found = []
    while wire:
        size = data.draw(st.integers(1, len(wire)))
        found += decoder.feed(wire[:size])
        wire = wire[size:]
    assert found == frames


def test_the_dictionary_is_the_one_of_the_draft():
    # Every zlib stream of SPDY/3 names the dictionary by its checksum, right behind the first two bytes.
    assert (len(dictionary()), zlib.adler32(dictionary())) == (1423, 0xE3C6A7C2)
    assert Packer().pack(())[:6] == bytes.fromhex("78bbe3c6a7c2")


def test_what_containerd_sends_is_understood():
    assert list(f.Decoder().feed(CONTAINERD)) == [
        f.SynReply(stream=5),
        f.SynReply(stream=1),
        f.SynReply(stream=3),
        f.Data(stream=3, data=b"hi\n"),
        f.Data(stream=5, finish=True),
        f.Data(stream=3, finish=True),
        f.RstStream(stream=1, status=f.Status.CANCEL),
        f.GoAway(last=5),
    ]


@pytest.mark.parametrize(
    ("frame", "wire"),
    [
        (f.RstStream(stream=3, status=5), "80030003 00000008 00000003 00000005"),
        (f.SettingsFrame(entries=((7, 65536),)), "80030004 0000000c 00000001 00000007 00010000"),
        (f.Ping(id=9), "80030006 00000004 00000009"),
        (f.GoAway(last=7, status=1), "80030007 00000008 00000007 00000001"),
        (f.WindowUpdate(stream=5, delta=0x8000), "80030009 00000008 00000005 00008000"),
        (f.Data(stream=1, data=b"hi", finish=True), "00000001 01000002 6869"),
    ],
)
def test_each_frame_has_the_bytes_of_the_draft(frame, wire):
    assert f.Encoder().encode(frame) == bytes.fromhex(wire)


def test_header_blocks_share_one_compression():
    packer, unpacker = Packer(), Unpacker()
    blocks = [packer.pack((("streamtype", kind),)) for kind in ("error", "stdin", "stdout", "stdin")]
    assert len(blocks[3]) < len(blocks[0]) / 2
    kinds = [unpacker.unpack(block)[0][1] for block in blocks]
    assert kinds == ["error", "stdin", "stdout", "stdin"]


@pytest.mark.parametrize(
    ("wire", "why"),
    [
        ("80020001 00000000", "SPDY/2"),
        ("80030009 00000004 00000001", "too short"),
        ("80030004 00000008 00000002 00000007", "settings"),
        ("00000000 00000000", "no stream"),
        ("00000001 00ffffff", "most accepted"),
        ("80030002 00000008 00000001 ffffffff", "cannot be unpacked"),
    ],
)
def test_what_is_no_frame_is_refused(wire, why):
    with pytest.raises(SpdyError, match=why):
        list(f.Decoder().feed(bytes.fromhex(wire)))


def test_a_kind_that_is_not_known_is_passed_over():
    wire = bytes.fromhex("8003000a 00000002 ffff") + f.Encoder().encode(f.Ping(id=1))
    assert list(f.Decoder().feed(wire)) == [f.Ping(id=1)]


def test_a_header_block_that_unpacks_to_much_more_is_refused():
    with pytest.raises(SpdyError, match="more than"):
        Unpacker().unpack(Packer().pack((("bomb", "a" * 10 * HEADER_LIMIT_BYTES),)))


@given(st.binary(max_size=60))
def test_any_bytes_are_frames_or_an_error_of_the_connection(data):
    with contextlib.suppress(SpdyError):
        list(f.Decoder().feed(data))


@pytest.mark.parametrize("text", [b"", b"\0\0\0\1", b"\0\0\0\1\0\0\0\5ab", struct.pack(">I", 0) + b"x"])
def test_a_block_that_contradicts_itself_is_refused(text):
    packed = zlib.compressobj(zdict=dictionary())
    with pytest.raises(SpdyError, match="header block"):
        Unpacker().unpack(packed.compress(text) + packed.flush(zlib.Z_SYNC_FLUSH))


def test_what_people_type_is_in_no_text():
    assert "secret" not in repr(f.Data(stream=1, data=b"secret"))
