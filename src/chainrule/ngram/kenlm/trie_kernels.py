"""The compiled side of unpacking KenLM's tries: numbers of any width up to 57 bits, one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel

Array = NDArray[Any]

_THREE, _SEVEN, _ONE = np.uint64(3), np.uint64(7), np.uint64(1)


@kernel
def unpack(data: Array, base: int, first_bit: int, stride: int, width: int, start: int, stop: int, out: Array) -> None:
    """out[i] = the `width` bits of entry i, little-endian; entries begin `stride` bits apart, for start <= i < stop.

    All of them, and the eight bytes from where each begins, are inside of `data`.
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
    """Whether ranges of children rise from 0 to `last`."""
    for i in range(1, begins.size):
        if begins[i - 1] > begins[i]:
            return False
    return begins[0] == 0 and begins[begins.size - 1] == last


@kernel
def put_in_front(words: Array, parents: Array, rows_before: Array, rows: Array) -> None:
    """Each row: a word, then the row of its parent."""
    for i in range(words.size):
        rows[i, 0] = words[i]
        for k in range(rows_before.shape[1]):
            rows[i, k + 1] = rows_before[parents[i], k]


@kernel
def add_high_parts(steps: Array, shift: int, out: Array) -> None:
    """Adds to out[i] how many of the ascending steps, the first left out, are at most i, shifted left."""
    high = 0
    for i in range(out.size):
        while high + 1 < steps.size and steps[high + 1] <= np.uint64(i):
            high += 1
        out[i] += np.int64(high) << shift
