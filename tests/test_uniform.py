from __future__ import annotations

import math

import numpy as np
import pytest

from chainrule.mixture.uniform import UniformModel


@pytest.mark.parametrize("vocabulary_size", [3, 5, 1001])
def test_every_token_but_the_begin_is_as_likely_as_every_other(vocabulary_size: int) -> None:
    model = UniformModel(vocabulary_size)
    [row] = np.exp(model.next_log_probs(model.start([np.array([0], np.int32)])))
    assert row.tolist() == pytest.approx([1 / (vocabulary_size - 1) if token != 1 else 0 for token in range(len(row))])
    assert len(row) == vocabulary_size


def test_a_score_is_minus_the_logarithm_of_the_choices_for_each_token() -> None:
    model = UniformModel(5)  # 4 choices
    with_end, without = (model.score([np.array([3, 4, 0], np.int32)], end=end)[0] for end in (True, False))
    assert with_end.tolist() == pytest.approx([-math.log(4)] * 4)
    assert without.tolist() == pytest.approx([-math.log(4)] * 3)


def test_the_likeliest_tokens_are_those_of_the_lowest_ids() -> None:
    model = UniformModel(5)
    assert model.top(model.start([np.array([], np.int32)]), 5)[1].tolist() == [[0, 2, 3, 4, 1]]
