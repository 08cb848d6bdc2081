"""Accuracy, F1, confusion and calibration, by hand and by loops."""

from __future__ import annotations

import numpy as np
import pytest

from chainrule.features.classify.labelled.texts import Labelled, word_baseline
from chainrule.features.metrics.classification import calibration_error, measure_classification

PROBS = np.array([[0.7, 0.2, 0.1], [0.5, 0.4, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.6, 0.3, 0.1]])
TRUE = np.array([0, 1, 1, 2, 1])  # predicted are 0, 0, 1, 2, 0


def test_the_figures_of_five_examples_are_those_of_the_hand() -> None:
    found = measure_classification(
        ["a", "b", "c", "d"], np.log(np.pad(PROBS, ((0, 0), (0, 1)), constant_values=1e-9)), TRUE
    )
    assert found.confusion.tolist() == [[1, 0, 0, 0], [2, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    assert found.accuracy.share == 3 / 5
    assert found.f1.tolist() == pytest.approx([2 / 4, 2 / 4, 1, 0])  # 2 right / (true + predicted)
    assert found.macro_f1 == pytest.approx((0.5 + 0.5 + 1) / 3)  # there is no d
    assert found.nats == pytest.approx(-np.log([0.7, 0.4, 0.8, 0.4, 0.3]).mean())
    assert found.confused(5) == [("b", "a", 2)]
    assert found.as_json()["confusion"][1] == [2, 1, 0, 0]
    assert repr(found).startswith("<Classification: 60.0% right (")
    assert repr(found).endswith(f"of 5, macro F1 0.667, {found.nats:.4f} nats>")


def test_labels_without_a_column_are_wrong_and_cost_no_nats() -> None:
    found = measure_classification(
        ["a", "b", "c", "x"], np.log(PROBS), np.array([0, 1, 3, 2, 3])
    )  # predicted: 0, 0, 1, 2, 0
    assert found.unseen == {"x": 2}
    assert found.accuracy.share == 2 / 5
    assert found.confusion[3].tolist() == [1, 1, 0, 0]
    assert found.nats == pytest.approx(-np.log([0.7, 0.4, 0.4]).mean())
    assert found.macro_f1 == pytest.approx((2 / 4 + 0 + 1 + 0) / 4)
    none = measure_classification(["a", "b", "c", "x"], np.log(PROBS[:1]), np.array([3]))
    assert none.as_json()["nats"] is None


def test_the_word_baseline_gives_known_words_their_most_frequent_label() -> None:
    train = [Labelled("the can can", ("D", "M", "V")), Labelled("can a fish can", ("M", "D", "N", "M"))]
    # can: M 3, V 1; the, a: D; fish: N. Of all: M 3, D 2: an unknown word gets M.
    test = [Labelled("the fish can a dog", ("D", "V", "M", "D", "M")), Labelled("dog", ("N",))]
    assert word_baseline(train, test) == 4 / 6
    even = [Labelled("x x y", ("B", "A", "B"))]  # x: A and B, of which B is more frequent in all
    assert word_baseline(even, [Labelled("x", ("B",))]) == 1


def test_the_calibration_error_is_the_gap_in_each_bin() -> None:
    chance = np.random.default_rng(0)
    confidence, right = chance.random(500), chance.random(500) < 0.4
    expected = 0.0
    for number in range(15):
        inside = (confidence * 15).astype(int) == number
        if inside.any():
            expected += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    assert calibration_error(confidence, right) == pytest.approx(expected)
    assert calibration_error(np.ones(3), np.ones(3, np.bool_)) == 0
    assert calibration_error(np.ones(4), np.array([True, False, False, False])) == pytest.approx(0.75)
