"""The compiled edit distance of many pairs of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel

Array = NDArray[Any]


@allocating_kernel
def edit_distances(ours: Array, our_offsets: Array, theirs: Array, their_offsets: Array, distances: Array) -> None:
    """Set distances[i] to the fewest insertions, deletions and substitutions that turn our sequence i into theirs.

    Sequence i lies between offsets i and i + 1 of its array. Common prefixes and suffixes are skipped.
    """
    longest = 0
    for i in range(distances.size):
        longest = max(longest, their_offsets[i + 1] - their_offsets[i])
    row = np.empty(longest + 1, np.int64)
    for i in range(distances.size):
        start, stop = our_offsets[i], our_offsets[i + 1]
        first, last = their_offsets[i], their_offsets[i + 1]
        while start < stop and first < last and ours[start] == theirs[first]:
            start += 1
            first += 1
        while start < stop and first < last and ours[stop - 1] == theirs[last - 1]:
            stop -= 1
            last -= 1
        for j in range(last - first + 1):
            row[j] = j
        for k in range(start, stop):
            diagonal = row[0]
            row[0] += 1
            for j in range(1, last - first + 1):
                above = row[j]
                substituted = diagonal + (ours[k] != theirs[first + j - 1])
                row[j] = min(min(above, row[j - 1]) + 1, substituted)
                diagonal = above
        distances[i] = row[last - first]
