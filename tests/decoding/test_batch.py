"""Rows that join and leave a batch at every step are as each alone; settings of their own."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from oracles import END, UNKNOWN, random_backoff_grams, table_of
from sampled_texts import FOUR_FREE, NOTHING, PROBS, Fixed, all_drawn, chi_square, sampled, samples

from chainrule.decoding.config import SamplingConfig
from chainrule.decoding.limits import Constraints
from chainrule.decoding.sampling import Batch, Row
from chainrule.errors import SettingError
from chainrule.ngram.models.table_models import NGramModel

SETTINGS: list[dict[str, Any]] = [
    {},
    {"temperature": 0},
    {"temperature": 0.6},
    {"temperature": 1.7, "top_p": 0.9},
    {"top_k": 3, "temperature": 0.8},
    {"min_p": 0.05},
    {"typical": 0.8},
    {"repetition_penalty": 1.4},
    {"frequency_penalty": 0.7, "presence_penalty": 0.2},
    {"presence_penalty": -0.5},
    {"logit_bias": ((3, -2.0), (4, -math.inf)), "temperature": 0.9},
    {"logit_bias": ((5, 1.5),)},
]


def row_of(number: int, settings: dict[str, Any], max_tokens: int, prefix: list[int]) -> Row:
    constraints = Constraints(max_tokens=max_tokens, banned=[UNKNOWN], min_tokens=number % 3)
    generator = np.random.default_rng([7, number])
    return Row(list(prefix), SamplingConfig(**settings), constraints, generator, len(prefix), top=number % 4)


def test_rows_that_come_and_go_are_drawn_as_each_alone(trigram: NGramModel) -> None:
    chance = random.Random(1)
    plans = [
        (number, SETTINGS[number % len(SETTINGS)], chance.randint(3, 12), [chance.randint(3, 7)] * (number % 3))
        for number in range(40)
    ]
    alone = {}
    for plan in plans:
        batch, row = Batch(trigram), row_of(*plan)
        batch.add(trigram.start([np.array(plan[3], np.int32)]), [row])
        reports = []
        while batch.rows:
            step = batch.step()
            reports.append((step.log_probs[0].item(), None if step.tops is None else step.tops[0][1].tolist()))
        alone[plan[0]] = row.generated, row.ending, reports
    batch, numbers, waiting = Batch(trigram), {}, list(plans)
    reports_of: dict[int, list[Any]] = {plan[0]: [] for plan in plans}
    removed: set[int] = set()
    while waiting or batch.rows:
        while waiting and (not batch.rows or chance.random() < 0.5):
            plan = waiting.pop()
            row = row_of(*plan)
            numbers[row] = plan[0]
            batch.add(trigram.start([np.array(plan[3], np.int32)]), [row])
        if chance.random() < 0.1:
            gone = chance.choice(batch.rows)
            removed.add(numbers[gone])
            batch.remove([gone])
            if not batch.rows:
                continue
        step = batch.step()
        for i, row in enumerate(step.rows):
            top = step.tops[i][1].tolist() if step.tops is not None else []
            reports_of[numbers[row]].append((step.log_probs[i].item(), top or None))
    assert 0 < len(removed) < 20
    for row, number in numbers.items():
        tokens, ending, reports = alone[number]
        assert row.generated == tokens[: len(row.generated)]
        assert reports_of[number] == reports[: len(row.generated)]
        assert number in removed or (row.ending, len(row.generated)) == (ending, len(tokens))


def test_a_row_that_cannot_go_on_leaves_alone(trigram: NGramModel) -> None:
    constraints = Constraints(max_tokens=5)
    everything = tuple((token, -math.inf) for token in range(trigram.vocabulary_size))
    settings = [SamplingConfig(), SamplingConfig(logit_bias=everything), SamplingConfig()]

    def rows() -> list[Row]:
        return [Row([], config, constraints, np.random.default_rng([1, i]), 0) for i, config in enumerate(settings)]

    batch, own = Batch(trigram, isolates_errors=True), rows()
    batch.add(trigram.start([NOTHING] * 3), own)
    while batch.rows:
        batch.step()
    assert isinstance(own[1].error, SettingError)
    assert [row.generated for row in (own[0], own[2])] == [
        text for i, text in enumerate(sampled(trigram, 3, max_tokens=5)) if i != 1
    ] or all(row.ending for row in (own[0], own[2]))
    strict = Batch(trigram)
    strict.add(trigram.start([NOTHING] * 3), rows())
    with pytest.raises(SettingError, match="there is no token to draw"):
        strict.step()


def test_neighbours_of_a_row_without_a_token_are_drawn_as_without_it() -> None:
    """After b, only <unk> may follow, and it is banned: maximum likelihood knows such contexts."""

    class DeadEnd(Fixed):
        def next_log_probs(self, state: np.ndarray) -> np.ndarray:
            rows = np.tile(self.log_probs, (len(state), 1))
            rows[np.asarray(state) == 4] = [0, *[-np.inf] * (rows.shape[1] - 1)]
            return rows

        def start(self, prefixes: Any) -> np.ndarray:
            return np.array([prefix[-1] if len(prefix) else 3 for prefix in prefixes])

        def advance(self, state: np.ndarray, tokens: np.ndarray) -> np.ndarray:
            return np.full(len(tokens), 3)

        def select(self, state: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return state[rows]

    model = DeadEnd([0.1, 0, 0.1, 0.4, 0.4])
    for settings in ({}, {"temperature": 0.5}, {"top_p": 0.9}, {"temperature": 0}):
        rows = [
            Row(
                [token],
                SamplingConfig(**settings),
                Constraints(max_tokens=8, banned=[UNKNOWN]),
                np.random.default_rng([1, i]),
                1,
            )
            for i, token in enumerate([3, 4, 3, 3])
        ]
        batch = Batch(model, isolates_errors=True)
        batch.add(model.start([row.tokens for row in rows]), rows)
        while batch.rows:
            batch.step()
        expected = samples(model, [np.array([3], np.int32)] * 4, max_tokens=8, banned=[UNKNOWN], **settings)
        assert isinstance(rows[1].error, SettingError)
        for i in (0, 2, 3):
            tokens = rows[i].generated
            assert tokens[: -1 if rows[i].ending == "end" else None] == expected[i].tokens.tolist()


@pytest.mark.parametrize("temperature", [pytest.param(1.0, marks=pytest.mark.thorough), 0.5])
def test_biases_that_lower_are_drawn_exactly_without_rows(temperature: float) -> None:
    settings = {"temperature": temperature, "logit_bias": ((3, -1.0), (5, -math.inf))}
    drawn = all_drawn(Fixed(PROBS), **settings)
    weights = [
        (prob * math.exp(dict(settings["logit_bias"]).get(token, 0.0))) ** (1 / temperature)  # type: ignore[call-overload]
        for token, prob in enumerate(PROBS)
    ]
    assert chi_square(drawn, [weight / sum(weights) for weight in weights]) < FOUR_FREE


def test_penalties_count_what_was_generated_and_not_the_prefix() -> None:
    """Log-probabilities of 3 and 4: -0.69 and -0.92. A penalty of 0.3 for each 3 lets 4 win after one 3."""
    model, prefix = Fixed([0, 0, 0, 0.5, 0.4, 0.1]), np.array([3, 3, 3], np.int32)
    greedy = {"temperature": 0, "max_tokens": 6}
    [frequent] = samples(model, [prefix], frequency_penalty=0.3, **greedy)
    # 3: -0.69, then -0.99 against -0.92: 4, then -0.99 against -1.22: 3, then -1.29 against -1.22: 4, and so on.
    assert frequent.tokens.tolist() == [3, 4, 3, 4, 3, 4]
    [present] = samples(model, [prefix], presence_penalty=0.3, **greedy)
    assert present.tokens.tolist() == [3, 4, 3, 3, 3, 3]
    [eager] = samples(model, [prefix], presence_penalty=-2.0, logit_bias=((5, 1.7),), **greedy)
    # 5: -2.30 + 1.7 = -0.60 wins, and then its own presence raises it further.
    assert eager.tokens.tolist() == [5] * 6


def test_a_penalty_changes_the_distribution_as_the_formula_says() -> None:
    """The second of two tokens, by the first: its weight falls by e^-0.7."""
    texts = sampled(Fixed([0, 0, 0, 0.5, 0.5]), 20_000, max_tokens=2, frequency_penalty=0.7)
    same = sum(first == second for first, second in texts) / len(texts)
    assert abs(same - math.exp(-0.7) / (1 + math.exp(-0.7))) < 0.015  # over four standard deviations


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"presence_penalty": math.nan}, "presence_penalty is nan; expected a finite number"),
        ({"frequency_penalty": math.inf}, "frequency_penalty is inf"),
        ({"logit_bias": ((3, math.inf),)}, "logit_bias of token 3 is inf"),
    ],
)
def test_settings_out_of_range_are_errors(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        SamplingConfig(**settings)


@pytest.mark.thorough
def test_lowered_draws_of_an_ngram_model_are_spread_as_the_formula_says() -> None:
    model = NGramModel(table_of(random_backoff_grams(8, 30, 3), 3))
    bias = {3: -1.5, END: -3.0}
    texts = sampled(model, 20_000, max_tokens=1, temperature=0.8, logit_bias=tuple(bias.items()))
    weights = np.exp(model.next_log_probs(model.start([NOTHING]))[0].astype(np.float64))
    for token, amount in bias.items():
        weights[token] *= math.exp(amount)
    weights **= 1 / 0.8
    # chi-square with 31 degrees of freedom: exceeded once in a thousand times
    assert chi_square([text[0] if text else END for text in texts], (weights / weights.sum()).tolist()) < 61.1
