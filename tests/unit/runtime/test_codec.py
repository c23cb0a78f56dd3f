"""Envelopes: what is sealed comes back, anything else is told apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.codec import HEADER_BYTES, MAGIC, DamagedError, UnknownVersionError, seal, unseal

KINDS = st.text(max_size=40)


@given(st.binary(max_size=2000), KINDS)
def test_what_is_sealed_comes_back(data, kind):
    assert unseal(seal(data, kind), kind) == data


@given(st.binary(max_size=200), KINDS, st.data())
def test_any_changed_bit_is_damage(data, kind, draw):
    sealed = bytearray(seal(data, kind))
    bit = draw.draw(st.integers(0, len(sealed) * 8 - 1))
    sealed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DamagedError):
        unseal(bytes(sealed), kind)


@given(st.binary(max_size=200), KINDS, st.data())
def test_any_cut_is_damage(data, kind, draw):
    sealed = seal(data, kind)
    with pytest.raises(DamagedError):
        unseal(sealed[: draw.draw(st.integers(0, len(sealed) - 1))], kind)


@given(st.binary(max_size=200), KINDS, st.binary(min_size=1, max_size=20))
def test_anything_appended_is_damage(data, kind, more):
    with pytest.raises(DamagedError):
        unseal(seal(data, kind) + more, kind)


@given(st.binary(max_size=400))
def test_bytes_that_were_never_sealed_are_damage(data):
    for start in (b"", MAGIC, MAGIC + b"\x01"):
        with pytest.raises(DamagedError):
            unseal(start + data, "pods/a")


def test_data_of_another_kind_is_damage_that_names_both():
    with pytest.raises(DamagedError, match="'pods/a' where 'pods/b' belongs"):
        unseal(seal(b"x", "pods/a"), "pods/b")


def test_a_newer_version_is_named():
    sealed = bytearray(seal(b"x", "pods/a"))
    sealed[len(MAGIC)] = 7
    with pytest.raises(UnknownVersionError, match="version 7; this agent reads version 1"):
        unseal(bytes(sealed), "pods/a")


def test_the_format_on_disk_stays_as_it_is():
    sealed = seal(b"data", "pods/a")
    assert sealed[: len(MAGIC) + 1] == b"nodeagent\x01"
    assert sealed[HEADER_BYTES:] == b"\x92\xa6pods/a\xc4\x04data"
    assert sealed.hex() == "6e6f64656167656e74018f7cefef794034e9e59a7aaa0db69e1592a6706f64732f61c40464617461"
