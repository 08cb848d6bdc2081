"""The compiled choice of the nearest states: the k largest similarities of a row, kept while blocks of it come.

Equal ones are ordered by place, so that what is kept depends on no block.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from chainrule.base.jit import kernel

Array = NDArray[Any]
Float32 = Any  # a scalar of this type

_AT_ONCE = 16  # similarities that are compared with the least one that is kept


@kernel
def comes_first(value: Float32, place: int, other: Float32, other_place: int) -> bool:
    return value > other or (value == other and place < other_place)


@kernel
def put_best_first(values: Array, places: Array, row: int, count: int, nearest: int) -> None:
    """Reorder the first `count` of a row so that the best are the first: quickselect (Hoare 1961)."""
    low, high = 0, count - 1
    while low < high:
        value, place = values[row, (low + high) // 2], places[row, (low + high) // 2]
        i, j = low, high
        while i <= j:
            while comes_first(values[row, i], places[row, i], value, place):
                i += 1
            while comes_first(value, place, values[row, j], places[row, j]):
                j -= 1
            if i <= j:
                values[row, i], values[row, j] = values[row, j], values[row, i]
                places[row, i], places[row, j] = places[row, j], places[row, i]
                i += 1
                j -= 1
        if nearest - 1 <= j:
            high = j
        elif nearest - 1 >= i:
            low = i
        else:
            return


@kernel
def keep_nearest(
    found: Array, begin: int, nearest: int, values: Array, places: Array, counts: Array, least: Array
) -> None:
    """Take the similarities of a block into account. found: (Q, n), of the states from `begin` on.

    values, places: (Q, room), of which `counts` are filled. least: what a similarity has to exceed.
    """
    size, room = found.shape[1], values.shape[1]
    for row in range(found.shape[0]):
        count, border = counts[row], least[row]
        for first in range(0, size, _AT_ONCE):
            last = min(first + _AT_ONCE, size)
            is_above = False
            for column in range(first, last):
                is_above |= found[row, column] > border
            if not is_above:
                continue
            for column in range(first, last):
                if found[row, column] > border:
                    if count == room:
                        put_best_first(values, places, row, count, nearest)
                        count, border = nearest, values[row, nearest - 1]
                        if not found[row, column] > border:
                            continue
                    values[row, count], places[row, count] = found[row, column], begin + column
                    count += 1
        counts[row], least[row] = count, border


@kernel
def finish_nearest(nearest: int, values: Array, places: Array, counts: Array) -> None:
    """Put the nearest of each row first."""
    for row in range(values.shape[0]):
        put_best_first(values, places, row, counts[row], nearest)
