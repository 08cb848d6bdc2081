"""Classifiers of two inputs: a label for both, or a rating."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from labelled_inputs import INPUTS_OF, QUICK, log_probs, small, texts

import chainrule
from chainrule.applications.labelled_pairs import LabelledPair, Pair
from chainrule.errors import SettingError, TextError
from chainrule.text.units import UnitTokens

if TYPE_CHECKING:
    from pathlib import Path


def pairs_of(reads: str, unit: str) -> list[LabelledPair]:
    """A pair has the label of its first side; it is rated 4.5 if both sides are of animals or of food, else 1.5."""
    inputs = INPUTS_OF[reads]()[::3]
    pairs = []
    for i, first in enumerate(inputs):
        for second in inputs[i % 3 :: 3]:
            rating = "4.5" if first.labels == second.labels else "1.5"
            [label] = first.labels if unit == "pair" else (rating,)
            pairs.append(LabelledPair(Pair(first.input, second.input), (label,), "a pair"))
    return pairs


@pytest.mark.parametrize("unit", ["pair", "rating"])
@pytest.mark.parametrize(("name", "reads"), [("bag", "text"), ("tree", "tree")])
def test_two_inputs_have_a_label_or_a_rating(name: str, reads: str, unit: str, tmp_path: Path) -> None:
    pairs = pairs_of(reads, unit)
    # Trees need smaller steps, and so more of them, to learn which side is asked for.
    learns = unit == "rating" or name == "bag"
    training = replace(QUICK, epochs=20 if learns else 1, patience=20)
    model = chainrule.train_classifier(pairs, small(name), unit=unit, training=training, progress=False)
    model.save(tmp_path / "model")
    again = chainrule.load(tmp_path / "model")
    inputs = [pair.input for pair in pairs][:20]
    together = log_probs(model, inputs)
    for pair, own, other in zip(inputs, together, log_probs(again, inputs), strict=True):
        np.testing.assert_array_equal(own, other)
        np.testing.assert_allclose(log_probs(model, [pair])[0], own, atol=1e-5)
        if unit == "rating":  # the same with the sides exchanged
            np.testing.assert_allclose(log_probs(model, [Pair(pair.second, pair.first)])[0], own, atol=1e-5)
    if unit == "pair":
        if learns:
            assert model.assess(pairs).accuracy.share > 0.95
        with pytest.raises(SettingError, match="this classifier labels"):
            model.assess_ratings(pairs)
        return
    result = model.assess_ratings(pairs)
    assert result.pearson > 0.95
    assert result.mean_squared_error < 0.3
    assert model.classifier.labels == ("1", "2", "3", "4", "5")
    [found] = model.classify([pairs[0].input])
    assert found.means[0] == pytest.approx(4.5, abs=0.5)
    with pytest.raises(SettingError, match="measure them with assess_ratings"):
        model.assess(pairs)


def test_the_divergence_from_ratings_is_that_of_the_formula() -> None:
    """KL(p || q) of Tai et al. 2015, equation 16, spelled out, from scores that are all 0: the head begins at 0."""
    from chainrule.evaluation.ratings import shares_of
    from chainrule.neural.classification.build import build_classifier
    from chainrule.training.objectives.labels import Example, LabelData, LabelObjective

    network = build_classifier(small("bag"), ["1", "2", "3"], "rating", 20)
    tokens = UnitTokens(np.array([4, 5]), np.array([0, 0]), 1)
    shares = shares_of(np.array([1.25, 3.0]), ["1", "2", "3"])
    examples = [Example((tokens, tokens), share[None]) for share in shares]
    setup = SimpleNamespace(
        processes=SimpleNamespace(number=1, rank=0, add=lambda tensors: None),
        training=SimpleNamespace(accumulate=1, label_smoothing=0.0, seed=0),
        recipe=SimpleNamespace(batch=2),
        machine=SimpleNamespace(device="cpu", precision=nullcontext),
    )
    objective = LabelObjective(network, setup, LabelData(examples, examples))  # type: ignore[arg-type]
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    expected = (np.log(3) - entropy) + np.log(3)
    loss = sum(float(objective.loss(0, part, network, 0.0).detach()) for part in objective.parts(0))
    assert loss == pytest.approx(expected, abs=1e-5)
    assert objective.weight(0) == 2
    assert objective.validate(10**9).loss == pytest.approx(expected / 2, abs=1e-5)


def test_pairs_that_are_none_and_ratings_that_are_no_numbers() -> None:
    with pytest.raises(TypeError, match="this takes labelled pairs"):
        chainrule.train_classifier(texts(), "bag", unit="pair")
    with pytest.raises(TypeError, match="this takes labelled pairs"):
        chainrule.train_classifier(pairs_of("tree", "pair"), "bag", unit="pair")
    with pytest.raises(TextError, match="the rating is 'animal'; expected a number"):
        chainrule.train_classifier(pairs_of("text", "pair"), "bag", unit="rating")
    with pytest.raises(SettingError, match="graphs are not labelled in pairs"):
        chainrule.train_classifier(texts(), "graph", unit="pair")
