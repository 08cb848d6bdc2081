"""The likeliest alignments of CTC, against all paths that there are."""

from __future__ import annotations

from itertools import groupby, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.errors import TextError
from chainrule.features.speech.search.alignment import align, best_path


def log_probs_of(frames: int, labels: int, seed: int) -> np.ndarray:
    logits = np.random.default_rng(seed).normal(0, 2, (frames, labels))
    return logits - np.log(np.exp(logits).sum(1, keepdims=True))


def collapsed(path: tuple[int, ...]) -> list[int]:
    return [label for label, _ in groupby(path) if label]


@given(st.integers(1, 5), st.integers(2, 4), st.integers(0, 1000), st.data())
def test_the_alignment_is_the_likeliest_of_all_paths(frames: int, labels: int, seed: int, data: st.DataObject) -> None:
    log_probs = log_probs_of(frames, labels, seed)
    paths = [*product(range(labels), repeat=frames)]
    text = collapsed(data.draw(st.sampled_from(paths)))

    def log_prob(path: tuple[int, ...]) -> float:
        return sum(float(log_probs[t, label]) for t, label in enumerate(path))

    best = max((path for path in paths if collapsed(path) == text), key=log_prob)
    alignment = align(log_probs, text, 0)
    assert alignment.log_prob == pytest.approx(log_prob(best))
    assert [own.label for own in alignment.labels] == text
    for own in alignment.labels:
        assert set(best[own.start : own.stop]) == {own.label}
    greedy = best_path(log_probs, 0)
    assert [own.label for own in greedy.labels] == collapsed(max(paths, key=log_prob))
    assert greedy.log_prob == pytest.approx(max(map(log_prob, paths)))


def test_equal_labels_need_a_blank_between_them() -> None:
    log_probs = np.log(np.full((3, 2), 0.5))
    assert [(own.start, own.stop) for own in align(log_probs, [1, 1], 0).labels] == [(0, 1), (2, 3)]
    with pytest.raises(TextError, match="the text has 3 labels, which need 5 frames, and there are 3"):
        align(log_probs, [1, 1, 1], 0)


def test_a_text_without_labels_is_all_blanks() -> None:
    assert align(np.log(np.full((2, 3), 1 / 3)), [], 0).labels == ()
