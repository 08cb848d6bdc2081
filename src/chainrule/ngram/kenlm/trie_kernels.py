"""Compiled unpacking of KenLM's tries: contiguous numbers of any width up to 57 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel

Array = NDArray[Any]

_THREE, _SEVEN, _ONE = np.uint64(3), np.uint64(7), np.uint64(1)


@kernel
def unpack(data: Array, base: int, first_bit: int, stride: int, width: int, start: int, stop: int, out: Array) -> None:
    """out[i] = the `width` bits of entry i, little-endian; entries are `stride` bits apart; for start <= i < stop.

    Each number, and the eight bytes from its first byte on, must be inside `data`.
    """
    mask = (_ONE << np.uint64(width)) - _ONE
    for i in range(start, stop):
        bit = np.uint64(first_bit) + np.uint64(i) * np.uint64(stride)
        at = base + np.int64(bit >> _THREE)
        value = np.uint64(0)
        for k in range(8):
            value |= np.uint64(data[at + k]) << np.uint64(8 * k)
        out[i] = (value >> (bit & _SEVEN)) & mask


@kernel
def are_ascending(begins: Array, last: int) -> bool:
    """Whether the ranges of children ascend from 0 to `last`."""
    for i in range(1, begins.size):
        if begins[i - 1] > begins[i]:
            return False
    return begins[0] == 0 and begins[begins.size - 1] == last


@kernel
def prepend_words(words: Array, parents: Array, rows_before: Array, rows: Array) -> None:
    """rows[i] = words[i], then the row of its parent."""
    for i in range(words.size):
        rows[i, 0] = words[i]
        for k in range(rows_before.shape[1]):
            rows[i, k + 1] = rows_before[parents[i], k]


@kernel
def add_high_parts(firsts: Array, shift: int, out: Array) -> None:
    """Adds to out[i], shifted left, its high part: how many of firsts[1:], which ascend, are at most i."""
    high = 0
    for i in range(out.size):
        while high + 1 < firsts.size and firsts[high + 1] <= np.uint64(i):
            high += 1
        out[i] += np.int64(high) << shift
