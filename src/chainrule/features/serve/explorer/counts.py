"""Recovers the counts behind probabilities: a model keeps none, but discounting can be inverted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray

_FARTHEST = 0.05  # from a whole number
_MOST = 1e9  # tokens after a context
_ROUNDING = 1e-6  # relative, of probabilities in float32


def counts_from_shares(
    shares: Float64[ndarray, " tokens"], discounts: Sequence[float]
) -> Int64[ndarray, " tokens"] | None:
    """Return the counts c(w) of all tokens seen after a context; None if no counts, or several, give the shares.

    shares: (c(w) - D(c(w))) / T, where T is the sum of the counts: what is not from lower orders. discounts: D of
    counts 1, 2, ...; the last one is for all larger counts, too.

    T follows from the smallest share if its count is guessed. A guess is right if all counts are then whole and sum to
    T, which fails after pruning and quantising.
    """
    if not shares.size or not shares.min() > 0:
        return None
    totals = [(count - discount) / shares.min() for count, discount in enumerate(discounts, 1)]
    totals.append(shares.size * discounts[-1] / max(1 - shares.sum(), _ROUNDING))  # all counts are large
    solutions = {
        counts.tobytes(): counts
        for total in totals
        if total < _MOST and (counts := _counts(shares, discounts, total)) is not None
    }
    return next(iter(solutions.values())) if len(solutions) == 1 else None


def _counts(
    shares: Float64[ndarray, " tokens"], discounts: Sequence[float], total: float
) -> Int64[ndarray, " tokens"] | None:
    """Return the counts if they sum to about `total`; None if they do not, or are not whole."""
    counts = _nearest(shares, discounts, total)
    counts = _nearest(shares, discounts, counts.sum())  # which is exact if the first counts are right
    taken = np.asarray(discounts)[np.minimum(counts, len(discounts)) - 1]
    distances = np.abs(shares * counts.sum() + taken - counts)
    return counts if (distances < _FARTHEST + _ROUNDING * counts).all() else None


def _nearest(
    shares: Float64[ndarray, " tokens"], discounts: Sequence[float], total: float
) -> Int64[ndarray, " tokens"]:
    """Return the counts, 1 or more, whose discounted values are nearest to the shares of a total."""
    counts = np.maximum(np.rint(shares * total + discounts[-1]), len(discounts))
    distances = np.abs(shares * total + discounts[-1] - counts)
    for count, discount in enumerate(discounts[:-1], 1):
        distance = np.abs(shares * total + discount - count)
        counts = np.where(distance < distances, count, counts)
        distances = np.minimum(distances, distance)
    return counts.astype(np.int64)
