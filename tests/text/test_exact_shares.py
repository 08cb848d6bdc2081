"""Exact shares and whose turn it is."""

from fractions import Fraction
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.errors import SettingError
from chainrule.text.corpus.splits import exact_shares, turns


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([0.8, 0.1, "0.1"], (Fraction(4, 5), Fraction(1, 10), Fraction(1, 10))),
        (["1/3", "2/3"], (Fraction(1, 3), Fraction(2, 3))),
        ([1], (Fraction(1),)),
        ([".5", 0.49999, 1e-05], (Fraction(1, 2), Fraction(49999, 100000), Fraction(1, 100000))),
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
        ([0.5, -0.5], "a share is -0.5, expected a number above 0 and at most 1"),
        ([1.5, 0.5], "a share is 1.5, expected a number above 0 and at most 1"),
        ([1e308, 1e308], "a share is 1e[+]308, expected"),
        (["1e400", "1"], "a share is '1e400', expected a number .*, without an exponent"),
        (["0.1e99999999", "0.9"], "a share is '0.1e99999999', expected"),
        (["1", "1e-400"], "a share is '1e-400', expected"),
        (["0." + "3" * 99, "1/3"], r"a share is '0\.3{38}\.\.\.', expected .*, in at most 40 characters"),
        (["1/3", "0." + "6" * 9], "add up to a little less than 1, expected 1"),
        (["1", "0.00000000000000000001"], "add up to a little more than 1, expected 1"),
        ([1, 0], "a share is 0, expected a number above 0"),
        (["a"], "a share is 'a', expected a number above 0 and at most 1, such as 0.3 or 1/3"),
        (["1/0"], "a share is '1/0'"),
        ([float("nan")], "a share is nan"),
        ([float("inf")], "a share is inf"),
    ],
)
def test_shares_that_do_not_sum_to_one_are_an_error(shares, told: str) -> None:
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
