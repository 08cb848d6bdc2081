"""Numbers of any width, and ascending sequences, beside what Python makes of the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chainrule.ngram.compact.query_kernels import (
    SAMPLE_SHIFT,
    ones_in,
    read_bits,
    read_pair,
    select_one,
    width_of,
    write_ascending,
    write_bits,
)

WORDS = st.integers(0, 2**64 - 1)


@given(WORDS)
def test_the_places_of_ones_are_those_of_the_binary_notation(word: int) -> None:
    positions = [position for position, digit in enumerate(reversed(f"{word:b}")) if digit == "1"]
    assert ones_in(np.uint64(word)) == len(positions)
    assert [select_one(np.uint64(word), rank) for rank in range(len(positions))] == positions


def test_the_width_of_a_rank_is_that_of_the_largest() -> None:
    assert [width_of(size) for size in (0, 1, 2, 3, 4, 5, 8, 9, 2**20, 2**20 + 1)] == [0, 0, 1, 2, 2, 3, 3, 4, 20, 21]
    assert width_of(-5) == 0


@given(st.lists(st.tuples(st.integers(0, 63), WORDS), max_size=50))
def test_numbers_written_one_after_the_other_are_read_again(numbers: list[tuple[int, int]]) -> None:
    bits = np.zeros(len(numbers) + 3, np.uint64)
    position, expected = 0, []
    for width, number in numbers:
        expected.append((position, width, number % 2**width))
        write_bits(bits, *expected[-1])
        position += width
    assert [(at, width, read_bits(bits, at, width)) for at, width, _ in expected] == expected


@pytest.mark.parametrize("at", [-(2**62), -1, 0, 127, 128, 2**62])
def test_what_is_read_outside_is_read_inside(at: int) -> None:
    bits = np.array([2**64 - 1, 2**64 - 1, 0, 77], np.uint64)[:3]
    assert read_bits(bits, at, 5) in (0, 1, 3, 7, 15, 31)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=300), st.integers(0, 12), st.integers(0, 1))
def test_neighbours_in_an_ascending_sequence(gaps: list[int], width: int, half: int) -> None:
    numbers = np.cumsum([0, *gaps])
    if numbers[-1] >> width > 10**5:
        width = int(numbers[-1] // 10**5).bit_length()
    samples, high = len(numbers) // 32 + 1, (len(numbers) + int(numbers[-1] >> width)) // 64 + 1
    bits = np.zeros(samples + high + len(numbers) * width // 64 + 3, np.uint64)
    write_ascending(numbers, bits, samples, samples + high, width, 0, half)
    for i in range(len(gaps)):
        sample = read_bits(bits, (i >> SAMPLE_SHIFT) * 64 + 32 * half, 32)
        actual = read_pair(bits, samples, samples + high, samples + high, width, sample, i)
        assert actual == (numbers[i], numbers[i + 1])


@example(words=[0, 0, 0, 0, 0, 0, 1, 0], sample=129, i=0)
@given(words=st.lists(WORDS, min_size=8, max_size=8), sample=st.integers(0, 2**32 - 1), i=st.integers(0, 10**6))
def test_a_sequence_of_nonsense_gives_two_places_and_ends(words: list[int], sample: int, i: int) -> None:
    bits = np.array([*words, 0, 0], np.uint64)
    first, second = (number >> 3 for number in read_pair(bits, 2, 5, 5, 3, sample, i))
    # The places of two ones: the search begins in the three words, and ends at most three words after them.
    assert 0 <= first + i < second + i + 1 <= 6 * 64
