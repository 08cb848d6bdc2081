"""Look-ups in one shard: of n-grams, each with its context, given as rows of words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.ngram.trie.query_kernels import NO_NODE, find_children

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.ngram.trie.table import Table

PADDING = -1  # a row ends before it


def look_up_rows(shard: Table, rows: Int32[ndarray, "rows order"]) -> Float32[ndarray, "rows 2"]:
    """For each n-gram, its log-probability, NaN where the shard lacks it, and its context's log-backoff, or 0.

    rows: at least one word each, below the vocabulary's size, the first one of this shard's; PADDING at the end.
    """
    lengths = np.count_nonzero(rows != PADDING, axis=1)
    nodes = 1 + rows[:, 0].astype(np.int64)
    backoffs = np.zeros(len(rows), np.float32)
    inner, scratch = shard.log_backoffs.size, np.empty((5, len(rows) + 1), np.int64)
    for n in range(2, rows.shape[1] + 1):
        longer = lengths >= n
        contexts = np.where(longer, nodes, NO_NODE)
        last = (lengths == n) & (nodes != NO_NODE)
        backoffs[last] = shard.log_backoffs[nodes[last]]
        words = np.where(longer, rows[:, n - 1], 0).astype(np.int32)
        children = np.empty(len(rows), np.int64)
        find_children(shard.words, shard.begin, shard.slots, inner, contexts, words, scratch, children)
        nodes = np.where(longer, children, nodes)
    found = nodes != NO_NODE
    log_probs = np.full(len(rows), np.nan, np.float32)
    log_probs[found] = shard.log_probs[nodes[found]]
    return np.stack([log_probs, backoffs], axis=1)
