"""A noisy channel from the source text to the observed one: every character is copied, or a rule rewrites it.

    P(observed | source) = sum over all ways to rewrite source as observed, of the product of their steps

Each step applies one of the rules whose left side matches at the current position, with its probability, or copies the
character with the probability that remains. So the probabilities of all observed texts sum to one. Kernighan, Church
and Gale, A spelling correction program based on a noisy channel model, 1990; Brill and Moore, An improved error model
for noisy channel spelling correction, 2000, for rules of several characters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.applications.channel.channel_kernels import SIDE, log_probs
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, Int32, Int64
    from numpy import ndarray

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
        """Raises SettingError if a rule is invalid, or the rules leave too little probability to copying."""
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
        """A random output of the channel for a text."""
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
        """log P(observed | source) of pairs, in nats; -inf if no rules rewrite one as the other."""
        results = np.empty(len(observed))
        log_probs(*joined(observed), *joined(sources), *self.by_source[:-1], results)
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


def joined(texts: Sequence[str]) -> tuple[Int32[ndarray, " characters"], Int64[ndarray, " texts+1"]]:
    """The code points of texts, concatenated, and the offset of each text, with the end as the last one."""
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
    """Raises SettingError."""
    if not 1 <= len(rule.source) <= SIDE or len(rule.observed) > SIDE or rule.source == rule.observed:
        raise SettingError(f"{rule} is no rule; expected 1 or 2 characters that become 0 to 2 others")
    if not all(0 < ord(character) < _CODES for character in rule.source + rule.observed):
        raise SettingError(f"{rule} has a character above U+{_CODES - 1:04X}; rules can have only those up to it")
    if not (math.isfinite(rule.prob) and 0 < rule.prob < 1):
        raise SettingError(f"{rule} has the probability {rule.prob}; expected more than 0 and less than 1")


def _largest_sum(rules: Sequence[Rule]) -> float:
    """The largest sum of probabilities of the rules for one first character, over the characters after it."""
    alone = sum(rule.prob for rule in rules if len(rule.source) == 1)
    by_next: dict[str, float] = {}
    for rule in rules:
        if len(rule.source) == 2:
            by_next[rule.source[1]] = by_next.get(rule.source[1], 0.0) + rule.prob
    return alone + max(by_next.values(), default=0.0)
