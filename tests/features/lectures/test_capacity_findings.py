"""Experiments on what layers can compute, against what no linear one can."""

from __future__ import annotations

import numpy as np
import pytest

from chainrule.features.lectures.experiments.capacity import (
    READERS,
    draw_expression,
    draw_opinion,
    nesting,
    nonlinearity,
    places,
)
from chainrule.neural.config import RecurrentConfig


def test_without_a_nonlinearity_layers_are_one_matrix() -> None:
    """The logistic loss is convex in that matrix, and its optimum is 1 bit: by symmetry, no plane helps."""
    findings = nonlinearity(layers=(0, 2), networks=1, steps=200)
    linear, tanh, relu = (line.y for line in findings.lines)
    assert linear == pytest.approx([1, 1], abs=0.01)
    assert [tanh[0], relu[0]] == pytest.approx([1, 1], abs=0.01)
    assert max(tanh[1], relu[1]) < 0.1
    assert findings.finding.endswith("1 of 1 with tanh, 1 of 1 with ReLU.")


def test_a_window_knows_a_word_only_where_it_was_trained() -> None:
    compared = {name: READERS[name] for name in ("feed-forward, window 9", "bag")}
    window, bag = (line.y for line in places(compared=compared, documents=2000, tested=200, steps=200).lines)
    assert window[0] > 0.95
    assert window[1] < 0.65
    assert min(bag) > 0.8
    rng = np.random.default_rng(1)
    trained, moved = ([draw_opinion(rng, is_moved=is_moved) for _ in range(300)] for is_moved in (False, True))
    assert {(word, i) for text in trained for i, word in enumerate(text[:8]) if word < 21}.isdisjoint(
        (word, i) for text in moved for i, word in enumerate(text[:8]) if word < 21
    )


@pytest.mark.thorough
def test_values_of_nested_expressions_are_lost_with_depth() -> None:
    compared = {"LSTM": RecurrentConfig(layers=1, width=48, context=64, memory="document")}
    findings = nesting(compared=compared, depths=(1, 2, 5), trained_to=2, documents=2000, tested=150, steps=150)
    shallow, trained, deep = findings.lines[0].y
    assert shallow > 0.6
    assert trained > deep + 0.15


def test_expressions_have_their_depth_and_value() -> None:
    rng = np.random.default_rng(1)
    names = {3: "]", 4: "=", 5: "max(", 6: "min("}
    for depth in (1, 3):
        for _ in range(30):
            *tokens, equals, value = draw_expression(rng, depth)
            assert names[equals] == "="
            text = "".join(names[token] if token < 7 else f"{token - 7}," for token in tokens)
            assert eval(text.replace("]", "),").rstrip(",")) == value - 7
            nesting_depth = np.cumsum([(token in (5, 6)) - (token == 3) for token in tokens]).max()
            assert nesting_depth == depth
