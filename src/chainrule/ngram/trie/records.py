"""The records of the trie's nodes and contexts, and how nodes are numbered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Shaped
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
