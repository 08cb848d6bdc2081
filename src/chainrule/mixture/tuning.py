"""Weights that make a held-out text likeliest.

Linear ones by expectation and maximisation (Jelinek and Mercer 1980): the likelihood has one maximum, and each step
climbs. Log-linear ones by Newton's method: the logarithm of their likelihood is concave, too; its slope is the observed
log-probabilities less the expected ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.errors import EstimationError
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float32, Float64, Int32, UInt8
    from numpy import ndarray

    from chainrule.mixture.components import Components

TASK = "tuning weights"
AT_ONCE = 1 << 26  # probabilities of each model that a step of Newton's looks at
_STEPS = 500
_ENOUGH = 1e-8  # nats a token that a step gains, at which it ends
_PRIOR = 10.0  # tokens' worth of the weights of all classes, in each class
_LARGEST = 10.0  # weight of a log-linear mixture


def linear_weights(
    scores: Float32[ndarray, "models tokens"],
    classes: UInt8[ndarray, " T"] | None = None,
    number: int = 1,
    progress: Progress = silent,
) -> Float64[ndarray, "classes models"]:
    """scores: log-probabilities of the tokens of a text. classes: the row of weights that counts for each token.

    Classes with few tokens lean on the weights of all. Raises EstimationError if no model gives a token any
    probability.
    """
    best = scores.max(axis=0)
    if np.any(best == -np.inf):
        raise EstimationError("the held-out text has a token that no model gives any probability; leave it out")
    probs = np.exp(scores - best, dtype=np.float64)
    everywhere = np.zeros(probs.shape[1], np.uint8)
    start = np.full((1, len(probs)), 1 / len(probs))
    weights = _climbed(probs, everywhere, start, 0.0, progress)
    if classes is None:
        return weights
    return _climbed(probs, classes, np.repeat(weights, number, axis=0), _PRIOR, progress)


def _climbed(
    probs: Float64[ndarray, "models tokens"],
    classes: UInt8[ndarray, " T"],
    weights: Float64[ndarray, "classes models"],
    prior: float,
    progress: Progress,
) -> Float64[ndarray, "classes models"]:
    tokens = np.bincount(classes, minlength=len(weights)).astype(np.float64)
    toward = prior * weights[:1]
    before = -np.inf
    for step in range(_STEPS):
        progress(TASK, step, _STEPS)
        shares = probs * weights[classes].T
        total = shares.sum(axis=0)
        gained = float(np.log(total).mean())
        if gained - before < _ENOUGH:
            break
        before = gained
        shares /= total
        counts = np.stack([np.bincount(classes, share, len(weights)) for share in shares], axis=1)
        weights = (counts + toward) / np.maximum(tokens + prior, 1e-300)[:, None] if prior else counts / tokens[:, None]
    return weights / weights.sum(axis=1, keepdims=True)


def classes_of_tokens(stream: Int32[ndarray, " T"], vocabulary_size: int, number: int) -> UInt8[ndarray, " V"]:
    """A class for every token: the frequent ones in the lower, each with about as many of the stream's tokens.

    Tokens that the stream lacks are in the class of the rarest; the beginning of a document has the last for itself.
    """
    counts = np.bincount(stream, minlength=vocabulary_size)
    counts[[BEGIN, END]] = 0
    by_count = np.argsort(-counts, kind="stable")
    before = np.cumsum(counts[by_count]) - counts[by_count]
    classes = np.empty(vocabulary_size, np.uint8)
    classes[by_count] = np.minimum(before * number // max(int(counts.sum()), 1), number - 1)
    classes[counts == 0] = number - 1
    classes[[BEGIN, END]] = number
    return classes


def log_linear_weights(
    components: Components, documents: list[Int32[ndarray, " T"]], progress: Progress = silent
) -> Float64[ndarray, " models"]:
    """By Newton's method on the tokens of some documents. Raises EstimationError as `linear_weights` does."""

    def measured(weights: Float64[ndarray, " models"]) -> tuple[float, ndarray, ndarray]:
        return _likelihood(components, documents, weights)

    weights = np.full(len(components.models), 1 / len(components.models))
    return _newton(measured, weights, sum(len(document) + 1 for document in documents), progress)


def _newton(
    measured: Callable[[Float64[ndarray, " models"]], tuple[float, ndarray, ndarray]],
    weights: Float64[ndarray, " models"],
    tokens: int,
    progress: Progress,
) -> Float64[ndarray, " models"]:
    value, slope, curvature = measured(weights)
    stride = 1.0
    for step in range(40):
        progress(TASK, step, None)
        free = (weights > 0) | (slope > 0)
        change = np.zeros_like(weights)
        damped = curvature[np.ix_(free, free)] + 1e-9 * tokens * np.eye(int(free.sum()))
        change[free] = np.linalg.solve(damped, slope[free])
        tried = np.clip(weights + stride * change, 0, _LARGEST)
        if not tried.any() or np.abs(tried - weights).max() < 1e-5:
            break
        new_value, new_slope, new_curvature = measured(tried)
        if new_value < value:
            stride /= 2
            continue
        gained = new_value - value
        weights, value, slope, curvature, stride = tried, new_value, new_slope, new_curvature, 1.0
        if gained < 1e-7 * tokens:
            break
    return weights


def _likelihood(
    components: Components, documents: list[Int32[ndarray, " T"]], weights: Float64[ndarray, " models"]
) -> tuple[float, Float64[ndarray, " models"], Float64[ndarray, "models models"]]:
    """The log-likelihood of documents, its slope, and its curvature with the sign changed, by weight."""
    models = len(weights)
    value, slope, curvature = 0.0, np.zeros(models), np.zeros((models, models))
    for document in documents:
        state = components.start([np.empty(0, np.int32)])
        for token in [*document.tolist(), END]:
            rows = np.concatenate(components.rows(state)).astype(np.float64)  # (models, vocab)
            possible = np.asarray(np.isfinite(rows).all(axis=0))
            if not possible[token]:
                raise EstimationError("the held-out text has a token that some model gives no probability at all")
            rows = rows[:, possible]
            observed = rows[:, int(np.count_nonzero(possible[:token]))]
            product = weights @ rows
            best = product.max()
            probs = np.exp(product - best)
            total = probs.sum()
            probs /= total
            expected = rows @ probs
            value += float(weights @ observed - best - np.log(total))
            slope += observed - expected
            curvature += (rows * probs) @ rows.T - np.outer(expected, expected)
            state = components.advance(state, np.array([token], np.int32))
    return value, slope, curvature
