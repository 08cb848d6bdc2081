"""The values that quantised probabilities take: Lloyd's and Max's, for least squared error.

Least error in the log-odds, log p / (1 - p): for small probabilities that is the error in log p; close to one it is
that in log (1 - p), on which back-offs depend. S. P. Lloyd, "Least squares quantization in PCM" (1957, 1982); J. Max
(1960).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64
    from numpy import ndarray

_SAMPLE = 1 << 20  # log-probabilities are enough to learn from
_CELLS = 1 << 12  # of the histogram that the first values come from
_ROUNDS = 40
_BOUNDS = -1000.0, 40.0  # of log-odds; what is beyond counts as this


def values_for(
    log_probs: Float32[ndarray, " ngrams"], number: int
) -> tuple[Float32[ndarray, " number"], Float32[ndarray, " number-1"]]:
    """Ascending values for log-probabilities, and the edges between them: a value is for what lies from the edge below
    it to below the edge above it. Where there are few different numbers, they are the values; -inf is one of its own.
    """
    step = max(1, log_probs.size // _SAMPLE)
    sample = np.sort(log_probs[::step])
    sample = sample[~np.isneginf(sample)]
    has_zero = bool(np.isneginf(log_probs).any())
    room = number - has_zero
    distinct = np.unique(sample)
    few = step == 1 and distinct.size <= room
    finite = distinct if few else log_probs_at(_lloyd(log_odds(sample), room))
    values = np.concatenate([np.full(int(has_zero), -np.inf, np.float32), finite]).astype(np.float32)
    odds = log_odds(values)
    edges = log_probs_at((odds[1:] + odds[:-1]) / 2)
    if has_zero and edges.size:
        edges[0] = np.finfo(np.float32).min
    missing = number - values.size
    values = np.concatenate([values, np.zeros(missing, np.float32)])
    return values, np.concatenate([edges, np.full(number - 1 - edges.size, np.inf, np.float32)])


def log_odds(log_probs: Float32[ndarray, " n"]) -> Float64[ndarray, " n"]:
    """log p / (1 - p), within _BOUNDS."""
    wide = np.minimum(log_probs.astype(np.float64), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = wide - np.log(-np.expm1(wide))
    return np.clip(found, *_BOUNDS)


def log_probs_at(odds: Float64[ndarray, " n"]) -> Float32[ndarray, " n"]:
    """The log-probabilities that have these log-odds."""
    return (-np.logaddexp(0.0, -odds)).astype(np.float32)


def _lloyd(odds: Float64[ndarray, " n"], number: int) -> Float64[ndarray, " number"]:
    """The values for ascending log-odds: each is the mean of what is nearest to it.

    To begin with, they are as dense as the cube root of what they are for, which is best where there are many of them
    (Panter and Dite 1951).
    """
    counts, borders = np.histogram(odds, _CELLS)
    density = np.concatenate([[0.0], np.cumsum(np.cbrt(counts))])
    values = np.interp((np.arange(number) + 0.5) / number * density[-1], density, borders)
    sums = np.concatenate([[0.0], np.cumsum(odds)])
    for _ in range(_ROUNDS):
        edges = np.concatenate([[0], np.searchsorted(odds, (values[1:] + values[:-1]) / 2), [odds.size]])
        sizes = np.diff(edges)
        values = np.where(sizes > 0, np.diff(sums[edges]) / np.maximum(sizes, 1), values)
    return values
