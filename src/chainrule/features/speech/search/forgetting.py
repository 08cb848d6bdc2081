"""What a search drops while it goes on: the texts, words and spans that none of its beams goes back to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Int32, Int64
    from numpy import ndarray


def reached(
    rows: Int32[ndarray, "nodes fields"], nodes: Int32[ndarray, " some"]
) -> tuple[Int64[ndarray, " kept"], Int32[ndarray, " nodes"]]:
    """Return the nodes that others go back to, with themselves and the root, and the new number of each.

    rows: the first field is the node before. nodes: may occur several times.
    """
    is_kept = np.zeros(len(rows), bool)
    is_kept[0] = True
    while nodes.size:
        nodes = np.unique(nodes)
        nodes = nodes[~is_kept[nodes]]
        is_kept[nodes] = True
        nodes = rows[nodes, 0]
    kept = np.flatnonzero(is_kept)
    numbers = np.zeros(len(rows), np.int32)
    numbers[kept] = np.arange(len(kept))
    return kept, numbers
