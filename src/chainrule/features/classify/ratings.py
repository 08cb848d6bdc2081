"""Ratings that people gave, as distributions over the whole numbers of a scale, and how well they are predicted.

A rating of 3.6 is 0.4 of a 3 and 0.6 of a 4; a predicted rating is the mean of a distribution (Tai et al. 2015, section
4.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from chainrule.base.results import finite_figures
from chainrule.drawing.pages import html_table
from chainrule.errors import TextError
from chainrule.features.metrics.correlation import correlation, interval, rank_correlation
from chainrule.text.numbers import number_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float32, Float64
    from numpy import ndarray

_MOST = 100  # whole numbers of a scale


class Rated(Protocol):
    """An example whose labels are numbers, as written. place: file and line, for messages."""

    @property
    def labels(self) -> tuple[str, ...]: ...

    @property
    def place(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class RatingMeasurement:
    """How well predicted ratings agree with people's. Intervals: 95 %, by bootstrap over examples.

    A correlation is NaN where there are fewer than three examples, or all ratings are equal.
    """

    row_of: ClassVar[str] = "pair"
    examples: int
    pearson: float
    pearson_interval: tuple[float, float]
    spearman: float
    spearman_interval: tuple[float, float]
    mean_squared_error: float
    mean_squared_error_interval: tuple[float, float]
    items: Sequence[Mapping[str, Any]] = field(default=(), compare=False, repr=False)  # both ratings of each pair

    def __repr__(self) -> str:
        return (
            f"<RatingMeasurement: Pearson {self.pearson:.4f}, Spearman {self.spearman:.4f}, mean squared error "
            f"{self.mean_squared_error:.4f} of {self.examples:,}>"
        )

    def __str__(self) -> str:
        """Return the figures, a line each."""
        lines = [f"{name:<20}{value:>12}  {between}".rstrip() for name, value, between in self._figures()]
        return "\n".join([*lines, f"{'examples':<20}{self.examples:>12,}"])

    def _repr_html_(self) -> str:
        rows = [[name, value, between] for name, value, between in self._figures()]
        return html_table(f"{self.examples:,} ratings", ["", "", "95 %"], rows)

    def _figures(self) -> list[tuple[str, str, str]]:
        named = {
            "Pearson": (self.pearson, self.pearson_interval),
            "Spearman": (self.spearman, self.spearman_interval),
            "mean squared error": (self.mean_squared_error, self.mean_squared_error_interval),
        }
        return [
            (name, "undefined" if math.isnan(value) else f"{value:.4f}", _between(bounds))
            for name, (value, bounds) in named.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by name: a row for pandas."""
        return {name: value for name, value in vars(self).items() if name != "items"}

    def to_records(self) -> list[Mapping[str, Any]]:
        """A row for each pair, with its rating and the predicted one."""
        return list(self.items)

    def as_json(self) -> dict[str, Any]:
        """Return the figures by name, with null for what is not defined."""
        figures: dict[str, Any] = finite_figures(self.to_dict())
        return figures


def measure_ratings(predicted: Float64[ndarray, " examples"], true: Float64[ndarray, " examples"]) -> RatingMeasurement:
    """Return the figures of predicted ratings."""

    def squared_error(a: Float64[ndarray, " values"], b: Float64[ndarray, " values"]) -> float:
        return float(np.mean((a - b) ** 2))

    return RatingMeasurement(
        examples=true.size,
        pearson=correlation(predicted, true),
        pearson_interval=interval(predicted, true, correlation),
        spearman=rank_correlation(predicted, true),
        spearman_interval=interval(predicted, true, rank_correlation),
        mean_squared_error=squared_error(predicted, true),
        mean_squared_error_interval=interval(predicted, true, squared_error),
    )


def ratings_of(examples: Sequence[Rated]) -> Float64[ndarray, " ratings"]:
    """Return the labels of examples as numbers, one after the other. Raises TextError that names the place."""
    return np.array([_rating(label, example.place) for example in examples for label in example.labels])


def scale_of(ratings: Float64[ndarray, " ratings"]) -> list[str]:
    """Return the whole numbers from the least rating to the greatest, as labels. Raises TextError."""
    low, high = math.floor(ratings.min()), math.ceil(ratings.max())
    if low == high:
        raise TextError(f"all ratings are {low}; expected at least two different ones")
    if high - low >= _MOST:
        raise TextError(
            f"the ratings go from {low} to {high}; expected a scale of at most {_MOST} whole numbers: divide them"
        )
    return [str(number) for number in range(low, high + 1)]


def shares_of(ratings: Float64[ndarray, " ratings"], scale: Sequence[str]) -> Float32[ndarray, "ratings scale"]:
    """Return each rating as a distribution over its two nearest whole numbers, whose mean it is (equation 15)."""
    first = int(scale[0])
    shares = np.zeros((ratings.size, len(scale)), np.float32)
    below = np.minimum(np.floor(ratings).astype(np.int64) - first, len(scale) - 2)
    rows = np.arange(ratings.size)
    shares[rows, below + 1] = ratings - first - below
    shares[rows, below] = 1 - shares[rows, below + 1]
    return shares


def means_of(log_probs: Float32[ndarray, "units scale"], scale: Sequence[str]) -> Float64[ndarray, " units"]:
    """Return the mean of each distribution over the numbers of a scale."""
    return np.asarray(np.exp(log_probs.astype(np.float64)) @ np.array([float(number) for number in scale]))


def _rating(label: str, place: str) -> float:
    try:
        rating = number_of(label)
    except ValueError:
        rating = math.nan
    if not math.isfinite(rating):
        raise TextError(f"{place}: the rating is {label!r}; expected a number")
    return rating


def _between(bounds: tuple[float, float]) -> str:
    return "" if math.isnan(bounds[0]) else f"{bounds[0]:.4f} to {bounds[1]:.4f} at 95 %"
