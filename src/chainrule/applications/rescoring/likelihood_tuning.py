"""Weights that maximise the likelihood of the hypotheses closest to the references: a log-linear model.

    P(hypothesis) = exp(w . f) / sum over the list of exp(w . f)

F. J. Och and H. Ney, Discriminative training and maximum entropy models for statistical machine translation, 2002. The
logarithm is concave in w, and Newton's method finds its only maximum. A wide Gaussian prior keeps the weights finite
if some weights choose correctly in every list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import Progress, silent

if TYPE_CHECKING:
    from jaxtyping import Float64, Int64
    from numpy import ndarray

    from chainrule.applications.rescoring.features import Features

    Vector = Float64[ndarray, " features"]

VARIANCE = 100.0  # of the prior, for features divided by their standard deviation
_STEPS = 100
_LEAST_LIKELIHOOD_GAIN = 1e-10  # nats for each list


def most_likely(
    features: Features, oracles: Int64[ndarray, " lists"], start: Vector, progress: Progress = silent
) -> Vector:
    """The weights with the greatest posterior: the oracles, one row of each list, are likeliest under them."""
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
    """log P of each hypothesis among those of its list."""
    sizes = np.diff(offsets)
    shifted = totals - np.repeat(np.maximum.reduceat(totals, offsets[:-1]), sizes)
    return shifted - np.repeat(np.log(np.add.reduceat(np.exp(shifted), offsets[:-1])), sizes)


def _objective(values: ndarray, offsets: ndarray, oracles: ndarray, weights: Vector) -> float:
    return float(log_posteriors(values @ weights, offsets)[oracles].sum() - weights @ weights / (2 * VARIANCE))


def _derivatives(values: ndarray, offsets: ndarray, oracles: ndarray, weights: Vector) -> tuple[Vector, ndarray]:
    """The gradient, and the negative second derivative: the covariance of the features, plus the prior's precision."""
    posteriors = np.exp(log_posteriors(values @ weights, offsets))[:, None]
    means = np.add.reduceat(posteriors * values, offsets[:-1])  # (lists, features)
    gradient = values[oracles].sum(axis=0) - means.sum(axis=0) - weights / VARIANCE
    centred = values - np.repeat(means, np.diff(offsets), axis=0)
    return gradient, centred.T @ (posteriors * centred) + np.eye(weights.size) / VARIANCE
