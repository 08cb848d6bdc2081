"""The words of a text, whatever its tokenizer: runs of anything but ASCII white space; and the word of each token.

A token belongs to the word that contains its last visible byte: leading white space belongs to the next word, a token
of only white space to the word after it, and a token that spans several words to the last one. The end of a document,
</s>, is a word of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.protocol import BEGIN, END
from chainrule.text.block import byte_array

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32, Int64, UInt8
    from numpy import ndarray

    from chainrule.text.detokenize import Alignment
    from chainrule.text.tokenizer import Tokenizer


class Words(NamedTuple):
    """The words of some documents: document i has words documents[i] to documents[i + 1], its end last.

    starts, stops: in bytes of the aligned text.
    """

    starts: Int64[ndarray, " words"]
    stops: Int64[ndarray, " words"]
    of_tokens: Int64[ndarray, " T"]  # the word of each token, in ascending order
    documents: Int64[ndarray, " documents+1"]


def words_of(ids: Int32[ndarray, " T"], aligned: Alignment) -> Words:
    """The words of some documents. ids: their tokens. aligned: the positions of these in the text."""
    text = aligned.text
    visible = ~is_white(text)
    edges = np.flatnonzero(np.diff(visible.astype(np.int8), prepend=0, append=0))
    ends = aligned.stops[ids == END] - 1
    starts, stops = np.concatenate([edges[::2], ends]), np.concatenate([edges[1::2], ends + 1])
    order = np.argsort(starts, kind="stable")
    starts, stops = starts[order], stops[order]
    last_visible = np.maximum.accumulate(np.where(visible, np.arange(text.size), -1))
    last = last_visible[np.maximum(aligned.stops - 1, 0)]
    inside = last >= aligned.starts
    of_tokens = np.where(
        inside, np.searchsorted(starts, last, side="right") - 1, np.searchsorted(starts, aligned.starts, side="left")
    )
    return Words(starts, stops, of_tokens, np.concatenate([[0], np.searchsorted(starts, ends) + 1]))


def begins_word(tokenizer: Tokenizer) -> Bool[ndarray, " V"]:
    """Whether each token of the vocabulary begins a word: after another token, it starts with white space.

    The tokens of word and whitespace tokenizers are whole words, so all of them do.
    """
    tokens = tokenizer.vocabulary.tokens()
    if tokenizer.name in ("word", "whitespace"):
        return np.ones(len(tokens), np.bool_)
    aligned = tokenizer.splitter.align(byte_array(b"".join(b"a " + token + b"\n" for token in tokens)))
    begins = is_white(aligned.text)[aligned.stops[::3]]  # the byte after each "a"
    begins[[BEGIN, END]] = True
    return np.asarray(begins)


def is_white(text: UInt8[ndarray, " bytes"]) -> Bool[ndarray, " bytes"]:
    """ASCII white space and NUL."""
    return (text == 32) | ((text >= 9) & (text <= 13)) | (text == 0)
