"""A noisy channel over characters: each is copied, or a rule rewrites it. Ready-made for keyboards and OCR.

    P(observed | source) = sum over all ways to rewrite source as observed, of the product of their steps

Each step applies one of the rules whose left side matches at the current position, with its probability, or copies the
character with the probability that remains. So the probabilities of all observed texts sum to one. Kernighan, Church
and Gale, A spelling correction program based on a noisy channel model, 1990; Brill and Moore, An improved error model
for noisy channel spelling correction, 2000, for rules of several characters.

The rate of a ready-made channel is the probability of an error at a character that can go wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.errors import SettingError
from chainrule.features.correct.channel.channel_kernels import SIDE, log_probs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.features.correct.channel.ready import ReadyChannel

_CODES = 1 << 16  # characters of rules are below
MOST_ERRORS = 0.95  # the largest probability of an error at one position


@dataclass(frozen=True)
class Rule:
    """Rewrites `source`, one or two characters, as `observed`, at most two, with a probability wherever it occurs."""

    source: str
    observed: str
    prob: float


class RulesBySource(NamedTuple):
    """The rules by the first characters of both sides, and the probabilities of copying.

    symbols[c]: the symbol of code point c, 1 to S - 1, or 0 if no rule contains it. copied[x, y]: the probability that
    symbol x is copied where y follows. begin: rules from symbol x to symbol y are begin[x S + y] .. begin[x S + y + 1],
    deletions under y = 0. sides: source and observed of each rule as code points, padded with 0. probs: of the rules.
    order: their positions in `Channel.rules`.
    """

    symbols: Int32[ndarray, " codes"]
    copied: Float64[ndarray, "S S"]
    begin: Int64[ndarray, " buckets+1"]
    sides: Int32[ndarray, "rules 2 side"]
    probs: Float64[ndarray, " rules"]
    order: Int64[ndarray, " rules"]


class RulesByObserved(NamedTuple):
    """Rules by their first observed character: those of code c are begin[c] .. begin[c + 1]; deletions are under 0."""

    begin: Int64[ndarray, " codes+1"]
    sides: Int32[ndarray, "rules 2 side"]


class Channel:
    """A channel of some rules."""

    def __init__(self, name: str, rules: Sequence[Rule]) -> None:
        """Sort the rules by their first characters.

        Raises SettingError if a rule is invalid, or the rules leave too little probability to copying.
        """
        self.name, self.rules = name, tuple(rules)
        for rule in self.rules:
            _check(rule)
        self._by_first: dict[str, list[Rule]] = {}
        for rule in self.rules:
            self._by_first.setdefault(rule.source[0], []).append(rule)
        self._largest = max((_largest_sum(rules) for rules in self._by_first.values()), default=0.0)
        if self._largest > MOST_ERRORS:
            raise SettingError(
                f"the probabilities of one character's rules sum to {self._largest:.3f}; expected at most {MOST_ERRORS}"
            )

    def corrupted(self, text: str, rng: np.random.Generator) -> str:
        """Return a random output of the channel for a text."""
        draws = rng.random(len(text))
        pieces, done = [], 0
        for position in np.flatnonzero(draws < self._largest).tolist():
            if position < done:
                continue  # the rule before has rewritten this character, too
            rest = draws[position]
            for rule in self._by_first.get(text[position], ()):
                if text.startswith(rule.source, position):
                    rest -= rule.prob
                    if rest < 0:
                        pieces += [text[done:position], rule.observed]
                        done = position + len(rule.source)
                        break
        return "".join([*pieces, text[done:]])

    def log_probs(self, observed: Sequence[str], sources: Sequence[str]) -> Float64[ndarray, " pairs"]:
        """Return log P(observed | source) of pairs, in nats; -inf if no rules rewrite one as the other."""
        results = np.empty(len(observed))
        log_probs(*concatenate(observed), *concatenate(sources), *self.by_source[:-1], results)
        return results

    def log_prob(self, observed: str, source: str) -> float:
        return float(self.log_probs([observed], [source])[0])

    @cached_property
    def characters(self) -> frozenset[str]:
        """All characters of its rules."""
        return frozenset(character for rule in self.rules for character in rule.source + rule.observed)

    @cached_property
    def by_source(self) -> RulesBySource:
        """The rules as the forward algorithm needs them."""
        named = sorted({ord(character) for rule in self.rules for character in rule.source + rule.observed[:1]})
        symbols = np.zeros(_CODES, np.int32)
        symbols[named] = np.arange(1, len(named) + 1)
        size = len(named) + 1
        copied = np.ones((size, size))
        for rule in self.rules:
            first, following = symbols[ord(rule.source[0])], symbols[ord(rule.source[-1])]
            copied[first, following if len(rule.source) == 2 else slice(None)] -= rule.prob
        buckets = [
            symbols[ord(rule.source[0])] * size + (symbols[ord(rule.observed[0])] if rule.observed else 0)
            for rule in self.rules
        ]
        order = np.argsort(buckets, kind="stable")
        begin = np.searchsorted(np.array(buckets, np.int64)[order], np.arange(size * size + 1))
        return RulesBySource(symbols, copied, begin, *_arrays([self.rules[i] for i in order.tolist()]), order)

    @cached_property
    def by_observed(self) -> RulesByObserved:
        """The rules as the search for sources needs them."""
        codes = np.array([ord(rule.observed[0]) if rule.observed else 0 for rule in self.rules], np.int64)
        order = np.argsort(codes, kind="stable")
        sides, _ = _arrays([self.rules[i] for i in order.tolist()])
        return RulesByObserved(np.searchsorted(codes[order], np.arange(_CODES + 1)), sides)


def concatenate(texts: Sequence[str]) -> tuple[Int32[ndarray, " characters"], Int64[ndarray, " texts+1"]]:
    """Return the code points of all texts, concatenated, and the offset of each text, with the end as the last one."""
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=offsets[1:])
    data = bytearray("".join(texts).encode("utf-32-le", "surrogatepass"))
    return np.frombuffer(data, np.int32), offsets


def _arrays(rules: Sequence[Rule]) -> tuple[Int32[ndarray, "rules 2 side"], Float64[ndarray, " rules"]]:
    sides = np.zeros((len(rules), 2, SIDE), np.int32)
    for row, rule in zip(sides, rules, strict=True):
        for side, text in zip(row, (rule.source, rule.observed), strict=True):
            side[: len(text)] = list(map(ord, text))
    return sides, np.array([rule.prob for rule in rules], np.float64)


def _check(rule: Rule) -> None:
    """Raise SettingError if a rule is invalid."""
    if not 1 <= len(rule.source) <= SIDE or len(rule.observed) > SIDE or rule.source == rule.observed:
        raise SettingError(f"{rule} is not a rule; expected 1 or 2 characters that become 0 to 2 others")
    if not all(0 < ord(character) < _CODES for character in rule.source + rule.observed):
        raise SettingError(f"{rule} has a character above U+{_CODES - 1:04X}; rules can have only those up to it")
    if not (math.isfinite(rule.prob) and 0 < rule.prob < 1):
        raise SettingError(f"{rule} has the probability {rule.prob}; expected more than 0 and less than 1")


def _largest_sum(rules: Sequence[Rule]) -> float:
    """Return the largest sum of probabilities of the rules for one first character, over the characters after it."""
    alone = sum(rule.prob for rule in rules if len(rule.source) == 1)
    by_next: dict[str, float] = {}
    for rule in rules:
        if len(rule.source) == 2:
            by_next[rule.source[1]] = by_next.get(rule.source[1], 0.0) + rule.prob
    return alone + max(by_next.values(), default=0.0)


CONFUSIONS: tuple[ReadyChannel, ...] = ("keyboard", "ocr")  # of characters

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
    """Return a ready-made channel. rate: above 0, at most 0.5. Raises SettingError."""
    if name not in CONFUSIONS:
        raise SettingError(f"there is no channel called {name!r}; choose one of {', '.join(CONFUSIONS)}")
    if not 0 < rate <= 0.5:
        raise SettingError(f"the rate of errors is {rate}; expected more than 0 and at most 0.5, such as 0.03")
    confusions = _slips() if name == "keyboard" else _lookalikes()
    return Channel(name, [Rule(source, observed, rate * share) for source, observed, share in confusions])


def neighbours(letter: str) -> str:
    """Return the letters of the keys around a letter's key, in its case."""
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
    """Yield typing errors: source, observed, share of the errors at the source."""
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
    """Yield recognition errors: source, observed, share of the errors at the source."""
    for (one, other), share in _ALIKE.items():
        yield one, other, share
        yield other, one, share
    for letter in _LETTERS:
        yield letter, letter + " ", _BROKEN
    yield " ", "", _MERGED
