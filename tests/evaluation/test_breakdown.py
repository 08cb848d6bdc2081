from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainrule
from chainrule.evaluation.measurement import Breakdown, bounds, group_name
from chainrule.protocol import END

if TYPE_CHECKING:
    from pathlib import Path


def test_groups_by_hand() -> None:
    numbers = np.array([0, 1, 2, 3, 4, 7, 8])
    found = Breakdown.of(numbers, math.log(2) * np.array([1.0, 2, 3, 5, 8, 8, 1]), np.array([1, 2, 1, 3, 4, 4, 0]))
    assert [found.bits_per_byte(group) for group in range(4)] == pytest.approx([1, 1, 2, 2])
    assert found.groups == [0, 1, 2, 3]  # 8 has no bytes
    assert math.isnan(found.bits_per_byte(4))
    assert found.as_json()[2] == {"first": 2, "last": 3, "bytes": 4, "bits_per_byte": pytest.approx(2)}
    assert [group_name(group) for group in (0, 1, 2, 11)] == ["0", "1", "2-3", "1,024-2,047"]


@given(st.integers(0, 1 << 38))
def test_a_number_is_in_the_group_whose_bounds_hold_it(number: int) -> None:
    [group] = Breakdown.of(np.array([number]), np.ones(1), np.ones(1, np.int64)).groups
    first, last = bounds(group)
    assert first <= number <= last


def test_both_breakdowns_are_of_the_whole_text_and_as_counted_one_by_one(fixtures: Path) -> None:
    model = chainrule.train(fixtures / "train.txt", chainrule.NGramConfig(order=2), tokenizer="whitespace")
    words = Counter((fixtures / "train.txt").read_text().replace("\n", " </s> ").split())
    frequencies = np.zeros(model.vocabulary_size, np.int64)
    for word, count in words.items():
        frequencies[model.tokenizer.vocabulary.id_of(word)] = count
    found = model.evaluate(fixtures / "heldout.txt", frequencies=frequencies)
    nats: dict[str, Counter[int]] = {"position": Counter(), "frequency": Counter()}
    for line in (fixtures / "heldout.txt").read_text().splitlines():
        ids = model.tokenizer.encode_texts([line]).ids
        scores = model.language_model.score([ids[:-1]])[0]
        for place, (token, score) in enumerate(zip(ids.tolist(), scores.tolist(), strict=True), 1):
            nats["position"][place.bit_length()] -= score
            count = frequencies[token] if token == END or token > END else 0
            nats["frequency"][int(count).bit_length()] -= score
    assert found.by_position is not None
    assert found.by_frequency is not None
    for breakdown in (found.by_position, found.by_frequency):
        assert breakdown.bytes.sum() == found.bytes
        assert breakdown.nats.sum() == pytest.approx(-found.text_log_prob)
    for group in found.by_position.groups[:3]:  # unknown words cost their spelling besides
        assert found.by_position.nats[group] >= nats["position"][group] - 1e-3
    known = [group for group in found.by_frequency.groups if group]
    z = model.speller.unseen_types  # known words cost log Z more, which is small
    for group in known:
        assert found.by_frequency.nats[group] == pytest.approx(nats["frequency"][group], rel=0.02 if z > 1 else 1e-5)


def test_without_counts_there_is_no_breakdown_by_frequency(fixtures: Path) -> None:
    model = chainrule.train(fixtures / "train.txt", chainrule.UniformConfig())
    assert model.evaluate(fixtures / "heldout.txt").by_frequency is None
