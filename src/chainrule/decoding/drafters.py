"""Drafters: what guesses the next tokens of a text, by the text itself or by a small model.

`PromptLookup` has what came after the longest earlier match (Saxena 2023), `NGramLookup` counts of the text so far,
`ModelDrafter` a model of the same tokens, `SurestDrafter` several of them. `drafting.py` has a network check them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chainrule.protocol import LanguageModel


class Guess(NamedTuple):
    """A token, and how likely it is right if those before it are, by what the drafter knows."""

    token: int
    confidence: float


class Guesses(Protocol):
    """A drafter's knowledge of one text."""

    def add(self, tokens: Sequence[int]) -> None:
        """Add tokens to the text."""

    def ahead(self) -> Iterator[Guess]:
        """Return the next tokens, as they are expected."""


class Drafter(Protocol):
    """Guesses the next tokens of a text."""

    def begin(self) -> Guesses:
        """Return the guesses for a new text, which is empty."""


class PromptLookup:
    """Expects what came after the longest earlier match of the text's end, by a suffix automaton (Blumer et al. 1985).

    A state of it stands for sequences that end at the same places of the text. `lengths` are of the longest sequence
    of a state, `links` lead to the state of its longest suffix that also ends elsewhere, `ends` say where it was last
    seen to end.
    """

    def begin(self) -> Guesses:
        """Implement `Drafter.begin`."""
        return _Matches()


_REFRESHED = 16  # states whose last end is brought up to date with each token


class _Matches:
    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.lengths, self.links, self.ends = [0], [-1], [-1]
        self.following: list[dict[int, int]] = [{}]
        self.last = self.match = 0  # match: the state of the longest suffix that also occurs earlier
        self.match_end = -1

    def add(self, tokens: Sequence[int]) -> None:
        """Implement `Guesses.add`."""
        for token in tokens:
            self._add(token)

    def _add(self, token: int) -> None:
        place = len(self.tokens)
        self.tokens.append(token)
        new, state = self._new_state(self.lengths[self.last] + 1, {}, place), self.last
        while state >= 0 and token not in self.following[state]:
            self.following[state][token] = new
            state = self.links[state]
        link = 0
        if state >= 0:
            link = self.following[state][token]
            if self.lengths[link] != self.lengths[state] + 1:
                whole = link
                link = self._new_state(self.lengths[state] + 1, dict(self.following[whole]), self.ends[whole])
                self.links[link], self.links[whole] = self.links[whole], link
                while state >= 0 and self.following[state].get(token) == whole:
                    self.following[state][token] = link
                    state = self.links[state]
        self.links[new] = link
        self.last, self.match, self.match_end = new, link, self.ends[link]
        for _ in range(_REFRESHED):
            if link <= 0:
                break
            self.ends[link] = place
            link = self.links[link]

    def _new_state(self, length: int, following: dict[int, int], end: int) -> int:
        self.lengths.append(length)
        self.links.append(-1)
        self.ends.append(end)
        self.following.append(following)
        return len(self.lengths) - 1

    def ahead(self) -> Iterator[Guess]:
        """Implement `Guesses.ahead`; a match that reaches the text's end goes round."""
        length = self.lengths[self.match]
        if not length:
            return
        distance = len(self.tokens) - 1 - self.match_end
        guessed: list[int] = []
        while True:
            i = len(guessed)
            token = guessed[i - distance] if i >= distance else self.tokens[self.match_end + 1 + i]
            guessed.append(token)
            yield Guess(token, 1 - 1 / (1 + length + i))


class NGramLookup:
    """Expects the most frequent token after the longest context that the text so far has, of up to order - 1 tokens.

    Its confidence is the share of Witten and Bell (1991), with less left for others after longer contexts:
    c(h w) / (c(h) + t(h) / |h|), with t(h) different tokens after h.
    """

    def __init__(self, order: int = 6) -> None:
        self.order = order

    def begin(self) -> Guesses:
        """Implement `Drafter.begin`."""
        return _Counts(self.order)


class _Counts:
    def __init__(self, order: int) -> None:
        self.longest = order - 1  # context
        self.recent: tuple[int, ...] = ()
        self.counts: dict[tuple[int, ...], dict[int, int]] = {}

    def add(self, tokens: Sequence[int]) -> None:
        """Implement `Guesses.add`."""
        for token in tokens:
            for length in range(1, len(self.recent) + 1):
                counts = self.counts.setdefault(self.recent[-length:], {})
                counts[token] = counts.get(token, 0) + 1
            self.recent = (*self.recent, token)[-self.longest :]

    def ahead(self) -> Iterator[Guess]:
        """Implement `Guesses.ahead`."""
        recent = self.recent
        while known := self._longest_known(recent):
            length, counts = known
            token = max(counts, key=counts.__getitem__)
            yield Guess(token, counts[token] / (sum(counts.values()) + len(counts) / length))
            recent = (*recent, token)[-self.longest :]

    def _longest_known(self, recent: tuple[int, ...]) -> tuple[int, dict[int, int]] | None:
        """Return the length of the longest context that was seen, and what came after it, how often."""
        for length in range(len(recent), 0, -1):
            if (counts := self.counts.get(recent[-length:])) is not None:
                return length, counts
        return None


class ModelDrafter:
    """Expects the likeliest tokens of a model, such as an n-gram model, that has the same vocabulary."""

    def __init__(self, model: LanguageModel[Any]) -> None:
        self.model = model

    def begin(self) -> Guesses:
        """Implement `Drafter.begin`."""
        return _Likeliest(self.model)


_FIRST_ROW = np.zeros(1, np.int32)


class _Likeliest:
    def __init__(self, model: LanguageModel[Any]) -> None:
        self.model = model
        self.state: Any = None

    def add(self, tokens: Sequence[int]) -> None:
        """Implement `Guesses.add`."""
        if self.state is None:
            self.state = self.model.start([np.array(tokens, np.int32)])
            return
        for token in tokens:
            self.state = self.model.advance(self.state, np.array([token], np.int32))

    def ahead(self) -> Iterator[Guess]:
        """Implement `Guesses.ahead`."""
        state = self.model.select(self.state, _FIRST_ROW)
        while True:
            log_probs, tokens = self.model.top(state, 1)
            yield Guess(int(tokens[0, 0]), math.exp(log_probs[0, 0]))
            state = self.model.advance(state, tokens[:, 0])


class SurestDrafter:
    """Expects what the drafter expects that is surest of its first guess, such as a model or the text so far."""

    def __init__(self, *drafters: Drafter) -> None:
        self.drafters = drafters

    def begin(self) -> Guesses:
        """Implement `Drafter.begin`."""
        return _Surest([drafter.begin() for drafter in self.drafters])


class _Surest:
    def __init__(self, guesses: Sequence[Guesses]) -> None:
        self.guesses = guesses

    def add(self, tokens: Sequence[int]) -> None:
        """Implement `Guesses.add`."""
        for guesses in self.guesses:
            guesses.add(tokens)

    def ahead(self) -> Iterator[Guess]:
        """Implement `Guesses.ahead`."""
        firsts = [(first, rest) for rest in (each.ahead() for each in self.guesses) if (first := next(rest, None))]
        if firsts:
            first, rest = max(firsts, key=lambda pair: pair[0].confidence)
            yield first
            yield from rest
