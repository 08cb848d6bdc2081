"""Each setting of sampling against the distribution that its definition gives, by hand."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sampled_texts import NOTHING, PROBS, Fixed, chi_square, sampled, samples

from chainrule.decoding.config import GREEDY, SamplingConfig
from chainrule.decoding.limits import Constraints
from chainrule.decoding.next_token import History, Rules, all_candidates
from chainrule.decoding.sampling import sample
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from chainrule.ngram.models.table_models import NGramModel


@pytest.mark.spread(6)
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"top_k": 2}, [0, 0, 0, 4 / 7, 3 / 7, 0, 0]),
        ({"top_k": 2, "banned": [3]}, [0, 0, 0, 0, 0.6, 0.4, 0]),
        ({"top_k": 3, "temperature": 0.5}, [0, 0, 0, 16 / 29, 9 / 29, 4 / 29, 0]),
        ({"top_p": 0.5}, [0, 0, 0, 4 / 7, 3 / 7, 0, 0]),
        ({"top_p": 0.69}, [0, 0, 0, 4 / 7, 3 / 7, 0, 0]),
        ({"top_p": 0.75}, [0, 0, 0, 4 / 9, 3 / 9, 2 / 9, 0]),
        ({"top_p": 0.95, "banned": [0, 3]}, [0, 0, 0, 0, 3 / 5.5, 2 / 5.5, 0.5 / 5.5]),  # two have 0.5 of 0.55
        ({"top_p": 0.5, "temperature": 0.5}, [0, 0, 0, 1, 0, 0, 0]),  # 16 / 29.5 > 0.5
        ({"min_p": 0.6}, [0, 0, 0, 4 / 7, 3 / 7, 0, 0]),
        ({"min_p": 0.49}, [0, 0, 0, 4 / 9, 3 / 9, 2 / 9, 0]),
        ({"min_p": 0.6, "top_p": 0.99}, [0, 0, 0, 4 / 7, 3 / 7, 0, 0]),
        # The entropy is 1.349 nats; the surprises are 3.0, 0.92, 1.20, 1.61, 3.0: nearest is 4, then 5, then 3.
        ({"typical": 0.25}, [0, 0, 0, 0, 1, 0, 0]),
        ({"typical": 0.45}, [0, 0, 0, 0, 0.6, 0.4, 0]),
        ({"allowed": [4, 5]}, [0, 0, 0, 0, 0.6, 0.4, 0]),
        ({"allowed": [4, 5, 6], "banned": [6]}, [0, 0, 0, 0, 0.6, 0.4, 0]),
        ({"typical": 1.0, "banned": [0, 3]}, [0, 0, 0, 0, 3 / 5.5, 2 / 5.5, 0.5 / 5.5]),
    ],
    ids=str,
)
def test_each_setting_leaves_the_distribution_that_its_definition_says(
    settings: dict[str, Any], expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    probs = [*PROBS[:6], 0.05]
    for lists in ((), (2,), (3, 5)):
        monkeypatch.setattr("chainrule.decoding.next_token.LIST_SIZES", lists)
        drawn = [token for [token] in sampled(Fixed(probs), 2_000, max_tokens=1, **settings)]
        assert chi_square(drawn, expected) < 16.27


def test_lists_give_the_same_as_whole_distributions_on_a_large_vocabulary(trigram: NGramModel) -> None:
    chance = np.random.default_rng(3)
    probs = chance.dirichlet(np.full(3000, 0.02))
    probs[[1, 2]] = 0
    model = Fixed(probs / probs.sum())
    for settings in ({"top_p": 0.9}, {"top_p": 0.999}, {"min_p": 0.01}, {"min_p": 1e-7}, {"top_p": 0.8, "min_p": 0.1}):
        drawn = Counter(token for [token] in sampled(model, 1_000, max_tokens=1, banned=[0, 5], **settings))
        kept = expected_of(model.log_probs.astype(np.float64), {0, 5}, **settings)
        assert set(drawn) <= kept
        weights = np.exp(model.log_probs.astype(np.float64))[sorted(kept)]
        likely = [token for token, w in zip(sorted(kept), weights / weights.sum(), strict=True) if w > 0.02]
        assert set(likely) <= set(drawn)


def expected_of(log_probs: np.ndarray, banned: set[int], top_p: float = 1.0, min_p: float = 0.0) -> set[int]:
    """What top-p and min-p leave, by their definitions."""
    probs = {token: math.exp(p) for token, p in enumerate(log_probs.tolist()) if token not in banned and p > -math.inf}
    total, kept, mass = sum(probs.values()), set(), 0.0
    for token in sorted(probs, key=lambda token: (-probs[token], token)):
        if mass >= top_p * total:
            break
        kept.add(token)
        mass += probs[token]
    best = max(probs.values())
    return {token for token in kept if probs[token] >= min_p * best * (1 - 1e-9)}


def test_a_text_ends_with_what_has_a_probability_and_not_before_min_tokens(trigram: NGramModel) -> None:
    texts = sampled(trigram, 40, min_tokens=4, max_tokens=30)
    assert min(map(len, texts)) == 4
    assert sampled(trigram, 5, min_tokens=6, max_tokens=6, temperature=0) != []


def test_no_repeat_lets_no_tokens_follow_each_other_twice_the_prefix_included(trigram: NGramModel) -> None:
    prefix = np.array([3, 4, 5, 3], np.int32)
    for settings in ({}, {"temperature": 0}, {"top_k": 4}):
        for text in samples(trigram, [prefix] * 20, no_repeat=2, max_tokens=25, **settings):
            words = [*prefix.tolist(), *text.tokens.tolist()]
            pairs = list(itertools.pairwise(words))
            assert len(set(pairs)) == len(pairs)


def test_the_repetition_penalty_multiplies_log_probabilities_of_what_was_there() -> None:
    model = Fixed([0, 0, 0, 0.5, 0.3, 0.2])
    rules = Rules(config=SamplingConfig(repetition_penalty=2.0))
    candidates = all_candidates(model, model.start([NOTHING]), rules, [History([3, 3, 5])])
    expected = [-np.inf, -np.inf, -np.inf, 2 * np.log(0.5), np.log(0.3), 2 * np.log(0.2)]
    np.testing.assert_allclose(candidates.weights[0], expected, rtol=1e-6)
    # Greedy: 3 first; then 0.25 against 0.3, so 4; then 0.25 against 0.09 and 0.2, so 3 again.
    assert sampled(model, temperature=0, repetition_penalty=2.0, max_tokens=3) == [[3, 4, 3]]


def test_forced_tokens_come_first_and_count(trigram: NGramModel) -> None:
    for text in samples(trigram, [np.array([4], np.int32)] * 5, begin=[6, 3], max_tokens=4):
        assert text.tokens[:2].tolist() == [6, 3]
        assert len(text.tokens) <= 4
    after = sample(trigram, [np.array([4, 6, 3], np.int32)], seed=1, constraints=Constraints(max_tokens=5))
    forced = sample(trigram, [np.array([4], np.int32)], seed=1, constraints=Constraints(begin=[6, 3], max_tokens=7))
    assert forced[0].tokens.tolist() == [6, 3, *after[0].tokens.tolist()]


def test_greedy_is_temperature_0() -> None:
    assert GREEDY.temperature == 0
    with pytest.raises(SettingError, match="temperature 0 takes the most probable token, so top_k does nothing"):
        SamplingConfig(temperature=0, top_k=5)
