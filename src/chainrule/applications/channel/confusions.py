"""Ready-made channels: typing errors on a keyboard, and errors of optical character recognition.

A rate says how often something goes wrong at a character that can go wrong.
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
# What a slip at a letter is: another key, a key too many, one too few, the next letter first, a space too many.
_SUBSTITUTED, _INSERTED, _DELETED, _SWAPPED, _SPACED = 0.4, 0.2, 0.2, 0.15, 0.05
_SPACE_LOST = 0.5

# What looks alike in print, with its share of what goes wrong where it stands; both ways, if not said otherwise.
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
_BROKEN = 0.1  # of what goes wrong at a letter: a space behind it
_MERGED = 0.5  # of what goes wrong at a space: it is lost


def channel_named(name: str, rate: float) -> Channel:
    """Raises SettingError where there is none of the name, or the rate is none."""
    if name not in CONFUSIONS:
        raise SettingError(f"there is no channel called {name!r}; choose one of {', '.join(CONFUSIONS)}")
    if not 0 < rate <= 0.5:
        raise SettingError(f"the rate of errors is {rate}; expected more than 0 and at most 0.5, such as 0.03")
    return Channel(name, [Rule(s, o, rate * share) for s, o, share in (_slips() if name == "keyboard" else _looks())])


def neighbours(letter: str) -> str:
    """The keys around that of a letter, in its case."""
    row = next(i for i, keys in enumerate(_ROWS) if letter.lower() in keys)
    place = _ROWS[row].index(letter.lower())
    around = ((row, place - 1), (row, place + 1), (row - 1, place), (row - 1, place + 1), (row + 1, place - 1))
    found = "".join(
        _ROWS[r][p] for r, p in (*around, (row + 1, place)) if 0 <= r < len(_ROWS) and 0 <= p < len(_ROWS[r])
    )
    return found.upper() if letter.isupper() else found


def _slips() -> Iterator[tuple[str, str, float]]:
    """Source, observed, share of what goes wrong."""
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


def _looks() -> Iterator[tuple[str, str, float]]:
    for (one, other), share in _ALIKE.items():
        yield one, other, share
        yield other, one, share
    for letter in _LETTERS:
        yield letter, letter + " ", _BROKEN
    yield " ", "", _MERGED
