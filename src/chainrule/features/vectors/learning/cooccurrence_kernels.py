"""Compiled counting of co-occurrences, row by row: the contexts of all occurrences of a word, one word after the other.

Words are rows numbered from 0, and -1 ends a document. Sums are whole numbers, UNIT for one co-occurrence that counts
in full, so that they do not depend on the order in which they are added.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.intrinsics import prefetch, trailing_zeros
from chainrule.base.jit import kernel

Array = NDArray[Any]

UNIT = 1 << 32
_ONE, _63 = np.uint64(1), np.uint64(63)
_AHEAD = 8  # occurrences whose neighbours are asked for early


@kernel
def sort_positions(words: Array, places: Array, positions: Array) -> None:
    """Write the positions of each word, ascending. places: where those of each word begin; afterwards, where they
    end.
    """
    for k in range(words.size):
        word = words[k]
        if word >= 0:
            positions[places[word]] = k
            places[word] += 1


@kernel
def count_rows(
    words: Array, positions: Array, starts: Array, first: int, last: int, weights: Array, left: bool, right: bool,
    sums: Array, marks: Array, summary: Array, row_starts: Array, columns: Array, values: Array,
) -> int:  # fmt: skip
    """Return the co-occurrences of the words first:last, one row after the other, with ascending columns.

    Returns how many there are. weights[d]: the weight of a distance d, from 1 on. left, right: which side's words
    count. sums, marks, summary: scratch, zeros before and after: a sum for each word, a bit for each word, a bit for
    each number of `marks`.
    """
    count = 0
    for word in range(first, last):
        row_starts[word - first] = count
        for k in range(starts[word], starts[word + 1]):
            if k + _AHEAD < starts[word + 1]:
                prefetch(words, positions[k + _AHEAD])
            here: Any = np.int64(positions[k])
            if left:
                for distance in range(1, min(weights.size, here + 1)):
                    other = words[here - distance]
                    if other < 0:
                        break
                    _add(np.int64(other), weights[distance], sums, marks, summary)
            if right:
                for distance in range(1, min(weights.size, words.size - here)):
                    other = words[here + distance]
                    if other < 0:
                        break
                    _add(np.int64(other), weights[distance], sums, marks, summary)
        count = _take(sums, marks, summary, columns, values, count)
    row_starts[last - first] = count
    return count


@kernel
def _add(other: Any, weight: int, sums: Array, marks: Array, summary: Array) -> None:
    if sums[other] == 0:
        part = other >> 6
        marks[part] |= _ONE << (np.uint64(other) & _63)
        summary[part >> 6] |= _ONE << (np.uint64(part) & _63)
    sums[other] += weight


@kernel
def _take(sums: Array, marks: Array, summary: Array, columns: Array, values: Array, count: int) -> int:
    """Write the sums that are not 0, by ascending column, and clear them; return how many are written in all."""
    for top in range(summary.size):
        parts = summary[top]
        summary[top] = 0
        while parts != 0:
            part = top * 64 + trailing_zeros(parts)
            parts &= parts - _ONE
            bits = marks[part]
            marks[part] = 0
            while bits != 0:
                column = part * 64 + trailing_zeros(bits)
                bits &= bits - _ONE
                columns[count], values[count] = column, sums[column]
                sums[column] = 0
                count += 1
    return count


@kernel
def merge_rows(
    starts: Array, columns: Array, values: Array, other_starts: Array, other_columns: Array, other_values: Array,
    merged_starts: Array, merged_columns: Array, merged_values: Array,
) -> int:  # fmt: skip
    """Return the sum of two counts with the same words. Returns how many co-occurrences it has."""
    count = 0
    for word in range(starts.size - 1):
        merged_starts[word] = count
        i, j = starts[word], other_starts[word]
        stop, other_stop = starts[word + 1], other_starts[word + 1]
        while i < stop or j < other_stop:
            is_first = j == other_stop or (i < stop and columns[i] <= other_columns[j])
            is_second = i == stop or (j < other_stop and other_columns[j] <= columns[i])
            merged_columns[count] = columns[i] if is_first else other_columns[j]
            merged_values[count] = 0
            if is_first:
                merged_values[count] += values[i]
                i += 1
            if is_second:
                merged_values[count] += other_values[j]
                j += 1
            count += 1
    merged_starts[starts.size - 1] = count
    return count
