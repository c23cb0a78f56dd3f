"""Amounts: exact, compared by value, written as Kubernetes writes them."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.kube.quantity import LIMIT, NANO, Amount, Notation, QuantityError, parse

TEXTS = {
    "0": "0", "0Mi": "0", "-0": "0", "1": "1", "0.5": "500m", "1.5": "1500m", "250m": "250m", "1000m": "1",
    "100u": "100u", "5n": "5n", "0.1n": "1n", "-0.1n": "-1n", "1k": "1k", "1000": "1k", "1500k": "1500k", "12M": "12M",
    "1024Ki": "1Mi", "1.5Gi": "1536Mi", "1000Ki": "1000Ki", "512": "512", "0.5Ki": "512", "1Ei": "1Ei", "1E": "1E",
    "1e3": "1e3", "1E3": "1e3", "12e6": "12e6", "1500e-3": "1500e-3", "1e-99999999999": "1e-9", ".5": "500m", "5.": "5", "+5": "5",
}  # fmt: skip


@pytest.mark.parametrize(("text", "canonical"), TEXTS.items())
def test_an_amount_is_written_in_its_canonical_form(text, canonical):
    assert str(parse(text)) == canonical
    assert str(parse(canonical)) == canonical
    assert parse(canonical) == parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1 ",
        " 1",
        "m",
        "1mi",
        "1K",
        "1Q",
        "1.2.3",
        "--1",
        "1e",
        "e3",
        ".",
        "1MiB",
        "0x10",
        "1_000",
        "\u0661",
        "9" * 600,
    ],
)
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(QuantityError, match="is not a quantity"):
        parse(text)


def test_values_are_rounded_up():
    assert parse("1500m").value() == 2
    assert parse("-1500m").value() == -1
    assert parse("1.0001").milli_value() == 1001
    assert parse("1Gi").value() == 1 << 30
    assert parse("250m").milli_value() == 250


def test_amounts_compare_by_value_not_by_text():
    assert parse("1") == parse("1000m") == parse("1e0")
    assert (parse("1") != parse("1e0")) is False
    assert parse("1") != parse("2")
    assert hash(parse("1")) == hash(parse("1000m"))
    assert parse("1Ki") > parse("1k") > parse("999")
    assert parse("1Ki") >= parse("1024")
    assert parse("1") + parse("500m") == parse("1.5")
    assert parse("1") - parse("2") < parse("0")


def test_what_exceeds_the_limit_is_the_limit():
    assert parse("1e999999999999999999999999") == Amount(LIMIT)
    assert parse("-9223372036854775808000") == Amount(-LIMIT)
    assert str(parse("8Ei")) == "9223372036854775807"


@given(st.integers(-(10**24), 10**24), st.sampled_from(Notation))
def test_every_amount_survives_being_written(nanos, notation):
    assert parse(str(Amount(nanos, notation))).nanos == nanos


@given(
    st.integers(0, 10**6),
    st.text("0123456789", max_size=6),
    st.sampled_from(
        [
            ("m", Fraction(1, 1000)),
            ("", 1),
            ("k", 1000),
            ("Ki", 1024),
            ("Gi", 2**30),
            ("e-2", Fraction(1, 100)),
            ("u", Fraction(1, 10**6)),
        ]
    ),
)
def test_reading_is_exact_down_to_a_nano_and_rounds_away_from_zero_below(whole, part, suffix):
    name, factor = suffix
    exact = Fraction(f"{whole}.{part or 0}") * factor * NANO
    assert parse(f"{whole}.{part}{name}").nanos == -((-exact).__floor__())
