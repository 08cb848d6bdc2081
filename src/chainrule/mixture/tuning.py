"""Tunes the weights of mixtures: those that maximise the likelihood of a held-out text.

Linear weights by expectation-maximisation (Jelinek and Mercer 1980): their log-likelihood is concave, and each step
climbs. Log-linear weights by Newton's method: their log-likelihood is concave, too; its gradient is the observed minus
the expected log-probabilities.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.errors import EstimationError
from chainrule.mixture.adaptive import Gate, linear_gate
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float32, Float64, Int32, UInt8
    from numpy import ndarray

    from chainrule.mixture.components import Components

TASK = "tuning weights"
MAX_PROBS = 1 << 26  # probabilities of each model that a Newton step may compute
_STEPS = 500
_TOLERANCE = 1e-8  # nats per token; stops when a step gains less
_PRIOR = 10.0  # the weight of the overall mixture weights in each class, in tokens
_MAX_WEIGHT = 10.0  # of a log-linear mixture
_FLAT = 1e-9  # the deviation of a feature that does not change


def linear_weights(
    scores: Float32[ndarray, "models T"],
    classes: UInt8[ndarray, " T"] | None = None,
    class_count: int = 1,
    progress: Progress = silent,
) -> Float64[ndarray, "classes models"]:
    """Return the weights of a linear mixture by expectation-maximisation.

    scores: log-probabilities of the tokens of a text. classes: the class of each token, which has separate weights;
    those of classes with few tokens stay near the overall weights. Raises EstimationError if a token has probability
    zero in all models.
    """
    best = scores.max(axis=0)
    if np.any(best == -np.inf):
        raise EstimationError("the held-out text has a token of probability zero in all models; remove it")
    probs = np.exp(scores - best, dtype=np.float64)
    everywhere = np.zeros(probs.shape[1], np.uint8)
    start = np.full((1, len(probs)), 1 / len(probs))
    weights = _climb(probs, everywhere, start, 0.0, progress)
    if classes is None:
        return weights
    return _climb(probs, classes, np.repeat(weights, class_count, axis=0), _PRIOR, progress)


GATE_TOKENS = 400_000  # of a text, at most
_BLOCKS = 10  # of a text; the last of every so many says whether the gate helps
_GATE_STEPS, _GATE_BATCH, _GATE_DECAY = 1200, 4096, 1e-4
_GATE_RATE, _HIDDEN_RATE = 0.05, 0.01  # without hidden units, and with them
_ERRORS = 2.0  # standard errors that a gain has to have, by the runs of tokens that it is measured on
HIDDEN = 16  # units of a gate that sees distributions


def learn_gate(
    scores: Float32[ndarray, "K T"],
    features: Float64[ndarray, "T F"],
    weights: Float64[ndarray, "1 K"],
    progress: Progress = silent,
    *,
    hidden: int = 0,
) -> tuple[Gate, float]:
    """Return the gate of an adaptive mixture, by gradient ascent (Adam) on nine tenths of a text; its gain on the rest.

    scores: log-probabilities of the tokens. features: at their positions; the first is 1. weights: the constant ones,
    which the gate begins with, and stays at where it gains nothing for sure. hidden: how many hidden units it has. The
    gain is in nats a token, over these.
    """
    count = features.shape[1]
    constant = np.zeros((count, len(scores)))
    constant[0] = np.log(np.maximum(weights[0], 1e-4))
    if not hidden:
        centre, scale = np.zeros(count), np.ones(count)
    else:
        centre, scale = features.mean(axis=0), features.std(axis=0)
        centre[0], scale[scale < _FLAT] = 0, 1
    rng = np.random.default_rng(0)
    inner = rng.normal(size=(count, hidden)) / math.sqrt(count)
    gate = Gate(constant.copy(), inner, np.zeros((hidden, len(scores))))
    probs = np.exp(scores - scores.max(axis=0), dtype=np.float64).T  # (T, K)
    is_kept = np.arange(len(probs)) * _BLOCKS * _BLOCKS // max(len(probs), 1) % _BLOCKS == _BLOCKS - 1
    training = np.flatnonzero(~is_kept)
    means, squares = ([np.zeros_like(each) for each in gate] for _ in range(2))
    for step in range(_GATE_STEPS if training.size else 0):
        progress(TASK, step, _GATE_STEPS)
        rows = rng.choice(training, min(_GATE_BATCH, training.size), replace=training.size < _GATE_BATCH)
        own = (features[rows] - centre) / scale if hidden else features[rows]
        rate = (_HIDDEN_RATE if hidden else _GATE_RATE) * (1 - step / _GATE_STEPS)
        slopes = _gate_slopes(gate, own, probs[rows], constant)
        for each, slope, mean, square in zip(gate, slopes, means, squares, strict=True):
            mean += 0.1 * (slope - mean)
            square += 0.01 * (slope * slope - square)
            unbiased = np.sqrt(square / (1 - 0.99 ** (step + 1))) + 1e-9
            each += rate * mean / (1 - 0.9 ** (step + 1)) / unbiased
    for each in gate[:2]:  # of features as they are
        each /= scale[:, None]
        each[0] -= centre @ each
    kept = np.flatnonzero(is_kept)
    if not kept.size:
        return linear_gate(constant), 0.0
    learned, before = (
        np.log((gate_weights(each, features[kept]) * probs[kept]).sum(axis=1)) for each in (gate, linear_gate(constant))
    )
    runs = np.split(learned - before, np.flatnonzero(np.diff(kept) > 1) + 1)
    gain = float(np.concatenate(runs).mean())
    error = float(np.std([run.mean() for run in runs], ddof=1)) / math.sqrt(len(runs)) if len(runs) > 1 else math.inf
    return (gate, gain) if gain > _ERRORS * error else (linear_gate(constant), 0.0)


def _gate_slopes(
    gate: Gate, features: Float64[ndarray, "R F"], probs: Float64[ndarray, "R K"], constant: Float64[ndarray, "F K"]
) -> tuple[Float64[ndarray, "F K"], Float64[ndarray, "F H"], Float64[ndarray, "H K"]]:
    """Return the gradient of the mean log-likelihood of some tokens, less a pull back to constant weights."""
    units = np.tanh(features @ gate.inner)
    prior = _softmax(features @ gate.linear + units @ gate.outer)
    posterior = prior * probs
    posterior /= posterior.sum(axis=1, keepdims=True)
    error = (posterior - prior) / len(features)  # (R, K)
    inner = features.T @ ((error @ gate.outer.T) * (1 - units * units))
    return (
        features.T @ error - _GATE_DECAY * (gate.linear - constant),
        inner - _GATE_DECAY * gate.inner,
        units.T @ error - _GATE_DECAY * gate.outer,
    )


def gate_weights(gate: Gate, features: Float64[ndarray, "T F"]) -> Float64[ndarray, "T K"]:
    """Return the weights that a gate gives at each position of a text."""
    return _softmax(features @ gate.linear + np.tanh(features @ gate.inner) @ gate.outer)


def _softmax(logits: Float64[ndarray, "T K"]) -> Float64[ndarray, "T K"]:
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: Float64[ndarray, "T K"] = weights / weights.sum(axis=1, keepdims=True)
    return shares


def _climb(
    probs: Float64[ndarray, "models T"],
    classes: UInt8[ndarray, " T"],
    weights: Float64[ndarray, "classes models"],
    prior: float,
    progress: Progress,
) -> Float64[ndarray, "classes models"]:
    tokens = np.bincount(classes, minlength=len(weights)).astype(np.float64)
    prior_counts = prior * weights[:1]
    before = -np.inf
    for step in range(_STEPS):
        progress(TASK, step, _STEPS)
        shares = probs * weights[classes].T
        total = shares.sum(axis=0)
        gain = float(np.log(total).mean())
        if gain - before < _TOLERANCE:
            break
        before = gain
        shares /= total
        counts = np.stack([np.bincount(classes, share, len(weights)) for share in shares], axis=1)
        weights = (
            (counts + prior_counts) / np.maximum(tokens + prior, 1e-300)[:, None] if prior else counts / tokens[:, None]
        )
    return weights / weights.sum(axis=1, keepdims=True)


def classes_of_tokens(stream: Int32[ndarray, " T"], vocabulary_size: int, class_count: int) -> UInt8[ndarray, " V"]:
    """Return the class of every token: frequent tokens first, each class with about as many tokens of the stream.

    Tokens that do not occur in the stream are in the class of the rarest; <s> and </s> have a last class together.
    """
    counts = np.bincount(stream, minlength=vocabulary_size)
    counts[[BEGIN, END]] = 0
    by_count = np.argsort(-counts, kind="stable")
    before = np.cumsum(counts[by_count]) - counts[by_count]
    classes = np.empty(vocabulary_size, np.uint8)
    classes[by_count] = np.minimum(before * class_count // max(int(counts.sum()), 1), class_count - 1)
    classes[counts == 0] = class_count - 1
    classes[[BEGIN, END]] = class_count
    return classes


def log_linear_weights(
    components: Components, documents: list[Int32[ndarray, " T"]], progress: Progress = silent
) -> Float64[ndarray, " models"]:
    """Return the weights of a log-linear mixture by Newton's method. Raises EstimationError, as `linear_weights`."""

    def evaluate(weights: Float64[ndarray, " models"]) -> tuple[float, ndarray, ndarray]:
        return _likelihood(components, documents, weights)

    weights = np.full(len(components.models), 1 / len(components.models))
    return _newton(evaluate, weights, sum(len(document) + 1 for document in documents), progress)


def _newton(
    evaluate: Callable[[Float64[ndarray, " models"]], tuple[float, ndarray, ndarray]],
    weights: Float64[ndarray, " models"],
    tokens: int,
    progress: Progress,
) -> Float64[ndarray, " models"]:
    value, slope, curvature = evaluate(weights)
    stride = 1.0
    for step in range(40):
        progress(TASK, step, None)
        free = (weights > 0) | (slope > 0)
        change = np.zeros_like(weights)
        damped = curvature[np.ix_(free, free)] + 1e-9 * tokens * np.eye(int(free.sum()))
        change[free] = np.linalg.solve(damped, slope[free])
        tried = np.clip(weights + stride * change, 0, _MAX_WEIGHT)
        if not tried.any() or np.abs(tried - weights).max() < 1e-5:
            break
        new_value, new_slope, new_curvature = evaluate(tried)
        if new_value < value:
            stride /= 2
            continue
        gain = new_value - value
        weights, value, slope, curvature, stride = tried, new_value, new_slope, new_curvature, 1.0
        if gain < 1e-7 * tokens:
            break
    return weights


def _likelihood(
    components: Components, documents: list[Int32[ndarray, " T"]], weights: Float64[ndarray, " models"]
) -> tuple[float, Float64[ndarray, " models"], Float64[ndarray, "models models"]]:
    """Return the log-likelihood of documents, its gradient, and minus its Hessian, with respect to the weights."""
    models = len(weights)
    value, slope, curvature = 0.0, np.zeros(models), np.zeros((models, models))
    for document in documents:
        state = components.start([np.empty(0, np.int32)])
        for token in [*document.tolist(), END]:
            rows = np.concatenate(components.rows(state)).astype(np.float64)  # (models, V)
            possible = np.asarray(np.isfinite(rows).all(axis=0))
            if not possible[token]:
                raise EstimationError("the held-out text has a token of probability zero in some model; remove it")
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
