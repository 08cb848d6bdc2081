"""Error rates against the textbook's recursion."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.features.metrics.error_rates import CharacterErrors, WordErrors


def distance(ours: tuple[str, ...], theirs: tuple[str, ...]) -> int:
    """Levenshtein 1966, by its definition."""

    @cache
    def between(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        changed = between(i - 1, j - 1) + (ours[i - 1] != theirs[j - 1])
        return min(changed, between(i - 1, j) + 1, between(i, j - 1) + 1)

    return between(len(ours), len(theirs))


WORDS = st.lists(st.sampled_from(["a", "b", "ab", "ć"]), max_size=8).map(tuple)


@given(st.lists(st.tuples(WORDS, WORDS), max_size=5))
def test_errors_are_the_edit_distance(pairs: list[tuple[tuple[str, ...], tuple[str, ...]]]) -> None:
    texts, references = [" ".join(ours) for ours, _ in pairs], [" ".join(theirs) for _, theirs in pairs]
    expected = [[distance(ours, theirs), len(theirs)] for ours, theirs in pairs]
    assert WordErrors().statistics(texts, references).tolist() == expected
    expected = [
        [distance(tuple(ours), tuple(theirs)), len(theirs)] for ours, theirs in zip(texts, references, strict=True)
    ]
    assert CharacterErrors().statistics(texts, references).tolist() == expected


def test_white_space_is_where_words_end_and_no_more() -> None:
    assert WordErrors().statistics([" a  b\t"], ["a b"]).tolist() == [[0, 2]]
    assert CharacterErrors().statistics([" a  b\t"], ["a b"]).tolist() == [[0, 3]]
    assert CharacterErrors().statistics(["naïve 😀"], ["naive 😀"]).tolist() == [[1, 7]]


def test_a_rate_is_of_the_whole_corpus() -> None:
    sums = WordErrors().statistics(["x", "a b c d"], ["a", "a b c"]).sum(axis=0)
    assert WordErrors().value(sums) == pytest.approx(2 / 4)  # not the mean of 1 and 1/3


def test_empty_references() -> None:
    measure = WordErrors()
    assert measure.statistics(["", "a"], ["", ""]).tolist() == [[0, 0], [1, 0]]
    assert measure.value(np.array([[0.0, 0.0], [1.0, 0.0]])).tolist() == [0.0, np.inf]
