"""Regressions against NIST's certified values and R's, closed forms, and data whose shift is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from chainrule.errors import SettingError
from chainrule.features.reading.regression import (
    LAGS,
    fold_numbers,
    held_out_log_probs,
    lag_profile,
    least_squares,
    mean_by_group,
    seems_shifted,
    slope,
)

# Longley (1967), from NIST's Statistical Reference Datasets: employment, and six figures that go with one another.
LONGLEY = """60323 83.0 234289 2356 1590 107608 1947
61122 88.5 259426 2325 1456 108632 1948
60171 88.2 258054 3682 1616 109773 1949
61187 89.5 284599 3351 1650 110929 1950
63221 96.2 328975 2099 3099 112075 1951
63639 98.1 346999 1932 3594 113270 1952
64989 99.0 365385 1870 3547 115094 1953
63761 100.0 363112 3578 3350 116219 1954
66019 101.2 397469 2904 3048 117388 1955
67857 104.6 419180 2822 2857 118734 1956
68169 108.4 442769 2936 2798 120445 1957
66513 110.8 444546 4681 2637 121950 1958
68655 112.6 482704 3813 2552 123366 1959
69564 114.2 502601 3931 2514 125368 1960
69331 115.7 518173 4806 2572 127852 1961
70551 116.9 554894 4007 2827 130081 1962"""


def test_the_figures_are_those_certified_by_nist() -> None:
    """R's lm gives these, too: https://www.itl.nist.gov/div898/strd/lls/data/Longley.shtml."""
    data = np.array([line.split() for line in LONGLEY.splitlines()], np.float64)
    fit = least_squares(np.column_stack([np.ones(16), data[:, 1:]]), data[:, 0])
    coefficients = [-3482258.63459582, 15.0618722713733, -0.0358191792925910, -2.02022980381683]
    coefficients += [-1.03322686717359, -0.0511041056535807, 1829.15146461355]
    errors = [890420.383607373, 84.9149257747669, 0.0334910077722432, 0.488399681651699]
    errors += [0.214274163161675, 0.226073200069370, 455.478499142212]
    assert fit.coefficients.tolist() == pytest.approx(coefficients, rel=1e-7)
    assert fit.standard_errors.tolist() == pytest.approx(errors, rel=1e-7)
    assert fit.sigma == pytest.approx(304.854073561965, rel=1e-9)
    assert fit.r_squared == pytest.approx(0.995479004577296, rel=1e-9)
    squares = 836424.055505915  # NIST's residual sum of squares
    assert fit.log_likelihood == pytest.approx(-8 * (math.log(2 * math.pi * squares / 16) + 1), rel=1e-9)


# R's data set trees: girth, height and volume of 31 cherry trees.
GIRTH = [8.3, 8.6, 8.8, 10.5, 10.7, 10.8, 11, 11, 11.1, 11.2, 11.3, 11.4, 11.4, 11.7, 12, 12.9, 12.9, 13.3, 13.7, 13.8]
GIRTH += [14, 14.2, 14.5, 16, 16.3, 17.3, 17.5, 17.9, 18, 18, 20.6]
HEIGHT = [70, 65, 63, 72, 81, 83, 66, 75, 80, 75, 79, 76, 76, 69, 75, 74, 85, 86, 71, 64]
HEIGHT += [78, 80, 74, 72, 77, 81, 82, 80, 80, 80, 87]
VOLUME = [10.3, 10.3, 10.2, 16.4, 18.8, 19.7, 15.6, 18.2, 22.6, 19.9, 24.2, 21, 21.4, 21.3, 19.1, 22.2, 33.8, 27.4]
VOLUME += [25.7, 24.9, 34.5, 31.7, 36.3, 38.3, 42.6, 55.4, 55.7, 58.3, 51.5, 51, 77]


def test_the_figures_are_those_that_r_prints() -> None:
    """R 4.2.2: m <- lm(Volume ~ Girth * Height, trees), and lm(Volume ~ Girth, trees): coef, summary, logLik.

    Held out, with fold <- (seq_len(31) - 1) %% 5 and m fitted to the other folds, the mean of
    dnorm(Volume, predict(m, own), sqrt(mean(residuals(m)^2)), log = TRUE).
    """
    girth, height, volume = (np.array(column, np.float64) for column in (GIRTH, HEIGHT, VOLUME))
    base = np.column_stack([np.ones(31), girth])
    full = np.column_stack([base, height, girth * height])
    fit = least_squares(full, volume)
    coefficients = [69.396315559307382, -5.855847929653999, -1.297083371665011, 0.134654394364201]
    errors = [23.8357545492343839, 1.9213358882993918, 0.3098428794398828, 0.0243773132465219]
    assert fit.coefficients.tolist() == pytest.approx(coefficients, rel=1e-9)
    assert fit.standard_errors.tolist() == pytest.approx(errors, rel=1e-9)
    assert [fit.r_squared, fit.sigma, fit.log_likelihood] == pytest.approx(
        [0.975564209306702, 2.708550034498349, -72.734581204517738], rel=1e-9
    )
    plain = least_squares(base, volume)
    assert [plain.r_squared, plain.log_likelihood] == pytest.approx([0.93531987245517, -87.82236052418924], rel=1e-9)
    folds = np.arange(31) % 5
    held_out = [held_out_log_probs(design, volume, folds).mean() for design in (base, full)]
    assert held_out == pytest.approx([-3.05499998503745, -2.56090501853091], rel=1e-9)


def test_one_predictor_has_a_closed_form() -> None:
    x, y = np.array([1.0, 2.0, 4.0, 7.0]), np.array([3.0, 2.0, 6.0, 9.0])
    fit = least_squares(np.column_stack([np.ones(4), x]), y)
    # means 3.5 and 5; sxy = 24, sxx = 21, syy = 30
    assert fit.coefficients.tolist() == pytest.approx([5 - 3.5 * 24 / 21, 24 / 21])
    squares = 30 - 24**2 / 21
    assert fit.sigma == pytest.approx(math.sqrt(squares / 2))
    assert fit.standard_errors[1] == pytest.approx(math.sqrt(squares / 2 / 21))


def test_each_fold_is_predicted_from_the_others() -> None:
    """The intercept alone: the density of a normal with the mean and variance of the other fold."""
    times = np.array([1.0, 3.0, 4.0, 8.0, 9.0])
    log_probs = held_out_log_probs(np.ones((5, 1)), times, np.array([0, 0, 1, 1, 1]))
    other = [(7, 14 / 3), (7, 14 / 3), (2, 1), (2, 1), (2, 1)]  # of 4, 8, 9 and of 1, 3
    expected = [
        -0.5 * (math.log(2 * math.pi * variance) + (time - mean) ** 2 / variance)
        for time, (mean, variance) in zip(times.tolist(), other, strict=True)
    ]
    assert log_probs.tolist() == pytest.approx(expected)


def test_folds_are_whole_groups_in_turn() -> None:
    groups = np.array([7, 7, 3, 3, 5, 9, 7])
    assert fold_numbers(groups, 3).tolist() == [0, 0, 1, 1, 2, 0, 0]
    assert fold_numbers(groups, 10).tolist() == [0, 0, 1, 1, 2, 3, 0]
    with pytest.raises(SettingError, match="all words are of one group"):
        fold_numbers(np.array([4, 4]), 10)


def test_a_slope_is_found_with_an_interval_that_holds_it() -> None:
    rng = np.random.default_rng(3)
    surprisals, groups = rng.exponential(4, 600), np.arange(600) // 20
    times = 300 + 2.5 * surprisals + rng.normal(0, 10, 600)
    design = np.column_stack([np.ones(600), rng.normal(5, 2, 600), surprisals])
    estimate = slope(design, times, 2, groups)
    assert estimate.value == pytest.approx(least_squares(design, times).coefficients[2])
    low, high = estimate.interval
    assert low < estimate.value < high
    error = least_squares(design, times).standard_errors[2]
    assert (high - low) / (2 * 1.96 * error) == pytest.approx(1, abs=0.35)  # groups are no more alike than words
    gain = held_out_log_probs(design, times, groups % 10) - held_out_log_probs(design[:, :2], times, groups % 10)
    power = mean_by_group(gain, groups)
    assert power.value == pytest.approx(gain.mean())
    assert 0.1 < power.interval[0] < power.value < power.interval[1]


def test_columns_that_follow_from_others_and_too_few_words_are_refused() -> None:
    with pytest.raises(SettingError, match="a predictor follows from the others"):
        least_squares(np.column_stack([np.ones(5), np.arange(5.0), 2 * np.arange(5.0) + 1]), np.arange(5.0))
    with pytest.raises(SettingError, match="2 words for a regression with 2 coefficients"):
        least_squares(np.ones((2, 2)), np.ones(2))


def test_a_shift_shows_in_the_profile() -> None:
    """Times follow the word and the one before; one word early, they follow the next word."""
    rng = np.random.default_rng(0)
    values, stories = rng.normal(0, 1, 2000), np.arange(2000) // 500
    times = values + 0.5 * np.roll(values, 1) + rng.normal(0, 1, 2000)
    profile = lag_profile(times, values, stories)
    by_lag = dict(zip(LAGS, profile, strict=True))
    inside = stories[1:] == stories[:-1]
    assert by_lag[0] == pytest.approx(np.corrcoef(times, values)[0, 1])
    assert by_lag[-1] == pytest.approx(np.corrcoef(times[1:][inside], values[:-1][inside])[0, 1])
    assert not seems_shifted(times, values, stories)
    early = np.append(times[1:], np.nan)
    assert seems_shifted(early, values, stories)
    assert lag_profile(early, values, stories)[LAGS.index(1)] == pytest.approx(by_lag[0], abs=0.01)
    assert math.isnan(lag_profile(times, np.ones(2000), stories)[0])


@pytest.mark.parametrize(("stories", "words"), [(4, 150), (60, 12)])
def test_noise_and_right_times_are_hardly_ever_taken_for_shifted_ones(stories: int, words: int) -> None:
    """A warning by chance alone has a probability of 5 % at most: more than 9 of 80 have one of 1 %."""
    counts = {"noise": 0, "right": 0, "early": 0}
    for seed in range(80):
        rng = np.random.default_rng(seed)
        size = stories * words
        of, values, noise = np.repeat(np.arange(stories), words), rng.normal(0, 1, size), rng.normal(0, 2, size)
        right = values + 0.5 * np.roll(values, 1) + noise
        for name, times in (("noise", noise), ("right", right), ("early", np.append(right[1:], np.nan))):
            counts[name] += seems_shifted(times, values, of)
    assert counts["noise"] < 9
    assert counts["right"] < 9
    assert counts["early"] == 80


def test_a_profile_of_words_without_times_is_as_numpy_computes_it() -> None:
    rng = np.random.default_rng(1)
    times, values, stories = rng.normal(400, 20, 30), rng.normal(5, 1, 30), np.repeat([0, 1, 2], 10)
    times[rng.choice(30, 5, replace=False)] = np.nan
    pairs = [(times[i], values[i + 2]) for i in range(28) if stories[i] == stories[i + 2] and np.isfinite(times[i])]
    expected = np.corrcoef(*np.array(pairs).T)[0, 1]
    assert lag_profile(times, values, stories)[LAGS.index(2)] == pytest.approx(expected, rel=1e-12)
