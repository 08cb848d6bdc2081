"""Thresholds over scores in a file, against sorting."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.features.corpus import filter as lowest_scores
from chainrule.features.corpus.filter import ScoreFile

if TYPE_CHECKING:
    from collections.abc import Iterator

SPECIAL = [0.0, -0.0, 1.0, 1.0000001, -1.5, 7.25, np.inf, -np.inf, 1e-40]
SCORES = st.lists(st.sampled_from(SPECIAL) | st.floats(width=32, allow_nan=False), min_size=1)


@contextmanager
def filled(scores: list[float], pieces: int = 1) -> Iterator[ScoreFile]:
    with ScoreFile() as file:
        for piece in np.array_split(np.array(scores), pieces):
            file.append(piece)
        yield file


@given(SCORES, st.integers(1, 5), st.data())
def test_the_lowest_are_those_that_a_stable_sort_puts_first(scores: list[float], pieces: int, data) -> None:
    count = data.draw(st.integers(1, len(scores)))
    passed: list[int] = []
    with filled(scores, pieces) as file:
        threshold = file.lowest(count)
        for start in range(0, len(scores), 3):
            chunk = file.read(start, min(3, len(scores) - start))
            passed += (start + np.flatnonzero(threshold.passes(chunk))).tolist()
    order = sorted(range(len(scores)), key=lambda i: np.float32(scores[i]))
    assert passed == sorted(order[:count])


def test_chunks_are_what_was_put_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowest_scores, "_BATCH", 4)
    with filled([3.0, 1.0, 2.0, 5.0, 4.0, 0.5], 2) as file:
        assert [chunk.tolist() for chunk in file.chunks()] == [[3.0, 1.0, 2.0, 5.0], [4.0, 0.5]]
        file.append(np.array([9.0]))
        assert np.concatenate(list(file.chunks())).tolist() == [3.0, 1.0, 2.0, 5.0, 4.0, 0.5, 9.0]
        assert file.lowest(5).value == 4.0
        assert file.size == 7


def test_what_is_no_number_comes_last() -> None:
    with filled([np.nan, 1.0]) as file:
        assert file.lowest(1).value == 1.0
        assert file.lowest(2).value == np.inf


def test_the_histogram_counts_between_the_first_and_the_last_hundredth() -> None:
    with filled([float(i) for i in range(1, 1001)]) as file:
        counts, edges = file.histogram(10)
    assert edges[0] == 10
    assert edges[-1] == 990
    assert counts == [98] * 9 + [99]


@pytest.mark.parametrize("scores", [[2.0, 2.0], [1.0, np.inf]])
def test_what_cannot_be_divided_is_one_bin(scores: list[float]) -> None:
    with filled(scores) as file:
        assert file.histogram(10) == ([2], scores)
