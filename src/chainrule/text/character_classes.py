"""What kind of character each Unicode code point is, to the word splitter. The data are those of `unicodedata`."""

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
# Scripts written without spaces, whose characters stand alone with their marks: CJK marks and numerals, Hiragana, Han.
ALONE_RANGES = (
    (0x3005, 0x3007),
    (0x3041, 0x309F),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
ASSIGNED_RANGES = ((0, 0x40000), (0xE0000, 0xE1000))  # the planes that have characters, private use left out


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


# Marks and joiners belong to what they follow.
_CLASS_OF_CATEGORY = {
    **dict.fromkeys(("Lu", "Ll", "Lt", "Lm", "Lo", "Pc"), LETTER),
    **dict.fromkeys(("Nd", "Nl", "No"), DIGIT),
    **dict.fromkeys(("Mn", "Mc", "Me", "Cf"), EXTEND),
    **dict.fromkeys(("Zs", "Zl", "Zp"), SPACE),
}
_CLASS_OF_CHARACTER = {
    "\0\t\n\v\f\r\x1c\x1d\x1e\x1f\x85": SPACE,  # the controls that str.isspace() counts, and NUL
    "\u200b": ALONE,  # the zero-width space, which does divide
    CONNECTORS: CONNECTOR,
    NUMBER_CONNECTORS: NUMBER_CONNECTOR,
}
