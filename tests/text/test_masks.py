"""Texts with gaps: what a mask was cut into becomes one token; and which tokens begin words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from chainrule.errors import SettingError
from chainrule.protocol import BEGIN
from chainrule.text.corpus.block import byte_array
from chainrule.text.corpus.corpus import Lines
from chainrule.text.tokenization.build import prepare_tokenizer
from chainrule.text.tokenization.config import TokenizerConfig
from chainrule.text.tokenization.tokenizer import masked_tokens
from chainrule.text.units import begins_word

if TYPE_CHECKING:
    from chainrule.text.tokenization.tokenizer import Tokenizer

TEXT = "The dog bit the man, and the man bit the dog."


def tokenizer(kind: str, **settings: object) -> Tokenizer:
    lines = Lines([TEXT, "[MASK]"] * 20)
    made = prepare_tokenizer(TokenizerConfig(kind=kind, **settings), "error", lines)
    for block in lines.blocks():
        made.encode(block.text, grow=TokenizerConfig(kind=kind).learns_words)
    return made


KINDS = {
    "word": {},
    "whitespace": {},
    "character": {},
    "byte": {},
    "bpe": {"vocabulary_size": 300},
    "unigram": {"vocabulary_size": 300},
    "wordpiece": {"vocabulary_size": 300},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("before", "after"), [("The dog bit the ", ""), ("", " dog bit the man"), ("the ", " bit the man")]
)
def test_a_mask_is_one_token_and_the_rest_is_as_ever(kind: str, before: str, after: str) -> None:
    made = tokenizer(kind, **KINDS[kind])
    ids = masked_tokens(made, f"{before}[MASK]{after}")
    assert np.count_nonzero(ids == BEGIN) == 1
    place = int(np.flatnonzero(ids == BEGIN)[0])
    given = made.encode_texts([f"{before}dog{after}"]).ids[:-1]
    assert np.array_equal(ids[:place], given[:place])
    behind = len(ids) - place - 1
    assert np.array_equal(ids[place + 1 :], given[len(given) - behind :])


def test_several_masks_and_others_than_the_usual_one() -> None:
    made = tokenizer("word")
    assert (masked_tokens(made, "[MASK] dog [MASK][MASK].") == BEGIN).tolist() == [True, False, True, True, False]
    assert (masked_tokens(made, "the ___ bit", "___") == BEGIN).tolist() == [False, True, False]
    lower = tokenizer("word", normalise=("lower",))
    assert (masked_tokens(lower, "The [MASK] bit") == BEGIN).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("text", "mask", "message"),
    [
        ("the dog", "[MASK]", r"there is no \[MASK\] in 'the dog'"),
        ("the dog", " ", "the mask is empty"),
        ("the dogs[MASK] bit", "[MASK]", r"a token of 'the dogs\[MASK\] bit' contains more than \[MASK\]"),
    ],
)
def test_what_is_no_gap_is_refused(text: str, mask: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        masked_tokens(tokenizer("whitespace"), text, mask)


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_begin_words_where_white_space_comes_before(kind: str) -> None:
    made = tokenizer(kind, **KINDS[kind])
    begins = begins_word(made)
    assert begins.shape == (made.vocabulary_size,)
    if kind in ("word", "whitespace"):
        assert begins.all()
        return
    encoded = made.encode(byte_array(b"the man bit the dog\n"))
    aligned = made.align(encoded)
    for token, start, stop in list(zip(encoded.ids, aligned.starts, aligned.stops, strict=True))[1:-1]:
        own = aligned.text[start:stop].tobytes()
        is_first = own.startswith(b" ") or (kind == "wordpiece" and aligned.text[start - 1] == 32)
        assert begins[token] == is_first, own
