"""Cuts ranges of nodes into parts for threads."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Int
    from numpy import ndarray

MAX_PARTS = 64
MIN_NODES = 4096  # that are worth a thread of their own


def parts_by_children(begin: Int[ndarray, " inner+1"], contexts: slice, parts: int) -> list[tuple[int, int]]:
    """Cuts a range of contexts into at most `parts` parts with about as many children each.

    begin: of all contexts, as in `table.py`.
    """
    first, last = int(begin[contexts.start]), int(begin[contexts.stop])
    starts = np.linspace(first, last, max(1, min(parts, last - first)) + 1).astype(np.int64)[1:-1].tolist()
    inner = {bisect_left(begin, start, contexts.start, contexts.stop) for start in starts}
    edges = sorted({contexts.start, *inner, contexts.stop})
    return list(itertools.pairwise(edges))


def parts_of(span: slice, max_parts: int = MAX_PARTS) -> list[tuple[int, int]]:
    """Cuts a span into at most `max_parts` parts of about equal size, in order; an empty span has none."""
    parts = min(max_parts, (span.stop - span.start) // MIN_NODES + 1)
    edges = np.unique(np.linspace(span.start, span.stop, parts + 1).astype(np.int64)).tolist()
    return list(itertools.pairwise(edges))
