"""Restores the normalised text from tokens, and aligns each token with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.text.corpus.block import byte_array
from chainrule.text.tokenization.tokenizer_kernels import AS_IT_IS, restore_joined, restore_spaced

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Int16, Int64, UInt8
    from numpy import ndarray


@dataclass(frozen=True)
class Alignment:
    """The normalised text of some documents, each ended by a newline, and the position of every token in it.

    Token i is text[starts[i]:stops[i]], in bytes; </s> is its document's newline. Positions increase. White space
    between two tokens belongs to neither, except in tokenizers whose tokens contain it (byte, subword).
    """

    text: UInt8[ndarray, " bytes"]
    starts: Int64[ndarray, " T"]
    stops: Int64[ndarray, " T"]


def space_tokens(tokens: UInt8[ndarray, " bytes"], *, before: str = "", after: str = "") -> Alignment:
    """Put a space between tokens, unless the second begins with the mark `before` or the first ends with `after`.

    tokens: as `Splitter.rewrite` writes them: separated by single spaces, with a newline after each document.
    """
    out, starts, stops = _allocate(tokens)
    marks = byte_array(before.encode()), byte_array(after.encode())
    size, count = restore_spaced(tokens, *marks, out, starts, stops)
    return Alignment(out[:size], starts[:count], stops[:count])


def join_tokens(
    tokens: UInt8[ndarray, " bytes"],
    meanings: Int16[ndarray, " codepoints"],
    *,
    drops_space: bool = False,
    names_bytes: bool = False,
) -> Alignment:
    """Concatenate tokens, and replace each code point that stands for a byte by it.

    meanings: from `meanings_of`. drops_space: whether the tokenizer added the space that begins a document.
    names_bytes: whether <0xE9> stands for the byte E9.
    """
    out, starts, stops = _allocate(tokens)
    size, count = restore_joined(tokens, meanings, drops_space, names_bytes, out, starts, stops)
    return Alignment(out[:size], starts[:count], stops[:count])


def meanings_of(bytes_of: Mapping[str, int]) -> Int16[ndarray, " codepoints"]:
    """Return the byte that each character stands for, as an array for `join_tokens`."""
    meanings = np.full(max(map(ord, bytes_of)) + 1, AS_IT_IS, np.int16)
    for character, byte in bytes_of.items():
        meanings[ord(character)] = byte
    return meanings


def _allocate(tokens: UInt8[ndarray, " bytes"]) -> tuple[ndarray, ndarray, ndarray]:
    """Return arrays for the text, and for the starts and stops of tokens; `tokens.size` is enough for each."""
    return np.empty(tokens.size, np.uint8), np.empty(tokens.size, np.int64), np.empty(tokens.size, np.int64)
