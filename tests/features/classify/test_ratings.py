"""Ratings as distributions over a scale, against the formula, and their figures against hand arithmetic."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

from chainrule.errors import TextError
from chainrule.features.classify.ratings import means_of, measure_ratings, ratings_of, scale_of, shares_of


class Rated(NamedTuple):
    labels: tuple[str, ...]
    place: str


def test_a_rating_is_shared_by_its_two_nearest_numbers() -> None:
    """3.6 is 0.4 of a 3 and 0.6 of a 4; the ends of the scale have one number."""
    scale = scale_of(np.array([1.2, 5.0]))
    assert scale == ["1", "2", "3", "4", "5"]
    shares = shares_of(np.array([3.6, 1.0, 5.0, 2.25]), scale)
    expected = np.array([[0, 0, 0.4, 0.6, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0.75, 0.25, 0, 0]])
    np.testing.assert_allclose(shares, expected, atol=1e-6)
    np.testing.assert_allclose(means_of(np.log(shares + 1e-30), scale), [3.6, 1, 5, 2.25], atol=1e-5)


def test_scales_below_zero_and_of_whole_numbers() -> None:
    scale = scale_of(np.array([-1.5, 0.0]))
    assert scale == ["-2", "-1", "0"]
    np.testing.assert_allclose(shares_of(np.array([-1.5]), scale), [[0.5, 0.5, 0]])


def test_figures_by_hand() -> None:
    """Errors 1, 0, -1, 0: their mean square is 1/2. Ties share ranks: those of 2 2 2 4 are 2 2 2 4."""
    result = measure_ratings(np.array([2.0, 2, 2, 4]), np.array([1.0, 2, 3, 4]))
    assert result.mean_squared_error == 0.5
    assert result.pearson == pytest.approx(3 / math.sqrt(3 * 5))
    assert result.spearman == pytest.approx(3 / math.sqrt(3 * 5))
    low, high = result.mean_squared_error_interval
    assert 0 <= low < 0.5 < high <= 1
    assert "Pearson" in str(result)


def test_what_is_not_defined_is_said() -> None:
    result = measure_ratings(np.array([2.0, 2, 2]), np.array([1.0, 2, 3]))
    assert math.isnan(result.pearson)
    assert "undefined" in str(result)
    assert result.as_json()["pearson"] is None
    assert result.as_json()["pearson_interval"] == [None, None]


@pytest.mark.parametrize("label", ["NEUTRAL", "nan", "inf", ""])
def test_a_rating_that_is_no_number(label: str) -> None:
    with pytest.raises(TextError, match=r"line 7: the rating is .*; expected a number"):
        ratings_of([Rated(("4.5",), "line 6"), Rated((label,), "line 7")])


def test_scales_that_are_none() -> None:
    with pytest.raises(TextError, match="all ratings are 4"):
        scale_of(np.array([4.0, 4.0]))
    with pytest.raises(TextError, match="from 0 to 1000; expected a scale of at most 100"):
        scale_of(np.array([0.0, 1000.0]))
