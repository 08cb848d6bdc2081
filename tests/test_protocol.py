from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.base.arguments import check_tokens
from chainrule.base.distributions import check_log_probs, top_of
from chainrule.errors import ModelFormatError, SettingError

FEW_VALUES = st.sampled_from([-np.inf, -3.0, -1.0, -0.5])  # so that many are equal


@st.composite
def rows_with_equals(draw: st.DrawFn) -> list[list[float]]:
    size = draw(st.integers(1, 9))
    return draw(st.lists(st.lists(FEW_VALUES, min_size=size, max_size=size), min_size=1))


@given(rows_with_equals(), st.integers(1, 12))
def test_top_of_equals_sorting_each_row_with_equal_ones_by_lower_id(rows: list[list[float]], k: int) -> None:
    log_probs, tokens = top_of(np.array(rows, np.float32), k)
    for row, found, best in zip(rows, log_probs.tolist(), tokens.tolist(), strict=True):
        expected = sorted(range(len(row)), key=lambda token: (-row[token], token))[:k]
        assert best == expected
        assert found == [row[token] for token in expected]


def test_top_of_a_row_that_holds_nan_is_an_error_of_ours() -> None:
    with pytest.raises(ModelFormatError, match="NaN"):
        top_of(np.array([[0.0, np.nan, -1.0]], np.float32), 3)


def test_top_of_no_rows_is_none() -> None:
    log_probs, tokens = top_of(np.empty((0, 5), np.float32), 3)
    assert log_probs.shape == tokens.shape == (0, 3)


@pytest.mark.parametrize("k", [0, -2])
def test_top_of_less_than_one_is_an_error(k: int) -> None:
    with pytest.raises(SettingError, match=f"k is {k}; expected 1 or more"):
        top_of(np.zeros((1, 5), np.float32), k)


@pytest.mark.parametrize("tokens", [[], [0], [0, 4], [4, 4, 0]])
def test_ids_of_the_vocabulary_pass(tokens: list[int]) -> None:
    check_tokens(np.array(tokens, np.int32), 5)


@pytest.mark.parametrize(("tokens", "worst"), [([5], 5), ([0, -1], -1), ([7, 3], 7), ([-2, 9], -2)])
def test_an_id_outside_the_vocabulary_is_named_with_the_range(tokens: list[int], worst: int) -> None:
    with pytest.raises(SettingError, match=f"no token {worst}: ids run from 0 to 4"):
        check_tokens(np.array(tokens, np.int32), 5)


@pytest.mark.parametrize("log_probs", [[], [-np.inf], [0.0, -1.0], [1e-6], [[-1e38, 80.0]]])
def test_log_probabilities_may_pass_zero_by_a_little(log_probs: list[float]) -> None:
    check_log_probs(np.array(log_probs, np.float32))


@pytest.mark.parametrize("odd", [np.nan, np.inf, 89.0])
def test_what_comes_from_no_probability_is_a_format_error(odd: float) -> None:
    with pytest.raises(ModelFormatError, match=rf"a log-probability of {odd}; .* try chainrule verify"):
        check_log_probs(np.array([[-1.0, odd], [-2.0, 0.0]], np.float32))
