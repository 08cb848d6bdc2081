"""How well a number separates two classes: the ROC curve and the area under it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import SettingError
from chainrule.evaluation.resampling import LEVEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float64
    from numpy import ndarray


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
        """P(a positive has more than a negative), a tie counted as half (Mann and Whitney 1947)."""
        return float(np.trapezoid(self.true_positives, self.false_positives))

    @property
    def interval(self) -> tuple[float, float]:
        """95 %, by method 5 of Newcombe (2006): Wilson's idea, which is right for few texts and near 0 and 1."""
        z, area = NormalDist().inv_cdf((1 + LEVEL) / 2), self.area

        def is_far(other: float) -> bool:
            return abs(area - other) > z * math.sqrt(self._variance(other))

        return _border(is_far, 0.0, area), _border(is_far, 1.0, area)

    def true_positives_at(self, false_positives: float) -> float:
        """The largest share of positives above a threshold that at most this share of negatives is above."""
        return float(self.true_positives[self.false_positives <= false_positives].max())

    def _variance(self, area: float) -> float:
        """Of an area like this (Hanley and McNeil 1982), with the mean of both sizes in place of each."""
        size = (self.negatives + self.positives) / 2 - 1
        spread = 1 + size * (1 - area) / (2 - area) + size * area / (1 + area)
        return area * (1 - area) * spread / (self.negatives * self.positives)


def roc(negatives: Float64[ndarray, " negatives"], positives: Float64[ndarray, " positives"]) -> Roc:
    """The curve of a number that is to be larger for positives. Raises SettingError if a class is empty."""
    if not negatives.size or not positives.size:
        raise SettingError("a ROC curve needs texts of both classes; one has none")
    thresholds = np.unique(np.concatenate([negatives, positives]))[::-1]

    def share_above(values: Float64[ndarray, " values"]) -> Float64[ndarray, " points"]:
        """From each threshold on, after 0 for one above all values."""
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
    """Between two numbers, where the first stops to be far, by bisection."""
    for _ in range(50):
        middle = (far + near) / 2
        if is_far(middle):
            far = middle
        else:
            near = middle
    return near
