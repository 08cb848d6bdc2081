"""Correlations of two rows of numbers, and bootstrap intervals of figures of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float64
    from numpy import ndarray

_RESAMPLES, _SEED, _LEVEL = 1000, 0, 0.95


def ranks(values: Float64[ndarray, " values"]) -> Float64[ndarray, " values"]:
    """Return the rank of each number, from 1; equal numbers share their mean rank."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[places]


def correlation(a: Float64[ndarray, " values"], b: Float64[ndarray, " values"]) -> float:
    """Return Pearson's correlation; of ranks, it is Spearman's correlation. NaN where it is not defined."""
    if a.size < 3:
        return math.nan
    a, b = a - a.mean(), b - b.mean()
    lengths = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / lengths if lengths else math.nan


def rank_correlation(a: Float64[ndarray, " values"], b: Float64[ndarray, " values"]) -> float:
    """Return Spearman's. NaN where it is not defined."""
    return correlation(ranks(a), ranks(b))


def interval(
    a: Float64[ndarray, " values"],
    b: Float64[ndarray, " values"],
    figure: Callable[[Float64[ndarray, " values"], Float64[ndarray, " values"]], float],
) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of a figure of pairs (a, b), drawn with replacement; NaN where the figure is
    NaN.
    """
    if math.isnan(figure(a, b)):
        return math.nan, math.nan
    rng = np.random.default_rng(_SEED)
    drawn = []
    for _ in range(_RESAMPLES):
        chosen = rng.integers(0, a.size, a.size)
        drawn.append(figure(a[chosen], b[chosen]))
    low, high = np.nanquantile(drawn, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]).tolist()
    return low, high
