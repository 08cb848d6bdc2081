"""How well labels are predicted: accuracy, F1, confusion, and whether probabilities mean what they say."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.evaluation.acceptability import Accuracy
from chainrule.text.units import given_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray

    from chainrule.text.labelled import Labelled

_BINS = 15


@dataclass(frozen=True)
class Classification:
    """Of some examples. confusion: rows are the true labels, columns what was predicted."""

    labels: tuple[str, ...]  # those that training has not seen come last
    confusion: Int64[ndarray, "labels labels"]
    nats: float  # -log P(true label), a mean over the examples of labels that training has seen
    calibration_error: float  # expected, in bins of confidence (Guo 2017)
    unseen: dict[str, int] = field(default_factory=dict)  # labels that training has not seen, and their examples
    word_baseline: float | None = None  # right if each word has its most frequent label; where it was asked for

    @property
    def accuracy(self) -> Accuracy:
        return Accuracy(int(self.confusion.sum()), int(np.trace(self.confusion)), 0)

    def __repr__(self) -> str:
        low, high = self.accuracy.interval
        share, examples = self.accuracy.share, self.accuracy.pairs
        return (
            f"<Classification: {share:.1%} right ({100 * low:.1f} to {100 * high:.1f} at 95 %) of {examples:,}, "
            f"macro F1 {self.macro_f1:.3f}, {self.nats:.4f} nats>"
        )

    @property
    def precision(self) -> Float64[ndarray, " labels"]:
        """Of each label: right / predicted; 0 where it never was."""
        return np.asarray(np.diag(self.confusion) / np.maximum(self.confusion.sum(0), 1))

    @property
    def recall(self) -> Float64[ndarray, " labels"]:
        """Of each label: right / true; 0 where there is none of it."""
        return np.asarray(np.diag(self.confusion) / np.maximum(self.confusion.sum(1), 1))

    @property
    def f1(self) -> Float64[ndarray, " labels"]:
        """Of each label: 2 right / (true + predicted); 0 where there is none of it."""
        sizes = self.confusion.sum(0) + self.confusion.sum(1)
        return np.asarray(2 * np.diag(self.confusion) / np.maximum(sizes, 1))

    @property
    def macro_f1(self) -> float:
        """The mean over the labels that there are examples of."""
        return float(self.f1[self.confusion.sum(1) > 0].mean())

    def confused(self, most: int) -> list[tuple[str, str, int]]:
        """True and predicted labels that were taken for one another most often."""
        wrong = self.confusion - np.diag(np.diag(self.confusion))
        order = np.argsort(-wrong, axis=None, kind="stable")[:most]
        pairs = [divmod(int(place), len(self.labels)) for place in order]
        return [(self.labels[i], self.labels[j], int(wrong[i, j])) for i, j in pairs if wrong[i, j]]

    def as_json(self) -> dict[str, Any]:
        low, high = self.accuracy.interval
        return {
            "examples": self.accuracy.pairs,
            "accuracy": self.accuracy.share,
            "low": low,
            "high": high,
            "macro_f1": self.macro_f1,
            "precision": dict(zip(self.labels, self.precision.tolist(), strict=True)),
            "recall": dict(zip(self.labels, self.recall.tolist(), strict=True)),
            "f1": dict(zip(self.labels, self.f1.tolist(), strict=True)),
            "nats": self.nats if math.isfinite(self.nats) else None,
            "calibration_error": self.calibration_error,
            "labels": list(self.labels),
            "confusion": self.confusion.tolist(),
            "unseen": self.unseen,
            "word_baseline": self.word_baseline,
        }


def classification(
    labels: Sequence[str], log_probs: Float64[ndarray, "examples known"], true: Int64[ndarray, " examples"]
) -> Classification:
    """log_probs: in nats, a row sums to one. true: the number of each example's label; one example at least.

    The first labels are those that have a column. An example of another one is wrong, whatever is predicted.
    """
    predicted, known = log_probs.argmax(1), log_probs.shape[1]
    confusion = np.zeros((len(labels), len(labels)), np.int64)
    np.add.at(confusion, (true, predicted), 1)
    seen = np.flatnonzero(true < known)
    nats = -float(log_probs[seen, true[seen]].mean(dtype=np.float64)) if seen.size else math.nan
    error = calibration_error(np.exp(log_probs.max(1)), predicted == true)
    unseen = dict(zip(labels[known:], confusion.sum(1)[known:].tolist(), strict=True))
    return Classification(tuple(labels), confusion, nats, error, unseen)


def word_baseline(train: Iterable[Labelled], test: Iterable[Labelled]) -> float:
    """The share of words that are right if each gets the label that it has most often in `train`.

    A word that is not there gets the most frequent label of all. Of labels that are equally frequent, the one that is
    more frequent in all is taken, then the first in alphabetical order.
    """
    total: Counter[str] = Counter()
    by_word: dict[str, Counter[str]] = {}
    for word, label in _words(train):
        total[label] += 1
        by_word.setdefault(word, Counter())[label] += 1
    order = sorted(total, key=lambda label: (-total[label], label))
    rank = {label: number for number, label in enumerate(order)}
    best = {word: min(found, key=lambda label: (-found[label], rank[label])) for word, found in by_word.items()}
    right = [best.get(word, order[0]) == label for word, label in _words(test)]
    return sum(right) / len(right)


def _words(examples: Iterable[Labelled]) -> Iterator[tuple[str, str]]:
    for example in examples:
        yield from zip(given_words(example.text), example.labels, strict=True)


def calibration_error(confidence: Float64[ndarray, " examples"], right: ndarray) -> float:
    """sum over bins of |accuracy - mean confidence| times the bin's share (Guo et al. 2017, equation 3)."""
    bins = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    gaps = np.bincount(bins, right, _BINS) - np.bincount(bins, confidence, _BINS)
    return float(np.abs(gaps).sum() / confidence.size)
