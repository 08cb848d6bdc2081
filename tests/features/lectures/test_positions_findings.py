"""Experiments on positions, in small: they measure what they claim to."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from chainrule.errors import TextError
from chainrule.features.lectures.experiments.positions import (
    draw_document,
    extrapolation,
    in_groups,
    losses_by_position,
    moved_probability,
    order,
    positions,
)
from chainrule.neural.build import build
from chainrule.neural.config import TransformerConfig


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


def test_only_sets_are_blind_to_order() -> None:
    findings = order(rows=8)
    changes = dict(zip(findings.x.categories, findings.lines[0].y, strict=True))
    blind = {"bag", "attention, no positions", "bidirectional, 4 layers, no positions"}
    assert {label for label, change in changes.items() if change < 1e-4} == blind
    assert min(change for label, change in changes.items() if label not in blind) > 0.05
    assert findings.finding == f"Blind to order, whatever their weights: {'; '.join(sorted(blind, key=changes_order))}."
    assert str(findings).splitlines()[2].split()[0] == "bag"


def changes_order(label: str) -> int:
    return ["bag", "attention, no positions", "bidirectional, 4 layers, no positions"].index(label)


def test_distance_is_the_probability_that_moved() -> None:
    p, q = torch.tensor([[0.5, 0.5, 0.0]]), torch.tensor([[0.25, 0.5, 0.25]])
    assert moved_probability(p, q) == 0.25


def test_documents_of_the_extrapolation_repeat_themselves() -> None:
    document = draw_document(np.random.default_rng(1), 11)
    assert len(document) == 11
    np.testing.assert_array_equal(document[4:], document[:-4])


@pytest.mark.thorough
def test_a_position_that_was_rarely_trained_is_known_only_by_its_distances() -> None:
    findings = extrapolation(kinds=("learned", "relative"), documents=1500, tested=40, steps=150, group=16)
    assert [line.label for line in findings.lines] == ["learned", "relative"]
    assert list(findings.lines[0].x) == [16, 32, 48, 64]
    learned, relative = (line.y[-1] - line.y[1] for line in findings.lines)
    assert learned > relative + 0.1
