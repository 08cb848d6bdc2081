"""Quantises probabilities with the Lloyd-Max algorithm, which minimises the squared error.

The error is that of the log-odds, log p / (1 - p): for small probabilities, the error of log p; close to one, that of
log (1 - p), on which backoffs depend. S. P. Lloyd, "Least squares quantization in PCM" (1957, 1982); J. Max
(1960).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64
    from numpy import ndarray

_SAMPLE = 1 << 20  # log-probabilities suffice
_CELLS = 1 << 12  # of the histogram for the initial values
_ROUNDS = 40
_BOUNDS = -1000.0, 40.0  # of log-odds; values beyond are clipped


def choose_values(
    log_probs: Float32[ndarray, " ngrams"], size: int
) -> tuple[Float32[ndarray, " size"], Float32[ndarray, " size-1"]]:
    """`size` ascending values for log-probabilities, and the edges between them.

    A value represents the numbers from the edge below it, inclusive, to the edge above it, exclusive. If there are only
    a few distinct numbers, these are the values; -inf is a value of its own.
    """
    step = max(1, log_probs.size // _SAMPLE)
    sample = np.sort(log_probs[::step])
    sample = sample[~np.isneginf(sample)]
    has_zero = bool(np.isneginf(log_probs).any())
    finite_size = size - has_zero
    distinct = np.unique(sample)
    is_exact = step == 1 and distinct.size <= finite_size
    finite = distinct if is_exact else log_probs_at(_lloyd(log_odds(sample), finite_size))
    values = np.concatenate([np.full(int(has_zero), -np.inf, np.float32), finite]).astype(np.float32)
    odds = log_odds(values)
    edges = log_probs_at((odds[1:] + odds[:-1]) / 2)
    if has_zero and edges.size:
        edges[0] = np.finfo(np.float32).min
    missing = size - values.size
    values = np.concatenate([values, np.zeros(missing, np.float32)])
    return values, np.concatenate([edges, np.full(size - 1 - edges.size, np.inf, np.float32)])


def log_odds(log_probs: Float32[ndarray, " n"]) -> Float64[ndarray, " n"]:
    """log p / (1 - p), clipped to _BOUNDS."""
    wide = np.minimum(log_probs.astype(np.float64), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = wide - np.log(-np.expm1(wide))
    return np.clip(odds, *_BOUNDS)


def log_probs_at(odds: Float64[ndarray, " n"]) -> Float32[ndarray, " n"]:
    """The log-probabilities that have these log-odds."""
    return (-np.logaddexp(0.0, -odds)).astype(np.float32)


def _lloyd(odds: Float64[ndarray, " n"], size: int) -> Float64[ndarray, " size"]:
    """The values for ascending log-odds: each becomes the mean of the numbers nearest to it.

    The initial values have a density proportional to the cube root of that of the numbers, which is optimal for many
    values (Panter and Dite 1951).
    """
    counts, borders = np.histogram(odds, _CELLS)
    density = np.concatenate([[0.0], np.cumsum(np.cbrt(counts))])
    values = np.interp((np.arange(size) + 0.5) / size * density[-1], density, borders)
    sums = np.concatenate([[0.0], np.cumsum(odds)])
    for _ in range(_ROUNDS):
        edges = np.concatenate([[0], np.searchsorted(odds, (values[1:] + values[:-1]) / 2), [odds.size]])
        sizes = np.diff(edges)
        values = np.where(sizes > 0, np.diff(sums[edges]) / np.maximum(sizes, 1), values)
    return values
