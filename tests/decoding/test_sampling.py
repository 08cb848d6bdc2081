from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import BEGIN, END, UNKNOWN
from sampled_texts import FOUR_FREE, NOTHING, PROBS, Fixed, all_drawn, chi_square, sampled, samples

from chainrule.decoding.limits import Constraints
from chainrule.decoding.next_token import min_p
from chainrule.decoding.sampling import sample, steps
from chainrule.errors import SettingError
from chainrule.mixture.uniform import UniformModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.ngram.models.table_models import NGramModel


def test_the_same_seed_gives_the_same_texts_and_another_one_others(trigram: NGramModel) -> None:
    texts = sampled(trigram, 20, seed=5)
    assert texts == sampled(trigram, 20, seed=5)
    assert texts != sampled(trigram, 20, seed=6)
    assert len({tuple(text) for text in texts}) > 10  # the rows are not copies of one another


def test_a_row_is_drawn_the_same_whatever_else_is_in_the_batch(trigram: NGramModel) -> None:
    prefixes = [np.array(words, np.int32) for words in ([], [3], [4, 5], [UNKNOWN, 3, 6])]
    for settings in (
        {},
        {"temperature": 0.7},
        {"top_k": 3},
        {"top_p": 0.8},
        {"min_p": 0.1},
        {"typical": 0.7},
        {"no_repeat": 2},
        {"repetition_penalty": 1.5},
        {"allowed": [3, 4, 5]},
    ):
        together = samples(trigram, prefixes, seed=3, max_tokens=30, **settings)
        for row in range(len(prefixes)):
            fewer = samples(trigram, prefixes[: row + 1], seed=3, max_tokens=30, **settings)
            others = [NOTHING] * row + [prefixes[row]] + [NOTHING] * 5
            among = samples(trigram, others, seed=3, max_tokens=30, **settings)
            assert fewer[row].tokens.tolist() == among[row].tokens.tolist() == together[row].tokens.tolist()


def test_a_row_keeps_its_own_random_stream_when_others_have_ended() -> None:
    probs = [0, 0, 0.25, 0.5, 0.25]
    texts = sampled(Fixed(probs), 40, seed=9, max_tokens=6)
    for row, text in enumerate(texts):
        draws = np.random.default_rng([9, row]).random(6).tolist()
        words = [END if draw < 0.25 else 3 if draw < 0.75 else 4 for draw in draws]
        assert text == (words[: words.index(END)] if END in words else words)
    assert len({len(text) for text in texts}) > 4


class AtTheEdge:
    """A generator whose draw is the smallest or the largest that there is."""

    def __init__(self, draw: float) -> None:
        self.draw = draw

    def random(self) -> float:
        return self.draw


@pytest.mark.parametrize(("draw", "token"), [(0.0, 3), (1 - 2**-53, 4)])
def test_the_smallest_and_the_largest_draw_fall_on_tokens_with_a_probability(
    draw: float, token: int, monkeypatch
) -> None:
    monkeypatch.setattr(np.random, "default_rng", lambda seed: AtTheEdge(draw))
    assert sampled(Fixed([0, 0, 0, 0.3, 0.7, 0]), max_tokens=3) == [[token] * 3]


@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
def test_a_hundred_thousand_draws_are_spread_as_the_distribution_says(temperature: float) -> None:
    drawn = all_drawn(Fixed(PROBS), temperature=temperature)
    weights = [prob ** (1 / temperature) for prob in PROBS]
    assert chi_square(drawn, [weight / sum(weights) for weight in weights]) < FOUR_FREE


def test_where_a_low_temperature_keeps_few_draws_the_rest_come_from_whole_distributions() -> None:
    probs = [0.0, 0.0, 0.0, 0.03, 0.026, 0.025, 0.024, 0.023, *[0.001] * 872]
    drawn = [token for text in sampled(Fixed(probs), 100, max_tokens=50, temperature=0.1) for token in text]
    weights = [prob**10 for prob in probs]
    likely = [weight / sum(weights) for weight in weights[:8]]  # of the rest, not one in 10^11 draws
    assert chi_square(drawn, likely) < FOUR_FREE


def test_the_first_draws_of_many_rows_are_spread_as_the_distribution_says() -> None:
    drawn = [token for [token] in sampled(Fixed(PROBS), 20_000, max_tokens=1)]
    assert chi_square(drawn, PROBS) < FOUR_FREE


def test_what_is_banned_is_never_drawn_and_the_rest_keeps_its_proportions() -> None:
    drawn = all_drawn(Fixed([0.3, 0.0, 0.0, 0.2, 0.3, 0.1, 0.05, 0.05]), banned=[UNKNOWN, 4])
    # 0.2, 0.1, 0.05, 0.05 of 0.4; with 3 degrees of freedom the statistic exceeds 16.27 once in a thousand times.
    assert chi_square(drawn, [0, 0, 0, 0.5, 0, 0.25, 0.125, 0.125]) < 16.27


def test_a_banned_token_is_never_chosen_even_as_the_likeliest() -> None:
    assert sampled(Fixed([0.6, 0, 0, 0.1, 0.3]), max_tokens=3, temperature=0, banned=[UNKNOWN]) == [[4, 4, 4]]


def test_banning_does_not_write_into_the_models_own_array() -> None:
    model = Fixed([0.5, 0, 0, 0.5])
    sampled(model, banned=[UNKNOWN])
    assert model.next_log_probs(np.empty((1, 0)))[0, UNKNOWN] == np.float32(math.log(0.5))


def test_temperature_0_always_chooses_the_likeliest_token(trigram: NGramModel) -> None:
    prefixes = [np.array(words, np.int32) for words in ([], [3], [4, 5])]
    for prefix, text in zip(prefixes, samples(trigram, prefixes, max_tokens=9, temperature=0), strict=True):
        words = prefix.tolist()
        for _ in range(9):
            row = trigram.next_log_probs(trigram.start([np.array(words, np.int32)]))[0].tolist()
            best = min(range(len(row)), key=lambda token: (-row[token], token))
            if best == END:
                break
            words.append(best)
        assert text.tokens.tolist() == words[len(prefix) :]


@pytest.mark.parametrize("temperature", [0.5, 1, 2])
def test_a_share_of_0_takes_the_likeliest_token_and_a_least_share_of_0_cuts_nothing(
    trigram: NGramModel, temperature: float
) -> None:
    likeliest = sampled(trigram, 4, temperature=0, max_tokens=20)
    assert sampled(trigram, 4, temperature=temperature, top_p=0, max_tokens=20) == likeliest
    weights = np.array([[-2.0, -1.0, -np.inf, -0.3]]) / temperature
    np.testing.assert_array_equal(min_p(weights, 0), weights)
    assert len(sampled(trigram, 4, temperature=temperature, min_p=0, max_tokens=20)) == 4


def test_of_equally_likely_tokens_temperature_0_takes_that_of_the_lowest_id() -> None:
    assert sampled(UniformModel(6), max_tokens=2, temperature=0, banned=[UNKNOWN, END]) == [[3, 3]]


@given(st.floats(0, 1.7e308), st.integers(0, 10))
def test_any_temperature_draws_only_what_has_a_probability(temperature: float, seed: int) -> None:
    [drawn] = sampled(Fixed([0, 0, 0, 0.6, 0.4, 0]), temperature=temperature, seed=seed)
    assert len(drawn) == 20
    assert set(drawn) <= {3, 4}


@pytest.mark.parametrize("temperature", [1e-320, 1e-50, 1e-3])
def test_a_tiny_temperature_takes_the_likeliest_token(temperature: float) -> None:
    assert sampled(Fixed([0, 0, 0, 0.4, 0.6]), temperature=temperature) == [[4] * 20]


@pytest.mark.parametrize("certain", [UNKNOWN, 3, 5])
def test_a_token_that_alone_has_a_probability_is_always_drawn(certain: int) -> None:
    probs = [1.0 if token == certain else 0.0 for token in range(6)]
    assert sampled(Fixed(probs), 50, max_tokens=4) == [[certain] * 4] * 50


@pytest.mark.parametrize("temperature", [0, 1])
def test_a_model_that_must_end_at_once_gives_empty_texts(temperature: float) -> None:
    assert sampled(Fixed([0, 0, 1.0, 0]), 3, temperature=temperature) == [[], [], []]


def test_texts_stop_at_the_end_which_is_not_returned(trigram: NGramModel) -> None:
    texts = sampled(trigram, 50, max_tokens=100)
    assert all(END not in text and BEGIN not in text for text in texts)
    assert len({len(text) for text in texts}) > 5


def test_texts_are_never_longer_than_asked(trigram: NGramModel) -> None:
    long = sampled(trigram, 50, max_tokens=100)
    for limit in (0, 1, 3):
        assert sampled(trigram, 50, max_tokens=limit) == [text[:limit] for text in long]


def test_no_prefixes_give_no_texts(trigram: NGramModel) -> None:
    assert sampled(trigram, 0) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_tokens": -1}, "max_tokens is -1; expected 0 or more"),
        ({"temperature": -0.1}, "temperature is -0.1; expected 0"),
        ({"temperature": math.inf}, "temperature is inf"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"seed": -1}, "seed is -1; expected 0 or more"),
        ({"banned": [7]}, "there is no token 7: ids run from 0 to 6"),
        ({"banned": [-1]}, "there is no token -1"),
        ({"banned": [0, 3, 4, 5, 6]}, "no token to draw"),  # </s> has no probability
        ({"banned": [0, 3, 4, 5, 6], "temperature": 0}, "no token to draw"),
    ],
    ids=str,
)
def test_impossible_settings_are_errors_that_name_them(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        sampled(Fixed(PROBS), **settings)


def test_prefixes_outside_the_vocabulary_are_errors() -> None:
    with pytest.raises(SettingError, match="there is no token 9"):
        samples(UniformModel(6), [np.array([9], np.int32)])


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.5}, {"top_k": 4}])
def test_a_batch_that_is_cut_gives_the_same_texts(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    prefixes = [np.array([3], np.int32)] * 7
    whole_batch = samples(UniformModel(20), prefixes, seed=5, max_tokens=9, **settings)
    monkeypatch.setattr("chainrule.decoding.sampling.MAX_PROBS", 45)
    monkeypatch.setattr("chainrule.decoding.next_token.MAX_PROBS", 45)
    monkeypatch.setattr("chainrule.decoding.sampling.MIN_BATCH", 3)
    parts = samples(UniformModel(20), prefixes, seed=5, max_tokens=9, **settings)
    assert [text.tokens.tolist() for text in parts] == [text.tokens.tolist() for text in whole_batch]


def test_progress_counts_finished_texts() -> None:
    told: list[tuple[float, float | None]] = []
    sample(
        Fixed([0, 0, 0.5, 0.5]),
        [NOTHING, NOTHING],
        seed=1,
        texts_per_prefix=3,
        progress=lambda task, done, total: told.append((done, total)),
    )
    assert told == sorted(told)
    assert told[-1] == (6, 6)


def test_each_prefix_gets_as_many_texts_as_asked_one_prefix_after_the_other(trigram: NGramModel) -> None:
    prefixes = [np.array([3], np.int32), NOTHING]
    made = sample(trigram, prefixes, seed=2, texts_per_prefix=3)
    one_by_one = sample(trigram, [prefixes[0]] * 3 + [prefixes[1]] * 3, seed=2)
    assert [text.tokens.tolist() for text in made] == [text.tokens.tolist() for text in one_by_one]


def test_log_probs_are_those_of_scoring_the_text_afterwards(trigram: NGramModel) -> None:
    prefixes = [np.array(words, np.int32) for words in ([], [3], [4, 5])] * 5
    for settings in ({}, {"temperature": 2.0}, {"top_k": 2}, {"top_p": 0.7}, {"temperature": 0}, {"begin": [4, 6]}):
        for prefix, text in zip(prefixes, samples(trigram, prefixes, max_tokens=8, **settings), strict=True):
            [expected] = trigram.score([text.tokens], prefixes=[prefix], end=text.ending == "end")
            np.testing.assert_allclose(text.log_probs, expected, atol=1e-5)
            assert text.log_prob == pytest.approx(expected.sum(), abs=1e-4)
            assert text.ending == ("length" if len(text.tokens) == 8 and text.log_probs.size == 8 else "end")


def test_a_step_is_reported_with_the_token_of_every_open_text(trigram: NGramModel) -> None:
    rows: dict[int, list[int]] = {}
    still_open = set(range(6))
    for step in steps(trigram, [NOTHING] * 6, constraints=Constraints(max_tokens=7), seed=4):
        assert set(step.texts.tolist()) == still_open
        for text, token, is_open in zip(step.texts.tolist(), step.tokens.tolist(), step.is_open.tolist(), strict=True):
            rows.setdefault(text, []).append(token)
            assert is_open == (token != END)
        still_open = set(step.texts[step.is_open].tolist())
    made = sample(trigram, [NOTHING] * 6, constraints=Constraints(max_tokens=7), seed=4)
    for number, text in enumerate(made):
        assert rows[number] == text.tokens.tolist() + ([END] if text.ending == "end" else [])


def test_texts_may_be_numbered_from_elsewhere_and_are_then_the_same_as_there(trigram: NGramModel) -> None:
    made = sample(trigram, [NOTHING] * 4, seed=8)
    tokens = [step.tokens.tolist()[0] for step in steps(trigram, [NOTHING], seed=8, first=3)]
    assert tokens[: len(made[3].tokens)] == made[3].tokens.tolist()


def test_a_text_stops_where_the_caller_says(trigram: NGramModel) -> None:
    seen: list[tuple[int, list[int]]] = []

    def three_long(number: int, tokens: Sequence[int]) -> bool:
        seen.append((number, list(tokens)))
        return len(tokens) == 3

    made = sample(
        trigram,
        [np.array([3, 4], np.int32)],
        constraints=Constraints(begin=[5]),
        seed=1,
        texts_per_prefix=9,
        until=three_long,
    )
    assert {text.ending for text in made} == {"stop", "end"}
    assert all(len(text.tokens) == 3 for text in made if text.ending == "stop")
    assert all(tokens[0] == 5 and 2 <= len(tokens) <= 3 for _, tokens in seen)


# Each setting against the distribution that its definition gives, by hand.


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"top_k": 0}, "top_k is 0; expected 1 or more"),
        ({"top_p": -0.1}, "top_p is -0.1; expected 0 to 1"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"min_p": -1}, "min_p is -1"),
        ({"typical": math.nan}, "typical is nan"),
        ({"repetition_penalty": 0.5}, "repetition_penalty is 0.5; expected 1"),
        ({"min_tokens": 9, "max_tokens": 3}, "min_tokens is 9, more than max_tokens, 3"),
        ({"min_tokens": -1}, "min_tokens is -1"),
        ({"no_repeat": -1}, "no_repeat is -1"),
        ({"begin": [3, 4], "max_tokens": 1}, "begin has 2 tokens, more than max_tokens, 1"),
        ({"begin": [3], "banned": [3]}, "must begin with token 3, which is not allowed"),
        ({"begin": [3], "allowed": [4]}, "must begin with token 3, which is not allowed"),
        ({"begin": [END]}, "begin has the token 2, which ends a text"),
        ({"allowed": []}, "no token is allowed"),
        ({"allowed": [4], "banned": [4, END]}, "no token to choose from"),
        ({"allowed": [BEGIN], "min_tokens": 1}, "no token to choose from"),
        ({"allowed": [9]}, "there is no token 9"),
        ({"begin": [9]}, "there is no token 9"),
    ],
    ids=str,
)
def test_contradictory_settings_are_errors_that_say_so(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        sampled(Fixed(PROBS), **settings)


def test_a_text_that_no_rule_lets_go_on_is_an_error() -> None:
    with pytest.raises(SettingError, match="there is no token to draw"):
        sampled(Fixed([0, 0, 0.2, 0.8]), no_repeat=1, min_tokens=2, max_tokens=3)
