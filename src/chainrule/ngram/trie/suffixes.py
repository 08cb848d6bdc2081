"""Finds the suffixes of a table's n-grams, and adds missing ones; checks a table that comes from a file.

The suffix of an n-gram is the n-gram without its first word. Its probability is the one to back off to.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.threads import run, run_all
from chainrule.errors import ModelFormatError
from chainrule.ngram.trie.assembly import Trie, complete_trie
from chainrule.ngram.trie.assembly_kernels import find_suffixes
from chainrule.ngram.trie.node_ranges import parts_of
from chainrule.ngram.trie.order_check_kernels import first_disorder

if TYPE_CHECKING:
    from jaxtyping import Int
    from numpy import ndarray

    from chainrule.ngram.trie.table import Table


def with_suffixes(table: Table) -> tuple[Table, Int[ndarray, " nodes"]]:
    """The table with all suffixes of its n-grams added, and the suffix of each node; no score changes.

    Raises ModelFormatError where the table is damaged.
    """
    check_trie(table)
    suffixes = _suffixes(table)
    if suffixes is None:
        table = _add_missing_suffixes(table)
        suffixes = _suffixes(table)
        assert suffixes is not None
    return replace(table, suffixes=suffixes), suffixes


def check_trie(table: Table) -> None:
    """Raises ModelFormatError where the table violates the layout: loading does not read the whole table."""
    bounds = np.array([table.level(order).start for order in range(1, table.order + 1)] + [table.words.size])
    node = run(first_disorder, *table.columns, bounds)
    if node >= 0:
        raise ModelFormatError(
            f"the n-gram table is out of order, or has an impossible number, at node {node}; its file is damaged: "
            "try chainrule verify"
        )


def _suffixes(table: Table) -> Int[ndarray, " nodes"] | None:
    """The suffix of each node, the root for unigrams; None if a suffix is missing."""
    suffixes = np.zeros(table.words.size, table.begin.dtype)
    for order in range(2, table.order + 1):
        contexts, level = table.level(order - 1), table.level(order)
        if order == 2:
            suffixes[level] = 1 + table.words[level]
            continue
        fixed = table.words, table.begin, contexts.start
        outputs = suffixes[contexts], suffixes[level]
        calls = [
            (*fixed, start - contexts.start, stop - contexts.start, *outputs) for start, stop in parts_of(contexts)
        ]
        if sum(run_all(find_suffixes, calls)):
            return None
    return suffixes


def _add_missing_suffixes(table: Table) -> Table:
    unigrams = table.level(1)
    backoffs = table.log_backoffs
    trie = Trie(table.log_probs[unigrams], backoffs[unigrams], node_limit=table.order * table.words.size)
    for order in range(2, table.order + 1):
        contexts, level = table.level(order - 1), table.level(order)
        children = np.diff(table.begin[contexts.start : contexts.stop + 1])
        parents = np.repeat(np.arange(contexts.start, contexts.stop, dtype=trie.index), children)
        # empty at the highest order
        trie.add_level(parents, table.words[level], table.log_probs[level], backoffs[level])
    return complete_trie(trie, {}).table()
