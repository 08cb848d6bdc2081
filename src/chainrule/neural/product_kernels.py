"""Products of a matrix with a few vectors: dot products of its rows with each, on several threads.

The rows of the matrix lie one after the other in memory, so that it is read once, at the speed of the memory. Each dot
product is one thread's, so that results do not depend on the number of threads.
Legend: B vectors, N rows of the matrix, K numbers in each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.intrinsics import widened
from chainrule.base.jit import parallel_kernel, prange, summing_kernel

if TYPE_CHECKING:
    from jaxtyping import Float32, Int16, UInt16
    from numpy import ndarray

    # Numbers, or the bits of bfloat16 and float16.
    Weights = Float32[ndarray, "N K"] | UInt16[ndarray, "N K"] | Int16[ndarray, "N K"]

ROWS, VECTORS = 4, 2  # whose products are summed up side by side, in registers


@parallel_kernel
def multiply(weight: Weights, vectors: Float32[ndarray, "B K"], out: Float32[ndarray, "B N"]) -> None:
    """out[b, n] = weight[n] . vectors[b]."""
    rows, count = weight.shape[0], vectors.shape[0]
    whole = count - count % VECTORS
    for block in prange((rows + ROWS - 1) // ROWS):
        row = block * ROWS
        if row + ROWS <= rows:
            for vector in range(0, whole, VECTORS):
                _four_by_two(weight, vectors, row, vector, out)
            for vector in range(whole, count):
                for own in range(row, row + ROWS):
                    _one(weight, vectors, own, vector, out)
        else:
            for last in range(row, rows):
                for vector in range(count):
                    _one(weight, vectors, last, vector, out)


@summing_kernel
def _one(weight: Weights, vectors: Float32[ndarray, "B K"], i: int, j: int, out: Float32[ndarray, "B N"]) -> None:
    total = np.float32(0)
    for k in range(weight.shape[1]):
        total += widened(weight[i, k]) * vectors[j, k]
    out[j, i] = total


@summing_kernel
def _four_by_two(
    weight: Weights, vectors: Float32[ndarray, "B K"], i: int, j: int, out: Float32[ndarray, "B N"]
) -> None:
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = np.float32(0)
    for k in range(weight.shape[1]):
        w0, w1 = widened(weight[i, k]), widened(weight[i + 1, k])
        w2, w3 = widened(weight[i + 2, k]), widened(weight[i + 3, k])
        a, b = vectors[j, k], vectors[j + 1, k]
        a0 += w0 * a
        a1 += w1 * a
        a2 += w2 * a
        a3 += w3 * a
        b0 += w0 * b
        b1 += w1 * b
        b2 += w2 * b
        b3 += w3 * b
    out[j, i], out[j, i + 1], out[j, i + 2], out[j, i + 3] = a0, a1, a2, a3
    out[j + 1, i], out[j + 1, i + 1], out[j + 1, i + 2], out[j + 1, i + 3] = b0, b1, b2, b3
