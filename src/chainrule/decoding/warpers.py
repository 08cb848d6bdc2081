"""Warpers: pure functions that sharpen, flatten or truncate distributions before a token is drawn.

They work on rows of log-weights, which need not be normalised. Truncated tokens get -inf; every row keeps its best.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float64
    from numpy import ndarray

    Weights = Float64[ndarray, "B k"]


def normalised(weights: Weights) -> Weights:
    """Log-probabilities: each row's probabilities sum to one. Each row must have a finite weight."""
    shifted = weights - weights.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def tempered(weights: Weights, temperature: float) -> Weights:
    """P(w)^(1/T), not normalised. temperature > 0."""
    with np.errstate(over="ignore"):  # -inf is right for tokens that a low temperature rules out
        return (weights - weights.max(axis=1, keepdims=True)) / temperature


def min_p(weights: Weights, share: float) -> Weights:
    """Only tokens at least `share` times as probable as the best (Nguyen et al. 2024)."""
    return np.where(weights >= weights.max(axis=1, keepdims=True) + np.log(share), weights, -np.inf)


def nucleus(weights: Weights, mass: float, totals: Float64[ndarray, " B"] | None = None) -> Weights:
    """Only the fewest most probable tokens that together have the share `mass` (top-p: Holtzman et al. 2020).

    totals: the sum of the weights (not logarithms) of all tokens, if `weights` lacks some; by default of these.
    """
    if totals is None:
        weights, totals = normalised(weights), np.ones(len(weights))
    probs = np.exp(weights)
    kept = np.zeros(weights.shape, np.bool_)
    # Even together, all tokens below this threshold can be left out, so they need not be sorted.
    least = np.maximum(probs.sum(axis=1) - mass * totals, 0) / weights.shape[1] * (1 - 1e-6)
    for row, total, threshold, out in zip(probs, totals, least, kept, strict=True):
        ordered = np.sort(row[row >= threshold])[::-1]  # several times faster than argsort
        count = max(1, int(np.count_nonzero(ordered.cumsum() - ordered < mass * total)))
        last = ordered[count - 1]
        np.greater(row, last, out=out)
        equals = np.flatnonzero(row == last)
        out[equals[: count - np.count_nonzero(out)]] = True  # ties go to lower ids
    return np.where(kept, weights, -np.inf)


def typical(weights: Weights, mass: float) -> Weights:
    """Only the tokens whose surprisal is nearest to the entropy, until they have `mass` (Meister et al. 2023)."""
    log_probs = normalised(weights)
    probs = np.exp(log_probs)
    possible = probs > 0
    surprisal = np.where(possible, -log_probs, np.inf)
    entropy = np.where(possible, probs * np.where(possible, surprisal, 0), 0).sum(axis=1, keepdims=True)
    cost = np.abs(surprisal - entropy)
    kept = np.zeros(weights.shape, np.bool_)
    for row, row_cost, out in zip(probs, cost, kept, strict=True):
        order = np.argsort(row_cost, kind="stable")
        before = row[order].cumsum() - row[order]
        out[order[: max(1, int(np.count_nonzero(before < mass)))]] = True
    return np.where(kept, weights, -np.inf)
