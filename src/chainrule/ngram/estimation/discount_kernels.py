"""Compiled counting for discounts: continuation counts and counts of counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, kernel

Array = NDArray[Any]


@kernel
def count_suffixes(suffixes: Array, first: int, counts: Array) -> None:
    """Counts, for each n-gram, the n-grams of the next order that end in it; first: the node of counts[0].

    N-grams outside of `counts` are left out.
    """
    for suffix in suffixes:
        place = suffix - first
        if 0 <= place < counts.size:
            counts[place] += 1


@allocating_kernel
def tally_counts(counts: Array, largest: int) -> Array:
    """The numbers of counts that are 0, 1, ..., largest, and above."""
    n = np.zeros(largest + 2, np.int64)
    for count in counts:
        n[min(count, largest + 1)] += 1
    return n
