"""The records of the trie's nodes and contexts, and how nodes are numbered."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int, Int64, Shaped
    from numpy import ndarray
    from numpy.typing import DTypeLike


def narrowest(limit: int) -> type[np.int32] | type[np.int64]:
    """The smaller integer type that holds 0 .. limit."""
    return np.int32 if limit < 2**31 else np.int64


ROOT = 0
NODE = np.dtype([("word", np.int32), ("log_prob", np.float32)])


def context_type(index: DTypeLike) -> np.dtype[Any]:
    """The record type of a context. index: the integer type of node numbers."""
    width = np.dtype(index).itemsize
    return np.dtype(
        {
            "names": ["begin", "log_backoff"],
            "formats": [index, np.float32],
            "offsets": [0, width],
            "itemsize": 2 * width,
        }
    )


class Records(NamedTuple):
    """N-grams with their log-probabilities and backoffs."""

    nodes: Shaped[ndarray, " nodes"]  # of type NODE
    contexts: Shaped[ndarray, " inner+1"]  # of a `context_type`


def level_slice(level_sizes: Sequence[int], order: int) -> slice:
    """The nodes of one order; order 0 is the root."""
    first = sum(level_sizes[: order - 1]) + 1
    return slice(ROOT, ROOT + 1) if order == 0 else slice(first, first + level_sizes[order - 1])


def context_path(
    level_sizes: Sequence[int], begin: Int[ndarray, " inner+1"], order: int, node: int
) -> Int64[ndarray, " order+1"]:
    """A node of some order and its contexts, by order; all inside their levels, even in a damaged trie."""
    path = np.zeros(order + 1, np.int64)
    path[order] = node
    for n in range(order - 1, 0, -1):
        level = level_slice(level_sizes, n)
        # NumPy's search would copy the whole level, which is a column of records.
        context = bisect_right(begin, path[n + 1], level.start, level.stop + 1) - 1
        path[n] = np.clip(context, level.start, level.stop - 1)
    return path
