from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import BEGIN, END, UNKNOWN, random_backoff_grams, table_of

from chainrule.decoding.sampling import sample
from chainrule.errors import SettingError
from chainrule.ngram.model import NGramModel
from chainrule.uniform import UniformModel

if TYPE_CHECKING:
    from collections.abc import Sequence


class Fixed(UniformModel):
    """The same distribution whatever came before; it gives out its own array, as a model may."""

    def __init__(self, probs: Sequence[float]) -> None:
        super().__init__(len(probs))
        with np.errstate(divide="ignore"):
            self.log_probs = np.log(np.array(probs)).astype(np.float32)
        self.rows: dict[int, np.ndarray] = {}

    def next_log_probs(self, state: np.ndarray) -> np.ndarray:
        return self.rows.setdefault(len(state), np.tile(self.log_probs, (len(state), 1)))


NOTHING = np.empty(0, np.int32)


def sampled(model: Any, rows: int = 1, **settings: Any) -> list[list[int]]:
    texts = sample(model, [NOTHING] * rows, **{"seed": 1, "max_tokens": 20, **settings})
    assert all(text.dtype == np.int32 for text in texts)
    return [text.tolist() for text in texts]


@pytest.fixture(scope="module")
def trigram() -> NGramModel:
    return NGramModel(table_of(random_backoff_grams(8, 30, 3), 3))


def test_the_same_seed_gives_the_same_texts_and_another_one_others(trigram: NGramModel) -> None:
    texts = sampled(trigram, 20, seed=5)
    assert texts == sampled(trigram, 20, seed=5)
    assert texts != sampled(trigram, 20, seed=6)
    assert len({tuple(text) for text in texts}) > 10  # the rows are not copies of one another


def test_a_row_is_drawn_the_same_whatever_else_is_in_the_batch(trigram: NGramModel) -> None:
    prefixes = [np.array(words, np.int32) for words in ([], [3], [4, 5], [UNKNOWN, 3, 6])]
    together = sample(trigram, prefixes, seed=3, max_tokens=30)
    for row in range(len(prefixes)):
        fewer = sample(trigram, prefixes[: row + 1], seed=3, max_tokens=30)
        others = sample(trigram, [NOTHING] * row + [prefixes[row]] + [NOTHING] * 5, seed=3, max_tokens=30)
        assert fewer[row].tolist() == others[row].tolist() == together[row].tolist()


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


def chi_square(drawn: list[int], probs: Sequence[float]) -> float:
    counts = Counter(drawn)
    assert all(probs[token] > 0 for token in counts)
    expected = {token: prob * len(drawn) for token, prob in enumerate(probs) if prob > 0}
    return sum((counts[token] - number) ** 2 / number for token, number in expected.items())


def all_drawn(model: Any, **settings: Any) -> list[int]:
    """A hundred thousand tokens: a hundred of each of a thousand rows."""
    drawn = [token for text in sampled(model, 1000, max_tokens=100, **settings) for token in text]
    assert len(drawn) == 100_000
    return drawn


# The chi-square distribution with 4 degrees of freedom exceeds 18.47 once in a thousand times.
FOUR_FREE = 18.47
PROBS = [0.05, 0.0, 0.0, 0.4, 0.3, 0.2, 0.05]


@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
def test_a_hundred_thousand_draws_are_spread_as_the_distribution_says(temperature: float) -> None:
    drawn = all_drawn(Fixed(PROBS), temperature=temperature)
    weights = [prob ** (1 / temperature) for prob in PROBS]
    assert chi_square(drawn, [weight / sum(weights) for weight in weights]) < FOUR_FREE


def test_the_first_draws_of_many_rows_are_spread_as_the_distribution_says() -> None:
    drawn = [token for [token] in sampled(Fixed(PROBS), 20_000, max_tokens=1)]
    assert chi_square(drawn, PROBS) < FOUR_FREE


def test_what_is_banned_is_never_drawn_and_the_rest_keeps_its_proportions() -> None:
    drawn = all_drawn(Fixed([0.3, 0.0, 0.0, 0.2, 0.3, 0.1, 0.05, 0.05]), banned=[UNKNOWN, 4])
    # 0.2, 0.1, 0.05, 0.05 of 0.4; with 3 degrees of freedom the statistic exceeds 16.27 once in a thousand times.
    assert chi_square(drawn, [0, 0, 0, 0.5, 0, 0.25, 0.125, 0.125]) < 16.27


def test_a_banned_token_is_not_even_taken_as_the_likeliest() -> None:
    assert sampled(Fixed([0.6, 0, 0, 0.1, 0.3]), max_tokens=3, temperature=0, banned=[UNKNOWN]) == [[4, 4, 4]]


def test_banning_does_not_write_into_the_models_own_array() -> None:
    model = Fixed([0.5, 0, 0, 0.5])
    sampled(model, banned=[UNKNOWN])
    assert model.next_log_probs(np.empty((1, 0)))[0, UNKNOWN] == np.float32(math.log(0.5))


def test_temperature_0_takes_the_likeliest_token_each_time(trigram: NGramModel) -> None:
    prefixes = [np.array(words, np.int32) for words in ([], [3], [4, 5])]
    for prefix, text in zip(prefixes, sample(trigram, prefixes, seed=0, max_tokens=9, temperature=0), strict=True):
        words = prefix.tolist()
        for _ in range(9):
            row = trigram.next_log_probs(trigram.start([np.array(words, np.int32)]))[0].tolist()
            best = min(range(len(row)), key=lambda token: (-row[token], token))
            if best == END:
                break
            words.append(best)
        assert text.tolist() == words[len(prefix) :]


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
        ({"banned": [0, 3, 4, 5, 6]}, "no token to draw"),
        ({"banned": [0, 3, 4, 5, 6], "temperature": 0}, "no token to draw"),
    ],
    ids=str,
)
def test_impossible_settings_are_errors_that_name_them(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        sampled(Fixed(PROBS), **settings)


def test_prefixes_outside_the_vocabulary_are_errors() -> None:
    with pytest.raises(SettingError, match="there is no token 9"):
        sample(UniformModel(6), [np.array([9], np.int32)], seed=0, max_tokens=1)


def test_a_batch_that_is_cut_gives_the_same_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    prefixes = [np.array([3], np.int32)] * 7
    whole = sample(UniformModel(20), prefixes, seed=5, max_tokens=9)
    told: list[float] = []
    monkeypatch.setattr("chainrule.decoding.sampling.ROOM", 45)
    parts = sample(
        UniformModel(20), prefixes, seed=5, max_tokens=9, progress=lambda task, done, total: told.append(done)
    )
    assert [text.tolist() for text in parts] == [text.tolist() for text in whole]
    assert told == [0, 2, 4, 6]
