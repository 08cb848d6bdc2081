"""How subword pieces spell text, as the decoder of a tokenizer.json says.

    bytes       GPT-2 and its successors: pieces are bytes written as symbols       Ġthe Ġc at
    metaspace   SentencePiece: ▁ is the space, <0xE9> may be a byte                 ▁the ▁c at
    words       BERT: words, and continuations of words with a mark                 the c ##at

A piece becomes a token without white space. In the first two kinds, concatenated tokens spell the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from chainrule.errors import SettingError
from chainrule.text.tokenization.detokenizer import Alignment, join_tokens, meanings_of, space_tokens
from chainrule.text.tokenization.splitters import BYTE_OF_SYMBOL, REPLACEMENT, SYMBOLS, VISIBLE, to_byte_symbols

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import UInt8
    from numpy import ndarray

_SHOWN = str.maketrans(VISIBLE)
_PICTURES = str.maketrans({**dict.fromkeys(VISIBLE.values(), REPLACEMENT), **VISIBLE})


class Spelling(Protocol):
    """How the subwords of a tokenizer spell text."""

    @property
    def loses(self) -> Sequence[str]:
        """As `Splitter.loses`."""

    def piece(self, content: str) -> bytes:
        """Return a piece of the library as a token."""

    def added(self, content: str) -> bytes:
        """Return a token for plain text: an added token of the library, or an unknown piece."""

    def is_complete(self, alphabet: Sequence[bytes]) -> bool:
        """Return whether these subwords can spell any text."""

    def align(self, tokens: UInt8[ndarray, " bytes"]) -> Alignment:
        """Implement `Splitter.align`."""


@dataclass(frozen=True)
class Bytes:
    """Subwords are bytes written as symbols."""

    loses: Sequence[str]
    drops_space: bool  # whether the tokenizer puts a space before each document

    def piece(self, content: str) -> bytes:
        return content.encode()

    def added(self, content: str) -> bytes:
        return to_byte_symbols(content.encode()).encode()

    def is_complete(self, alphabet: Sequence[bytes]) -> bool:
        return {symbol.encode() for symbol in SYMBOLS} <= set(alphabet)

    def align(self, tokens: UInt8[ndarray, " bytes"]) -> Alignment:
        return join_tokens(tokens, _MEANT_BYTES, drops_space=self.drops_space)


@dataclass(frozen=True)
class Metaspace:
    """Subwords are text, with a visible character for the space."""

    loses: Sequence[str]
    space: str  # the character that stands for the space
    drops_space: bool
    names_bytes: bool

    def piece(self, content: str) -> bytes:
        """Return a piece of the library as a token; white space inside it becomes its control picture."""
        return content.replace(" ", self.space).translate(_PICTURES).encode()

    added = piece

    def is_complete(self, alphabet: Sequence[bytes]) -> bool:
        return self.names_bytes and {b"<0x%02X>" % byte for byte in range(256)} <= set(alphabet)

    def align(self, tokens: UInt8[ndarray, " bytes"]) -> Alignment:
        meanings = meanings_of(
            {self.space: ord(" "), **{picture: ord(character) for character, picture in VISIBLE.items()}}
        )
        return join_tokens(tokens, meanings, drops_space=self.drops_space, names_bytes=self.names_bytes)


@dataclass(frozen=True)
class Words:
    """Subwords are words, or parts of words with a mark."""

    loses: Sequence[str]
    continuation: str  # the mark of a piece that continues a word; empty if words are whole

    def piece(self, content: str) -> bytes:
        return content.translate(_SHOWN).encode()

    def added(self, content: str) -> bytes:
        """Remove spaces: only the file's normaliser can have inserted them."""
        return self.piece(content.replace(" ", ""))

    def is_complete(self, alphabet: Sequence[bytes]) -> bool:
        return False

    def align(self, tokens: UInt8[ndarray, " bytes"]) -> Alignment:
        return space_tokens(tokens, before=self.continuation)


def spelling_of(described: dict[str, Any], source: str) -> Spelling:
    """Return how the subwords of a tokenizer.json spell text. Raises SettingError if its decoder is of an unknown
    kind.
    """
    decoders = {part["type"]: part for part in parts_of(described["decoder"])}
    loses = _losses(described)
    names_bytes = "ByteFallback" in decoders and described["model"].get("byte_fallback", False)
    if "ByteLevel" in decoders:
        cutters = [part for part in parts_of(described["pre_tokenizer"]) if part["type"] == "ByteLevel"]
        return Bytes(loses, any(part["add_prefix_space"] for part in cutters))
    if "Metaspace" in decoders:
        space, adds = decoders["Metaspace"]["replacement"], decoders["Metaspace"]["prepend_scheme"] != "never"
        return Metaspace((*loses, "metaspaces", "pictures"), space, adds, names_bytes)
    if decoders.get("Replace", {}).get("content") == " ":
        space = decoders["Replace"]["pattern"].get("String", "")
        if len(space) == 1:
            return Metaspace((*loses, "metaspaces", "pictures"), space, "Strip" in decoders, names_bytes)
    if "WordPiece" in decoders:
        return Words((*loses, "pictures"), decoders["WordPiece"]["prefix"])
    if not decoders and described["model"]["type"] == "WordLevel":
        return Words((*loses, "pictures"), "")
    raise SettingError(
        f"{source}: its decoder is {', '.join(decoders) or 'none'}; expected ByteLevel, Metaspace, Replace with "
        "ByteFallback, or WordPiece, from which text can be restored here"
    )


def looks_like_pieces(tokens: Sequence[bytes]) -> bool:
    """Return whether more than a tenth of some tokens have a mark of subword tokenizers for spaces or continuations."""
    marks = ("Ġ".encode(), "▁".encode(), b"##")
    return 10 * sum(token.startswith(marks) for token in tokens) > len(tokens)


def _losses(described: dict[str, Any]) -> tuple[str, ...]:
    """Return the properties of a text that the file's normaliser and pre-tokenizer do not preserve."""
    normalisers = [part["type"].lower() for part in parts_of(described["normalizer"])]
    cutters = parts_of(described["pre_tokenizer"])
    drops_spaces = any(part["type"] in _DROPPING or part.get("behavior") == "Removed" for part in cutters)
    drops_spaces |= any("Regex" in part.get("pattern", {}) for part in parts_of(described["normalizer"]))
    lost = ["spaces"] * drops_spaces + [name for name in normalisers if name not in _REVERSIBLE]
    return tuple(dict.fromkeys(lost))


_DROPPING = {"BertPreTokenizer", "CharDelimiterSplit", "Whitespace", "WhitespaceSplit"}
_REVERSIBLE = {"prepend", "replace", "bytelevel"}  # SentencePiece's treatment of spaces, which the decoder undoes
_MEANT_BYTES = meanings_of(BYTE_OF_SYMBOL)


def parts_of(component: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the steps of a component of a tokenizer.json, which may be absent, a step, or a sequence of steps."""
    if component is None:
        return []
    for name in ("decoders", "pretokenizers", "normalizers"):
        if name in component:
            return [step for part in component[name] for step in parts_of(part)]
    return [component]
