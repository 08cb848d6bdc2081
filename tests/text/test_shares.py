"""Exact shares and whose turn it is."""

from fractions import Fraction
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.errors import SettingError
from chainrule.text.shares import exact_shares, turns


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([0.8, 0.1, "0.1"], (Fraction(4, 5), Fraction(1, 10), Fraction(1, 10))),
        (["1/3", "2/3"], (Fraction(1, 3), Fraction(2, 3))),
        ([1], (Fraction(1),)),
    ],
)
def test_shares_are_read_as_they_are_written(shares, expected) -> None:
    assert exact_shares(shares) == expected


@pytest.mark.parametrize(
    ("shares", "told"),
    [
        ([0.8, 0.1], r"the shares 0\.8 \+ 0\.1 add up to 0\.9, expected 1"),
        ([0.33, 0.33, 0.33], "add up to 0.99, expected 1; a third is 1/3"),
        ([], "the shares nothing add up to 0"),
        ([1.5, -0.5], "a share is -0.5, expected a number above 0"),
        ([1, 0], "a share is 0, expected a number above 0"),
        (["a"], "a share is 'a', expected a number above 0, such as 0.3 or 1/3"),
        (["1/0"], "a share is '1/0'"),
        ([float("nan")], "a share is nan"),
        ([float("inf")], "a share is inf"),
    ],
)
def test_bad_shares_are_told(shares, told: str) -> None:
    with pytest.raises(SettingError, match=told):
        exact_shares(shares)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(1, 300))
def test_nobody_ever_has_less_than_its_share(weights: list[int], count: int) -> None:
    shares = [Fraction(weight, sum(weights)) for weight in weights]
    taken = [0] * len(shares)
    for number, turn in enumerate(islice(turns(shares), count), 1):
        taken[turn] += 1
        assert all(got >= int(number * share) for got, share in zip(taken, shares, strict=True))


def test_a_tenth_gets_every_tenth_turn() -> None:
    assert list(islice(turns([Fraction(9, 10), Fraction(1, 10)]), 40)) == [0, 0, 0, 0, 0, 0, 0, 0, 0, 1] * 4
