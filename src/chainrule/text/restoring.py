"""From tokens back to the normalised text, and where in it each token stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.text.block import byte_array
from chainrule.text.restoring_kernels import AS_IT_IS, restore_joined, restore_spaced

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Int16, Int64, UInt8
    from numpy import ndarray


@dataclass(frozen=True)
class Alignment:
    """The normalised text of some documents, each ended by a newline, and the place of every token in it.

    Token i is text[starts[i]:stops[i]], in bytes; </s> is its document's newline. Places rise; white space between two
    tokens belongs to neither, unless a token is made with its space, as those of byte and subword tokenizers are.
    """

    text: UInt8[ndarray, " bytes"]
    starts: Int64[ndarray, " T"]
    stops: Int64[ndarray, " T"]


def space_tokens(tokens: UInt8[ndarray, " bytes"], *, before: str = "", after: str = "") -> Alignment:
    """A space between tokens, but where the mark `before` begins the second or the mark `after` ends the first.

    tokens: one space between, a newline after each document, as `Splitter.rewrite` writes them.
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
    """Nothing between tokens, and a byte for each code point that has a meaning of its own.

    drops_space: whether a space that begins a document was put there by the tokenizer. names_bytes: whether <0xE9> is
    the byte E9.
    """
    out, starts, stops = _allocate(tokens)
    size, count = restore_joined(tokens, meanings, drops_space, names_bytes, out, starts, stops)
    return Alignment(out[:size], starts[:count], stops[:count])


def meanings_of(bytes_of: Mapping[str, int]) -> Int16[ndarray, " codepoints"]:
    """The byte that each of some characters stands for, as an array for `joined`."""
    meanings = np.full(max(map(ord, bytes_of)) + 1, AS_IT_IS, np.int16)
    for character, byte in bytes_of.items():
        meanings[ord(character)] = byte
    return meanings


def _allocate(tokens: UInt8[ndarray, " bytes"]) -> tuple[ndarray, ndarray, ndarray]:
    """For the text, and the starts and stops of tokens: none of them can be more than `tokens` has bytes."""
    return np.empty(tokens.size, np.uint8), np.empty(tokens.size, np.int64), np.empty(tokens.size, np.int64)
