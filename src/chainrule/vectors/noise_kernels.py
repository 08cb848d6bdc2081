"""Tables to draw rows from, each with its probability, in constant time (Walker 1977, made as Vose 1991)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel

Array = NDArray[Any]

_WHOLE = 4294967296.0  # 2^32


@kernel
def make_aliases(
    weights: Array, starts: Array, members: Array, shares: Array, aliases: Array, heights: Array, waiting: Array
) -> None:
    """Of each block: shares, 2^32 times the probability that a member stays itself, and its alias where it does not.

    heights, waiting: scratch. Those below the mean wait at the front of `waiting`, those above it at the back.
    """
    for block in range(starts.size - 1):
        start, stop = starts[block], starts[block + 1]
        weight = 0.0
        for k in range(start, stop):
            weight += weights[members[k]]
        low, high = start, stop
        for k in range(start, stop):
            heights[k] = weights[members[k]] / weight * (stop - start)
            if heights[k] < 1.0:
                waiting[low] = k
                low += 1
            else:
                high -= 1
                waiting[high] = k
        while low > start and high < stop:
            low -= 1
            poor, rich = waiting[low], waiting[high]
            shares[poor], aliases[poor] = np.uint64(heights[poor] * _WHOLE), rich
            heights[rich] -= 1.0 - heights[poor]
            if heights[rich] < 1.0:
                waiting[low] = rich
                low += 1
                high += 1
        while low > start:
            low -= 1
            shares[waiting[low]], aliases[waiting[low]] = np.uint64(_WHOLE), waiting[low]
        while high < stop:
            shares[waiting[high]], aliases[waiting[high]] = np.uint64(_WHOLE), waiting[high]
            high += 1
