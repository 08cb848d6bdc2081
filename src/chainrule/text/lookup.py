"""The form in which words are looked up in lists, whatever form a text has them in.

Characters are composed (NFC), invisible ones are left out, and every apostrophe inside a word is '. So "isn´t" is found
as "isn't", and "cafe" with a combining accent as "café". A text keeps its own characters: `Reading` says where those of
the looked-up form come from.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

APOSTROPHE = "'"
# Acute accent, backtick, and the quotation marks, the prime and the wide form that stand for an apostrophe.
APOSTROPHES = "'\u00b4`\u2018\u2019\u2032\u201b\uff07"
_APOSTROPHES = re.compile(f"(?<=[^\\W_])[{APOSTROPHES[1:]}](?=[^\\W_])")
# Soft hyphens, zero-width characters, marks of direction, and variation selectors.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff"
    "\U000e0100-\U000e01ef"
)
_IS_INVISIBLE = re.compile(f"[{_INVISIBLE}]")
_JAMO = re.compile("[\u1160-\u11ff]")  # Korean vowels and final consonants, which join the letter before them


def looked_up(text: str) -> str:
    """Return a text in the form in which words are looked up."""
    if text.isascii():
        return text if "`" not in text else _APOSTROPHES.sub(APOSTROPHE, text)
    return _APOSTROPHES.sub(APOSTROPHE, unicodedata.normalize("NFC", _IS_INVISIBLE.sub("", text)))


class Piece(NamedTuple):
    """A part of a source, and the text that is read in its place: its own text, another, or none."""

    text: str
    start: int
    stop: int


class Reading(NamedTuple):
    """A text in looked-up form. Its character i comes from source[starts[i]:stops[i]].

    names: words in lower case that are right in this text, such as the names in a program.
    """

    text: str
    starts: list[int]
    stops: list[int]
    names: frozenset[str] = frozenset()


def read_pieces(source: str, pieces: Iterable[Piece], names: frozenset[str] = frozenset()) -> Reading:
    """Return what is read of a source: its parts, in their order, in looked-up form."""
    characters: list[str] = []
    starts: list[int] = []
    stops: list[int] = []
    for text, start, stop in pieces:
        for part, a, b in _composed(text, start) if source[start:stop] == text else [(text, start, stop)]:
            characters.append(part)
            own = len(part) == b - a
            starts += range(a, b) if own else [a] * len(part)
            stops += range(a + 1, b + 1) if own else [b] * len(part)
    return Reading(_APOSTROPHES.sub(APOSTROPHE, "".join(characters)), starts, stops, names)


def _composed(text: str, start: int) -> Iterable[Piece]:
    """Yield a part of a source in composed characters, each with its span there.

    An invisible one joins the one before it.
    """
    if text.isascii() or (unicodedata.is_normalized("NFC", text) and not _IS_INVISIBLE.search(text)):
        yield Piece(text, start, start + len(text))
        return
    begin = 0
    for i in range(1, len(text) + 1):
        if i < len(text) and _joins(text[i]):
            continue
        cluster = text[begin:i]
        composed = unicodedata.normalize("NFC", _IS_INVISIBLE.sub("", cluster))
        yield Piece(cluster if composed == cluster else composed, start + begin, start + i)
        begin = i


def _joins(character: str) -> bool:
    """Return whether a character may become one with the character before it."""
    return bool(unicodedata.category(character)[0] == "M" or _IS_INVISIBLE.match(character) or _JAMO.match(character))


def in_form_of(word: str, source: str, text: str) -> str:
    """Return a word that replaces part of a text, with the apostrophe and in the normal form of the text.

    source: what is replaced, in the text's characters.
    """
    if APOSTROPHE in word:
        own = _APOSTROPHES.search(source)
        is_typographic = "\u2019" in text and APOSTROPHE not in text
        word = word.replace(APOSTROPHE, own.group() if own else "\u2019" if is_typographic else APOSTROPHE)
    is_decomposed = not unicodedata.is_normalized("NFC", source) and unicodedata.is_normalized("NFD", source)
    return unicodedata.normalize("NFD", word) if is_decomposed else word
