"""Splits a text at white space into chunks, each with its words, and marks those that a corrector leaves alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from chainrule.applications.channel.lexicon import WORD
from chainrule.applications.correction.deletion_index import LONGEST

if TYPE_CHECKING:
    from collections.abc import Collection

_CHUNK = re.compile(r"\S+")
_ADDRESS = re.compile(r"://|@|^www\.|\.(?:com|org|net|html?|txt|py)\b|[\\/_#<>={}]")
_LINK = re.compile(r"://|\w@\w|^www\.|\.(?:com|org|net|html?|txt|py)\b|</?(?:s|unk)>")
_LONE = re.compile(r"[^\w\s.,;:!?'\"-]")  # a character that may be a letter, misread
_ENDING = re.compile(r"['’](?:s|ll|re|ve|d|m)", re.IGNORECASE)  # of a word, cut off from it
_ENDS_SENTENCE = re.compile(r"[.!?:][\"'”’)\]]*$")


class Chunk(NamedTuple):
    """A run of characters without white space. start, stop: in characters of the whole text.

    words: the spans of its words, in `text`. begins_sentence: if so, a capital letter does not suggest a name. kept:
    nothing in it may be changed.
    """

    text: str
    start: int
    words: tuple[tuple[int, int], ...]
    begins_sentence: bool
    kept: bool

    @property
    def stop(self) -> int:
        return self.start + len(self.text)


def chunks_of(text: str, keep: Collection[str] = (), *, is_scanned: bool = False) -> list[Chunk]:
    """The chunks of a text. keep: words, in lower case, that are never changed.

    is_scanned: marks may be wrong, too, and digits and signs may be letters.
    """
    shouts = text.upper() == text
    chunks, begins = [], True
    for match in _CHUNK.finditer(text):
        chunk = match.group()
        words = tuple(word.span() for word in WORD.finditer(chunk))
        if is_scanned and _LONE.fullmatch(chunk):
            words = ((0, 1),)
        is_code = (_LINK if is_scanned else _ADDRESS).search(chunk) or _ENDING.fullmatch(chunk)
        kept = [_is_kept(chunk[a:b], keep, shouts=shouts, is_scanned=is_scanned) for a, b in words]
        is_kept = bool(is_code) or (all(kept) and bool(kept or not is_scanned))
        chunks.append(Chunk(chunk, match.start(), words, begins, is_kept))
        begins = bool(_ENDS_SENTENCE.search(chunk))
    return chunks


def _is_kept(word: str, keep: Collection[str], *, shouts: bool, is_scanned: bool) -> bool:
    """Whether a word is kept: numbers, abbreviations in capitals, inner capitals as in iPhone, the user's own words,
    and runs of letters that are longer than any word."""
    if len(word) > LONGEST or word.lower() in keep:
        return True
    if any(character.isdigit() for character in word):
        return not is_scanned or (len(word) > 1 and word.isdigit())
    inner = word[1:]
    return inner != inner.lower() and not shouts and not is_scanned


def in_case_of(word: str, pattern: str, *, begins_sentence: bool) -> str:
    """A word in the case of another one: THE for TEH, The for Teh; a name keeps its capital letter."""
    if len(pattern) > 1 and pattern.isupper():
        return word.upper()
    if pattern[:1].isupper() and (begins_sentence or word[:1].islower()):
        return word[:1].upper() + word[1:]
    return word
