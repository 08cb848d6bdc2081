"""Sorts keys of a word and a position: radix sort for many keys, insertion sort for few."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel

Array = NDArray[Any]


POSITION_BITS = 33  # 8.6 billion positions; the 30 bits above hold a billion words
_INSERTION_LIMIT = 40  # up to this size, insertion sort is faster than radix sort
_SMALL_DIGIT, _LARGE_DIGIT = 6, 11
_LARGE = 4096  # from this size on, a digit of 11 bits pays off


@allocating_kernel
def sort_keys(keys: Array, scratch: Array) -> None:
    """Sorts keys, whose positions ascend already, by word.

    scratch: as large as `keys`; not used for up to _INSERTION_LIMIT keys.
    """
    if keys.size <= _INSERTION_LIMIT:
        for i in range(1, keys.size):
            key = keys[i]
            j = i
            while j > 0 and keys[j - 1] > key:
                keys[j] = keys[j - 1]
                j -= 1
            keys[j] = key
        return
    top_word = 0
    for key in keys:
        top_word = max(top_word, key >> POSITION_BITS)
    digit = _SMALL_DIGIT if keys.size < _LARGE else _LARGE_DIGIT
    counts = np.zeros(1 << digit, np.int64)
    mask = (1 << digit) - 1
    shift = POSITION_BITS
    source, target = keys, scratch[: keys.size]
    passes = 0
    while top_word >> (shift - POSITION_BITS) > 0:
        counts[:] = 0
        for key in source:
            counts[(key >> shift) & mask] += 1
        total = 0
        for i in range(counts.size):
            counts[i], total = total, total + counts[i]
        for key in source:
            bucket = (key >> shift) & mask
            target[counts[bucket]] = key
            counts[bucket] += 1
        source, target = target, source
        shift += digit
        passes += 1
    if passes % 2 == 1:
        for i in range(keys.size):  # a slice assignment takes two seconds to compile
            keys[i] = source[i]
