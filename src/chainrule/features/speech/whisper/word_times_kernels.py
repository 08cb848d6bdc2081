"""Compiled dynamic time warping."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel

Array = NDArray[Any]


@allocating_kernel
def warp(costs: Array, first: Array) -> None:
    """Find the cheapest path from the first token and step to the last: both go on, or one of them.

    costs: (T, S). first: receives the first step of each token. Where costs are equal, the step goes on.
    """
    tokens, steps = costs.shape
    total = np.full((tokens + 1, steps + 1), np.inf)
    moves = np.zeros((tokens + 1, steps + 1), np.int8)
    total[0, 0] = 0.0
    for i in range(1, tokens + 1):
        for j in range(1, steps + 1):
            both, token, step = total[i - 1, j - 1], total[i - 1, j], total[i, j - 1]
            if both < token and both < step:
                total[i, j], moves[i, j] = costs[i - 1, j - 1] + both, 0
            elif token < both and token < step:
                total[i, j], moves[i, j] = costs[i - 1, j - 1] + token, 1
            else:
                total[i, j], moves[i, j] = costs[i - 1, j - 1] + step, 2
    i, j = tokens, steps
    while i > 0:
        first[i - 1] = max(j - 1, 0)
        if j == 0 or moves[i, j] == 1:
            i -= 1
        elif moves[i, j] == 0:
            i, j = i - 1, j - 1
        else:
            j -= 1
