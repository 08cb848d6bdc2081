"""Blocks of words and blocks of contexts; a cell is the pairs of one of each.

In a round, cell (i, i + round) is worked on for every i: no block stands in two of them, so that no two share a row.
The number of blocks comes from the vocabulary alone, and a cell's pairs have one order: so the result is the same on
any number of threads (Gemulla 2011 for matrices; Lerer 2019 draws negatives inside the block).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Int32, Int64, UInt64
    from numpy import ndarray

_MOST_BLOCKS = 8
_LEAST_ROWS = 256  # of a block


def blocks_for(rows: int) -> int:
    """How many blocks of words there are, and of contexts: as many threads can work at once."""
    return max(1, min(_MOST_BLOCKS, rows // _LEAST_ROWS))


def random_blocks(rows: int, blocks: int, rng: np.random.Generator) -> Int32[ndarray, " rows"]:
    """A block for each row; of as many rows as there are blocks, side by side in frequency, each has another."""
    groups = -(-rows // blocks)
    order = rng.permuted(np.tile(np.arange(blocks, dtype=np.int32), (groups, 1)), axis=1)
    return order.reshape(-1)[:rows]


def cells_of_round(number: int, blocks: int) -> list[tuple[int, int]]:
    """Block of words and block of contexts."""
    return [(i, (i + number) % blocks) for i in range(blocks)]


def starts_of(sizes: Int64[ndarray, "parts cells"]) -> tuple[Int64[ndarray, "parts cells"], Int64[ndarray, " cells+1"]]:
    """Where each part's share of a cell begins, if cells lie one after the other and in each the parts in order; and
    where each cell begins.
    """
    in_order = sizes.T.reshape(-1)
    starts = (np.cumsum(in_order) - in_order).reshape(sizes.T.shape).T
    return np.ascontiguousarray(starts), np.concatenate([starts[0], [sizes.sum()]]).astype(np.int64)


def seeds(rng: np.random.Generator, number: int) -> UInt64[ndarray, " number"]:
    """States for the kernels' generators."""
    return rng.integers(0, 1 << 63, number, dtype=np.uint64)
