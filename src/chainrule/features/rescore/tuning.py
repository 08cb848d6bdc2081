"""The weights of features of hypotheses: given, kept in a small JSON file, or tuned on lists with references.

Minimum error rate training (F. J. Och, Minimum error rate training in statistical machine translation, 2003) makes the
fewest errors. A line search is exact: the errors of a corpus are constant between the points where some list's best
hypothesis changes, and all these points are known. Lines go along each weight and in random directions, from the given
weights and from random ones; the best of all is kept.

Maximum likelihood, of the hypotheses closest to the references under a log-linear model (F. J. Och and H. Ney,
Discriminative training and maximum entropy models for statistical machine translation, 2002):

    P(hypothesis) = exp(w . f) / sum over the list of exp(w . f)

The logarithm is concave in w, and Newton's method finds its only maximum. A wide Gaussian prior keeps the weights
finite if some weights choose correctly in every list.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule import __version__
from chainrule.base.files import parse_json, read_file, replace_file
from chainrule.base.progress import Progress, silent
from chainrule.base.threads import map_in_order
from chainrule.errors import SettingError, TextError
from chainrule.features.rescore.config import TuningConfig
from chainrule.features.rescore.envelope_kernels import upper_envelopes
from chainrule.features.rescore.features import WORDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from jaxtyping import Float64, Int64
    from numpy import ndarray

    from chainrule.features.metrics.error_rates import CorpusMeasure
    from chainrule.features.rescore.features import Features

    Vector = Float64[ndarray, " features"]

_ROUNDS = 50  # of line searches, at most, for each start
_LEAST_GAIN = 1e-9


def minimum_error_rate(
    features: Features,
    statistics: Int64[ndarray, "hypotheses statistics"],
    measure: CorpusMeasure,
    start: Vector,
    config: TuningConfig | None = None,
    progress: Progress = silent,
) -> Vector:
    """Return weights for which the measure of the chosen hypotheses is best; never worse than the given ones.

    statistics: of each hypothesis under the measure. The first weight stays unchanged, since only ratios matter; it
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
        """Repeat line searches until a whole round brings no gain."""
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
        """Return the step along a direction with the least loss: to the middle of the best interval; 0 if none is
        better.

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


VARIANCE = 100.0  # of the prior, for features divided by their standard deviation
_STEPS = 100
_LEAST_LIKELIHOOD_GAIN = 1e-10  # nats for each list


def maximum_likelihood(
    features: Features, oracles: Int64[ndarray, " lists"], start: Vector, progress: Progress = silent
) -> Vector:
    """Return the weights with the greatest posterior: the oracles, one row of each list, are likeliest under them."""
    spreads = features.spreads()
    values = features.values / spreads
    weights = start * spreads
    here = _objective(values, features.offsets, oracles, weights)
    for step in range(_STEPS):
        gradient, curvature = _derivatives(values, features.offsets, oracles, weights)
        direction = np.linalg.solve(curvature, gradient)
        rate = 1.0
        while (there := _objective(values, features.offsets, oracles, weights + rate * direction)) < here:
            rate /= 2
            if rate < 1e-12:
                return weights / spreads
        weights = weights + rate * direction
        gain, here = there - here, there
        progress("tuning", step + 1, None)
        if gain < _LEAST_LIKELIHOOD_GAIN * oracles.size:
            break
    return weights / spreads


def log_posteriors(
    totals: Float64[ndarray, " hypotheses"], offsets: Int64[ndarray, " lists+1"]
) -> Float64[ndarray, " hypotheses"]:
    """Return log P of each hypothesis among those of its list."""
    sizes = np.diff(offsets)
    shifted = totals - np.repeat(np.maximum.reduceat(totals, offsets[:-1]), sizes)
    return shifted - np.repeat(np.log(np.add.reduceat(np.exp(shifted), offsets[:-1])), sizes)


def _objective(values: ndarray, offsets: ndarray, oracles: ndarray, weights: Vector) -> float:
    return float(log_posteriors(values @ weights, offsets)[oracles].sum() - weights @ weights / (2 * VARIANCE))


def _derivatives(values: ndarray, offsets: ndarray, oracles: ndarray, weights: Vector) -> tuple[Vector, ndarray]:
    """Return the gradient, and the negative second derivative: the covariance of the features, plus the prior's
    precision.
    """
    posteriors = np.exp(log_posteriors(values @ weights, offsets))[:, None]
    means = np.add.reduceat(posteriors * values, offsets[:-1])  # (lists, features)
    gradient = values[oracles].sum(axis=0) - means.sum(axis=0) - weights / VARIANCE
    centred = values - np.repeat(means, np.diff(offsets), axis=0)
    return gradient, centred.T @ (posteriors * centred) + np.eye(weights.size) / VARIANCE


_KIND = "chainrule rescoring weights"
_LARGEST = 1 << 20  # bytes of a file


@dataclass(frozen=True)
class Weights:
    """Weights by the name of the feature. record: how they were tuned, if they were."""

    values: Mapping[str, float]
    record: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in self.values.items():
            if not math.isfinite(value):
                raise SettingError(f"the weight of {name} is {value}; expected a finite number")

    def vector(self, names: Sequence[str]) -> Float64[ndarray, " features"]:
        """Return the weights of some features, in order.

        Raises SettingError if one has no weight, or a weight no feature.
        """
        missing = [name for name in names if name not in self.values]
        if missing:
            raise SettingError(f"{missing[0]} has no weight; the weights given are for {', '.join(self.values)}")
        self.check(names)
        return np.array([self.values[name] for name in names], np.float64)

    def check(self, names: Sequence[str]) -> None:
        """Raise SettingError if a weight has no feature."""
        others = [name for name in self.values if name not in names]
        if others:
            raise SettingError(
                f"there is a weight for {others[0]}, but no such score; expected some of {', '.join(names)}"
            )

    def with_defaults(self, names: Sequence[str], replaced: Sequence[str] = ()) -> Weights:
        """Return the weights with 1 for all others, but 0 for the number of words and for scores that models replace.

        Raises as `check`.
        """
        self.check(names)
        zero = (WORDS, *replaced)
        return Weights({name: self.values.get(name, 0.0 if name in zero else 1.0) for name in names}, self.record)

    def save(self, path: Path) -> None:
        """Save the weights as JSON. Raises OutputError."""
        content = {"kind": _KIND, "chainrule": __version__, "weights": dict(self.values), "tuned": dict(self.record)}
        with replace_file(path) as file:
            file.write((json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def load_weights(path: Path) -> Weights:
    """Read what `save` wrote. Raises TextError."""
    try:
        content: Any = parse_json(read_file(path, _LARGEST))
        values = content["weights"] if content["kind"] == _KIND else None
        if not isinstance(values, dict) or not all(type(value) in (int, float) for value in values.values()):
            raise ValueError("no weights")
        return Weights({name: float(value) for name, value in values.items()}, content.get("tuned", {}))
    except OSError as error:
        raise TextError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise TextError(f"{path}: has no weights; expected a file that rescoring wrote after tuning") from error
