"""The likeliest words and drawn ones, without whole distributions: held to the distributions themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import BEGIN, END, UNKNOWN, random_backoff_grams, table_of, wild_table

from chainrule.base.distributions import top_of
from chainrule.errors import ModelFormatError, SettingError
from chainrule.ngram.models.table_models import NGramModel

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZE = 12


def model_of(seed: int, order: int) -> NGramModel:
    return NGramModel(table_of(random_backoff_grams(seed, SIZE, order), order))


def states(model: NGramModel, seed: int, rows: int = 20) -> np.ndarray:
    chance = np.random.default_rng(seed)
    words = [word for word in range(SIZE) if word != BEGIN]
    return model.start([chance.choice(words, chance.integers(0, 6)).astype(np.int32) for _ in range(rows)])


MODELS = st.builds(model_of, st.integers(0, 10**6), st.integers(1, 5))


@given(MODELS, st.integers(0, 99), st.integers(1, SIZE + 3))
def test_the_likeliest_words_are_those_of_the_sorted_distribution(model: NGramModel, seed: int, k: int) -> None:
    state = states(model, seed)
    log_probs, tokens = model.top(state, k)
    expected_log_probs, expected_tokens = top_of(model.next_log_probs(state), k)
    np.testing.assert_array_equal(tokens, expected_tokens)
    np.testing.assert_array_equal(log_probs, expected_log_probs)


def test_equally_likely_words_come_by_lower_id_though_back_off_rounds_them_together() -> None:
    third = np.log(1 / 3)
    grams = {(i,): (third - 1e-6 * i, 0.0) for i in range(6)}  # apart here, and together where 2000 is added
    grams |= {(BEGIN,): (-np.inf, 0.0), (3,): (third, -2000.0), (3, 4): (0.0, 0.0)}
    model = NGramModel(table_of(grams, 2))
    _, [tokens] = model.top(model.start([np.array([3], np.int32)]), 6)
    assert tokens.tolist() == [4, 0, 2, 3, 5, BEGIN]


def drawn_by_naive_inversion(model: NGramModel, state: np.ndarray, uniform: float, banned: Sequence[int]) -> int:
    """The words in the order of the walk: those after the longest context first, then the next, by id in each."""
    [row] = np.exp(model.next_log_probs(state).astype(np.float64))
    table = model.table
    order: list[int] = []
    for context in [*state[0][::-1].tolist(), 0]:
        if 0 <= context < table.log_backoffs.size:
            order += sorted(set(table.words[table.begin[context] : table.begin[context + 1]].tolist()) - set(order))
    order = [word for word in order if word not in banned]
    cumulative = np.cumsum(row[order])
    return order[int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))]


@given(
    MODELS,
    st.integers(0, 99),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=20, max_size=20),
    st.lists(st.integers(0, SIZE - 1), max_size=6),
)
def test_a_draw_inverts_the_distribution(
    model: NGramModel, seed: int, uniforms: list[float], banned: list[int]
) -> None:
    state = states(model, seed)
    log_probs, tokens = model.draw(state, np.array(uniforms), banned)
    rows = model.next_log_probs(state)
    assert tokens.dtype == np.int32
    assert not set(tokens.tolist()) & {BEGIN, *banned}
    np.testing.assert_array_equal(log_probs, rows[np.arange(20), tokens])
    for i, (token, uniform) in enumerate(zip(tokens.tolist(), uniforms, strict=True)):
        close = {drawn_by_naive_inversion(model, state[i : i + 1], u, banned) for u in near(uniform)}
        assert token in close


def near(uniform: float) -> list[float]:
    """The number itself and its neighbours: float32 probabilities move the borders between words a little."""
    return [min(max(uniform + d, 0), 1 - 1e-9) for d in (-3e-6, 0, 3e-6)]


def test_draws_are_spread_as_the_distribution_says() -> None:
    model = model_of(7, 4)
    state = model.start([np.array([3, 4], np.int32)])
    draws = 100_000
    many = model.select(state, np.zeros(draws, np.int32))
    _, tokens = model.draw(many, np.random.default_rng(5).random(draws), [UNKNOWN])
    [row] = np.exp(model.next_log_probs(state).astype(np.float64))
    row[UNKNOWN] = 0
    expected = row / row.sum() * draws
    counts = np.bincount(tokens, minlength=SIZE)
    possible = expected > 0
    statistic = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
    assert counts[~possible].sum() == 0
    assert possible.sum() == SIZE - 2
    assert statistic < 27.88  # chi-square with 9 degrees of freedom: once in a thousand times


def test_what_is_left_beside_nearly_all_is_still_drawn_in_proportion() -> None:
    grams = {(word,): (np.log(p), 0.0) for word, p in ((UNKNOWN, 1 - 3e-9), (END, 1e-9), (3, 2e-9))}
    model = NGramModel(table_of(grams | {(BEGIN,): (-np.inf, 0.0)}, 1))
    uniforms = np.array([0, 0.3, 0.34, 0.99])
    _, tokens = model.draw(model.start([[]] * 4), uniforms, [UNKNOWN])
    assert tokens.tolist() == [END, END, 3, 3]


@pytest.mark.parametrize("order", [1, 3])
def test_where_all_is_banned_there_is_nothing_to_draw(order: int) -> None:
    model = model_of(1, order)
    with pytest.raises(SettingError, match="there is no token to draw"):
        model.draw(model.start([[]]), np.array([0.5]), range(SIZE))


def test_a_number_that_is_not_a_number_is_an_error_of_ours() -> None:
    table = table_of(random_backoff_grams(3, SIZE, 2), 2)
    table.log_probs[5] = np.nan
    model = NGramModel(table)
    with pytest.raises(ModelFormatError, match="NaN"):
        model.top(model.start([[]]), SIZE)


@pytest.mark.parametrize("seed", range(300))
def test_damaged_tables_give_errors_of_ours_or_ids_of_the_vocabulary(seed: int) -> None:
    table = wild_table(seed)
    model = NGramModel(table)
    chance = np.random.default_rng(seed)
    prefixes = [chance.integers(0, model.vocabulary_size, 4).astype(np.int32) for _ in range(3)]
    with np.errstate(all="ignore"):
        state = model.start(prefixes)
        for choose in (lambda: model.top(state, 3), lambda: model.draw(state, np.array([0, 0.5, 0.999]), [0])):
            try:
                _, tokens = choose()
            except (ModelFormatError, SettingError):
                continue
            assert tokens.min() >= 0
            assert tokens.max() < model.vocabulary_size
