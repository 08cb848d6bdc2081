"""How well surprisal predicts reading times: least squares, held-out log-likelihood, and whether times fit their words.

The psychometric power of a model is by how much the mean log-likelihood of held-out reading times rises when surprisals
join a baseline of lengths and frequencies (Goodkind and Bicknell, Predictive power of word surprisal, 2018). Times are
normal around a linear prediction; the variance is that of the training residuals (maximum likelihood). Everything here
is an array; `chainrule.features.reading.reading_times` reads files and asks models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import SettingError
from chainrule.evaluation.resampling import Estimate, interval_of_sums

if TYPE_CHECKING:
    from jaxtyping import Float64, Int64
    from numpy import ndarray

LAGS = (2, 1, 0, -1, -2)  # of a word after and before the one that a time belongs to
RUN = 20  # words that are drawn together
CHANCE = 0.05  # of a warning without a cause, at most


@dataclass(frozen=True)
class Fit:
    """A linear regression by ordinary least squares; the figures of R's `summary(lm(...))`."""

    coefficients: Float64[ndarray, " p"]
    standard_errors: Float64[ndarray, " p"]
    r_squared: float
    sigma: float  # residual standard error, on n - p degrees of freedom
    log_likelihood: float  # of all times, with the variance of maximum likelihood


def least_squares(design: Float64[ndarray, "n p"], times: Float64[ndarray, " n"]) -> Fit:
    """Regress times on the columns of a design matrix, of which the first is the intercept.

    Raises SettingError where there are too few rows, or a column follows from others.
    """
    n, p = design.shape
    if n <= p:
        raise SettingError(f"there are {n} words for a regression with {p} coefficients; expected more words")
    q, triangle, scales = _decomposed(design)
    coefficients = np.linalg.solve(triangle, q.T @ times) / scales
    residuals = times - design @ coefficients
    squares = float(residuals @ residuals)
    inverse = np.linalg.inv(triangle)
    sigma = math.sqrt(squares / (n - p))
    errors = sigma * np.sqrt((inverse**2).sum(axis=1)) / scales
    spread = float(((times - times.mean()) ** 2).sum())
    return Fit(
        coefficients,
        errors,
        1 - squares / spread if spread else math.nan,
        sigma,
        -n / 2 * (math.log(2 * math.pi * squares / n) + 1) if squares else math.inf,
    )


def _decomposed(
    design: Float64[ndarray, "n p"],
) -> tuple[Float64[ndarray, "n p"], Float64[ndarray, "p p"], Float64[ndarray, " p"]]:
    """Return the QR decomposition of the columns, scaled to length one, and their lengths. Raises SettingError."""
    scales = np.sqrt((design**2).sum(axis=0))
    scales[scales == 0] = 1
    q, triangle = np.linalg.qr(design / scales)
    if (np.abs(np.diag(triangle)) < 1e-10).any():
        raise SettingError(
            "a predictor follows from the others, so the regression has no single answer: all words have the same "
            "length or frequency, or surprisals are the log frequencies or the position; take frequencies from "
            "another text than the model"
        )
    return q, triangle, scales


def fold_numbers(groups: Int64[ndarray, " n"], folds: int) -> Int64[ndarray, " n"]:
    """Return the fold of each word: whole groups, in turn by their order of appearance. Raises SettingError."""
    _, first, numbers = np.unique(groups, return_index=True, return_inverse=True)
    if first.size < 2:
        raise SettingError("all words are of one group; expected at least two to hold some of them out")
    rank = np.argsort(np.argsort(first))
    return rank[numbers] % min(folds, first.size)


def held_out_log_probs(
    design: Float64[ndarray, "n p"], times: Float64[ndarray, " n"], folds: Int64[ndarray, " n"]
) -> Float64[ndarray, " n"]:
    """Return ln of the density of each time under the regression on all other folds, in nats.

    Raises as `least_squares`.
    """
    log_probs = np.empty(times.size)
    for fold in np.unique(folds).tolist():
        inside = folds == fold
        fit = least_squares(design[~inside], times[~inside])
        residuals = times[~inside] - design[~inside] @ fit.coefficients
        variance = float(residuals @ residuals) / residuals.size
        errors = times[inside] - design[inside] @ fit.coefficients
        log_probs[inside] = -0.5 * (math.log(2 * math.pi * variance) + errors**2 / variance)
    return log_probs


def mean_by_group(values: Float64[ndarray, " n"], groups: Int64[ndarray, " n"]) -> Estimate:
    """Return the mean of a figure of words, and its bootstrap interval over groups drawn with replacement."""
    sums = np.stack([np.bincount(groups, values), np.bincount(groups)], axis=1)
    sums = sums[sums[:, 1] > 0]
    return Estimate(float(values.mean()), interval_of_sums([sums], lambda drawn: drawn[:, 0] / drawn[:, 1]))


def slope(
    design: Float64[ndarray, "n p"], times: Float64[ndarray, " n"], column: int, groups: Int64[ndarray, " n"]
) -> Estimate:
    """Return a coefficient of the regression, and its bootstrap interval over groups drawn with replacement."""
    fit = least_squares(design, times)
    _, _, scales = _decomposed(design)
    scaled = np.column_stack([design / scales, times])
    rows = [scaled[groups == group] for group in np.unique(groups).tolist()]
    products = np.stack([(own.T @ own).ravel() for own in rows])
    p = design.shape[1]

    def coefficients(drawn: Float64[ndarray, "resamples products"]) -> Float64[ndarray, " resamples"]:
        squares = drawn.reshape(-1, p + 1, p + 1)
        inverses = np.linalg.pinv(squares[:, :p, :p], rcond=1e-13, hermitian=True)
        return np.asarray((inverses @ squares[:, :p, p:])[:, column, 0] / scales[column])

    return Estimate(float(fit.coefficients[column]), interval_of_sums([products], coefficients))


def lag_profile(
    times: Float64[ndarray, " words"], values: Float64[ndarray, " words"], stories: Int64[ndarray, " words"]
) -> list[float]:
    """Return Pearson's correlation of times with a figure of the word `LAGS` words later, in the same story.

    All arrays are of the words of a text, in order; NaN where there is no time, or no figure.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return [float(_correlation(_products(times, values, stories, lag).sum(axis=0))) for lag in LAGS]


def seems_shifted(
    times: Float64[ndarray, " words"], values: Float64[ndarray, " words"], stories: Int64[ndarray, " words"]
) -> bool:
    """Return whether times go with the next word more than with the previous one, beyond chance.

    Nobody reads backwards, so such times stand one word early. The arrays are those of `lag_profile`. The bootstrap
    draws runs of `RUN` words, or whole stories that are shorter.
    """
    _, starts = np.unique(stories, return_index=True)
    within = np.arange(times.size) - np.repeat(np.sort(starts), np.diff([*np.sort(starts), times.size]))
    units = np.cumsum(within % RUN == 0) - 1
    sums = []
    for lag in (1, -1):
        products = _products(times, values, stories, lag)
        sums.append(np.stack([np.bincount(units, column) for column in products.T], axis=1))

    def ahead(later: Float64[ndarray, "resamples 6"], earlier: Float64[ndarray, "resamples 6"]) -> ndarray:
        return np.nan_to_num(_correlation(later) - np.abs(_correlation(earlier)), nan=0.0)

    with np.errstate(divide="ignore", invalid="ignore"):
        low, _ = interval_of_sums(sums, ahead, 1 - 2 * CHANCE)
    return low > 0


def _products(
    times: Float64[ndarray, " words"], values: Float64[ndarray, " words"], stories: Int64[ndarray, " words"], lag: int
) -> Float64[ndarray, "words 6"]:
    """Return, for each word, 1, x, y, xx, yy, xy, where x is its time and y the figure `lag` words later; 0 without
    one.
    """
    x = times - np.nanmean(times) if np.isfinite(times).any() else times  # sums of squares lose fewer digits
    y = np.full(times.size, math.nan)
    own, other = (slice(0, times.size - lag), slice(lag, None)) if lag >= 0 else (slice(-lag, None), slice(0, lag))
    y[own] = np.where(stories[own] == stories[other], values[other], math.nan)
    y = y - np.nanmean(y) if np.isfinite(y).any() else y
    products = np.stack([np.ones(x.size), x, y, x * x, y * y, x * y], axis=1)
    return np.where((np.isfinite(x) & np.isfinite(y))[:, None], products, 0.0)


def _correlation(sums: Float64[ndarray, "*several 6"]) -> Float64[ndarray, "*several"]:
    """Return Pearson's correlation from the sums of `_products`; NaN of two words, or where one side never varies."""
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    spread = np.maximum(xx - x * x / n, 0) * np.maximum(yy - y * y / n, 0)
    varies = (n > 2) & (spread > 1e-18 * xx * yy)
    return np.asarray(np.where(varies, (xy - x * y / n) / np.sqrt(spread), math.nan))
