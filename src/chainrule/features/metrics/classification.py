"""How well labels are predicted: accuracy, F1, confusion matrix, calibration; and, of a score for two classes, ROC."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from chainrule.base.results import finite, named_figures
from chainrule.base.tables import text_table
from chainrule.drawing.pages import html_table
from chainrule.errors import SettingError
from chainrule.evaluation.resampling import LEVEL, wilson_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from jaxtyping import Bool, Float64, Int64
    from numpy import ndarray


_BINS = 15
_CONFUSED = 10  # pairs of labels shown
_UNSEEN = 5  # labels named
_LABELS = 30  # with more, only JSON has the figures of each


@dataclass(frozen=True)
class Accuracy:
    """How often something is right: a label, or the better one of a pair; a tie counts as half a win."""

    pairs: int
    wins: int
    ties: int

    @property
    def share(self) -> float:
        return (self.wins + self.ties / 2) / self.pairs

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval; ties widen it slightly."""
        return wilson_interval(self.share, self.pairs)

    def figures(self) -> dict[str, float]:
        """The accuracy with its interval, by name."""
        low, high = self.interval
        return {"accuracy": self.share, "low": low, "high": high}

    def as_json(self) -> dict[str, Any]:
        return {**self.figures(), "ties": self.ties}


@dataclass(frozen=True)
class Classification:
    """The figures of predicted labels on some examples. confusion: true labels by row, predicted ones by column.

    items: a row for each labelled unit, as `to_records` gives them.
    """

    row_of: ClassVar[str] = "label"
    labels: tuple[str, ...]  # labels that do not occur in training come last
    confusion: Int64[ndarray, "labels labels"]
    nats: float  # the mean of -log P(true label) over examples whose label occurs in training
    calibration_error: float  # expected calibration error (Guo et al. 2017)
    unseen: dict[str, int] = field(default_factory=dict)  # labels that do not occur in training: their examples
    word_baseline: float | None = None  # accuracy of each word's most frequent label, if requested
    items: Sequence[Mapping[str, Any]] = field(default=(), compare=False, repr=False)

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

    def _repr_html_(self) -> str:
        low, high = self.accuracy.interval
        title = (
            f"{self.accuracy.share:.1%} right ({100 * low:.1f} to {100 * high:.1f} at 95 %) "
            f"of {self.accuracy.pairs:,} examples, macro F1 {self.macro_f1:.3f}, {self.nats:.4f} nats"
        )
        rows = [
            [row["label"], f"{row['examples']:,}", *(f"{row[name]:.3f}" for name in ("precision", "recall", "f1"))]
            for row in self.by_label()
        ]
        return html_table(title, ["label", "examples", "precision", "recall", "F1"], rows)

    def __str__(self) -> str:
        low, high = self.accuracy.interval
        of_labels = self.confusion.sum(1)
        most = int(of_labels.argmax())
        figures = [
            ("accuracy", f"{self.accuracy.share:.2%}", f"{100 * low:.2f} to {100 * high:.2f} at 95 %"),
            ("majority", f"{of_labels[most] / of_labels.sum():.2%}", f"if all were {self.labels[most]}"),
            ("macro F1", f"{self.macro_f1:.4f}", f"over {(of_labels > 0).sum()} labels that occur"),
            ("nats", f"{self.nats:.4f}", "a label"),
            ("calibration error", f"{self.calibration_error:.4f}", f"expected, in {_BINS} bins"),
            ("examples", f"{self.accuracy.pairs:,}", ""),
        ]
        if self.word_baseline is not None:
            what = "if each word gets its most frequent label in --data"
            figures.insert(2, ("by word", f"{self.word_baseline:.2%}", what))
        lines = [f"{name:<20}{value:>12}  {remark}".rstrip() for name, value, remark in figures]
        if len(self.labels) <= _LABELS:
            cells = [
                [
                    row["label"],
                    *(f"{row[name]:.4f}" for name in ("precision", "recall", "f1")),
                    f"{row['examples']:,}",
                ]
                for row in self.by_label()
            ]
            lines.append(text_table(["label", "precision", "recall", "F1", "examples"], cells))
        lines += [f"{times:,} {true} labelled {other}" for true, other, times in self.confused(_CONFUSED)]
        return "\n".join(lines)

    def notes(self) -> Iterator[str]:
        """Yield which labels did not occur in training."""
        if self.unseen:
            names = list(self.unseen)
            shown = ", ".join(names[:_UNSEEN]) + f" and {len(names) - _UNSEEN} more" * (len(names) > _UNSEEN)
            examples, total = sum(self.unseen.values()), self.accuracy.pairs
            yield (
                f"{len(names):,} of the labels were not seen in training ({shown}); {examples:,} of {total:,} examples "
                "have one: they count as wrong, and are left out of nats"
            )

    @property
    def precision(self) -> Float64[ndarray, " labels"]:
        """The precision of each label: correct / predicted; 0 if it was never predicted."""
        return np.asarray(np.diag(self.confusion) / np.maximum(self.confusion.sum(0), 1))

    @property
    def recall(self) -> Float64[ndarray, " labels"]:
        """The recall of each label: correct / true; 0 if no example has it."""
        return np.asarray(np.diag(self.confusion) / np.maximum(self.confusion.sum(1), 1))

    @property
    def f1(self) -> Float64[ndarray, " labels"]:
        """The F1 of each label: 2 correct / (true + predicted); 0 if both are 0."""
        sizes = self.confusion.sum(0) + self.confusion.sum(1)
        return np.asarray(2 * np.diag(self.confusion) / np.maximum(sizes, 1))

    @property
    def macro_f1(self) -> float:
        """The mean over the labels that some example has."""
        return float(self.f1[self.confusion.sum(1) > 0].mean())

    def confused(self, most: int) -> list[tuple[str, str, int]]:
        """Return the most frequent confusions: true label, predicted label, how often."""
        wrong = self.confusion - np.diag(np.diag(self.confusion))
        order = np.argsort(-wrong, axis=None, kind="stable")[:most]
        pairs = [divmod(int(cell), len(self.labels)) for cell in order]
        return [(self.labels[i], self.labels[j], int(wrong[i, j])) for i, j in pairs if wrong[i, j]]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures over all labels, by name: a row for pandas.

        good:  pandas.DataFrame([classifier.assess(examples).to_dict() for examples in sets])
        """
        figures = named_figures(self, ("macro_f1", "nats", "calibration_error", "word_baseline"))
        return {"examples": self.accuracy.pairs, **self.accuracy.figures(), **figures}

    def to_records(self) -> list[Mapping[str, Any]]:
        """A row for each labelled text, word or other unit: its label and the predicted one, ln P of both, and whether
        it is right: for pandas.DataFrame.
        """
        return list(self.items)

    def by_label(self) -> list[dict[str, Any]]:
        """A row for each label, with how many examples have it."""
        columns = (self.confusion.sum(1), self.precision, self.recall, self.f1)
        rows = zip(self.labels, *(column.tolist() for column in columns), strict=True)
        return [dict(zip(("label", "examples", "precision", "recall", "f1"), row, strict=True)) for row in rows]

    def as_json(self) -> dict[str, Any]:
        """Return all figures for JSON, with null for a loss that is not finite."""
        by_label = named_figures(self, ("precision", "recall", "f1"))
        return {
            "examples": self.accuracy.pairs,
            **self.accuracy.figures(),
            "macro_f1": self.macro_f1,
            **{name: dict(zip(self.labels, own.tolist(), strict=True)) for name, own in by_label.items()},
            "nats": finite(self.nats),
            "calibration_error": self.calibration_error,
            "labels": list(self.labels),
            "confusion": self.confusion.tolist(),
            "unseen": self.unseen,
            "word_baseline": self.word_baseline,
        }


def measure_classification(
    labels: Sequence[str], log_probs: Float64[ndarray, "examples known"], true: Int64[ndarray, " examples"]
) -> Classification:
    """Return the figures of predictions on at least one example.

    log_probs: in nats, one column for each of the first labels; the probabilities of a row sum to one. true: the index
    of each example's label; one that has no column is always predicted wrongly.
    """
    predicted, known = log_probs.argmax(1), log_probs.shape[1]
    confusion = np.zeros((len(labels), len(labels)), np.int64)
    np.add.at(confusion, (true, predicted), 1)
    seen = np.flatnonzero(true < known)
    nats = -float(log_probs[seen, true[seen]].mean(dtype=np.float64)) if seen.size else math.nan
    error = calibration_error(np.exp(log_probs.max(1)), predicted == true)
    unseen = dict(zip(labels[known:], confusion.sum(1)[known:].tolist(), strict=True))
    return Classification(tuple(labels), confusion, nats, error, unseen)


def calibration_error(confidence: Float64[ndarray, " examples"], correct: Bool[ndarray, " examples"]) -> float:
    """Return the sum over bins of |accuracy - mean confidence| times the bin's share (Guo et al. 2017, equation 3)."""
    bins = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    gaps = np.bincount(bins, correct, _BINS) - np.bincount(bins, confidence, _BINS)
    return float(np.abs(gaps).sum() / confidence.size)


@dataclass(frozen=True)
class Roc:
    """The shares of negatives and positives above each threshold, the highest threshold first, both from 0 to 1."""

    thresholds: Float64[ndarray, " points"]
    false_positives: Float64[ndarray, " points"]
    true_positives: Float64[ndarray, " points"]
    negatives: int
    positives: int

    @property
    def area(self) -> float:
        """The area under the curve: P(a positive has a larger value than a negative), ties counted as half (Mann and
        Whitney 1947).
        """
        return float(np.trapezoid(self.true_positives, self.false_positives))

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the area, by method 5 of Newcombe (2006): Wilson's idea, which is right for few texts
        and near 0 and 1.
        """
        z, area = NormalDist().inv_cdf((1 + LEVEL) / 2), self.area

        def is_far(other: float) -> bool:
            return abs(area - other) > z * math.sqrt(self._variance(other))

        return _border(is_far, 0.0, area), _border(is_far, 1.0, area)

    def true_positives_at(self, false_positives: float) -> float:
        """Return the largest share of positives above a threshold, of those with at most this share of negatives
        above.
        """
        return float(self.true_positives[self.false_positives <= false_positives].max())

    def _variance(self, area: float) -> float:
        """Return the variance of such an area (Hanley and McNeil 1982), with the mean of both classes' sizes for
        each.
        """
        size = (self.negatives + self.positives) / 2 - 1
        spread = 1 + size * (1 - area) / (2 - area) + size * area / (1 + area)
        return area * (1 - area) * spread / (self.negatives * self.positives)


def roc(negatives: Float64[ndarray, " negatives"], positives: Float64[ndarray, " positives"]) -> Roc:
    """Return the curve of a statistic that should be larger for positives. Raises SettingError if a class is empty."""
    if not negatives.size or not positives.size:
        raise SettingError("a ROC curve needs texts of both classes; one has none")
    thresholds = np.unique(np.concatenate([negatives, positives]))[::-1]

    def share_above(values: Float64[ndarray, " values"]) -> Float64[ndarray, " points"]:
        """Return the share of values at or above each threshold, after 0 for a threshold above all values."""
        below = np.searchsorted(np.sort(values), thresholds, side="left")
        return np.concatenate([[0.0], 1 - below / values.size])

    return Roc(
        np.concatenate([[np.inf], thresholds]),
        share_above(negatives),
        share_above(positives),
        negatives.size,
        positives.size,
    )


def _border(is_far: Callable[[float], bool], far: float, near: float) -> float:
    """Return the number between `far` and `near` at which `is_far` ceases to hold, by bisection."""
    for _ in range(50):
        middle = (far + near) / 2
        if is_far(middle):
            far = middle
        else:
            near = middle
    return near
