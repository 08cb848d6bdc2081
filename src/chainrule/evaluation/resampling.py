"""Confidence intervals and paired significance tests over documents.

All random numbers come from a fixed seed, so that the same documents give the same result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray

RESAMPLES, FLIPS = 1000, 10_000
LEVEL = 0.95
SEED = 0
UNITS = 5000  # with more documents, runs of neighbours are resampled together
_BATCH = 1 << 22  # random numbers drawn at a time


@dataclass(frozen=True)
class Documents:
    """The cost of each document under a model, </s> included, and its size."""

    nats: Float64[ndarray, " documents"]  # -log P(text)
    bytes: Int64[ndarray, " documents"]


class Estimate(NamedTuple):
    """A figure and its 95 % interval."""

    value: float
    interval: tuple[float, float]

    def percent(self) -> str:
        """Return the share and its interval in percent: 12.34 % (11.20 to 13.50), or without an interval 12.34 %."""
        low, high = (f"{100 * bound:.2f}" for bound in self.interval)
        return f"{100 * self.value:.2f} %" + ("" if math.isnan(self.interval[0]) else f" ({low} to {high})")

    def as_json(self) -> dict[str, Any]:
        """Return value and interval for JSON: infinity as the string "Infinity", what is not defined as null."""
        value, low, high = (_json_number(number) for number in (self.value, *self.interval))
        return {"value": value, "interval": [low, high]}


@dataclass(frozen=True)
class Difference:
    """How many more bits per byte one model needs than another on the same documents."""

    bits_per_byte: float
    interval: tuple[float, float]
    p_value: float


def _json_number(number: float) -> float | str | None:
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return None if math.isnan(number) else number


def wilson_interval(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval (1927) of a share of n cases, which is right for few cases and near 0 and 1."""
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def interval(documents: Documents) -> tuple[float, float]:
    """Return the bootstrap percentile interval of bits per byte (Efron 1979), drawing documents with replacement.

    Infinite if a document has probability zero, NaN if there are fewer than two documents.
    """
    if np.isinf(documents.nats).any():
        return math.inf, math.inf
    counted = documents.bytes > 0  # an empty document whose end is not counted has no bytes
    nats, sizes = _units(documents.nats[counted]), _units(documents.bytes[counted])
    if len(nats) < 2:
        return math.nan, math.nan
    resampled = [nats[rows].sum(axis=1) / sizes[rows].sum(axis=1) for rows in _draws(len(nats))]
    return _percentiles(np.concatenate(resampled))


def difference(ours: Documents, theirs: Documents) -> Difference:
    """Return a two-sided test by approximate randomisation (Riezler and Maxwell 2005), and a paired bootstrap interval.

    Under the null hypothesis, either model could have had either cost of a document; so the costs are swapped at
    random. The p-value is the share of swaps whose difference is at least as large as the observed one, which is itself
    counted. The interval and p-value are NaN if a document has probability zero or there are fewer than two.
    """
    total = math.fsum(ours.nats.tolist()) - math.fsum(theirs.nats.tolist())
    observed = total / max(int(ours.bytes.sum()), 1) / math.log(2)
    counted = ours.bytes > 0
    if not math.isfinite(observed) or np.count_nonzero(counted) < 2:
        return Difference(observed, (math.nan, math.nan), math.nan)
    differences, sizes = _units((ours.nats - theirs.nats)[counted]), _units(ours.bytes[counted])
    resampled = [differences[rows].sum(axis=1) / sizes[rows].sum(axis=1) for rows in _draws(len(sizes))]
    limit = abs(differences.sum()) * (1 - 1e-12)  # swapping all gives the same, except for rounding
    as_large = sum(int(np.count_nonzero(np.abs(signs @ differences) >= limit)) for signs in _signs(len(sizes)))
    return Difference(observed, _percentiles(np.concatenate(resampled)), (1 + as_large) / (1 + FLIPS))


def interval_of_sums(
    statistics: Sequence[Int64[ndarray, "documents statistics"] | Float64[ndarray, "documents statistics"]],
    value: Callable[..., Float64[ndarray, " resamples"]],
    level: float = LEVEL,
) -> tuple[float, float]:
    """Return the bootstrap percentile interval of a figure computed from sums over documents, such as an error rate.

    statistics: one array for each system, one row for each document; the same documents are drawn for all systems
    (Koehn 2004). value: takes an array of sums for each system, one row for each resample. NaN if there are fewer than
    two documents.
    """
    runs = [_units(rows).astype(np.float64) for rows in statistics]
    size = len(runs[0])
    if size < 2:
        return math.nan, math.nan
    resampled = []
    for rows in _draws(size):
        flat = rows + size * np.arange(len(rows))[:, None]
        times_drawn = np.bincount(flat.ravel(), minlength=size * len(rows)).reshape(-1, size)
        resampled.append(value(*(times_drawn @ run for run in runs)))
    return _bounds(np.concatenate(resampled), level)


def p_value_of_sums(
    ours: Int64[ndarray, "documents statistics"],
    theirs: Int64[ndarray, "documents statistics"],
    value: Callable[..., Float64[ndarray, " flips"]],
) -> float:
    """Return a two-sided test by approximate randomisation, as in `difference`, of a figure computed from sums.

    ours, theirs: the statistics of the same documents, whose rows are swapped at random. NaN if there are fewer than
    two documents.
    """
    first, second = (_units(rows).astype(np.float64) for rows in (ours, theirs))
    if len(first) < 2:
        return math.nan
    whole, apart = (first + second).sum(axis=0), first - second
    limit = abs(float(value(first.sum(axis=0)) - value(second.sum(axis=0)))) * (1 - 1e-12)
    as_large = 0
    for signs in _signs(len(first)):
        swapped = signs @ apart
        gaps = value((whole + swapped) / 2) - value((whole - swapped) / 2)
        as_large += int(np.count_nonzero(np.abs(gaps) >= limit))
    return (1 + as_large) / (1 + FLIPS)


def _units(values: ndarray) -> ndarray:
    """Return sums over runs of neighbouring documents: at most UNITS of them."""
    run = -(-len(values) // UNITS)
    return values if run <= 1 else np.add.reduceat(values, np.arange(0, len(values), run))


def _draws(units: int) -> Iterator[Int64[ndarray, "resamples units"]]:
    """Yield indices of drawn units, in batches; RESAMPLES rows in all."""
    rng = np.random.default_rng(SEED)
    rows = max(1, _BATCH // units)
    for first in range(0, RESAMPLES, rows):
        yield rng.integers(0, units, (min(rows, RESAMPLES - first), units))


def _signs(units: int) -> Iterator[Float64[ndarray, "flips units"]]:
    """Yield random signs, -1 and 1, in batches; FLIPS rows in all."""
    rng = np.random.default_rng(SEED)
    rows = max(1, _BATCH // units)
    for first in range(0, FLIPS, rows):
        bits = np.unpackbits(
            rng.integers(0, 256, (min(rows, FLIPS - first), -(-units // 8)), np.uint8), axis=1, count=units
        )
        yield 1.0 - 2.0 * bits


def _percentiles(nats_per_byte: Float64[ndarray, " resamples"]) -> tuple[float, float]:
    return _bounds(nats_per_byte / math.log(2))


def _bounds(figures: Float64[ndarray, " resamples"], level: float = LEVEL) -> tuple[float, float]:
    """Return the quantiles of resampled figures.

    Between two of which one is infinite, the outer one is taken: infinity has no middle.
    """
    tail = (1 - level) / 2
    if np.isinf(figures).any():
        last = figures.size - 1
        low, high = np.sort(figures)[[math.floor(tail * last), math.ceil((1 - tail) * last)]]
    else:
        low, high = np.quantile(figures, [tail, 1 - tail])
    return float(low), float(high)


def share_cells(share: float, interval: tuple[float, float]) -> tuple[str, str]:
    """Return a share and its interval, as cells of a table in percent."""
    low, high = interval
    return f"{share:.1%}", f"{100 * low:.1f}-{100 * high:.1f}"
