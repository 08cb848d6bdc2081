"""The channel of English spelling: how words go wrong when people do not know how they are spelled, or mistype them.

Every single edit is possible: another letter, one too many, one too few, a doubled or an undoubled letter, two that
changed places. A vowel in the place of another, and a key beside the right one, are likelier than the rest (Kernighan,
Church and Gale, A spelling correction program based on a noisy channel model, 1990). `english_rules.txt` has rules of
one or two letters that are as probable as in real misspellings (Brill and Moore, An improved error model for noisy
channel spelling correction, 2000): endings that sound alike, silent letters, ie and ei. `bench/english_channel.py`
learned them.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from string import ascii_lowercase
from typing import TYPE_CHECKING

from chainrule.features.correct.channel.character_channel import Channel, Rule, neighbours
from chainrule.features.correct.channel.learning import (
    BEGIN_MARK,
    END_MARK,
    SPACE,
    USUAL_LENGTH,
    mark_ends,
    within_bounds,
)
from chainrule.features.correct.channel.lexicon import WORD
from chainrule.features.correct.channel.ready import ENGLISH

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

_VOWELS = frozenset("aeiouy")
_ACCENTS = {"a": "àáâä", "c": "ç", "e": "èéêë", "i": "ìíîï", "n": "ñ", "o": "òóôö", "u": "ùúûü"}
_MARKS = str.maketrans({"^": BEGIN_MARK, "$": END_MARK})
_TRIES = 20  # of which most words need one
_HALF_BITS = 2  # of probabilities in the file

# Probabilities of edits in a word that is misspelled, at a letter where they can happen.
_VOWEL, _NEAR_KEY, _OTHER_LETTER = 0.008, 0.0015, 0.0003
_NEAR_KEY_TOO, _VOWEL_TOO, _OTHER_TOO = 0.0008, 0.0012, 0.0002
_LOST, _DOUBLED, _UNDOUBLED, _SWAPPED, _AT_BEGIN = 0.006, 0.006, 0.06, 0.004, 0.0002
_APOSTROPHE_LOST, _APOSTROPHE_MOVED, _APOSTROPHE_PUT_IN = 0.2, 0.01, 0.00002
_ACCENT_LOST = 0.4
_SPACE_LOST = 0.08  # the share of wrong words in which a space was lost or put in
_EVERYDAY = """
hi hiya hello hey bye goodbye thanks ok okay yeah yep yup nope wow oops ouch hmm huh ugh yay please sorry
mum mums mummy mom moms mommy dad dads daddy kid kids teen teens teenager teenagers guy guys
phone phones smartphone smartphones laptop laptops computer computers internet web website websites online offline
email emails mail chat app apps blog blogs blogger file files download downloads software video videos selfie
tv tvs radio dvd movie movies film films cinema camera photo photos fridge microwave weekend weekends
airport airports bike bikes bus buses taxi taxis metro parking supermarket supermarkets pizza burger burgers jeans
"""
EVERYDAY_WORDS = tuple(_EVERYDAY.split())  # that everybody writes and older texts lack: greetings, newer things
_ALIKE = {("ks", "x"): 0.02, ("i", "ye"): 0.02}  # thanx, payed


@cache
def english_channel() -> Channel:
    """Return the channel of misspelled words, in lower case between marks of their ends, as `learn_channel` makes
    them.
    """
    probs = dict(common_edits())
    probs.update(read_rules(files(__package__).joinpath("english_rules.txt").read_text("utf-8")))
    return Channel(ENGLISH, [*within_bounds(probs), Rule(SPACE, "", _SPACE_LOST)])


class EnglishNoise:
    """Misspells words in texts as `english_channel` has it, in their case."""

    def __init__(self, rate: float) -> None:
        """Store the rate, and make the channel of English.

        rate: the share of words of 5 letters that go wrong; longer ones do more often, as in `WordErrorModel`.
        """
        self._rate, self._channel = rate, english_channel()

    def corrupted(self, text: str, rng: np.random.Generator) -> str:
        """Return a random output of the channel for a text."""
        return WORD.sub(lambda match: self._misspelled(match.group(), rng), text)

    def _misspelled(self, word: str, rng: np.random.Generator) -> str:
        is_right = rng.random() < (1 - self._rate) ** (len(word) / USUAL_LENGTH)
        if is_right or not word.isascii() or any(letter.isdigit() for letter in word):
            return word
        marked = mark_ends(word.lower())
        for _ in range(_TRIES):
            wrong = self._channel.corrupted(marked, rng).strip(BEGIN_MARK + END_MARK)
            if wrong and wrong != word.lower():
                return in_case(wrong, word)
        return word


def in_case(wrong: str, word: str) -> str:
    """Return a misspelling with the capitals of its word."""
    if len(word) > 1 and word.isupper():
        return wrong.upper()
    return wrong[:1].upper() + wrong[1:] if word[:1].isupper() else wrong


def common_edits() -> Iterator[tuple[tuple[str, str], float]]:
    """Yield every single edit, with its probability before any misspelling has been seen."""
    for letter in ascii_lowercase:
        near = neighbours(letter)
        yield (letter, ""), _LOST
        yield (letter, letter + letter), _DOUBLED
        yield (letter + letter, letter), _UNDOUBLED
        yield (BEGIN_MARK, BEGIN_MARK + letter), _AT_BEGIN
        yield (letter, letter + "'"), _APOSTROPHE_PUT_IN
        yield (letter + "'", "'" + letter), _APOSTROPHE_MOVED
        yield ("'" + letter, letter + "'"), _APOSTROPHE_MOVED
        for accented in _ACCENTS.get(letter, ""):
            yield (accented, letter), _ACCENT_LOST
        for other in ascii_lowercase:
            if other == letter:
                continue
            both_vowels = letter in _VOWELS and other in _VOWELS
            yield (letter, other), _VOWEL if both_vowels else _NEAR_KEY if other in near else _OTHER_LETTER
            too_many = _NEAR_KEY_TOO if other in near else _VOWEL_TOO if other in _VOWELS else _OTHER_TOO
            yield (letter, letter + other), too_many
            yield (letter + other, other + letter), _SWAPPED
    yield ("'", ""), _APOSTROPHE_LOST
    yield from _ALIKE.items()


def read_rules(text: str) -> dict[tuple[str, str], float]:
    """Return the probabilities of rules. A line is: -log2 of the probability, and `meant>written`; ^ and $ end a
    word.
    """
    probs = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            bits, *rules = line.split(" ")
            for rule in rules:
                meant, _, written = rule.translate(_MARKS).partition(">")
                probs[meant, written] = 2.0 ** -float(bits)
    return probs


def write_rules(probs: dict[tuple[str, str], float]) -> str:
    """Return the lines of `read_rules`; probabilities are rounded to half a bit."""
    from math import log2

    unmarked = str.maketrans({BEGIN_MARK: "^", END_MARK: "$"})
    by_bits: dict[float, list[str]] = {}
    for (meant, written), prob in sorted(probs.items()):
        bits = round(-log2(prob) * _HALF_BITS) / _HALF_BITS
        by_bits.setdefault(bits, []).append(f"{meant}>{written}".translate(unmarked))
    return "".join(f"{bits:g} {' '.join(rules)}\n" for bits, rules in sorted(by_bits.items()))
