"""The form in which words are looked up, and where its characters come from."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.text.lookup import Piece, in_form_of, looked_up, read_pieces

APOSTROPHES = ["\u00b4", "`", "\u2018", "\u2019", "\u2032", "\u201b", "\uff07"]


@pytest.mark.parametrize("mark", APOSTROPHES)
def test_every_apostrophe_in_a_word_is_one(mark: str) -> None:
    assert looked_up(f"isn{mark}t") == "isn't"
    assert looked_up(f"{mark}isn{mark}t{mark} a {mark}") == f"{mark}isn't{mark} a {mark}"  # marks around words stay
    assert in_form_of("couldn't", f"coudln{mark}t", "") == f"couldn{mark}t"


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("cafe\u0301", "caf\u00e9"),
        ("func\u00adtion", "function"),
        ("\ufeffzero\u200bwidth\u2060", "zerowidth"),
        ("\u202bword\u202c\u200e", "word"),
        ("heart\ufe0f", "heart"),
        ("\u1112\u1161\u11ab", "\ud55c"),  # Korean letters as one
        ("plain text, 'quoted' `code`", "plain text, 'quoted' `code`"),
    ],
)
def test_texts_are_composed_and_have_no_invisible_characters(text: str, form: str) -> None:
    assert looked_up(text) == form


@given(
    st.text(st.sampled_from("ae'\u0301\u0327\u00ad\u200b\u2019 \ud55c\u1161\u11ab\u0915\u093f\U0001f600"), max_size=12)
)
def test_a_reading_is_the_looked_up_form_and_has_all_of_the_source(text: str) -> None:
    reading = read_pieces(text, [Piece(text, 0, len(text))])
    assert unicodedata.normalize("NFC", reading.text) == looked_up(text)
    assert len(reading.text) == len(reading.starts) == len(reading.stops)
    assert all(start < stop <= len(text) for start, stop in zip(reading.starts, reading.stops, strict=True))
    for character, start, stop in zip(reading.text, reading.starts, reading.stops, strict=True):
        assert character in looked_up(text[start:stop]) or character == "'"


def test_a_word_takes_the_form_of_the_text() -> None:
    assert in_form_of("caf\u00e9", "cafe\u0301", "") == "cafe\u0301"
    assert in_form_of("caf\u00e9", "coffe", "") == "caf\u00e9"
    assert in_form_of("don't", "dont", "It\u2019s that they dont") == "don\u2019t"
    assert in_form_of("don't", "dont", "It's that they dont") == "don't"
