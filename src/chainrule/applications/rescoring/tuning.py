"""Weights that make the fewest errors on lists with references: minimum error rate training.

F. J. Och, Minimum error rate training in statistical machine translation, 2003. A line search is exact: the errors of a
corpus are constant between the points where some list's best hypothesis changes, and all these points are known. Lines
go along each weight and in random directions, from the given weights and from random ones; the best of all is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.applications.rescoring.envelope_kernels import upper_envelopes
from chainrule.base.progress import Progress, silent
from chainrule.base.threads import map_in_order
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from jaxtyping import Float64, Int64
    from numpy import ndarray

    from chainrule.applications.rescoring.features import Features
    from chainrule.evaluation.texts.error_rates import CorpusMeasure

    Vector = Float64[ndarray, " features"]

_ROUNDS = 50  # of line searches, at most, for each start
_LEAST_GAIN = 1e-9


@dataclass(frozen=True, kw_only=True)
class TuningConfig:
    """restarts: the number of random starts besides the given weights. seed: of all randomness. Raises SettingError."""

    restarts: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        if self.restarts < 0:
            raise SettingError(f"restarts is {self.restarts}; expected 0 or more")


def least_errors(
    features: Features,
    statistics: Int64[ndarray, "hypotheses statistics"],
    measure: CorpusMeasure,
    start: Vector,
    config: TuningConfig | None = None,
    progress: Progress = silent,
) -> Vector:
    """Weights for which the measure of the chosen hypotheses is best; never worse than the given ones.

    statistics: of each hypothesis under the measure. The first weight stays as it is, since only ratios matter; it
    must not be 0.
    """
    config = config or TuningConfig()
    search = _Search(features, statistics, measure)
    spreads = features.spreads()
    starts = [start]
    rng = np.random.default_rng(config.seed)
    for _ in range(config.restarts):
        random = rng.normal(size=start.size) * abs(start[0]) * spreads[0] / spreads
        random = np.where(start > 0, abs(random), random)
        starts.append(np.concatenate([start[:1], random[1:]]))
    seeds = np.random.SeedSequence(config.seed).spawn(len(starts))
    results: list[tuple[float, Vector]] = []
    calls = list(zip(starts, seeds, strict=True))
    for result in map_in_order(lambda call: search.descend(call[0], np.random.default_rng(call[1]), spreads), calls):
        results.append(result)
        progress("tuning", len(results), len(calls))
    best_loss, best = min(results, key=lambda result: result[0])
    return best if best_loss < search.loss(start) else start


class _Search:
    def __init__(
        self, features: Features, statistics: Int64[ndarray, "hypotheses statistics"], measure: CorpusMeasure
    ) -> None:
        self._features, self._statistics, self._measure = features, statistics, measure

    def loss(self, weights: Vector) -> float:
        rows = self._features.best(weights)
        return float(self._losses(self._statistics[rows].sum(axis=0)))

    def descend(self, weights: Vector, rng: np.random.Generator, spreads: Vector) -> tuple[float, Vector]:
        """Repeats line searches until a whole round brings no gain."""
        axes = np.eye(weights.size)[1:]
        loss = self.loss(weights)
        for _ in range(_ROUNDS):
            before = loss
            random = rng.normal(size=axes.shape) / spreads
            random[:, 0] = 0
            for direction in (*axes, *random):
                moved = weights + self.step(weights, direction) * direction
                its_loss = self.loss(moved)
                if its_loss < loss - _LEAST_GAIN:
                    weights, loss = moved, its_loss
            if loss >= before - _LEAST_GAIN:
                break
        return loss, weights

    def step(self, weights: Vector, direction: Vector) -> float:
        """The step along a direction with the least loss: to the middle of the best interval; 0 if none is better.

        Of equally good intervals, the longest finite one.
        """
        totals, slopes = self._features.totals(weights), self._features.totals(direction)
        winners, begins = np.empty(totals.size, np.int64), np.empty(totals.size)
        count = upper_envelopes(totals, slopes, self._features.offsets, winners, begins)
        winners, begins = winners[:count], begins[:count]
        later = np.flatnonzero(begins > -np.inf)
        changes = self._statistics[winners[later]] - self._statistics[winners[later - 1]]
        first = self._statistics[winners[begins == -np.inf]].sum(axis=0)
        order = np.argsort(begins[later], kind="stable")
        edges = begins[later][order]
        sums = np.vstack([first, first + np.cumsum(changes[order], axis=0)])
        lows, highs = np.concatenate([[-np.inf], edges]), np.concatenate([edges, [np.inf]])
        losses = np.where(highs > lows, self._losses(sums), np.inf)
        least = losses.min()
        if least >= losses[(lows <= 0) & (highs > 0)].min(initial=np.inf):
            return 0.0
        best = np.flatnonzero(losses == least)
        lengths = highs[best] - lows[best]
        longest = best[np.argmax(np.where(np.isfinite(lengths), lengths, 0))]
        low, high = lows[longest], highs[longest]
        if not np.isfinite(low):
            return float(high - max(1.0, abs(high)))
        if not np.isfinite(high):
            return float(low + max(1.0, abs(low)))
        return float((low + high) / 2)

    def _losses(self, sums: Float64[ndarray, "*several statistics"]) -> Float64[ndarray, "*several"]:
        values = self._measure.value(np.asarray(sums, np.float64))
        return values if self._measure.lower_is_better else -values
