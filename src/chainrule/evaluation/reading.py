"""How well surprisal predicts reading times: least squares, held-out log-likelihood, and whether times fit their words.

The psychometric power of a model is by how much the mean log-likelihood of held-out reading times rises when surprisals
join a baseline of lengths and frequencies (Goodkind and Bicknell, Predictive power of word surprisal, 2018). Times are
normal around a linear prediction; the variance is that of the training residuals (maximum likelihood). Everything here
is an array; `chainrule.comparison.reading` reads files and asks models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import SettingError
from chainrule.evaluation.resampling import Estimate, interval_of_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray

LAGS = (2, 1, 0, -1, -2)  # of a word after and before the one that a time belongs to


@dataclass(frozen=True)
class Fit:
    """A linear regression by ordinary least squares; the figures of R's `summary(lm(...))`."""

    coefficients: Float64[ndarray, " p"]
    standard_errors: Float64[ndarray, " p"]
    r_squared: float
    sigma: float  # residual standard error, on n - p degrees of freedom
    log_likelihood: float  # of all times, with the variance of maximum likelihood


def least_squares(design: Float64[ndarray, "n p"], times: Float64[ndarray, " n"]) -> Fit:
    """Regresses times on the columns of a design matrix, of which the first is the intercept.

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
    """The QR decomposition of the columns, scaled to length one, and their lengths. Raises SettingError."""
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
    """The fold of each word: whole groups, in turn by their order of appearance. Raises SettingError."""
    _, first, numbers = np.unique(groups, return_index=True, return_inverse=True)
    if first.size < 2:
        raise SettingError("all words are of one group; expected at least two to hold some of them out")
    rank = np.argsort(np.argsort(first))
    return rank[numbers] % min(folds, first.size)


def held_out_log_probs(
    design: Float64[ndarray, "n p"], times: Float64[ndarray, " n"], folds: Int64[ndarray, " n"]
) -> Float64[ndarray, " n"]:
    """ln of the density of each time under the regression on all other folds, in nats. Raises as `least_squares`."""
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
    """The mean of a figure of words, and its bootstrap interval over groups drawn with replacement."""
    sums = np.stack([np.bincount(groups, values), np.bincount(groups)], axis=1)
    sums = sums[sums[:, 1] > 0]
    return Estimate(float(values.mean()), interval_of_sums([sums], lambda drawn: drawn[:, 0] / drawn[:, 1]))


def slope(
    design: Float64[ndarray, "n p"], times: Float64[ndarray, " n"], column: int, groups: Int64[ndarray, " n"]
) -> Estimate:
    """A coefficient of the regression, and its bootstrap interval over groups drawn with replacement."""
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
    """Pearson's correlation of times with a figure of the word `LAGS` words later, in the same story.

    All arrays are of the words of a text, in order; NaN where there is no time, or no figure.
    """
    profile = []
    for lag in LAGS:
        own, other = (slice(0, times.size - lag), slice(lag, None)) if lag >= 0 else (slice(-lag, None), slice(0, lag))
        x, y = times[own], values[other]
        kept = (stories[own] == stories[other]) & np.isfinite(x) & np.isfinite(y)
        x, y = x[kept], y[kept]
        varies = x.size > 2 and x.std() > 0 and y.std() > 0
        profile.append(float(np.corrcoef(x, y)[0, 1]) if varies else math.nan)
    return profile


def seems_shifted(profile: Sequence[float]) -> bool:
    """Whether times rise with the next word, and more than they go with the previous one: nobody reads backwards.

    profile: as `lag_profile` gives it. Where neither word matters, both are noise, of either sign.
    """
    return profile[LAGS.index(1)] > abs(profile[LAGS.index(-1)])
