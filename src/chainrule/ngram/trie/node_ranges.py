"""Cuts ranges of nodes into parts for threads."""

from __future__ import annotations

import itertools

import numpy as np

MAX_PARTS = 64
MIN_NODES = 4096  # that are worth a thread of their own


def parts_of(span: slice, max_parts: int = MAX_PARTS) -> list[tuple[int, int]]:
    """Cuts a span into at most `max_parts` parts of about equal size, in order; an empty span has none."""
    parts = min(max_parts, (span.stop - span.start) // MIN_NODES + 1)
    edges = np.unique(np.linspace(span.start, span.stop, parts + 1).astype(np.int64)).tolist()
    return list(itertools.pairwise(edges))
