"""The features of hypotheses: their own scores, the log-probability under each language model, and their words.

The features of many lists are one matrix, a row a hypothesis, so that a choice is a product with the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from chainrule.applications.rescoring.sharing import shared_log_probs
from chainrule.errors import SettingError
from chainrule.protocol import END, UNKNOWN
from chainrule.text.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jaxtyping import Bool, Float64, Int64
    from numpy import ndarray

    from chainrule.applications.nbest.lists import NBestList
    from chainrule.evaluation.pricing import Speller
    from chainrule.protocol import LanguageModel, Scorer
    from chainrule.text.tokenizer import Tokenizer

WORDS = "words"  # the name of the feature that counts them
IMPOSSIBLE = -1e6  # nats, the floor: a hypothesis without probability is worse than all others, and sums stay finite
_HYPOTHESES_AT_ONCE = 1 << 12
_CHARACTERS_AT_ONCE = 1 << 19


class TextScorer(Protocol):
    """What rescoring asks of a language model."""

    def log_probs(self, texts: Sequence[str]) -> Float64[ndarray, " texts"]:
        """log P of each text with its end, in nats."""


@dataclass(frozen=True)
class SpelledScorer:
    """A scorer of token ids as one of texts: an unknown token costs P(<unk> | context), and its spelling.

    Without the spelling, unknown words would come for free, and a hypothesis would win by being nonsense. Unseen
    types are counted as in `evaluation/pricing.py`, but for what that changes at all other tokens: it is next to
    nothing, and nearly alike for all hypotheses.
    """

    model: Scorer
    tokenizer: Tokenizer
    speller: Speller | None = None  # without one, an unknown token costs P(<unk> | context) alone
    shares: bool = False  # whether what texts begin with alike is read once: quicker where reading is dear

    def log_probs(self, texts: Sequence[str]) -> Float64[ndarray, " texts"]:
        encoded = self.tokenizer.encode_texts(texts)
        sequences = documents_of(encoded.ids)
        if self.shares:
            log_probs = shared_log_probs(cast("LanguageModel[Any]", self.model), sequences)
        else:  # not as a stream, whose memory would go from text to text
            log_probs = np.array([row.sum(dtype=np.float64) for row in self.model.score(sequences)])
        if self.speller is not None:
            places = np.flatnonzero(encoded.ids == UNKNOWN)
            surfaces = [encoded.surface(place) for place in places.tolist()]
            kinds = list(dict.fromkeys(surfaces))
            price = dict(zip(kinds, self.speller.log_probs(kinds).tolist(), strict=True))
            spelled = np.array([price[surface] for surface in surfaces], np.float64)
            types = np.log(max(self.speller.unseen_types, 1))
            owners = np.cumsum(encoded.ids == END)[places]  # as many texts have ended before
            log_probs += np.bincount(owners, spelled + types, len(texts))
        return log_probs


@dataclass(frozen=True)
class Features:
    """Of the hypotheses of some lists, one list after the other."""

    names: tuple[str, ...]
    values: Float64[ndarray, "hypotheses features"]
    offsets: Int64[ndarray, " lists+1"]  # where each list begins, and where the last one ends
    replaced: tuple[str, ...] = ()  # own scores that the models stand in for: they have no weight unless one is said

    def totals(self, weights: Float64[ndarray, " features"]) -> Float64[ndarray, " hypotheses"]:
        """The weighted sums."""
        return self.values @ weights

    def best(self, weights: Float64[ndarray, " features"]) -> Int64[ndarray, " lists"]:
        """The row of each list's hypothesis with the greatest weighted sum; of equal ones, the first."""
        return first_of_best(self.totals(weights), self.offsets)

    def spreads(self) -> Float64[ndarray, " features"]:
        """The standard deviation of each feature within the lists; 1 where it never differs."""
        sizes = np.diff(self.offsets)
        means = np.add.reduceat(self.values, self.offsets[:-1]) / sizes[:, None]
        found = np.sqrt(((self.values - np.repeat(means, sizes, axis=0)) ** 2).mean(axis=0))
        return np.where(found > 0, found, 1.0)

    def impossible(self, own: int) -> Bool[ndarray, "hypotheses models"]:
        """Where a model gave no probability. own: how many columns are the lists' own scores."""
        return self.values[:, own:-1] <= IMPOSSIBLE

    @classmethod
    def joined(cls, parts: Sequence[Features]) -> Features:
        sizes = np.concatenate([np.diff(part.offsets) for part in parts])
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return cls(parts[0].names, np.concatenate([part.values for part in parts]), offsets, parts[0].replaced)


def first_of_best(
    totals: Float64[ndarray, " hypotheses"], offsets: Int64[ndarray, " lists+1"]
) -> Int64[ndarray, " lists"]:
    """The first row of each list that has the list's maximum."""
    best = np.maximum.reduceat(totals, offsets[:-1])
    rows = np.flatnonzero(totals == np.repeat(best, np.diff(offsets)))
    return rows[np.searchsorted(rows, offsets[:-1])]


def names_of(own: Iterable[str], models: Iterable[str]) -> tuple[str, ...]:
    """Of all features, in the order of their columns. Raises SettingError where one stands there twice."""
    names = (*own, *models, WORDS)
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise SettingError(
            f"two scores are called {twice!r}: the lists' own ones, the models and {WORDS} need a name each; name a "
            "model anew with --model NAME=PATH"
        )
    return names


def features_of(lists: Sequence[NBestList], models: dict[str, TextScorer]) -> Features:
    """Equal texts are scored once. Raises SettingError where names collide, MarkerError."""
    own = tuple(lists[0].scores)
    places: dict[str, int] = {}
    where = np.array([places.setdefault(text, len(places)) for found in lists for text in found.texts])
    texts = list(places)
    values = np.empty((where.size, len(own) + len(models) + 1))
    for column, name in enumerate(own):
        values[:, column] = [score for found in lists for score in found.scores[name]]
    for column, model in enumerate(models.values(), len(own)):
        values[:, column] = np.maximum(model.log_probs(texts), IMPOSSIBLE)[where]
    values[:, -1] = np.array([len(text.split()) for text in texts])[where]
    offsets = np.concatenate([[0], np.cumsum([len(found) for found in lists])])
    return Features(names_of(own, models), values, offsets, lists[0].priors if models else ())


def together(lists: Iterable[NBestList]) -> Iterator[list[NBestList]]:
    """Some neighbouring lists at a time, as many as are scored together."""
    some: list[NBestList] = []
    hypotheses = characters = 0
    for found in lists:
        some.append(found)
        hypotheses += len(found)
        characters += sum(map(len, found.texts))
        if hypotheses >= _HYPOTHESES_AT_ONCE or characters >= _CHARACTERS_AT_ONCE:
            yield some
            some, hypotheses, characters = [], 0, 0
    if some:
        yield some
