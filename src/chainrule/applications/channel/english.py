"""What goes wrong in the grammar of those who learn English: shares of errors, by judgement, not measured.

A rate says how often something goes wrong at a word that can go wrong.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from chainrule.applications.channel.grammar import GrammarChannel, WordRule
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREPOSITIONS = ("of", "in", "to", "for", "on", "at", "with", "from", "by", "about", "into", "as", "during")
_PREPOSITION_REPLACED, _PREPOSITION_LOST, _PREPOSITION_ADDED = 0.3, 0.15, 0.004
_CONFUSED = """
this these|that those|much many|some any|few little|then than|their there|its it's|who which that|will would
can could|may might must|shall should|other another others|and or|to too|he she|him her|his her|your you|it they
them it|every all|very much|so such|until by|since for|because since|both all|when if|also too|lot lots
"""
_GROUP_REPLACED = 0.12
_LOST = {
    "the": 0.6,
    "a": 0.6,
    "an": 0.5,
    "to": 0.15,
    "that": 0.1,
    "is": 0.15,
    "are": 0.15,
    "was": 0.1,
    "were": 0.1,
    "be": 0.15,
    "been": 0.1,
    "have": 0.08,
    "has": 0.08,
    "had": 0.08,
    "will": 0.05,
    "would": 0.05,
    "do": 0.05,
    "does": 0.05,
    "did": 0.05,
    "it": 0.1,
    "they": 0.05,
    "there": 0.05,
    "and": 0.05,
    "their": 0.1,
    "his": 0.05,
    "our": 0.1,
    "my": 0.05,
    "one": 0.03,
    "some": 0.05,
    "so": 0.05,
    "who": 0.1,
    ",": 0.8,
    ".": 0.3,
}
_ADDED = {
    "the": 0.03,
    "a": 0.015,
    ",": 0.01,
    "to": 0.006,
    "that": 0.004,
    "is": 0.003,
    "are": 0.002,
    "be": 0.002,
    "was": 0.002,
    "it": 0.002,
    "and": 0.004,
    "very": 0.001,
    "have": 0.002,
    "will": 0.001,
    "do": 0.001,
    "so": 0.001,
    "their": 0.001,
}
_REPLACED = {
    ("the", "a"): 0.15,
    ("a", "the"): 0.25,
    ("a", "an"): 0.1,
    ("an", "a"): 0.4,
    ("an", "the"): 0.1,
    (".", ","): 0.15,
    (",", "."): 0.03,
    (";", ","): 0.3,
}
_INFLECTED, _UNCAPITALISED = 0.4, 0.2


def english_grammar(rate: float) -> GrammarChannel:
    """Raises SettingError where the rate is none."""
    if not 0 < rate <= 0.5:
        raise SettingError(f"the rate of errors is {rate}; expected more than 0 and at most 0.5, such as 0.1")
    shares: dict[tuple[str, str], float] = {}
    for meant, written, share in _shares():
        shares.setdefault((meant, written), share)
    rules = tuple(WordRule(*sides, rate * share) for sides, share in shares.items())
    return GrammarChannel("english", rules, rate * _INFLECTED, rate * _UNCAPITALISED)


def _shares() -> Iterator[tuple[str, str, float]]:
    """Meant, written, share of what goes wrong."""
    for (meant, written), share in _REPLACED.items():
        yield meant, written, share
    for word, share in _LOST.items():
        yield word, "", share
    for word, share in _ADDED.items():
        yield "", word, share
    for group in _CONFUSED.replace("\n", "|").split("|"):
        words = group.split()
        for meant, written in permutations(words, 2):
            yield meant, written, _GROUP_REPLACED / (len(words) - 1)
    for meant in _PREPOSITIONS:
        yield meant, "", _PREPOSITION_LOST
        yield "", meant, _PREPOSITION_ADDED
        for written in _PREPOSITIONS:
            if written != meant:
                yield meant, written, _PREPOSITION_REPLACED / (len(_PREPOSITIONS) - 1)
