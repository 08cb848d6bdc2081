"""Ranges of nodes, cut into parts for threads."""

from __future__ import annotations

import itertools

import numpy as np

MOST = 64  # parts
LEAST = 4096  # nodes that are worth a thread


def parts_of(span: slice, most: int = MOST) -> list[tuple[int, int]]:
    """At most so many parts that make up a span, in order and about as large as one another; none of an empty one."""
    parts = min(most, (span.stop - span.start) // LEAST + 1)
    edges = np.unique(np.linspace(span.start, span.stop, parts + 1).astype(np.int64)).tolist()
    return list(itertools.pairwise(edges))
