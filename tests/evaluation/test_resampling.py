"""Intervals and tests against arithmetic by hand, and against what chance does."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from chainrule.evaluation import resampling
from chainrule.evaluation.resampling import Documents, Estimate, difference, interval, interval_of_sums, p_value_of_sums


def documents(nats: list[float], sizes: list[int] | None = None) -> Documents:
    return Documents(np.array(nats, float), np.array(sizes or [1] * len(nats), np.int64))


def test_documents_that_are_all_alike_leave_no_doubt() -> None:
    low, high = interval(documents([3.0, 6.0, 9.0], [1, 2, 3]))  # 3 nats a byte each
    assert low == pytest.approx(3 / math.log(2))
    assert high == pytest.approx(3 / math.log(2))


def test_the_interval_is_as_wide_as_the_normal_approximation_says() -> None:
    rng = np.random.default_rng(3)
    nats = rng.normal(10, 2, 400) * math.log(2)
    low, high = interval(documents(nats.tolist()))
    mean, error = nats.mean() / math.log(2), nats.std() / math.log(2) / 20
    assert low == pytest.approx(mean - 1.96 * error, abs=0.15 * error + 1e-9)
    assert high == pytest.approx(mean + 1.96 * error, abs=0.15 * error + 1e-9)


def test_the_same_documents_give_the_same_interval() -> None:
    some = documents([1.0, 2.0, 5.0, 3.0], [1, 1, 2, 1])
    assert interval(some) == interval(some)
    assert difference(some, documents([2.0, 2.0, 4.0, 3.5])) == difference(some, documents([2.0, 2.0, 4.0, 3.5]))


def test_what_is_impossible_or_single_has_no_interval() -> None:
    assert interval(documents([1.0, math.inf])) == (math.inf, math.inf)
    assert all(map(math.isnan, interval(documents([1.0]))))
    found = difference(documents([1.0, math.inf]), documents([1.0, 2.0]))
    assert found.bits_per_byte == math.inf
    assert math.isnan(found.p_value)
    assert math.isnan(difference(documents([1.0]), documents([2.0])).p_value)


def test_the_p_value_of_a_ratio_of_sums_is_the_share_of_all_swaps_that_differ_as_much() -> None:
    rng = np.random.default_rng(3)
    ours, theirs = rng.integers(1, 9, (6, 2)), rng.integers(1, 9, (6, 2))

    def ratio(sums: np.ndarray) -> np.ndarray:
        return sums[..., 0] / sums[..., 1]

    gaps = []
    for swaps in itertools.product([False, True], repeat=6):
        swapped = np.array(swaps)[:, None]
        one, other = np.where(swapped, theirs, ours), np.where(swapped, ours, theirs)
        gaps.append(abs(ratio(one.sum(0)) - ratio(other.sum(0))))
    exact = np.mean([gap >= gaps[0] - 1e-12 for gap in gaps])
    assert p_value_of_sums(ours, theirs, ratio) == pytest.approx(exact, abs=0.02)
    assert math.isnan(p_value_of_sums(ours[:1], theirs[:1], ratio))


def test_the_p_value_is_the_share_of_all_swaps_that_differ_as_much() -> None:
    ours, theirs = [1.0, 2.0, 3.5, 1.0, 4.0, 2.0], [1.5, 2.5, 3.0, 2.0, 4.25, 2.75]
    differences = np.subtract(ours, theirs)
    swaps = [abs(np.dot(signs, differences)) for signs in itertools.product([-1, 1], repeat=6)]
    exact = np.mean([swap >= abs(differences.sum()) - 1e-9 for swap in swaps])
    found = difference(documents(ours), documents(theirs))
    assert found.p_value == pytest.approx(exact, abs=0.015)
    assert found.bits_per_byte == pytest.approx(-2.5 / 6 / math.log(2))
    low, high = found.interval
    assert low < found.bits_per_byte < high


def test_equal_models_do_not_differ_and_clear_differences_are_significant() -> None:
    rng = np.random.default_rng(8)
    nats = rng.normal(100, 20, 300)
    same = difference(documents(nats.tolist()), documents(nats.tolist()))
    assert (same.bits_per_byte, same.p_value) == (0.0, 1.0)
    worse = difference(documents((nats + rng.normal(1, 2, 300)).tolist()), documents(nats.tolist()))
    assert worse.p_value == pytest.approx(1 / 10_001)
    assert worse.interval[0] > 0


def test_many_documents_are_resampled_in_runs_of_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "UNITS", 4)
    assert resampling._units(np.arange(10)).tolist() == [0 + 1 + 2, 3 + 4 + 5, 6 + 7 + 8, 9]
    assert resampling._units(np.arange(4)).tolist() == [0, 1, 2, 3]


def test_documents_without_a_byte_are_left_out() -> None:
    some, with_empty = documents([1.0, 2.0], [2, 3]), documents([1.0, 0.0, 2.0, 0.0], [2, 0, 3, 0])
    other = documents([2.0, 2.5], [2, 3]), documents([2.0, 0.0, 2.5, 0.0], [2, 0, 3, 0])
    assert interval(with_empty) == interval(some)
    assert difference(with_empty, other[1]) == difference(some, other[0])
    assert all(map(math.isnan, interval(documents([0.0, 0.0], [0, 0]))))
    assert difference(documents([0.0, 0.0], [0, 0]), documents([0.0, 0.0], [0, 0])).bits_per_byte == 0


def test_the_interval_of_a_function_of_sums_is_that_of_bits_per_byte() -> None:
    rng = np.random.default_rng(5)
    nats, sizes = rng.gamma(2.0, 10.0, 12_000).round(), rng.integers(1, 9, 12_000)  # more than are drawn one by one
    rows = np.stack([nats.astype(np.int64), sizes], axis=1)
    found = interval_of_sums([rows], lambda sums: sums[:, 0] / sums[:, 1] / math.log(2))
    assert found == pytest.approx(interval(documents(nats.tolist(), sizes.tolist())))


def test_the_same_documents_are_drawn_for_all_systems() -> None:
    ours = np.array([[3, 10], [0, 12], [5, 9], [1, 30]])
    better = ours - [1, 0]  # by one on every document, so the difference is as sure as the sizes
    low, high = interval_of_sums([ours, better], lambda a, b: (a[:, 0] - b[:, 0]) / 4)
    assert low == high == pytest.approx(1)
    assert all(map(math.isnan, interval_of_sums([ours[:1]], lambda a: a[:, 0])))


@pytest.mark.filterwarnings("error")
def test_an_interval_may_end_at_infinity() -> None:
    """Errors and words of two texts, of which the second has no words: a quarter of all draws has none."""
    sums = np.array([[1, 4], [2, 0]])

    def rate(drawn: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return drawn[:, 0] / drawn[:, 1]

    found = interval_of_sums([sums], rate)
    assert found == (1 / 4, math.inf)
    assert Estimate(3 / 4, found).percent() == "75.00 % (25.00 to inf)"
    assert Estimate(3 / 4, found).as_json() == {"value": 0.75, "interval": [0.25, "Infinity"]}
    assert Estimate(3 / 4, (math.nan, math.nan)).percent() == "75.00 %"
    assert Estimate(3 / 4, (math.nan, math.nan)).as_json() == {"value": 0.75, "interval": [None, None]}
