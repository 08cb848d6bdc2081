"""Whether changes of texts are as often right as they are probable, and from which probability on making them pays.

A change is right if the text with it alone has fewer word errors than without. With several references, each counts
alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from chainrule.evaluation.calibration import fit_calibration
from chainrule.evaluation.errant_scores import f_half
from chainrule.evaluation.error_rates import WordErrors

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray


Aim = Literal["f0.5", "accuracy"]
AIMS: tuple[Aim, ...] = ("f0.5", "accuracy")

_EDGES = np.array([0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0])


class Reliability(NamedTuple):
    """Changes of some probabilities, and the share of them that is right."""

    low: float
    high: float
    changes: int
    mean_prob: float
    right: float


class JudgedChanges(NamedTuple):
    """Changes, and what each is worth.

    probs: as the corrector has them. gains: how many word errors fewer a text has with a change alone. errors: of the
    texts, in words.
    """

    probs: Float64[ndarray, " changes"]
    gains: Int64[ndarray, " changes"]
    errors: int

    def reliability(self) -> list[Reliability]:
        """By probability; without the ranges in which there is no change."""
        bins = np.clip(np.searchsorted(_EDGES, self.probs, side="right") - 1, 0, _EDGES.size - 2)
        rows = []
        for i in np.unique(bins).tolist():
            inside = bins == i
            probs, right = self.probs[inside], self.gains[inside] > 0
            low, high = _EDGES[i : i + 2].tolist()
            rows.append(Reliability(low, high, int(inside.sum()), float(probs.mean()), float(right.mean())))
        return rows

    def calibration(self) -> tuple[float, float]:
        """The slope and intercept that make the probabilities the shares that are right."""
        return fit_calibration(self.probs, self.gains > 0)

    def best_threshold(self, aim: Aim) -> tuple[float, float]:
        """The least probability with which changes are best made, and the figure that they then reach.

        f0.5: of changes; accuracy: the share of word errors that are gone.
        """
        probs = np.concatenate([[1.0], np.unique(self.probs)[::-1], [0.0]])
        thresholds = (probs[:-1] + probs[1:]) / 2
        figures = [self.figure_at(threshold, aim) for threshold in thresholds.tolist()]
        best = int(np.argmax(figures))  # the highest of equally good ones
        return float(thresholds[best]), figures[best]

    def figure_at(self, threshold: float, aim: Aim) -> float:
        """The figure with the changes of at least this probability."""
        gains = self.gains[self.probs >= threshold]
        if aim == "accuracy":
            return int(gains.sum()) / max(1, self.errors)
        right = int((gains > 0).sum())
        lacking = max(0, self.errors - int(gains[gains > 0].sum()))
        return float(f_half(np.array([right, gains.size - right, lacking])))


class Corrected(Protocol):
    """A text and its changes, each with a `prob`."""

    @property
    def text(self) -> str: ...

    @property
    def changes(self) -> Sequence[Any]: ...

    def with_changes(self, changes: Iterable[Any]) -> str: ...


def judge_changes(corrected: Sequence[Corrected], references: Sequence[Sequence[str]]) -> JudgedChanges:
    """references: several lists, of a text for each of the corrected ones."""
    measure = WordErrors()
    changes = [(i, change) for i, one in enumerate(corrected) for change in one.changes]
    alone = [corrected[i].with_changes([change]) for i, change in changes]
    probs = np.array([change.prob for _, change in changes], np.float64)
    gains, errors = [], 0
    for texts in references:
        before = measure.statistics([one.text for one in corrected], texts)[:, 0]
        after = measure.statistics(alone, [texts[i] for i, _ in changes])[:, 0] if changes else np.zeros(0, np.int64)
        gains.append(before[[i for i, _ in changes]] - after if changes else after)
        errors += int(before.sum())
    return JudgedChanges(np.tile(probs, len(references)), np.concatenate(gains), errors)
