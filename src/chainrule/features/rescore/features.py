"""The features of hypotheses: their own scores, the log-probability under each language model, and the number of words.

The features of many lists are one matrix with one row for each hypothesis, so that weighted sums are one product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from chainrule.decoding.shared_prefixes import shared_log_probs
from chainrule.errors import SettingError
from chainrule.protocol import END, UNKNOWN
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jaxtyping import Bool, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.evaluation.token_scores import Speller
    from chainrule.features.rescore.lists.nbest import NBestList
    from chainrule.protocol import LanguageModel, Scorer
    from chainrule.text.tokenization.tokenizer import Tokenizer
    from chainrule.text.tokenization.vocabulary import Encoded

WORDS = "words"  # the name of the feature that counts words
IMPOSSIBLE = -1e6  # nats, for probability 0: worse than any other hypothesis, but finite
_HYPOTHESES_AT_ONCE = 1 << 12
_CHARACTERS_AT_ONCE = 1 << 19


class TextScorer(Protocol):
    """Scores texts by themselves."""

    def log_probs(self, texts: Sequence[str]) -> Float64[ndarray, " texts"]:
        """Return log P of each text with its end, in nats."""


class HypothesisScorer(Protocol):
    """A Protocol: the scorer that rescoring needs. A seq2seq model reads the source of each text, others do not."""

    def log_probs(self, texts: Sequence[str], sources: Sequence[str | None]) -> Float64[ndarray, " texts"]:
        """Return log P of each text with its end, in nats. sources: the source of each text."""


@dataclass(frozen=True)
class SpelledScorer:
    """Scores texts with a scorer of token ids: an unknown token costs P(<unk> | context) and its spelling.

    Without the spelling, unknown words would be free, and nonsense would win. Unseen types are counted as in
    `evaluation/token_scores.py`, except for the effect on all other tokens, which is tiny and nearly the same for all
    hypotheses.
    """

    model: Scorer
    tokenizer: Tokenizer
    speller: Speller | None = None  # without one, an unknown token costs P(<unk> | context) alone
    shares: bool = False  # whether common prefixes of texts are read once: faster for slow models

    def log_probs(self, texts: Sequence[str], sources: Sequence[str | None] = ()) -> Float64[ndarray, " texts"]:
        """Return the scores of `TextScorer.log_probs`, whatever the sources."""
        encoded, costs = self._spelled(texts)
        sequences = documents_of(encoded.ids)
        if self.shares:
            log_probs = shared_log_probs(cast("LanguageModel[Any]", self.model), sequences)
        else:  # not as a stream, in which earlier texts are context
            log_probs = np.array([row.sum(dtype=np.float64) for row in self.model.score(sequences)])
        if self.speller is not None:
            ends = encoded.ids == END
            owners = np.cumsum(ends) - ends  # a token's text: the number of those that ended before
            log_probs += np.bincount(owners, costs, len(texts))
        return log_probs

    def encode(self, texts: Sequence[str]) -> tuple[list[Int32[ndarray, " T"]], list[Float64[ndarray, " T"]]]:
        """Return the tokens of each text, and what the spelling of each adds to its log-probability: 0 for known
        ones.
        """
        encoded, costs = self._spelled(texts)
        parts = np.split(costs, np.flatnonzero(encoded.ids == END) + 1)[:-1]
        return documents_of(encoded.ids), [part[:-1] for part in parts]

    def _spelled(self, texts: Sequence[str]) -> tuple[Encoded, Float64[ndarray, " T"]]:
        encoded = self.tokenizer.encode_texts(texts)
        costs = np.zeros(encoded.ids.size)
        if self.speller is not None:
            positions = np.flatnonzero(encoded.ids == UNKNOWN)
            surfaces = [encoded.surface(position) for position in positions.tolist()]
            distinct = list(dict.fromkeys(surfaces))
            spelling = dict(zip(distinct, self.speller.log_probs(distinct).tolist(), strict=True))
            types = np.log(max(self.speller.unseen_types, 1))
            costs[positions] = [spelling[surface] + types for surface in surfaces]
        return encoded, costs


@dataclass(frozen=True)
class Features:
    """The features of the hypotheses of some lists, list by list."""

    names: tuple[str, ...]
    values: Float64[ndarray, "hypotheses features"]
    offsets: Int64[ndarray, " lists+1"]  # of each list's first row, and the end
    replaced: tuple[str, ...] = ()  # own scores that the models replace: their default weight is 0

    def totals(self, weights: Float64[ndarray, " features"]) -> Float64[ndarray, " hypotheses"]:
        """Return the weighted sum of each hypothesis."""
        return self.values @ weights

    def best(self, weights: Float64[ndarray, " features"]) -> Int64[ndarray, " lists"]:
        """Return, for each list, the row of the hypothesis with the largest weighted sum; of ties, the first."""
        return first_of_best(self.totals(weights), self.offsets)

    def spreads(self) -> Float64[ndarray, " features"]:
        """Return the standard deviation of each feature within the lists; 1 where it never differs."""
        sizes = np.diff(self.offsets)
        means = np.add.reduceat(self.values, self.offsets[:-1]) / sizes[:, None]
        deviations = np.sqrt(((self.values - np.repeat(means, sizes, axis=0)) ** 2).mean(axis=0))
        return np.where(deviations > 0, deviations, 1.0)

    def impossible(self, own: int) -> Bool[ndarray, "hypotheses models"]:
        """Return where a model gives probability 0. own: the number of columns with the lists' own scores."""
        return self.values[:, own:-1] <= IMPOSSIBLE

    @classmethod
    def joined(cls, parts: Sequence[Features]) -> Features:
        sizes = np.concatenate([np.diff(part.offsets) for part in parts])
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return cls(parts[0].names, np.concatenate([part.values for part in parts]), offsets, parts[0].replaced)


def first_of_best(
    totals: Float64[ndarray, " hypotheses"], offsets: Int64[ndarray, " lists+1"]
) -> Int64[ndarray, " lists"]:
    """Return the first row of each list that has the list's maximum."""
    best = np.maximum.reduceat(totals, offsets[:-1])
    rows = np.flatnonzero(totals == np.repeat(best, np.diff(offsets)))
    return rows[np.searchsorted(rows, offsets[:-1])]


def names_of(own: Iterable[str], models: Iterable[str]) -> tuple[str, ...]:
    """Return the names of all features, in the order of their columns. Raises SettingError if two are the same."""
    names = (*own, *models, WORDS)
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise SettingError(
            f"two scores are named {twice!r}: the lists' own scores, the models and {WORDS} need different names; "
            "give the model another name"
        )
    return names


def features_of(lists: Sequence[NBestList], models: dict[str, HypothesisScorer]) -> Features:
    """Return the features of some lists; equal texts of equal sources are scored once.

    Raises SettingError if names collide, or a model needs sources that lists lack; MarkerError.
    """
    own = tuple(lists[0].scores)
    rows: dict[tuple[str, str | None], int] = {}
    where = np.array([rows.setdefault((text, nbest.source), len(rows)) for nbest in lists for text in nbest.texts])
    texts, sources = [text for text, _ in rows], [source for _, source in rows]
    values = np.empty((where.size, len(own) + len(models) + 1))
    for column, name in enumerate(own):
        values[:, column] = [score for nbest in lists for score in nbest.scores[name]]
    for column, model in enumerate(models.values(), len(own)):
        values[:, column] = np.maximum(model.log_probs(texts, sources), IMPOSSIBLE)[where]
    values[:, -1] = np.array([len(text.split()) for text in texts])[where]
    offsets = np.concatenate([[0], np.cumsum([len(nbest) for nbest in lists])])
    return Features(names_of(own, models), values, offsets, lists[0].priors if models else ())


def batches_of(lists: Iterable[NBestList]) -> Iterator[list[NBestList]]:
    """Yield the lists in batches, which are scored at once."""
    batch: list[NBestList] = []
    hypotheses = characters = 0
    for nbest in lists:
        batch.append(nbest)
        hypotheses += len(nbest)
        characters += sum(map(len, nbest.texts))
        if hypotheses >= _HYPOTHESES_AT_ONCE or characters >= _CHARACTERS_AT_ONCE:
            yield batch
            batch, hypotheses, characters = [], 0, 0
    if batch:
        yield batch
