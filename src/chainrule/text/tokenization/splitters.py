"""Splitters: rewrite text as tokens separated by single spaces, one document a line, and restore it.

    word:        "Hello, world!"  ->  "Hello ￭, world ￭!"
    character:   "é b"            ->  "é ␠ b"
    byte:        "é b"            ->  "Ã © Ġ b"

A splitter knows no vocabulary. `loses` names what it does not preserve (runs of white space, its own marker
characters). `align(rewrite(text)).text` is the normalised text, to which probabilities and bits per byte refer. A
Normaliser may come before: Unicode normal forms, lower case.

Bytes as visible characters are GPT-2's alphabet, which all byte-level subword tokenizers use: bytes that are visible
characters in Latin-1 stand for themselves; the other 68 become the characters from U+0100 on, in order. No symbol is
white space, so that tokens can be separated by it. Source: Radford et al., Language Models are Unsupervised Multitask
Learners (2019), and its published encoder.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from chainrule.errors import SettingError
from chainrule.text.corpus.block import LINE_FEED, byte_array
from chainrule.text.tokenization.config import NORMAL_FORMS, Normalisation, steps_in_order
from chainrule.text.tokenization.detokenizer import Alignment, join_tokens, meanings_of, space_tokens
from chainrule.text.tokenization.tokenizer_kernels import (
    ALONE,
    CONNECTOR,
    DIGIT,
    EXTEND,
    LETTER,
    NUMBER_CONNECTOR,
    SPACE,
    rewrite_bytes,
    rewrite_characters,
    rewrite_whitespace,
    rewrite_words,
)
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtyping import UInt8
    from numpy import ndarray

_VISIBLE = (*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1))
_HIDDEN = tuple(byte for byte in range(256) if byte not in _VISIBLE)

BYTE_OF_SYMBOL: dict[str, int] = {
    **{chr(byte): byte for byte in _VISIBLE},
    **{chr(0x100 + i): byte for i, byte in enumerate(_HIDDEN)},
}
SYMBOLS = "".join(sorted(BYTE_OF_SYMBOL, key=BYTE_OF_SYMBOL.__getitem__))  # by byte


def to_byte_symbols(data: bytes) -> str:
    """Return bytes as symbols: b"a b" becomes aĠb."""
    return "".join(SYMBOLS[byte] for byte in data)


CONNECTORS = "'’"
NUMBER_CONNECTORS = ".,"
# Scripts without spaces, whose characters are tokens of their own: CJK symbols and numerals, Hiragana, Han.
ALONE_RANGES = (
    (0x3005, 0x3007),
    (0x3041, 0x309F),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
ASSIGNED_RANGES = ((0, 0x40000), (0xE0000, 0xE1000))  # planes with assigned characters, without private use


@cache
def character_classes() -> UInt8[ndarray, " codepoints"]:
    """Return the class of every Unicode code point, for the word splitter."""
    classes = np.full(0x110000, ALONE, np.uint8)
    for start, stop in ASSIGNED_RANGES:
        categories = map(unicodedata.category, map(chr, range(start, stop)))
        classes[start:stop] = [_CLASS_OF_CATEGORY.get(category, ALONE) for category in categories]
    for first, last in ALONE_RANGES:
        block = classes[first : last + 1]
        block[block != EXTEND] = ALONE
    for characters, value in _CLASS_OF_CHARACTER.items():
        classes[[ord(character) for character in characters]] = value
    return classes


# Marks and joiners belong to the character before them.
_CLASS_OF_CATEGORY = {
    **dict.fromkeys(("Lu", "Ll", "Lt", "Lm", "Lo", "Pc"), LETTER),
    **dict.fromkeys(("Nd", "Nl", "No"), DIGIT),
    **dict.fromkeys(("Mn", "Mc", "Me", "Cf"), EXTEND),
    **dict.fromkeys(("Zs", "Zl", "Zp"), SPACE),
}
_CLASS_OF_CHARACTER = {
    "\0\t\n\v\f\r\x1c\x1d\x1e\x1f\x85": SPACE,  # control characters for which str.isspace() is true, and NUL
    "\u200b": ALONE,  # the zero-width space separates words
    CONNECTORS: CONNECTOR,
    NUMBER_CONNECTORS: NUMBER_CONNECTOR,
}

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
        """The properties of a text that its normalised form does not preserve, for signatures."""

    @property
    def alphabet(self) -> Sequence[bytes]:
        """All tokens that it can write, if they are known beforehand; otherwise empty."""

    @property
    def spells_everything(self) -> bool:
        """Whether the tokens of its alphabet can spell any text."""

    @property
    def definition(self) -> bytes | None:
        """The definition that a model folder keeps to restore it; None if its name is enough."""

    def rewrite(self, text: UInt8[ndarray, " bytes"], document_end: int = LINE_FEED) -> UInt8[ndarray, " bytes"]:
        """Return tokens with one space between and a newline after each document.

        text: valid UTF-8, each document ended by the byte `document_end`.
        """

    def align(self, tokens: UInt8[ndarray, " bytes"]) -> Alignment:
        """Return the normalised text of tokens that `rewrite` wrote, or a model put together, and the place of each in
        it.
        """


class Whitespace:
    """KenLM's tokens: runs of bytes between NUL, tab, newline, carriage return and space."""

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
    """Return the built-in splitter of this name. Raises SettingError if there is none."""
    if name not in SPLITTERS:
        raise SettingError(f"there is no tokenizer called {name!r}; choose one of {', '.join(SPLITTERS)}")
    return SPLITTERS[name]


def splitter_marked_in(tokens: Iterable[bytes]) -> Splitter:
    """Return the splitter whose marks occur in some tokens; `Whitespace`, which has none, if no token has a mark."""
    tokens = set(tokens)
    if tokens - _MARKERS == set(Byte.alphabet):
        return SPLITTERS["byte"]
    spelled = b"\n".join(tokens)
    if JOINER.encode() in spelled:
        return SPLITTERS["word"]
    return SPLITTERS["character" if VISIBLE[" "].encode() in spelled else "whitespace"]


def unreachable_token(splitter: Splitter, tokens: Iterable[bytes]) -> bytes | None:
    """Return the first of some tokens, except markers, that the splitter can never write, as far as its alphabet
    tells.
    """
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


@dataclass(frozen=True)
class Normaliser:
    """Normalises text; by default, does nothing. Idempotent. Raises SettingError.

    nfc composes characters with their marks; nfkc also replaces compatibility characters (½ by 1⁄2); lower is
    str.lower, applied after the normal form, which is then applied again. Data: Python's `unicodedata`.
    """

    steps: tuple[Normalisation, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", steps_in_order(self.steps))

    def __call__(self, text: UInt8[ndarray, " bytes"], document_end: int) -> UInt8[ndarray, " bytes"]:
        """Return the normalised text.

        text: valid UTF-8, each document ended by the byte `document_end`. Documents are normalised separately.
        """
        if not self.steps:
            return text
        data = text.tobytes()
        if data.isascii():
            return byte_array(data.lower()) if "lower" in self.steps else text
        end = bytes([document_end])
        # Normal forms do not cross ASCII characters; but 0xFF, which can also end documents, is not valid UTF-8.
        parts = [data] if document_end < 0x80 else data.split(end)
        return byte_array(end.join(self._normalise(part.decode()).encode() for part in parts))

    def _normalise(self, text: str) -> str:
        form = next((NORMAL_FORMS[step] for step in self.steps if step in NORMAL_FORMS), None)
        if form is not None:
            text = unicodedata.normalize(form, text)
        if "lower" in self.steps:
            text = text.lower()
            text = text if form is None else unicodedata.normalize(form, text)
        return text


AS_IT_IS = Normaliser()
