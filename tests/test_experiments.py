"""The experiments, in small: they measure what they claim to."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from chainrule.errors import TextError
from chainrule.experiments.cost import KINDS, cost, growth_of
from chainrule.experiments.gradients import build_network, gradients, norms_by_distance
from chainrule.experiments.memory import A, B, accuracy, draw, memory
from chainrule.experiments.positions import in_groups, losses_by_position, positions
from chainrule.neural.build_network import build
from chainrule.neural.config import FeedforwardConfig, RecurrentConfig, TransformerConfig
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


def test_cost_measures_every_layer_and_finds_powers() -> None:
    findings = cost(lengths=(64, 128), widths=(8, 16), length=64, width=8, seconds=0)
    assert len(findings.lines) == len(findings.says) == len(KINDS)
    assert all(second > 0 for line in findings.lines for second in line.y)
    assert growth_of([1, 2, 4, 8], [3, 12, 48, 192]) == pytest.approx(2)


def test_positions_reads_past_the_trained_length() -> None:
    lines = [f"line {number} of a text that goes on and on" for number in range(120)]
    config = TransformerConfig(layers=1, width=16, heads=2, context=16)
    findings = positions(lines=lines, config=config, kinds=("learned", "rotary"), steps=5, rows=4)
    learned, rotary = findings.lines
    assert (list(learned.x), list(rotary.x)) == ([4, 8, 12, 16], list(range(4, 65, 4)))
    assert "not defined beyond" in findings.says[0]
    assert "4 times that length" in findings.says[1]
    with pytest.raises(TextError, match="expected more than 640, so that its last tenth is longer"):
        positions(lines=lines[:5], config=config, kinds=("rotary",), steps=5)


def test_losses_by_position_are_those_of_each_row_alone() -> None:
    network = build(TransformerConfig(layers=1, width=16, heads=2, context=8, zero_projections=False), 9).eval()
    stream = np.random.default_rng(1).integers(2, 9, 60).astype(np.int32)
    found = losses_by_position(network, stream, 10, 2)
    rows = [stream[0:11], stream[49:60]]
    expected = []
    for row in rows:
        ids = torch.from_numpy(row.astype(np.int64))
        hidden, _ = network(ids[None, :-1])
        expected.append(-network.output.log_probs(hidden)[0, range(10), ids[1:]].detach().numpy())
    np.testing.assert_allclose(found, np.mean(expected, 0), atol=1e-5)
    places, perplexities = in_groups(found, 5)
    assert places == [5, 10]
    assert perplexities[0] == pytest.approx(math.exp(found[:5].mean()))
