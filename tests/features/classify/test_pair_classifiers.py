"""Classifiers of two inputs: a label for both, or a rating."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from labelled_inputs import INPUTS_OF, QUICK, log_probs, small, texts

import chainrule
from chainrule.errors import SettingError, TextError
from chainrule.features.classify.labelled.pairs import LabelledPair, Pair
from chainrule.text.units import UnitTokens

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.training.reports import Report


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
@pytest.mark.parametrize(("name", "reads"), [("bag", "text"), pytest.param("tree", "tree", marks=pytest.mark.thorough)])
def test_two_inputs_have_a_label_or_a_rating(name: str, reads: str, unit: str, tmp_path: Path) -> None:
    pairs = pairs_of(reads, unit)
    # Trees need smaller steps, and so more of them, to learn which side is asked for.
    learns = unit == "rating" or name == "bag"
    training = replace(QUICK, epochs=20 if learns else 1, patience=20)
    told: list[Report] = []
    model = chainrule.train_classifier(
        pairs, small(name), unit=unit, training=training, progress=False, on_report=told.append
    )
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
    best = [report for report in told if report.is_best]  # each has a higher correlation than the one before
    assert all(one.pearson <= other.pearson for one, other in pairwise(best))
    assert best[-1].pearson == model.record["validation"]["pearson"]
    assert f", Pearson {best[-1].pearson:.4f} *" in str(best[-1])
    assert "right" not in str(best[-1])
    result = model.assess_ratings(pairs)
    assert result.pearson > 0.95
    assert result.mean_squared_error < 0.3
    assert model.classifier.labels == ("1", "2", "3", "4", "5")
    [found] = model.classify([pairs[0].input])
    assert found.means[0] == pytest.approx(4.5, abs=0.5)
    with pytest.raises(SettingError, match="measure them with assess_ratings"):
        model.assess(pairs)


def test_pairs_take_a_bag_in_lower_case_unless_told_otherwise() -> None:
    pairs, once = pairs_of("text", "rating"), replace(QUICK, epochs=1)
    model = chainrule.train_classifier(pairs, unit="rating", training=once, progress=False)
    assert model.record["network"]["name"] == "bag"
    lower, upper = (log_probs(model, [Pair(text, "she ate bread")])[0] for text in ("the dog", "The DOG"))
    np.testing.assert_array_equal(lower, upper)
    given = chainrule.train_classifier(
        pairs, small("gru"), unit="rating", training=once, tokenizer="word", progress=False
    )
    assert (given.record["network"]["name"], given.tokenizer.normaliser.steps) == ("gru", ())


@pytest.mark.parametrize("is_directed", [True, False])
def test_shared_words_are_counted_word_by_word(is_directed: bool) -> None:
    """Beside a loop over sets of words, with lengths that are padded; neighbours by their places."""
    import torch

    from chainrule.features.classify.network.texts import SharedWords

    rng = np.random.default_rng(3)
    shared = SharedWords(12, is_directed=is_directed)
    weights = rng.uniform(-2, 2, 12).astype(np.float32)
    with torch.no_grad():
        shared.weights.copy_(torch.from_numpy(weights))
    rows = [(rng.integers(3, 12, rng.integers(0, 9)), rng.integers(3, 12, rng.integers(1, 9))) for _ in range(40)]
    read = [tuple(UnitTokens(row, np.zeros(len(row), np.int64), 1) for row in pair) for pair in rows]
    found = shared(read).detach().numpy()

    def figures(own: list[int], other: list[int]) -> list[float]:
        total = sum(abs(weights[word]) for word in own)
        of_other = sum(abs(weights[word]) for word in own if word in set(other))
        return [of_other / total, sum(word in set(other) for word in own) / len(own), (total - of_other) / 10]

    for i, pair in enumerate(rows):
        a, b = (list(side) or [2] for side in pair)  # an empty text is </s>
        firsts, seconds, longer = figures(a, b), figures(b, a), (len(a) - len(b)) / 10
        if not is_directed:
            firsts, seconds = np.minimum(firsts, seconds), np.maximum(firsts, seconds)
            longer = abs(longer)
        bigrams = [(x, y) for x in pairwise(a) for y in pairwise(b) if x == y]
        expected = [*firsts, *seconds, len(bigrams) / max(1, min(len(a), len(b)) - 1), longer]
        np.testing.assert_allclose(found[i], expected, rtol=1e-5, atol=1e-6)


def test_a_classifier_of_pairs_from_before_shared_words_opens_as_it_was() -> None:
    import torch

    from chainrule.features.classify.network.build import build_classifier, from_state, to_state

    torch.manual_seed(0)
    old = build_classifier(small("bag"), ["1", "2"], "rating", 20, compares_words=False).eval()
    again = from_state(*to_state(old), 20)
    pair = tuple(UnitTokens(np.array(tokens), np.zeros(2, np.int64), 1) for tokens in ([4, 5], [4, 6]))
    np.testing.assert_array_equal(again.log_probs([pair])[0], old.log_probs([pair])[0])
    assert "body.shared.weights" not in to_state(old)[1]


def test_the_epoch_of_ratings_is_the_one_of_the_highest_correlation() -> None:
    """Pearson's by NumPy, from what the network predicts; of figures that do not vary, the loss decides."""
    from chainrule.features.classify.objective import Example, LabelData, LabelObjective
    from chainrule.features.classify.ratings import shares_of

    ratings = np.array([1.25, 3.0, 2.0, 2.5, 1.0])
    scores = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    log_probs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    examples = [Example(i, share[None]) for i, share in enumerate(shares_of(ratings, ["1", "2", "3"]))]
    network = SimpleNamespace(
        labels=("1", "2", "3"),
        size=lambda item: 1,
        matrices=list,
        log_probs=lambda inputs: [log_probs[i][None] for i in inputs],
    )
    setup = SimpleNamespace(
        processes=SimpleNamespace(number=1, rank=0, add=lambda tensors: None),
        training=SimpleNamespace(accumulate=1, label_smoothing=0.0, seed=0),
        recipe=SimpleNamespace(batch=2),
        machine=SimpleNamespace(device="cpu", precision=nullcontext),
    )
    found = LabelObjective(network, setup, LabelData(examples, examples)).validate(10**9)  # type: ignore[arg-type]
    pearson = np.corrcoef(np.exp(log_probs) @ [1, 2, 3], ratings)[0, 1]
    assert found.figures["pearson"] == pytest.approx(pearson, abs=1e-6)
    assert found.criterion == pytest.approx(-pearson, abs=1e-5)
    two = LabelObjective(network, setup, LabelData(examples, examples[:2])).validate(10**9)  # type: ignore[arg-type]
    assert two.criterion is None
    assert two.figures == {"examples": 2}  # and no share that is right


def test_the_divergence_from_ratings_is_that_of_the_formula() -> None:
    """KL(p || q) of Tai et al. 2015, equation 16, spelled out, from scores that are all 0: the head begins at 0."""
    from chainrule.features.classify.network.build import build_classifier
    from chainrule.features.classify.objective import Example, LabelData, LabelObjective
    from chainrule.features.classify.ratings import shares_of

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
