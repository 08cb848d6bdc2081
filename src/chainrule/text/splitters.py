"""Splitters: rewrite text as tokens separated by single spaces, one document a line, and restore it.

    word:        "Hello, world!"  ->  "Hello ￭, world ￭!"
    character:   "é b"            ->  "é ␠ b"
    byte:        "é b"            ->  "Ã © Ġ b"

A splitter knows no vocabulary. `loses` names what it does not preserve (runs of white space, its own marker
characters). `align(rewrite(text)).text` is the normalised text, to which probabilities and bits per byte refer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from chainrule.errors import SettingError
from chainrule.text.block import LINE_FEED
from chainrule.text.byte_symbols import BYTE_OF_SYMBOL, SYMBOLS
from chainrule.text.character_classes import character_classes
from chainrule.text.detokenize import Alignment, join_tokens, meanings_of, space_tokens
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

JOINER = "￭"  # U+FFED: no space between the token and its neighbour on this side
REPLACEMENT = "�"  # U+FFFD: replaces a marker character that occurs in the text itself

VISIBLE = {"\0": "␀", "\t": "␉", "\n": "␊", "\r": "␍", " ": "␠"}  # for the character tokenizer
SEPARATORS = b"\0\t\n\r "  # no token contains these


class Splitter(Protocol):
    """Rewrites text as tokens, and restores it."""

    @property
    def name(self) -> str: ...

    @property
    def loses(self) -> Sequence[str]:
        """What the normalised text does not preserve, for signatures."""

    @property
    def alphabet(self) -> Sequence[bytes]:
        """All tokens that it can write, if they are known beforehand; otherwise empty."""

    @property
    def spells_everything(self) -> bool:
        """Whether the tokens of its alphabet can spell any text."""

    @property
    def definition(self) -> bytes | None:
        """What a model folder keeps to restore it; None if its name is enough."""

    def rewrite(self, text: UInt8[ndarray, " bytes"], document_end: int = LINE_FEED) -> UInt8[ndarray, " bytes"]:
        """Tokens with one space between and a newline after each document.

        text: valid UTF-8, each document ended by the byte `document_end`.
        """

    def align(self, tokens: UInt8[ndarray, " bytes"]) -> Alignment:
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

    def align(self, tokens: UInt8[ndarray, " bytes"]) -> Alignment:
        return space_tokens(tokens)


class Word:
    """Words, numbers, and every other visible character by itself. Preserves all but runs of white space.

    A punctuation mark without a space on one side has a joiner there: `(well-known)` is `(￭ well ￭-￭ known ￭)`.
    Apostrophes inside words (don't), and points and commas inside numbers (3.14), do not split. <unk>, <s> and </s>
    stay whole if surrounded by white space. The character classes are those of Python's `unicodedata`.
    """

    name = "word"
    loses = ("spaces", "joiners")
    alphabet: Sequence[bytes] = ()
    spells_everything = False
    definition = None

    def rewrite(self, text: UInt8[ndarray, " bytes"], document_end: int = LINE_FEED) -> UInt8[ndarray, " bytes"]:
        out = np.empty(5 * text.size, np.uint8)
        return out[: rewrite_words(text, document_end, character_classes(), out)]

    def align(self, tokens: UInt8[ndarray, " bytes"]) -> Alignment:
        return space_tokens(tokens, before=JOINER, after=JOINER)


class Character:
    """Every Unicode code point is a token; white space is written as its control picture (␠ for the space)."""

    name = "character"
    loses = ("pictures",)
    alphabet: Sequence[bytes] = ()
    spells_everything = False
    definition = None

    def rewrite(self, text: UInt8[ndarray, " bytes"], document_end: int = LINE_FEED) -> UInt8[ndarray, " bytes"]:
        out = np.empty(4 * text.size, np.uint8)
        return out[: rewrite_characters(text, document_end, out)]

    def align(self, tokens: UInt8[ndarray, " bytes"]) -> Alignment:
        return join_tokens(tokens, _PICTURED)


class Byte:
    """Every byte of the text's UTF-8 is a token, written as GPT-2's visible symbol (Ġ for the space)."""

    name = "byte"
    loses: Sequence[str] = ()
    alphabet = tuple(symbol.encode() for symbol in SYMBOLS)
    spells_everything = True
    definition = None

    def rewrite(self, text: UInt8[ndarray, " bytes"], document_end: int = LINE_FEED) -> UInt8[ndarray, " bytes"]:
        out = np.empty(3 * text.size, np.uint8)
        return out[: rewrite_bytes(text, document_end, _CODES_OF_BYTES, out)]

    def align(self, tokens: UInt8[ndarray, " bytes"]) -> Alignment:
        return join_tokens(tokens, _MEANT_BYTES)


SPLITTERS: dict[str, Splitter] = {splitter.name: splitter for splitter in (Whitespace(), Word(), Character(), Byte())}


def splitter_named(name: str) -> Splitter:
    """The built-in splitter of this name. Raises SettingError if there is none."""
    if name not in SPLITTERS:
        raise SettingError(f"there is no tokenizer called {name!r}; choose one of {', '.join(SPLITTERS)}")
    return SPLITTERS[name]


def splitter_marked_in(tokens: Iterable[bytes]) -> Splitter:
    """The splitter whose marks occur in some tokens; `Whitespace`, which has none, if no token has a mark."""
    tokens = set(tokens)
    if tokens - _MARKERS == set(Byte.alphabet):
        return SPLITTERS["byte"]
    spelled = b"\n".join(tokens)
    if JOINER.encode() in spelled:
        return SPLITTERS["word"]
    return SPLITTERS["character" if VISIBLE[" "].encode() in spelled else "whitespace"]


def never_written(splitter: Splitter, tokens: Iterable[bytes]) -> bytes | None:
    """The first of some tokens, except markers, that the splitter can never write, as far as its alphabet tells."""
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
