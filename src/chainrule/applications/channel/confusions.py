"""Ready-made channels: typing errors on a keyboard, and errors of optical character recognition.

The rate is the probability of an error at a character that can go wrong.
"""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, Literal

from chainrule.applications.channel.channel import Channel, Rule
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterator

Confusions = Literal["keyboard", "ocr"]
CONFUSIONS: tuple[Confusions, ...] = ("keyboard", "ocr")

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")  # of a QWERTY keyboard, each half a key to the right of the one above
_LETTERS = ascii_lowercase + ascii_uppercase
# Shares of the slips at a letter: another key, a key too many, one too few, the next letter first, a space too many.
_SUBSTITUTED, _INSERTED, _DELETED, _SWAPPED, _SPACED = 0.4, 0.2, 0.2, 0.15, 0.05
_SPACE_LOST = 0.5

# What looks alike in print, with its share of the errors at that position, in both directions.
_ALIKE = {
    ("rn", "m"): 0.5,
    ("cl", "d"): 0.4,
    ("vv", "w"): 0.4,
    ("li", "h"): 0.3,
    ("ii", "u"): 0.3,
    ("ri", "n"): 0.2,
    ("in", "m"): 0.2,
    ("e", "c"): 0.4,
    ("l", "1"): 0.3,
    ("l", "i"): 0.2,
    ("l", "I"): 0.2,
    ("h", "b"): 0.3,
    ("n", "u"): 0.3,
    ("a", "o"): 0.2,
    ("a", "s"): 0.1,
    ("f", "t"): 0.3,
    ("i", "j"): 0.2,
    ("g", "q"): 0.3,
    ("y", "v"): 0.3,
    ("O", "0"): 0.5,
    ("S", "5"): 0.4,
    ("B", "8"): 0.4,
    ("I", "1"): 0.3,
    ("Z", "2"): 0.4,
    ("E", "F"): 0.3,
    ("C", "G"): 0.3,
    ("P", "F"): 0.2,
    ("D", "O"): 0.2,
    (".", ","): 0.4,
}
_BROKEN = 0.1  # share of the errors at a letter: a space is put after it
_MERGED = 0.5  # share of the errors at a space: it is lost


def channel_named(name: str, rate: float) -> Channel:
    """A ready-made channel. rate: above 0, at most 0.5. Raises SettingError."""
    if name not in CONFUSIONS:
        raise SettingError(f"there is no channel called {name!r}; choose one of {', '.join(CONFUSIONS)}")
    if not 0 < rate <= 0.5:
        raise SettingError(f"the rate of errors is {rate}; expected more than 0 and at most 0.5, such as 0.03")
    confusions = _slips() if name == "keyboard" else _lookalikes()
    return Channel(name, [Rule(source, observed, rate * share) for source, observed, share in confusions])


def neighbours(letter: str) -> str:
    """The letters of the keys around a letter's key, in its case."""
    row = next(i for i, keys in enumerate(_ROWS) if letter.lower() in keys)
    column = _ROWS[row].index(letter.lower())
    around = (
        (row, column - 1),
        (row, column + 1),
        (row - 1, column),
        (row - 1, column + 1),
        (row + 1, column - 1),
        (row + 1, column),
    )
    letters = "".join(_ROWS[r][c] for r, c in around if 0 <= r < len(_ROWS) and 0 <= c < len(_ROWS[r]))
    return letters.upper() if letter.isupper() else letters


def _slips() -> Iterator[tuple[str, str, float]]:
    """Typing errors: source, observed, share of the errors at the source."""
    for letter in _LETTERS:
        keys = neighbours(letter)
        for key in keys:
            yield letter, key, _SUBSTITUTED / len(keys)
            yield letter, letter + key.lower(), _INSERTED / (len(keys) + 1)
        yield letter, letter + letter.lower(), _INSERTED / (len(keys) + 1)
        yield letter, "", _DELETED
        yield letter, letter + " ", _SPACED
        for other in ascii_lowercase:
            if letter.lower() != other:
                yield (
                    letter + other,
                    (other + letter.lower() if letter.islower() else other.upper() + letter.lower()),
                    (_SWAPPED),
                )
    yield " ", "", _SPACE_LOST


def _lookalikes() -> Iterator[tuple[str, str, float]]:
    """Recognition errors: source, observed, share of the errors at the source."""
    for (one, other), share in _ALIKE.items():
        yield one, other, share
        yield other, one, share
    for letter in _LETTERS:
        yield letter, letter + " ", _BROKEN
    yield " ", "", _MERGED
