"""Experiments on amounts of data, against counts by hand and power laws that are known."""

from __future__ import annotations

import numpy as np
import pytest

from chainrule.features.corpus.options import RankConfig
from chainrule.features.corpus.retrieval import DocumentIndex
from chainrule.features.lectures.experiments.data import (
    balance,
    fit_power_law,
    mean_reciprocal_rank,
    retrieval,
    scaling,
    unseen_share,
)


def test_a_longer_context_fits_its_own_text_and_no_other() -> None:
    rng = np.random.default_rng(1)
    words = ["the", "a", "dog", "cat", "man", "sees", "bites", "near", "old", "big"]
    lines = [" ".join(words[i] for i in rng.integers(len(words), size=6)) for _ in range(400)]
    findings = balance(lines=lines, orders=(1, 2, 4))
    fits, misses, _ = (line.y for line in findings.lines)
    assert fits[0] > fits[1] > fits[2]
    assert misses[2] > misses[0]
    assert unseen_share(["a b c"], ["a b d"], 2) == pytest.approx(2 / 4)  # <s> a, a b, b d, d </s>


def test_documents_are_found_by_the_words_that_they_share_with_a_query() -> None:
    pairs = [
        (f"query of word{i} and thing{i}", f"word{i} thing{i} " + "the other words of a text " * 4) for i in range(8)
    ]
    findings = retrieval(pairs=pairs, shares=(0.1, 0.5))
    assert [line.y for line in findings.lines] == [[1.0, 1.0]]
    index = DocumentIndex([np.array([3, 4], np.int32), np.array([3, 3], np.int32)], 6)
    config = RankConfig(smoothing="jelinek-mercer", share=0.5)
    queries = [np.array([3], np.int32), np.array([3], np.int32)]
    assert mean_reciprocal_rank(index, queries, [0, 1], config) == pytest.approx((1 / 2 + 1) / 2)


def test_a_power_law_is_fitted() -> None:
    x = np.array([1e3, 1e4, 1e5, 1e6])
    law = fit_power_law(x, 5 * x**-0.25)
    assert law == pytest.approx((5, 0.25, 0.25, 0.25))
    noisy = fit_power_law(x, 5 * x**-0.25 * np.array([1.1, 0.9, 1.1, 0.9]))
    assert noisy.low < noisy.exponent < noisy.high


def test_scaling_measures_every_size_and_budget() -> None:
    lines = [f"line {number} of a text that goes on and on" for number in range(200)]
    findings = scaling(lines=lines, widths=(8, 16), steps=(2, 30))
    assert len(findings.lines) == len(findings.says) == 2
    assert all(line.y[1] < line.y[0] for line in findings.lines)
