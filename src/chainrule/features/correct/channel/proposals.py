"""The likeliest sources of a text that came through a channel: the best paths through a lattice of words.

A word may have been one word, or two whose space was lost; two may have been one that a space broke. All else, such as
punctuation, stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import SettingError
from chainrule.features.correct.channel.lexicon import WORD, Candidate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.features.correct.channel.character_channel import Channel
    from chainrule.features.correct.channel.lexicon import Lexicon

_SHORT = 3  # characters; two errors can turn so short a word into almost any other


@dataclass(frozen=True, kw_only=True)
class ProposalConfig:
    """How sources are proposed.

    best: the most sources for each text. candidates: the most candidates for a word. errors: the most errors in a known
    or short word, or in a pair of words. unknown_errors: the most errors in other words.
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
    """Proposes sources, best first, by the channel and the probabilities of single words."""

    def __init__(self, channel: Channel, lexicon: Lexicon, config: ProposalConfig | None = None) -> None:
        self._channel, self._lexicon, self._config = channel, lexicon, config or ProposalConfig()

    def propose(self, observed: Sequence[str]) -> list[list[Proposal]]:
        """Return the sources of each observed text, at least one, which may be the text itself."""
        split = [_SplitText.of(text) for text in observed]
        units = list(dict.fromkeys(unit for text in split for unit in text.units()))
        candidates = dict(zip(units, self._candidates(units), strict=True))
        gaps = list(dict.fromkeys(gap for text in split for gap in text.gaps))
        spaced = dict(zip(gaps, self._spaced(gaps), strict=True))
        return [self._best_paths(text, candidates, spaced) for text in split]

    def _spaced(self, gaps: list[str]) -> list[list[Candidate]]:
        """Return the alternatives for each gap between words: itself, or with one more space."""
        rows = [[gap, *_with_a_space(gap)] for gap in gaps]
        sources = [source for row in rows for source in row]
        observed = [row[0] for row in rows for _ in row]
        log_probs = iter(self._channel.log_probs(observed, sources).tolist())
        return [[Candidate(source, next(log_probs), 0.0) for source in row] for row in rows]

    def _candidates(self, units: list[str]) -> list[list[Candidate]]:
        """Return the candidates of words, and of pairs of words with a space between."""
        config = self._config
        errors = [
            config.errors if unit in self._lexicon or " " in unit or len(unit) <= _SHORT else config.unknown_errors
            for unit in units
        ]
        candidates = self._lexicon.candidates(self._channel, units, errors, config.candidates)
        unknown = [i for i, unit in enumerate(units) if " " not in unit and unit not in self._lexicon]
        parts = [
            (i, units[i][:cut], units[i][cut:])
            for i in unknown
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
                    candidates[i].append(Candidate(text, float(log_prob), float(prior)))
        return candidates

    def _best_paths(
        self, text: _SplitText, candidates: dict[str, list[Candidate]], spaced: dict[str, list[Candidate]]
    ) -> list[Proposal]:
        """Return the k best paths to each position, from the k best to those before it: exact, since arcs only
        add up.
        """
        best = self._config.best
        paths = [_Paths.start()]
        for i, word in enumerate(text.words):
            before = spaced[text.gaps[i]]
            if not i:
                before = [gap for gap in before if gap is before[0] or not gap.text.startswith(" ")]
            extensions = [(paths[i], _concatenated(before, candidates[word]))]
            if i and (pair := text.pair(i - 1)) is not None:
                extensions.append((paths[i - 1], _concatenated(spaced[text.gaps[i - 1]], candidates[pair])))
            paths.append(_Paths.of_best(extensions, best))
        after = spaced[text.gaps[-1]]
        after = [gap for gap in after if gap is after[0] or not gap.text.endswith(" ")]
        ends = _Paths.of_best([(paths[-1], after)], best)
        proposals: dict[str, Proposal] = {}
        for proposal in map(Proposal, ends.texts, ends.channel.tolist(), ends.prior.tolist()):
            proposals.setdefault(proposal.text, proposal)
        return list(proposals.values())


def _with_a_space(text: str) -> list[str]:
    """Return a text with a space inserted wherever there is none on either side; nothing for an empty text."""
    padded = f"x{text}x"
    positions = [i for i in range(len(text) + 1) if " " not in padded[i : i + 2]] if text else []
    return [f"{text[:i]} {text[i:]}" for i in positions]


def _concatenated(before: list[Candidate], words: list[Candidate]) -> list[Candidate]:
    """Return every candidate of a gap with every candidate of the word after it."""
    return [
        Candidate(one.text + other.text, one.channel + other.channel, one.prior + other.prior)
        for one in before
        for other in words
    ]


@dataclass(frozen=True)
class _SplitText:
    """A text as words, and the gaps before, between and after them."""

    words: list[str]
    gaps: list[str]  # one more than words

    @classmethod
    def of(cls, text: str) -> _SplitText:
        spans = [match.span() for match in WORD.finditer(text)]
        edges = [0, *(edge for span in spans for edge in span), len(text)]
        gaps = [text[start:stop] for start, stop in zip(edges[::2], edges[1::2], strict=True)]
        return cls([text[start:stop] for start, stop in spans], gaps)

    def pair(self, i: int) -> str | None:
        """Return word i and the next one, if a single space is between them."""
        is_pair = i + 1 < len(self.words) and self.gaps[i + 1] == " "
        return f"{self.words[i]} {self.words[i + 1]}" if is_pair else None

    def units(self) -> list[str]:
        """Return the words and pairs of words that need candidates."""
        return [*self.words, *(pair for i in range(len(self.words)) if (pair := self.pair(i)) is not None)]


@dataclass(frozen=True)
class _Paths:
    """The best paths to a position, best first."""

    texts: list[str]
    channel: Float64[ndarray, " paths"]
    prior: Float64[ndarray, " paths"]

    @classmethod
    def start(cls) -> _Paths:
        return cls([""], np.zeros(1), np.zeros(1))

    @classmethod
    def of_best(cls, extensions: list[tuple[_Paths, list[Candidate]]], best: int) -> _Paths:
        """Return the best of all paths extended by a step."""
        channels, priors = [np.empty(0)], [np.empty(0)]
        for paths, steps in extensions:
            channel, prior = (np.array([step[i] for step in steps], np.float64) for i in (1, 2))
            channels.append((paths.channel[:, None] + channel).ravel())
            priors.append((paths.prior[:, None] + prior).ravel())
        channel, prior = np.concatenate(channels), np.concatenate(priors)
        chosen = np.argsort(-(channel + prior), kind="stable")[:best]
        firsts = np.cumsum([0, *map(len, channels[1:])])
        texts = []
        for row in chosen.tolist():
            extension = int(np.searchsorted(firsts, row, side="right")) - 1
            paths, steps = extensions[extension]
            path, step = divmod(row - int(firsts[extension]), len(steps))
            texts.append(paths.texts[path] + steps[step].text)
        return cls(texts, channel[chosen], prior[chosen])
