"""Makes the probabilities of changes the shares of them that are right, by slope and intercept of their log-odds.

Platt, Probabilistic outputs for support vector machines, 1999.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64
    from numpy import ndarray

UNCHANGED = 1.0, 0.0
_MOST_LOG_ODDS = 9.2  # of a change that all paths have: 0.9999
_ROUNDS = 50  # of Newton's method, which needs about five


def calibrated(probs: Float64[ndarray, " changes"], slope: float, intercept: float) -> Float64[ndarray, " changes"]:
    """Probabilities whose log-odds are slope * log-odds + intercept."""
    if (slope, intercept) == UNCHANGED:
        return probs
    return 1 / (1 + np.exp(-(slope * _log_odds(probs) + intercept)))


def fit_calibration(probs: Float64[ndarray, " changes"], right: Bool[ndarray, " changes"]) -> tuple[float, float]:
    """The likeliest slope and intercept, by logistic regression.

    A ridge draws them to 1 and 0, so that few changes, or only right ones, settle little. The slope is 0 or more.
    """
    rows = np.stack([_log_odds(probs), np.ones(probs.size)], axis=1)
    fitted = np.array(UNCHANGED)
    for _ in range(_ROUNDS):
        expected = 1 / (1 + np.exp(-rows @ fitted))
        gradient = rows.T @ (right - expected) - (fitted - UNCHANGED)
        curvature = rows.T @ (rows * (expected * (1 - expected))[:, None]) + np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        largest = float(np.abs(step).max())
        fitted = fitted + step / max(1.0, largest)  # at most 1, so that it does not overshoot
        if largest < 1e-9:
            break
    return max(0.0, float(fitted[0])), float(fitted[1])


def _log_odds(probs: Float64[ndarray, " changes"]) -> Float64[ndarray, " changes"]:
    bounded = np.clip(probs, 1e-300, 1 - 1e-16)
    return np.clip(np.log(bounded) - np.log1p(-bounded), -_MOST_LOG_ODDS, _MOST_LOG_ODDS)
