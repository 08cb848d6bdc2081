"""A channel that makes errors of grammar: words are lost, put in or replaced, and stand in another form.

    P(written | meant) = product over the words that were meant, and the gaps between them, of what happened there

A rule says that a word becomes another one, or is lost (`written` is empty), or is put in between words (`meant` is
empty). Besides these, a word with several forms may stand in another of them, and a capital letter may be small.
Words are in lower case; marks of punctuation are words, too.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy as np

    from chainrule.applications.channel.channel import Channel
    from chainrule.applications.channel.inflections import Inflections

TOKEN = re.compile(r"(\s*)(n['’]t(?!\w)|['’](?:s|ll|re|ve|d|m)(?!\w)|[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]+|_+)")
MARKS = frozenset(",.;:?!")
_MOST = 0.9  # of what happens to a word may be errors


class WordRule(NamedTuple):
    """`meant` becomes `written` with some probability. Either may be empty, not both."""

    meant: str
    written: str
    prob: float


@dataclass(frozen=True)
class GrammarChannel:
    """inflected: the probability that a word with several forms stands in another. uncapitalised: that a capital letter
    is small.

    Raises SettingError.
    """

    name: str
    rules: tuple[WordRule, ...]
    inflected: float = 0.0
    uncapitalised: float = 0.0

    def __post_init__(self) -> None:
        for rule in self.rules:
            if rule.meant == rule.written or not (math.isfinite(rule.prob) and 0 < rule.prob < 1):
                raise SettingError(f"{rule} is no rule; expected two different words and a probability")
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
        """The probability that a rule applies to a word."""
        return sum(rule.prob for rule in self.by_meant.get(word, ()))

    def corrupted(self, text: str, inflections: Inflections, rng: np.random.Generator) -> str:
        """A random output of the channel for a text."""
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
        """What a rule makes of a word, if one applies."""
        rest = rng.random()
        for rule in self.by_meant.get(meant, ()):
            rest -= rule.prob
            if rest < 0:
                return rule.written
        return None


@dataclass(frozen=True)
class GrammarNoise:
    """Errors of grammar, and of spelling after them."""

    grammar: GrammarChannel
    inflections: Inflections
    spelling: Channel

    def corrupted(self, text: str, rng: np.random.Generator) -> str:
        """A random output for a text."""
        return self.spelling.corrupted(self.grammar.corrupted(text, self.inflections, rng), rng)


def is_spaced(text: str) -> bool:
    """Whether marks of punctuation stand by themselves: `so , it goes .`"""
    return re.search(r"\s[,.;:?!](?:\s|$)", text) is not None


def words_and_marks(text: str) -> list[str]:
    """A text's words and marks of punctuation, in order."""
    return [match[2] for match in TOKEN.finditer(text)]


def _tokens(text: str) -> Iterator[tuple[str, str, str]]:
    """Each word or mark with the space before it, and the space at the text's end after the last one."""
    matches = list(TOKEN.finditer(text))
    for one, following in pairwise([*matches, None]):
        yield one[1], one[2], "" if following is not None else text[one.end() :]  # type: ignore[index, union-attr]


def _grouped(rules: Iterable[tuple[str, WordRule]]) -> Mapping[str, list[WordRule]]:
    groups: defaultdict[str, list[WordRule]] = defaultdict(list)
    for word, rule in rules:
        groups[word].append(rule)
    return dict(groups)
