"""Recurrent cells, token by token, for inference on a processor: what torch's RNN and GRU do, whose calls for each step
take longer than the arithmetic of a narrow layer.

Each number is computed in the same order however a text is cut into calls, so that none depends on it.
Legend: B rows, T time, D width of a layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.jit import allocating_kernel
from chainrule.base.lanes import (
    LANES,
    exponential,
    float_at,
    lanes_at,
    larger,
    minus,
    over,
    plus,
    put_lanes,
    spread,
    times,
    times_plus,
)

if TYPE_CHECKING:
    from jaxtyping import Float32
    from numpy import ndarray

TANH, RELU, GRU = range(3)
_FOUR = 4  # rows that are read together


@allocating_kernel
def scan_cells(
    cell: int,
    given: Float32[ndarray, "B T gates"],
    columns: Float32[ndarray, "D+1 gates"],
    hidden: Float32[ndarray, "B D"],
    out: Float32[ndarray, "B T D"],
) -> None:
    """Write the hidden states of RNNs (TANH, RELU) and GRUs; the states become those after the last token.

    given: W x + b of the inputs, for the gates of `cells` in torch's order. columns: U transposed, then what is added
    to U h. D must be a multiple of LANES.
    """
    rows, length, width, count = given.shape[0], given.shape[1], hidden.shape[1], given.shape[2]
    sums, one, two = np.empty((_FOUR, count), np.float32), spread(np.float32(1)), spread(np.float32(2))
    zero = spread(np.float32(0))
    for first in range(0, rows, _FOUR):
        r0, r1, r2, r3 = first, min(first + 1, rows - 1), min(first + 2, rows - 1), min(first + 3, rows - 1)
        for t in range(length):
            for k in range(0, count, LANES):
                a0 = a1 = a2 = a3 = lanes_at(columns, width, k)
                for j in range(width):
                    u = lanes_at(columns, j, k)
                    a0 = times_plus(u, spread(float_at(hidden, r0, j)), a0)
                    a1 = times_plus(u, spread(float_at(hidden, r1, j)), a1)
                    a2 = times_plus(u, spread(float_at(hidden, r2, j)), a2)
                    a3 = times_plus(u, spread(float_at(hidden, r3, j)), a3)
                put_lanes(sums, 0, k, a0)
                put_lanes(sums, 1, k, a1)
                put_lanes(sums, 2, k, a2)
                put_lanes(sums, 3, k, a3)
            for q in range(min(_FOUR, rows - first)):
                row = first + q
                own, read = given[row], out[row]
                for k in range(0, width, LANES):
                    a = plus(lanes_at(own, t, k), lanes_at(sums, q, k))
                    h = lanes_at(hidden, row, k)
                    if cell == RELU:
                        size = larger(a, minus(zero, a))
                        h = over(plus(a, size), two)  # so that what is no number stays none
                    elif cell == TANH:
                        h = minus(one, over(two, plus(exponential(times(a, two)), one)))
                    else:
                        b = plus(lanes_at(own, t, width + k), lanes_at(sums, q, width + k))
                        r = over(one, plus(exponential(minus(zero, a)), one))
                        z = over(one, plus(exponential(minus(zero, b)), one))
                        n = times_plus(r, lanes_at(sums, q, 2 * width + k), lanes_at(own, t, 2 * width + k))
                        n = minus(one, over(two, plus(exponential(times(n, two)), one)))
                        h = times_plus(z, minus(h, n), n)
                    put_lanes(read, t, k, h)
            for q in range(min(_FOUR, rows - first)):
                read = out[first + q]
                for k in range(0, width, LANES):
                    put_lanes(hidden, first + q, k, lanes_at(read, t, k))
