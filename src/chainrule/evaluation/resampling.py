"""How sure a figure is, asked of the documents that it was measured on: confidence intervals and paired tests.

All draws come from a seed, so that the same documents give the same answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray

RESAMPLES, FLIPS = 1000, 10_000
LEVEL = 0.95
SEED = 0
UNITS = 5000  # more documents than that are resampled in runs of neighbours
_AT_ONCE = 1 << 22  # random numbers


@dataclass(frozen=True)
class Documents:
    """What each document costs under a model, </s> included, and its size."""

    nats: Float64[ndarray, " documents"]  # -log P(text)
    bytes: Int64[ndarray, " documents"]


@dataclass(frozen=True)
class Difference:
    """How many bits per byte one model needs more than another on the same documents."""

    bits_per_byte: float
    interval: tuple[float, float]
    p_value: float


def interval(documents: Documents) -> tuple[float, float]:
    """The bootstrap percentile interval of bits per byte (Efron 1979): documents are drawn anew, with replacement.

    Infinite where a document is impossible, NaN where there are fewer than two documents.
    """
    if np.isinf(documents.nats).any():
        return math.inf, math.inf
    counted = documents.bytes > 0  # without their ends, empty documents are nothing
    nats, sizes = _units(documents.nats[counted]), _units(documents.bytes[counted])
    if len(nats) < 2:
        return math.nan, math.nan
    drawn = [nats[chosen].sum(axis=1) / sizes[chosen].sum(axis=1) for chosen in _draws(len(nats))]
    return _percentiles(np.concatenate(drawn))


def difference(ours: Documents, theirs: Documents) -> Difference:
    """Approximate randomisation on the documents' bits, two-sided, with a paired bootstrap interval.

    If both models were alike, it would be chance which of the two had which cost for a document; so the costs are
    swapped at random, and the p-value is how often the difference comes out at least as large, the one that was found
    counted as well (Riezler and Maxwell 2005). NaN where a document is impossible or there are fewer than two.
    """
    total = math.fsum(ours.nats.tolist()) - math.fsum(theirs.nats.tolist())
    found = total / max(int(ours.bytes.sum()), 1) / math.log(2)
    counted = ours.bytes > 0
    if not math.isfinite(found) or np.count_nonzero(counted) < 2:
        return Difference(found, (math.nan, math.nan), math.nan)
    differences, sizes = _units((ours.nats - theirs.nats)[counted]), _units(ours.bytes[counted])
    drawn = [differences[chosen].sum(axis=1) / sizes[chosen].sum(axis=1) for chosen in _draws(len(sizes))]
    limit = abs(differences.sum()) * (1 - 1e-12)  # a swap of all gives the same but for rounding
    as_large = sum(int(np.count_nonzero(np.abs(signs @ differences) >= limit)) for signs in _signs(len(sizes)))
    return Difference(found, _percentiles(np.concatenate(drawn)), (1 + as_large) / (1 + FLIPS))


def interval_of_sums(
    statistics: Sequence[Int64[ndarray, "documents statistics"]],
    value: Callable[..., Float64[ndarray, " resamples"]],
) -> tuple[float, float]:
    """The bootstrap percentile interval of a figure that is a function of sums over documents, such as an error rate.

    statistics: a row a document; of several systems, an array each, and the same documents are drawn for all (Koehn
    2004). value: of as many arrays of sums, a row a resample. NaN where there are fewer than two documents.
    """
    runs = [_units(rows).astype(np.float64) for rows in statistics]
    size = len(runs[0])
    if size < 2:
        return math.nan, math.nan
    drawn = []
    for chosen in _draws(size):
        places = chosen + size * np.arange(len(chosen))[:, None]
        times = np.bincount(places.ravel(), minlength=size * len(chosen)).reshape(-1, size)
        drawn.append(value(*(times @ run for run in runs)))
    return _bounds(np.concatenate(drawn))


def _units(values: ndarray) -> ndarray:
    """Sums over runs of neighbouring documents, so that there are at most UNITS of them."""
    run = -(-len(values) // UNITS)
    return values if run <= 1 else np.add.reduceat(values, np.arange(0, len(values), run))


def _draws(units: int) -> Iterator[Int64[ndarray, "resamples units"]]:
    """RESAMPLES rows of units in all."""
    rng = np.random.default_rng(SEED)
    rows = max(1, _AT_ONCE // units)
    for first in range(0, RESAMPLES, rows):
        yield rng.integers(0, units, (min(rows, RESAMPLES - first), units))


def _signs(units: int) -> Iterator[Float64[ndarray, "flips units"]]:
    """FLIPS rows of -1 and 1 in all."""
    rng = np.random.default_rng(SEED)
    rows = max(1, _AT_ONCE // units)
    for first in range(0, FLIPS, rows):
        bits = np.unpackbits(
            rng.integers(0, 256, (min(rows, FLIPS - first), -(-units // 8)), np.uint8), axis=1, count=units
        )
        yield 1.0 - 2.0 * bits


def _percentiles(nats_per_byte: Float64[ndarray, " resamples"]) -> tuple[float, float]:
    return _bounds(nats_per_byte / math.log(2))


def _bounds(figures: Float64[ndarray, " resamples"]) -> tuple[float, float]:
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(figures, [tail, 1 - tail]).tolist()
    return low, high
