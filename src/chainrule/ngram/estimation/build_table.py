"""Builds the table to be queried from estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.ngram.trie.table import Table, pack_records, table_from_records

if TYPE_CHECKING:
    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.estimation.estimates import Estimates


def table_of(counts: Counts, estimates: Estimates) -> Table:
    """The table of all n-grams that are kept."""
    if estimates.kept is None:
        arrays = counts.words, estimates.log_probs, counts.begin, estimates.log_backoffs
        return table_from_records(counts.level_sizes, estimates.records or pack_records(*arrays), counts.suffixes)
    kept = estimates.kept
    inner = counts.begin.size - 1
    sizes = tuple(int(np.count_nonzero(kept[counts.level(order)])) for order in range(1, counts.order + 1))
    # a node's new number; for a pruned one, that of the next kept node
    new_nodes = np.cumsum(kept, dtype=counts.begin.dtype) - kept
    new_nodes = np.append(new_nodes, new_nodes.dtype.type(1 + sum(sizes)))
    inner_kept = kept[:inner]
    begin = np.append(new_nodes[counts.begin[:inner][inner_kept]], new_nodes[-1:])
    records = pack_records(counts.words[kept], estimates.log_probs[kept], begin, estimates.log_backoffs[inner_kept])
    suffixes = counts.suffixes[kept]
    return table_from_records(sizes, records, new_nodes[suffixes] if kept[suffixes].all() else None)
