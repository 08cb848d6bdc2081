"""Experiments on recurrence, in small: they measure what they claim to."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from chainrule.features.lectures.experiments.recurrence import (
    A,
    B,
    accuracy,
    build_network,
    draw,
    gradients,
    memory,
    norms_by_distance,
    radius,
    saturation,
    spectral,
)
from chainrule.neural.config import FeedforwardConfig, RecurrentConfig
from chainrule.ngram.config import NGramConfig


class Knowing:
    """Scores a string by the rule itself: 0 where the last letter is right, -1 where it is not."""

    def score(self, sequences):
        return [np.array([-float((string[-1] == B) != (B in string[:-1]))]) for string in sequences]


def test_strings_follow_the_rule_and_half_of_them_have_a_b() -> None:
    strings = draw(np.random.default_rng(1), np.full(400, 9))
    assert all((string[-1] == B) == (B in string[:-1]) for string in strings)
    assert {len(string) for string in strings} == {9}
    assert all(np.isin(string, (A, B)).all() and (string[:-1] == B).sum() <= 1 for string in strings)
    assert 0.4 < np.mean([string[-1] == B for string in strings]) < 0.6
    assert accuracy(Knowing(), strings) == 1.0  # type: ignore[arg-type]


def test_memory_of_a_window_is_as_long_as_the_window() -> None:
    findings = memory(
        compared={"4-gram": NGramConfig(order=4, smoothing="witten-bell")}, lengths=(2, 3, 40), strings=2000, tested=300
    )
    [line] = findings.lines
    assert line.y[0] == line.y[1] == 1.0
    assert line.y[2] < 0.7  # it sees a B in 3 of 39 places, and guesses for the others
    assert findings.says == ["4-gram: right up to length 3"]
    assert findings._repr_html_().startswith("<svg")


def test_memory_trains_networks_by_seed() -> None:
    config = {"feed-forward": FeedforwardConfig(width=8, window=4, context=16, memory="document")}
    first, again, other = (
        memory(seed=seed, compared=config, steps=8, strings=200, tested=20, lengths=(3, 9)) for seed in (1, 1, 2)
    )
    assert first == again
    assert all(0 <= share <= 1 for share in other.lines[0].y)


def test_gradients_of_a_linear_recurrence_are_powers_of_its_matrix() -> None:
    network = build_network(RecurrentConfig(cell="rnn_tanh", layers=1, width=8), 0.5)
    weight = network.encoder.layers[0].weight_hh_l0  # type: ignore[union-attr, index]
    assert float(torch.linalg.eigvals(weight.detach()).abs().max()) == pytest.approx(0.5, rel=1e-4)
    with torch.no_grad():
        network.embedding.weight.zero_()  # tanh is linear at 0
    text = torch.randint(3, 64, (2, 6), generator=torch.Generator().manual_seed(1))
    norms = norms_by_distance(network, text)
    at_end = network.output.log_probs(torch.zeros(2, 8)).exp().detach() - torch.nn.functional.one_hot(text[:, -1], 64)
    to_state, to_input = weight.detach(), network.encoder.layers[0].weight_ih_l0.detach()  # type: ignore[union-attr, index]
    for distance in (0, 1, 4):
        flow = at_end @ network.output.weight.detach() @ torch.matrix_power(to_state, distance) @ to_input
        assert float(norms[distance]) == pytest.approx(float(flow.norm(dim=1).mean()), rel=1e-4)


def test_gradients_vanish_explode_and_are_clipped() -> None:
    lines = {line.label: line.y for line in gradients(length=40, rows=8).lines}
    small, large = lines["RNN, radius 0.8"], lines["RNN, radius 2"]
    assert small[-1] < 1e-4 * small[0]
    assert large[-1] > 3 * large[0]
    clipped = lines["RNN, radius 2, clipped"]
    assert math.hypot(*clipped) == pytest.approx(1, rel=1e-3)
    np.testing.assert_allclose(np.divide(clipped, large), clipped[0] / large[0], rtol=1e-4)


def test_a_slope_is_that_of_the_function() -> None:
    lines = {line.label: line for line in saturation(points=25).lines}
    x = np.array(lines["tanh"].x)
    step = 1e-6
    for name, function in (("tanh", np.tanh), ("sigmoid", lambda x: 1 / (1 + np.exp(-x)))):
        np.testing.assert_allclose(lines[name].y, function(x), atol=1e-12)
        by_differences = (function(x + step) - function(x - step)) / (2 * step)
        np.testing.assert_allclose(lines[f"{name}'"].y, by_differences, atol=1e-8)
    assert max(lines["sigmoid'"].y) == 0.25
    assert "to 0.07 at 2" in saturation().finding


def test_singular_values_bound_a_step_and_the_radius_decides_in_the_end() -> None:
    below, above, mixed = (line.y for line in radius(products=80).lines)
    np.testing.assert_allclose(below, 0.9 ** np.arange(81))
    np.testing.assert_allclose(above, 1.1 ** np.arange(81))
    assert max(mixed) > 4
    assert mixed[-1] < 1e-3
    assert spectral(np.array([[0.0, 4.0], [1.0, 0.0]])) == pytest.approx(2)  # eigenvalues 2 and -2
