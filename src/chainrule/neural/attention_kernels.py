"""Attention of the next token of each row, in one pass over what the rows remember; only computes, for float32.

Legend: B batch, H heads, K heads of keys and values (a divisor of H), S columns, d numbers in a head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.jit import prefetch, quick_kernel

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32
    from numpy import ndarray

_LEAST = np.float32(-87.0)  # below it, e^x is no normal float32
_PER_LN_2, _LN_2 = np.float32(1 / np.log(2)), np.float32(np.log(2))
_LINE = 16  # numbers that are fetched at once
_ONE, _HALF = np.float32(1), np.float32(0.5)


@quick_kernel
def attend_next(
    query: Float32[ndarray, "B H d"],
    key: Float32[ndarray, "B K d"],
    value: Float32[ndarray, "B K d"],
    store: Float32[ndarray, "B K capacity 2d"],
    begin: int,
    end: int,
    mask: Float32[ndarray, "_ _ S"],
    found: Float32[ndarray, "B H d"],
    first_row: int,
    last_row: int,
) -> None:
    """Of some rows, writes a key and a value as column `end - 1`, and what each query takes from columns `begin` on.

    store: a key and its value in each column. mask: added to the scores, (B or 1, H or 1, S); or empty.
    """
    _, heads, width = query.shape
    group = heads // key.shape[1]
    columns, room = end - begin, store.shape[2] * 2 * width
    numbers = store.reshape(-1)
    scale = np.float32(1 / np.sqrt(width))
    weights, exponents = np.empty(columns, np.float32), np.empty(columns, np.int32)
    for row in range(first_row, last_row):
        for head in range(heads):
            key_head = head // group
            seen = store[row, key_head, begin:end]
            if head % group == 0:
                for i in range(width):
                    seen[columns - 1, i] = key[row, key_head, i]
                    seen[columns - 1, width + i] = value[row, key_head, i]
            asked, taken = query[row, head], found[row, head]
            following = (row * key.shape[1] + key_head + 1) * room + begin * 2 * width
            for column in range(columns):
                if head % group == 0:  # the processor does not look beyond a page of memory by itself
                    for i in range(2 * width * column, 2 * width * (column + 1), _LINE):
                        prefetch(numbers, following + i)
                score = np.float32(0)
                for i in range(width):
                    score += asked[i] * seen[column, i]
                weights[column] = score * scale
            if mask.size:
                added = mask[row % mask.shape[0], head % mask.shape[1]]
                for column in range(columns):
                    weights[column] += added[column]
            total = _exponentials(weights, exponents)
            for i in range(width):
                taken[i] = 0
            for column in range(columns):
                weight = weights[column]
                for i in range(width):
                    taken[i] += weight * seen[column, width + i]
            for i in range(width):
                taken[i] /= total


@quick_kernel
def _exponentials(x: Float32[ndarray, " S"], exponents: Int32[ndarray, " S"]) -> np.float32:
    """Replaces x by e^(x - max x), to a unit in the last place; their sum. exponents: room to work in.

    e^x is 2^n e^z with |z| at most ln 2 / 2, where Taylor's series is short: this runs in vectors, as np.exp does not.
    """
    top = x[0]
    for i in range(x.size):
        top = max(top, x[i])
    for i in range(x.size):
        binary = max(x[i] - top, _LEAST) * _PER_LN_2
        whole = np.floor(binary + _HALF)
        z = (binary - whole) * _LN_2
        series = _ONE + z / np.float32(7)
        series = _ONE + z / np.float32(6) * series
        series = _ONE + z / np.float32(5) * series
        series = _ONE + z / np.float32(4) * series
        series = _ONE + z / np.float32(3) * series
        series = _ONE + z * _HALF * series
        x[i] = _ONE + z * series
        exponents[i] = (np.int32(whole) + np.int32(127)) << np.int32(23)
    powers = exponents.view(np.float32)  # 2^n
    total = np.float32(0)
    for i in range(x.size):
        x[i] *= powers[i]
        total += x[i]
    return total
