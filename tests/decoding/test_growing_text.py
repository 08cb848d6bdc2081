from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.decoding.config import first_stop
from chainrule.decoding.limits import GrowingText
from chainrule.text.tokenization.tokenizer import Tokenizer

CHARACTERS = st.text(alphabet="ab ,.(é漢🙂", max_size=30)


def surfaces_of(tokenizer: Tokenizer, text: str) -> list[bytes]:
    encoded = tokenizer.encode_texts([text])
    return [encoded.surface(i) for i in range(encoded.ids.size - 1)]


@pytest.mark.parametrize("name", ["word", "whitespace", "character", "byte"])
@given(CHARACTERS, st.data())
def test_the_pieces_join_to_the_text_and_never_change(name: str, text: str, data: st.DataObject) -> None:
    tokenizer = Tokenizer.untrained(name)
    surfaces = surfaces_of(tokenizer, text)
    cut = data.draw(st.integers(0, len(surfaces)))
    whole = tokenizer.restore(b" ".join(surfaces)).decode()
    before = tokenizer.restore(b" ".join(surfaces[:cut])).decode("utf-8", "replace")
    growing = GrowingText(tokenizer.restore, surfaces[:cut])
    pieces = [growing.add(surface) for surface in surfaces[cut:]]
    if "�" not in before:  # the cut is between characters
        assert before + "".join(pieces) + growing.rest() == whole


@pytest.mark.parametrize("name", ["word", "whitespace", "character", "byte"])
@given(CHARACTERS, st.lists(st.text(alphabet="ab ,é漢", min_size=1, max_size=4), max_size=3))
def test_a_stop_string_ends_the_text_wherever_tokens_are_cut(name: str, text: str, stops: list[str]) -> None:
    tokenizer = Tokenizer.untrained(name)
    surfaces = surfaces_of(tokenizer, text)
    whole = tokenizer.restore(b" ".join(surfaces)).decode()
    growing = GrowingText(tokenizer.restore, [], stops)
    found = "".join(growing.add(surface) for surface in surfaces) + growing.rest()
    expected = whole
    for stop in range(1, len(surfaces) + 1):  # the first token that completes a stop string ends the text
        part = tokenizer.restore(b" ".join(surfaces[:stop])).decode("utf-8", "ignore")
        if first_stop(part, stops) >= 0:
            expected = part[: first_stop(part, stops)]
            break
    assert found == expected
    assert growing.is_stopped == (first_stop(whole, stops) >= 0)
    if growing.is_stopped:
        assert (growing.add(b"a"), growing.rest()) == ("", "")


def test_what_may_be_the_beginning_of_a_stop_string_is_held_back() -> None:
    growing = GrowingText(lambda tokens: tokens, [b"I"], [" said he"])
    assert [growing.add(token) for token in (b"know", b"said", b"she", b"said", b"he", b"x")] == [
        " know",
        "",
        " said she",
        "",
        "",
        "",
    ]
    assert growing.is_stopped


def test_a_character_of_several_tokens_is_given_out_when_it_is_whole() -> None:
    tokenizer = Tokenizer.untrained("byte")
    first, second = surfaces_of(tokenizer, "é")
    growing = GrowingText(tokenizer.restore, [])
    assert (growing.add(first), growing.add(second)) == ("", "é")
    assert growing.add(first) == ""
    assert growing.rest() == "�"


def test_the_first_stop_string_counts() -> None:
    assert first_stop("abcd", ["d", "bc"]) == 1
    assert first_stop("abcd", ["x"]) == first_stop("abcd", []) == -1
