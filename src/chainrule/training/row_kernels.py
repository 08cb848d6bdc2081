"""Compiled steps of `RowAdagrad`: what a step costs is what it touches.

Legend: N rows of a table, D numbers in a row, R gradients of rows, U rows that have any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.base.jit import kernel

if TYPE_CHECKING:
    from jaxtyping import Float32, Int64
    from numpy import ndarray


@kernel
def sum_rows(
    rows: Int64[ndarray, " R"],
    order: Int64[ndarray, " R"],
    gradients: Float32[ndarray, "R D"],
    touched: Int64[ndarray, " R"],
    sums: Float32[ndarray, "R D"],
) -> int:
    """Sums the gradients of each row in the order of positions; returns U, and fills as many of `touched` and `sums`.

    order: the positions by row, and for the same row ascending.
    """
    count, last, size = 0, -1, gradients.shape[1]
    for i in range(order.size):
        at = order[i]
        if rows[at] != last:
            last = rows[at]
            touched[count] = last
            for d in range(size):
                sums[count, d] = gradients[at, d]
            count += 1
        else:
            for d in range(size):
                sums[count - 1, d] += gradients[at, d]
    return count


@kernel
def update_rows(
    table: Float32[ndarray, "N D"],
    touched: Int64[ndarray, " U"],
    sums: Float32[ndarray, "U D"],
    steps: Float32[ndarray, " U"],
) -> None:
    """Subtracts its step times its sum from each row that is touched."""
    for i in range(touched.size):
        for d in range(table.shape[1]):
            table[touched[i], d] -= steps[i] * sums[i, d]
