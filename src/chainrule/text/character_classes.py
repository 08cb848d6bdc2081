"""The class of each Unicode code point for the word splitter, from Python's `unicodedata`."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from chainrule.text.splitter_kernels import ALONE, CONNECTOR, DIGIT, EXTEND, LETTER, NUMBER_CONNECTOR, SPACE

if TYPE_CHECKING:
    from jaxtyping import UInt8
    from numpy import ndarray

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
    """The class of every Unicode code point, for the word splitter."""
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
