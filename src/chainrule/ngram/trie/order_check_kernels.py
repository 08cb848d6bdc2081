"""The compiled check of a trie from a file."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel

Array = NDArray[Any]


@kernel
def first_disorder(words: Array, log_probs: Array, begin: Array, log_backoffs: Array, bounds: Array) -> int:
    """The first node that violates the layout of `table.py`, or -1.

    Children must follow those of the context before, and be of the next order; words must be in the vocabulary and
    ascend; log-probabilities and backoffs must be possible. bounds: the first node of every order, and the end of the
    last one.
    """
    vocabulary_size = bounds[1] - 1
    if begin[0] != 1 or begin[begin.size - 1] != words.size:
        return 0
    for order in range(1, bounds.size - 1):
        if begin[bounds[order - 1]] != bounds[order]:
            return bounds[order - 1]
    for context in range(begin.size - 1):
        low, high = np.int64(begin[context]), np.int64(begin[context + 1])
        if low > high or high > words.size or low < 1:
            return context
        if math.isnan(log_backoffs[context]) or log_backoffs[context] == np.inf:
            return context
        previous = np.int64(-1)
        for node in range(low, high):
            if not previous < words[node] < vocabulary_size or not log_probs[node] <= 1e-3:
                return node
            previous = words[node]
    return -1
