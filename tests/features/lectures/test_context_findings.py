"""Experiments on learning from the context, against readers that are perfect or blind."""

from __future__ import annotations

import numpy as np
import pytest

from chainrule.features.lectures.experiments.context import AGREEING, agreement, draw_document, draw_sentence, shots
from chainrule.neural.config import RecurrentConfig
from chainrule.ngram.config import NGramConfig


def test_agreement_is_out_of_the_reach_of_an_n_gram() -> None:
    compared = {"5-gram": NGramConfig(order=5, smoothing="witten-bell")}
    [line] = agreement(compared=compared, phrases=(0, 4), sentences=1500, tested=100).lines
    assert list(line.x) == [0, 12]
    assert line.y[0] == 1.0
    assert line.y[1] < 0.6  # half of the tests have two endings, half have four: 0.375 by guessing


def test_sentences_agree() -> None:
    rng = np.random.default_rng(1)
    for phrases in (0, 2):
        for _ in range(20):
            first, second, *between, end = draw_sentence(rng, phrases)
            assert len(between) == 3 * phrases
            assert (second, end) in {(row[-2], row[-1]) for group in AGREEING for row in group}, first


@pytest.mark.thorough
def test_an_lstm_learns_from_examples_an_n_gram_nothing_and_a_perfect_reader_all() -> None:
    compared = {
        "3-gram": NGramConfig(order=3, smoothing="witten-bell"),
        "LSTM": RecurrentConfig(layers=1, width=64, context=64, memory="document"),
    }
    findings = shots(compared=compared, documents=2000, tested=200, examples=8, steps=250)
    trigram, lstm, perfect = (line.y for line in findings.lines)
    assert max(trigram) < 0.5
    assert lstm[0] < 0.4
    assert lstm[-1] > 0.5
    assert perfect[:2] == [0.25, pytest.approx(1 / 4 + 1 / 4)]
    rng = np.random.default_rng(2)
    guesses = [by_memory(draw_document(rng, 8), rng) for _ in range(4000)]
    np.testing.assert_allclose(perfect, np.mean(guesses, 0), atol=0.03)


def by_memory(document: np.ndarray, rng: np.random.Generator) -> list[bool]:
    """Whether each code is right of a reader who looks every letter up, and guesses among the unused codes."""
    known: dict[int, int] = {}
    right = []
    for letter, code in document.reshape(-1, 2).tolist():
        left = [other for other in range(7, 11) if other not in known.values()]
        right.append(known.get(letter, left[rng.integers(len(left))] if left else -1) == code)
        known[letter] = code
    return right
