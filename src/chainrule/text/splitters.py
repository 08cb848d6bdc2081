"""How text is cut into tokens: a splitter rewrites it, one space between tokens, a line a document, and can undo that.

    word:        "Hello, world!"  ->  "Hello ￭, world ￭!"
    character:   "é b"            ->  "é ␠ b"
    byte:        "é b"            ->  "Ã © Ġ b"

A splitter knows no vocabulary. What it does not keep (runs of white space, its own marker characters) it names in
`loses`, and `restored(rewrite(text)).text` is the normalised text: what probabilities and bits per byte are about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from chainrule.errors import SettingError
from chainrule.text.block import LINE_FEED
from chainrule.text.byte_symbols import BYTE_OF_SYMBOL, SYMBOLS
from chainrule.text.character_classes import character_classes
from chainrule.text.restoring import Alignment, joined, meanings_of, spaced
from chainrule.text.splitter_kernels import (
    rewrite_bytes,
    rewrite_characters,
    rewrite_whitespace,
    rewrite_words,
)
from chainrule.text.vocabulary import MARKER_TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtyping import UInt8
    from numpy import ndarray

JOINER = "￭"  # U+FFED: the token touches its neighbour on this side
REPLACEMENT = "�"  # U+FFFD stands for a marker character that occurs in the text itself

VISIBLE = {"\0": "␀", "\t": "␉", "\n": "␊", "\r": "␍", " ": "␠"}  # for the character tokenizer
SEPARATORS = b"\0\t\n\r "  # no splitter leaves these in a token


class Splitter(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def loses(self) -> Sequence[str]:
        """What the normalised text no longer shows, for signatures."""

    @property
    def alphabet(self) -> Sequence[bytes]:
        """Every token that it can write, where that is known beforehand; else empty."""

    @property
    def spells_everything(self) -> bool:
        """Whether the tokens of its alphabet can write any text."""

    @property
    def definition(self) -> bytes | None:
        """What is kept in a model folder to make it again; None where its name is enough."""

    def rewrite(self, text: UInt8[ndarray, " bytes"], document_end: int = LINE_FEED) -> UInt8[ndarray, " bytes"]:
        """Tokens with one space between and a newline after each document.

        text: valid UTF-8, each document ended by the byte `document_end`.
        """

    def restored(self, tokens: UInt8[ndarray, " bytes"]) -> Alignment:
        """The normalised text of tokens that `rewrite` wrote, or a model put together, and the place of each in it."""


class Whitespace:
    """KenLM's tokens: whatever stands between NUL, tab, newline, carriage return and space, as bytes."""

    name = "whitespace"
    loses = ("spaces",)
    alphabet: Sequence[bytes] = ()
    spells_everything = False
    definition = None

    def rewrite(self, text: UInt8[ndarray, " bytes"], document_end: int = LINE_FEED) -> UInt8[ndarray, " bytes"]:
        out = np.empty(text.size, np.uint8)
        return out[: rewrite_whitespace(text, document_end, out)]

    def restored(self, tokens: UInt8[ndarray, " bytes"]) -> Alignment:
        return spaced(tokens)


class Word:
    """Words, numbers, and every other visible character by itself; all but runs of white space is given back.

    A mark that touches its neighbour carries a joiner on that side, so that `(well-known)` is `(￭ well ￭-￭ known ￭)`.
    Apostrophes inside words (don't), and points and commas inside numbers (3.14), do not split. <unk>, <s> and </s>
    stay whole where white space surrounds them. The character classes are those of Python's `unicodedata`.
    """

    name = "word"
    loses = ("spaces", "joiners")
    alphabet: Sequence[bytes] = ()
    spells_everything = False
    definition = None

    def rewrite(self, text: UInt8[ndarray, " bytes"], document_end: int = LINE_FEED) -> UInt8[ndarray, " bytes"]:
        out = np.empty(5 * text.size, np.uint8)
        return out[: rewrite_words(text, document_end, character_classes(), out)]

    def restored(self, tokens: UInt8[ndarray, " bytes"]) -> Alignment:
        return spaced(tokens, before=JOINER, after=JOINER)


class Character:
    """Every Unicode code point is a token; white space is shown by its control picture (␠ for the space)."""

    name = "character"
    loses = ("pictures",)
    alphabet: Sequence[bytes] = ()
    spells_everything = False
    definition = None

    def rewrite(self, text: UInt8[ndarray, " bytes"], document_end: int = LINE_FEED) -> UInt8[ndarray, " bytes"]:
        out = np.empty(4 * text.size, np.uint8)
        return out[: rewrite_characters(text, document_end, out)]

    def restored(self, tokens: UInt8[ndarray, " bytes"]) -> Alignment:
        return joined(tokens, _PICTURED)


class Byte:
    """Every byte of the text's UTF-8 is a token, written with GPT-2's visible symbols (Ġ for the space)."""

    name = "byte"
    loses: Sequence[str] = ()
    alphabet = tuple(symbol.encode() for symbol in SYMBOLS)
    spells_everything = True
    definition = None

    def rewrite(self, text: UInt8[ndarray, " bytes"], document_end: int = LINE_FEED) -> UInt8[ndarray, " bytes"]:
        out = np.empty(3 * text.size, np.uint8)
        return out[: rewrite_bytes(text, document_end, _CODES_OF_BYTES, out)]

    def restored(self, tokens: UInt8[ndarray, " bytes"]) -> Alignment:
        return joined(tokens, _MEANT_BYTES)


SPLITTERS: dict[str, Splitter] = {splitter.name: splitter for splitter in (Whitespace(), Word(), Character(), Byte())}


def splitter_named(name: str) -> Splitter:
    """Raises SettingError if there is no such splitter."""
    if name not in SPLITTERS:
        raise SettingError(f"there is no tokenizer called {name!r}; choose one of {', '.join(SPLITTERS)}")
    return SPLITTERS[name]


def splitter_marked_in(tokens: Iterable[bytes]) -> Splitter:
    """The splitter whose marks some tokens carry; `Whitespace`, which has none, where no token does."""
    tokens = set(tokens)
    if tokens - _MARKERS == set(Byte.alphabet):
        return SPLITTERS["byte"]
    spelled = b"\n".join(tokens)
    if JOINER.encode() in spelled:
        return SPLITTERS["word"]
    return SPLITTERS["character" if VISIBLE[" "].encode() in spelled else "whitespace"]


def never_written(splitter: Splitter, tokens: Iterable[bytes]) -> bytes | None:
    """The first of some tokens, markers aside, that no text makes a splitter write, as far as its alphabet shows."""
    own = (token for token in tokens if token not in _MARKERS)
    if splitter.alphabet:
        known = frozenset(splitter.alphabet)
        return next((token for token in own if token not in known), None)
    if isinstance(splitter, Character):
        return next((token for token in own if len(token.decode("utf-8", "replace")) != 1), None)
    return None


_MARKERS = frozenset(marker.encode() for marker in MARKER_TOKENS)
_PICTURED = meanings_of({picture: ord(character) for character, picture in VISIBLE.items()})
_MEANT_BYTES = meanings_of(BYTE_OF_SYMBOL)
_CODES_OF_BYTES = np.array([ord(symbol) for symbol in SYMBOLS], np.uint16)
