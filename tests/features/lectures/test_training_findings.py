"""Experiments on ways to train, in small."""

from __future__ import annotations

import re

import numpy as np
import pytest

from chainrule.features.lectures.datasets.random import Random
from chainrule.features.lectures.experiments.training import draw_review, forcing, pretraining, race
from chainrule.neural.config import RecurrentConfig, TransformerConfig


@pytest.mark.thorough
def test_texts_without_labels_are_worth_more_than_a_few_with() -> None:
    findings = pretraining(labels=(30,), unlabelled=4000, words=30, tested=200, steps=400)
    [fresh], [pretrained] = (line.y for line in findings.lines)
    assert pretrained > fresh + 0.15
    assert pretrained > 0.8
    chance = Random(1, "test")
    for text, label in (draw_review(chance, 30) for _ in range(200)):
        for opinion in text.split(" was ")[1].split(" and "):
            is_good = opinion.removeprefix("not ").startswith("good") != opinion.startswith("not ")
            assert is_good == (label == "good")


@pytest.mark.thorough
def test_a_transformer_learns_more_from_a_token() -> None:
    """Half of each line repeats the other half, which attention finds in few steps."""
    rng = np.random.default_rng(1)
    lines = [" ".join(2 * ["".join("abcdefghij"[i] for i in rng.integers(10, size=5))]) for _ in range(2000)]
    compared = {
        "LSTM": RecurrentConfig(layers=1, width=40, context=128),
        "Transformer": TransformerConfig(layers=2, heads=2, width=32, context=128),
    }
    findings = race(lines=lines, compared=compared, steps=(5, 90))
    lstm, transformer = (line.y for line in findings.lines)
    assert transformer[1] < lstm[1]
    assert lstm[1] < lstm[0]
    assert list(findings.lines[0].x) == [5 * 128 * 16, 90 * 128 * 16]
    assert re.search(r"Transformer: [\d,]+ parameters; \d\.\d\d nats after \d+ s, ", findings.says[1])


@pytest.mark.thorough
def test_forcing_ends_alike_where_a_wrong_guess_does_little_harm() -> None:
    findings = forcing(compared=("teacher", "student"), trained_to=3, sources=500, tested=40, steps=(1, 200))
    teacher, student = (line.y for line in findings.lines)
    assert teacher != student
    assert max(teacher[0], student[0]) < 0.3
    assert min(teacher[1], student[1]) > 0.9
    assert abs(teacher[1] - student[1]) < 0.08
    assert findings.finding.startswith("After 200 steps this share of the letters is right: teacher forcing ")
