"""The compiled part of minimum error rate training: the best hypothesis of each list as a weight goes from -inf to inf.

Along a line in the space of weights, the total of every hypothesis is a line itself, so that a list's best hypotheses
are the upper envelope of its lines (Och 2003, section 4).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel

Array = NDArray[Any]


@allocating_kernel
def upper_envelopes(intercepts: Array, slopes: Array, offsets: Array, winners: Array, begins: Array) -> int:
    """Write the rows of all lists' envelopes, list by list, and from where on each is best; return their number.

    A list's first winner is best from -inf on. Of equal lines, the first is kept.
    """
    count = 0
    for i in range(offsets.size - 1):
        start, stop = offsets[i], offsets[i + 1]
        bottom = count
        for rank in np.argsort(slopes[start:stop], kind="mergesort"):
            row = start + rank
            begin = -np.inf
            is_beaten = False
            while count > bottom:
                top = winners[count - 1]
                if slopes[row] == slopes[top]:
                    if intercepts[row] <= intercepts[top]:
                        is_beaten = True
                        break
                    count -= 1
                    continue
                begin = (intercepts[top] - intercepts[row]) / (slopes[row] - slopes[top])
                if begin > begins[count - 1] or count == bottom + 1:
                    break
                count -= 1
            if is_beaten:
                continue
            winners[count] = row
            begins[count] = begin if count > bottom else -np.inf
            count += 1
    return count
