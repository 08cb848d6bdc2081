"""The likeliest sources of a text that came through a channel: the best paths through a lattice of words.

A word may have been one word, or two whose space was lost; two may have been one that a space broke. What is no word,
such as punctuation, stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.applications.channel.lexicon import WORD, Candidate
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.applications.channel.channel import Channel
    from chainrule.applications.channel.lexicon import Lexicon

_SHORT = 3  # characters; what is not longer may be any word after two errors


@dataclass(frozen=True, kw_only=True)
class ProposalConfig:
    """best: how many sources of a text are proposed. candidates: of a word, at most.

    errors: the most errors that are looked for in a word that is known, is short, or is two with a space between;
    unknown_errors: in others.
    Raises SettingError.
    """

    best: int = 50
    candidates: int = 20
    errors: int = 1
    unknown_errors: int = 2

    def __post_init__(self) -> None:
        for name, least, most in (
            ("best", 1, 1 << 14),
            ("candidates", 1, 1 << 10),
            ("errors", 0, 2),
            ("unknown_errors", 0, 2),
        ):
            if not least <= (value := getattr(self, name)) <= most:
                raise SettingError(f"{name} is {value}; expected {least} to {most}")


@dataclass(frozen=True)
class Proposal:
    """A text that may have been meant, with log P(observed | text) and the sum of its words' log P, in nats."""

    text: str
    channel: float
    prior: float


class Proposer:
    """Proposes sources, the likeliest by the channel and the words' own probabilities first."""

    def __init__(self, channel: Channel, lexicon: Lexicon, config: ProposalConfig | None = None) -> None:
        self._channel, self._lexicon, self._config = channel, lexicon, config or ProposalConfig()

    def propose(self, observed: Sequence[str]) -> list[list[Proposal]]:
        """For each observed text; one at least, which may be the text itself."""
        parted = [_Parted.of(text) for text in observed]
        units = list(dict.fromkeys(unit for one in parted for unit in one.units()))
        candidates = dict(zip(units, self._candidates(units), strict=True))
        between = list(dict.fromkeys(between for one in parted for between in one.between))
        spaced = dict(zip(between, self._spaced(between), strict=True))
        return [self._best_paths(one, candidates, spaced) for one in parted]

    def _spaced(self, between: list[str]) -> list[list[Candidate]]:
        """What may have been meant by what stands between words: itself, or the same with one space more."""
        rows = [[text, *_with_a_space(text)] for text in between]
        sources = [source for row in rows for source in row]
        observed = [row[0] for row in rows for _ in row]
        log_probs = iter(self._channel.log_probs(observed, sources).tolist())
        return [[Candidate(source, next(log_probs), 0.0) for source in row] for row in rows]

    def _candidates(self, units: list[str]) -> list[list[Candidate]]:
        """Of words, and of pairs of them with a space between."""
        config = self._config
        errors = [
            config.errors if unit in self._lexicon or " " in unit or len(unit) <= _SHORT else config.unknown_errors
            for unit in units
        ]
        found = self._lexicon.candidates(self._channel, units, errors, config.candidates)
        places = [i for i, unit in enumerate(units) if " " not in unit and unit not in self._lexicon]
        parts = [
            (i, units[i][:cut], units[i][cut:])
            for i in places
            for cut in range(1, len(units[i]))
            if units[i][:cut] in self._lexicon and units[i][cut:] in self._lexicon
        ]
        if parts:
            texts = [f"{left} {right}" for _, left, right in parts]
            log_probs = self._channel.log_probs([units[i] for i, _, _ in parts], texts)
            lefts = self._lexicon.priors([left for _, left, _ in parts])
            rights = self._lexicon.priors([right for _, _, right in parts])
            for (i, _, _), text, log_prob, prior in zip(parts, texts, log_probs, lefts + rights, strict=True):
                if np.isfinite(log_prob):
                    found[i].append(Candidate(text, float(log_prob), float(prior)))
        return found

    def _best_paths(
        self, parted: _Parted, candidates: dict[str, list[Candidate]], spaced: dict[str, list[Candidate]]
    ) -> list[Proposal]:
        """The k best at every place from the k best before it, which is exact, since what arcs add up is a sum."""
        best = self._config.best
        paths = [_Paths.start()]
        for place, word in enumerate(parted.words):
            before = spaced[parted.between[place]]
            if not place:
                before = [one for one in before if one is before[0] or not one.text.startswith(" ")]
            ways = [(paths[place], _both(before, candidates[word]))]
            if place and (pair := parted.pair(place - 1)) is not None:
                ways.append((paths[place - 1], _both(spaced[parted.between[place - 1]], candidates[pair])))
            paths.append(_Paths.of_best(ways, best))
        behind = spaced[parted.between[-1]]
        behind = [one for one in behind if one is behind[0] or not one.text.endswith(" ")]
        ends = _Paths.of_best([(paths[-1], behind)], best)
        found: dict[str, Proposal] = {}
        for proposal in map(Proposal, ends.texts, ends.channel.tolist(), ends.prior.tolist()):
            found.setdefault(proposal.text, proposal)
        return list(found.values())


def _with_a_space(text: str) -> list[str]:
    """A text with a space put in at each place that has none on either side; nothing is put into nothing."""
    padded = f"x{text}x"
    places = [i for i in range(len(text) + 1) if " " not in padded[i : i + 2]] if text else []
    return [f"{text[:i]} {text[i:]}" for i in places]


def _both(before: list[Candidate], words: list[Candidate]) -> list[Candidate]:
    """What stands before a word, and the word."""
    return [
        Candidate(one.text + other.text, one.channel + other.channel, one.prior + other.prior)
        for one in before
        for other in words
    ]


@dataclass(frozen=True)
class _Parted:
    """A text as words and what stands before, between and behind them."""

    words: list[str]
    between: list[str]  # one more than words

    @classmethod
    def of(cls, text: str) -> _Parted:
        spans = [match.span() for match in WORD.finditer(text)]
        edges = [0, *(edge for span in spans for edge in span), len(text)]
        between = [text[start:stop] for start, stop in zip(edges[::2], edges[1::2], strict=True)]
        return cls([text[start:stop] for start, stop in spans], between)

    def pair(self, place: int) -> str | None:
        """The words at a place and behind it, where one space alone is between."""
        is_pair = place + 1 < len(self.words) and self.between[place + 1] == " "
        return f"{self.words[place]} {self.words[place + 1]}" if is_pair else None

    def units(self) -> list[str]:
        """All that candidates are looked for."""
        return [*self.words, *(pair for place in range(len(self.words)) if (pair := self.pair(place)) is not None)]


@dataclass(frozen=True)
class _Paths:
    """The best ways to a place, the best first."""

    texts: list[str]
    channel: Float64[ndarray, " paths"]
    prior: Float64[ndarray, " paths"]

    @classmethod
    def start(cls) -> _Paths:
        return cls([""], np.zeros(1), np.zeros(1))

    @classmethod
    def of_best(cls, ways: list[tuple[_Paths, list[Candidate]]], best: int) -> _Paths:
        """The best of all paths with a step added."""
        channels, priors = [np.empty(0)], [np.empty(0)]
        for paths, steps in ways:
            channel, prior = (np.array([step[i] for step in steps], np.float64) for i in (1, 2))
            channels.append((paths.channel[:, None] + channel).ravel())
            priors.append((paths.prior[:, None] + prior).ravel())
        channel, prior = np.concatenate(channels), np.concatenate(priors)
        chosen = np.argsort(-(channel + prior), kind="stable")[:best]
        firsts = np.cumsum([0, *map(len, channels[1:])])
        texts = []
        for place in chosen.tolist():
            way = int(np.searchsorted(firsts, place, side="right")) - 1
            paths, steps = ways[way]
            path, step = divmod(place - int(firsts[way]), len(steps))
            texts.append(paths.texts[path] + steps[step].text)
        return cls(texts, channel[chosen], prior[chosen])
