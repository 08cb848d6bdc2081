"""Experiments on single weights of attention, against figures by hand and ranks of matrices."""

from __future__ import annotations

import re

import numpy as np
import pytest

from chainrule.features.lectures.experiments.attention_weights import (
    dilution,
    lookups,
    projections,
    softmax,
    weights_of,
)


def test_a_softmax_of_products_grows_peaked_unless_it_is_scaled() -> None:
    findings = softmax(widths=(4, 64, 1024), queries=600)
    plain, divided = (line.y for line in findings.lines)
    assert plain == pytest.approx([0.42, 0.84, 0.96], abs=0.03)  # the lecture's .42, .86 and .96 are of a single draw
    assert divided == pytest.approx([0.24, 0.245, 0.25], abs=0.015)
    rows = np.array([[1.0, 2.0, 3.0], [1000.0, 0.0, 0.0]])
    np.testing.assert_allclose(weights_of(rows), [np.exp([1, 2, 3]) / np.exp([1, 2, 3]).sum(), [1, 0, 0]])
    assert re.search(r"means are within ±0\.0[12]\d; even weights would be 0\.06", findings.says[0])


def test_with_one_matrix_a_word_looks_at_itself() -> None:
    identity, one, two = (line.y for line in projections(widths=(4, 64), sentences=20).lines)
    assert min(identity[-1], one[-1]) > 0.98
    assert 0.02 < two[-1] < 0.12  # 1 / 16 by chance
    assert identity[0] < 0.8  # in few dimensions, a longer word may score higher


def test_weights_are_diluted_by_length_and_kept_by_a_higher_score() -> None:
    plain, noisy, high = (line.y for line in dilution(lengths=(4, 16, 64, 1000)).lines)
    assert plain == pytest.approx([0.475, 0.153, 0.041, 0.003], abs=5e-4)  # the lecture's figures
    assert high[-1] == pytest.approx(0.957, abs=5e-4)
    assert all(0.8 * weight < other < weight for weight, other in zip(plain, noisy, strict=True))


def test_a_head_fetches_one_word() -> None:
    """h weighted means of k independent values explain at most h / k of their variance: their rank."""
    findings = lookups(heads=(1, 2), asked=(1, 2), steps=200)
    one, two = (line.y for line in findings.lines)
    assert one == pytest.approx([1, 1 / 2], abs=0.05)
    assert two == pytest.approx([1, 1], abs=0.05)
