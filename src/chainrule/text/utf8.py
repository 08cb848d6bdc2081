"""Whether bytes are UTF-8, where they are not, and what to make of them there.

CPython's decoder does the work, window by window, so that its strings stay in the processor's cache: that is four times
as fast as whole blocks, and needs no memory for a line of a gigabyte.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import UInt8
    from numpy import ndarray

    from chainrule.text.reading import EncodingErrors

WINDOW_BYTES = 1 << 18
REPLACEMENT = "\ufffd"


def windows(text: UInt8[ndarray, " bytes"]) -> Iterator[tuple[int, UInt8[ndarray, " bytes"]]]:
    """Pieces of a text, each with its place, that cut no character of it in two."""
    start = 0
    while start < text.size:
        stop = min(start + WINDOW_BYTES, text.size)
        lead = _character_start(text, stop) if stop < text.size else stop
        yield start, text[start:lead]
        start = lead


def _character_start(text: UInt8[ndarray, " bytes"], place: int) -> int:
    """Where the character begins that the byte at `place` belongs to; `place` itself where it belongs to none."""
    for i in range(place, place - 4, -1):  # three bytes at most continue a character
        if text[i] & 0xC0 != 0x80:
            return i
    return place


def repaired(text: UInt8[ndarray, " bytes"], rule: EncodingErrors) -> tuple[bytes, int]:
    """UTF-8 with U+FFFD, or nothing, for what is not; and in how many places.

    A place is what Unicode calls a maximal subpart: the longest beginning of a character, or else a single byte.
    """
    pieces = []
    places = 0
    for _, window in windows(text):
        replaced = codecs.utf_8_decode(window.data, "replace", True)[0]
        places += replaced.count(REPLACEMENT) - window.tobytes().count(REPLACEMENT.encode())
        pieces.append((replaced if rule == "replace" else codecs.utf_8_decode(window.data, "ignore", True)[0]).encode())
    return b"".join(pieces), places


def encoded(text: str, rule: EncodingErrors) -> tuple[bytes, int]:
    """A string as UTF-8, its lone surrogates replaced or left out; and how many these were.

    Raises UnicodeEncodeError if the rule is strict.
    """
    try:
        return text.encode(), 0
    except UnicodeEncodeError:
        if rule == "strict":
            raise
        places = sum("\ud800" <= character <= "\udfff" for character in text)
        kept = REPLACEMENT if rule == "replace" else ""
        return "".join(kept if "\ud800" <= c <= "\udfff" else c for c in text).encode(), places
