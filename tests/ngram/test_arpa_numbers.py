"""The numbers of ARPA files, in and out, against NumPy's decimals and Python's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import examples

from chainrule.ngram.arpa.reading_kernels import number_from, parse_number
from chainrule.ngram.arpa.writing_kernels import MAX_NUMBER_BYTES, write_number
from chainrule.text.corpus.block import byte_array


def number_text(value: np.float32, unit: float = 1.0) -> str:
    out = np.empty(MAX_NUMBER_BYTES, np.uint8)
    return out[: write_number(value, unit, out, 0)].tobytes().decode()


def digits_of(text: str) -> str:
    return text.lstrip("-").split("e")[0].replace(".", "").strip("0")


@examples(10)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_numbers_are_the_shortest_that_read_back(number: float) -> None:
    value = np.float32(number)
    text = number_text(value)
    assert np.float32(text) == value
    if abs(number) < 2**24:  # above, decimals can fall on the very middle between two float32, which are not taken
        assert digits_of(text) == digits_of(np.format_float_scientific(value, unique=True))
        assert len(text) <= max(len(str(value)), len(np.format_float_positional(value, unique=True, trim="-")))


@examples(10)
@given(st.floats(width=32, min_value=-300, max_value=300))
def test_nats_read_back_the_same(number: float) -> None:
    value = np.float32(number)
    assert np.float32(parsed(number_text(value, math.log(10))) * math.log(10)) == value


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (-99, "-99"),
        (-100, "-100"),
        (0.1, "0.1"),
        (-1.5, "-1.5"),
        (-3.3244128, "-3.3244128"),
        (1e-6, "0.000001"),
        (-1e-7, "-1e-7"),
        (1.25e-7, "1.25e-7"),
        (1e7, "1e7"),
        (-1e30, "-1e30"),
        (2**-149, "1e-45"),
        (-np.inf, "-99"),
    ],
)
def test_numbers_look_as_kenlm_writes_them(number: float, text: str) -> None:
    assert number_text(np.float32(number)) == text


def test_powers_of_two() -> None:
    """Float32 are twice as dense below as above."""
    for exponent in range(-149, 24):
        for value in (np.float32(2.0) ** exponent, np.nextafter(np.float32(2.0) ** exponent, np.float32(0))):
            if value > 0:
                assert np.float32(number_text(value)) == value
                assert digits_of(number_text(value)) == digits_of(np.format_float_scientific(value, unique=True))


DIGITS = st.text("0123456789", min_size=1, max_size=30)
EXPONENTS = st.one_of(
    st.just(""), st.builds("{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "-"]), st.integers(0, 9999))
)


def parsed(text: str) -> float:
    data = byte_array(text.encode())
    return parse_number(data, 0, data.size)


@examples(10)
@given(
    st.one_of(
        st.floats(allow_nan=False).map(repr),
        st.builds("{}{}.{}{}".format, st.sampled_from(["", "+", "-"]), DIGITS, DIGITS, EXPONENTS),
        st.builds("{}{}".format, DIGITS, EXPONENTS),
    )
)
def test_parsed_numbers_equal_pythons(text: str) -> None:
    assert parsed(text) == pytest.approx(float(text), rel=1e-13, abs=1e-300)


@examples(10)
@given(
    st.one_of(
        st.builds("{}{}.{}".format, st.sampled_from(["", "-"]), st.text("0123456789", max_size=2), DIGITS),
        st.text("0123456789.-e", min_size=1, max_size=12),
    ),
    st.sampled_from(["", "\n", "\t-1.5", " word of a line\n"]),
)
def test_numbers_of_lines_are_those_of_their_fields(field: str, rest: str) -> None:
    """Bit for bit, and with their ends; the field alone is parsed byte by byte."""
    number, end = number_from(byte_array((field + rest).encode()), 0)
    assert end == len(field)
    np.testing.assert_equal(number, parsed(field))


@pytest.mark.parametrize(
    "text", ["", "-", "+", ".", "-.", "e5", "1e", "1e+", "1.2.3", "--1", "0x10", "1_0", "in", "infi", "١"]
)
def test_what_is_no_number(text: str) -> None:
    assert math.isnan(parsed(text))
