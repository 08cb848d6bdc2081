"""A channel that makes errors of grammar: words are lost, put in or replaced, and stand in another form.

    P(written | meant) = product over the words that were meant, and the gaps between them, of what happened there

A rule says that a word becomes another one, or is lost (`written` is empty), or is put in between words (`meant` is
empty). Besides these, a word with several forms may stand in another of them, and a capital letter may be small.
Words are in lower case; marks of punctuation are words, too.

`english_grammar` has the errors of those who learn English. Its rates, the probability of an error at a word that can
go wrong, are by judgement, not measured.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, permutations
from typing import TYPE_CHECKING, NamedTuple

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy as np

    from chainrule.features.correct.channel.character_channel import Channel
    from chainrule.features.correct.channel.inflections import Inflections

TOKEN = re.compile(r"(\s*)(n['’]t(?!\w)|['’](?:s|ll|re|ve|d|m)(?!\w)|[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]+|_+)")
MARKS = frozenset(",.;:?!")
_MOST = 0.9  # of what happens to a word may be errors


class WordRule(NamedTuple):
    """`meant` becomes `written` with some probability. Either may be empty, not both."""

    meant: str
    written: str
    prob: float


@dataclass(frozen=True)
class WordChannel:
    """A channel of grammar, which replaces words.

    inflected: the probability that a word with several forms stands in another. uncapitalised: that a capital letter is
    small. Raises SettingError.
    """

    name: str
    rules: tuple[WordRule, ...]
    inflected: float = 0.0
    uncapitalised: float = 0.0

    def __post_init__(self) -> None:
        for rule in self.rules:
            if rule.meant == rule.written or not (math.isfinite(rule.prob) and 0 < rule.prob < 1):
                raise SettingError(f"{rule} is not a rule; expected two different words and a probability")
        for name in ("inflected", "uncapitalised"):
            if not 0 <= (value := getattr(self, name)) <= _MOST:
                raise SettingError(f"{name} is {value}; expected 0 to {_MOST}")
        if (most := max((self.changed(word) for word in self.by_meant), default=0.0)) > _MOST:
            raise SettingError(f"the rules of a word have {most:.3f} together; expected at most {_MOST}")

    @cached_property
    def by_meant(self) -> Mapping[str, list[WordRule]]:
        return _grouped((rule.meant, rule) for rule in self.rules)

    @cached_property
    def by_written(self) -> Mapping[str, list[WordRule]]:
        return _grouped((rule.written, rule) for rule in self.rules)

    def changed(self, word: str) -> float:
        """Return the probability that a rule applies to a word."""
        return sum(rule.prob for rule in self.by_meant.get(word, ()))

    def corrupted(self, text: str, inflections: Inflections, rng: np.random.Generator) -> str:
        """Return a random output of the channel for a text."""
        spaced = is_spaced(text)
        pieces: list[str] = []
        for space, word, rest in _tokens(text):
            added = self._drawn("", rng) if pieces else None
            if added is not None:
                pieces.append(added if added in MARKS and not spaced else f" {added}")
            lower = word.lower()
            forms = inflections.others(lower)
            written = self._drawn(lower, rng)
            if written is None:
                is_inflected = forms and rng.random() < self.inflected
                written = forms[int(rng.integers(len(forms)))] if is_inflected else lower
            if written == lower:
                small = word[:1].isupper() and word != "I" and rng.random() < self.uncapitalised
                pieces.append(space + (word[:1].lower() + word[1:] if small else word) + rest)
            elif written:
                pieces.append(space + (written.capitalize() if word[:1].isupper() else written) + rest)
            else:
                pieces.append(rest)
        return "".join(pieces).lstrip()

    def _drawn(self, meant: str, rng: np.random.Generator) -> str | None:
        """Return what a rule makes of a word, if one applies."""
        rest = rng.random()
        for rule in self.by_meant.get(meant, ()):
            rest -= rule.prob
            if rest < 0:
                return rule.written
        return None


@dataclass(frozen=True)
class GrammarNoise:
    """Errors of grammar, and of spelling after them."""

    grammar: WordChannel
    inflections: Inflections
    spelling: Channel

    def corrupted(self, text: str, rng: np.random.Generator) -> str:
        """Return a random output for a text."""
        return self.spelling.corrupted(self.grammar.corrupted(text, self.inflections, rng), rng)


def is_spaced(text: str) -> bool:
    """Return whether marks of punctuation stand by themselves: `so , it goes .`"""
    return re.search(r"\s[,.;:?!](?:\s|$)", text) is not None


def words_and_marks(text: str) -> list[str]:
    """Return a text's words and marks of punctuation, in order."""
    return [match[2] for match in TOKEN.finditer(text)]


def _tokens(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield each word or mark with the space before it, and the space at the text's end after the last one."""
    matches = list(TOKEN.finditer(text))
    for one, following in pairwise([*matches, None]):
        yield one[1], one[2], "" if following is not None else text[one.end() :]  # type: ignore[index, union-attr]


def _grouped(rules: Iterable[tuple[str, WordRule]]) -> Mapping[str, list[WordRule]]:
    groups: defaultdict[str, list[WordRule]] = defaultdict(list)
    for word, rule in rules:
        groups[word].append(rule)
    return dict(groups)


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
    ("have", "of"): 0.05,
}
_INFLECTED, _UNCAPITALISED = 0.4, 0.2


def english_grammar(rate: float) -> WordChannel:
    """Return the channel of English grammar. Raises SettingError where the rate is none."""
    if not 0 < rate <= 0.5:
        raise SettingError(f"the rate of errors is {rate}; expected more than 0 and at most 0.5, such as 0.1")
    shares: dict[tuple[str, str], float] = {}
    for meant, written, share in _shares():
        shares.setdefault((meant, written), share)
    rules = tuple(WordRule(*sides, rate * share) for sides, share in shares.items())
    return WordChannel("english", rules, rate * _INFLECTED, rate * _UNCAPITALISED)


def _shares() -> Iterator[tuple[str, str, float]]:
    """Yield triples of the meant word, the written word, and its share of the errors at the meant one."""
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
