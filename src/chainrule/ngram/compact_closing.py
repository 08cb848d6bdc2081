"""N-grams put into a table so that the suffix of every n-gram is there, as the compact layout needs it.

Counting leaves no gaps; pruning by probability does, and files from elsewhere have them. An n-gram that is put in gets
the probability that the table gave it by backing off, so that no score changes, only the length of a match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.jit import run
from chainrule.ngram.compact_building_kernels import find_rows, link_suffixes
from chainrule.ngram.query_kernels import NO_NODE
from chainrule.ngram.table import ROOT, Table, indexed

if TYPE_CHECKING:
    from jaxtyping import Int, Int32
    from numpy import ndarray

    Rows = Int32[ndarray, "ngrams order"]  # the words of n-grams


def closed_under_suffixes(table: Table) -> Table:
    """A table with the n-grams that it lacks as suffixes of others. Its nodes and words must be in order."""
    lacking = lacking_suffixes(table)
    words, log_probs, log_backoffs = table.words[:1], table.log_probs[:1], table.log_backoffs[:1]
    begin = np.zeros(0, np.int64)  # of the contexts of all orders but the last one that is there
    renumbered = np.zeros(1, np.int64)  # the new numbers of the last order's old nodes
    sizes = [1]
    for order in range(1, table.order + 1):
        old, new = table.level(order), lacking[order]
        above = table.level(order - 1)
        contexts = np.repeat(renumbered, np.diff(table.begin[above.start : above.stop + 1]))
        inserted = np.zeros(0, np.float32)
        if len(new):
            so_far = words, np.append(begin, words.size)
            context = run(find_rows, *so_far, np.ascontiguousarray(new[:, :-1]))
            inserted = log_backoffs[context] + log_probs[run(find_rows, *so_far, np.ascontiguousarray(new[:, 1:]))]
            contexts = np.concatenate([contexts, context])
        last = np.concatenate([table.words[old], new[:, -1]])
        place = np.lexsort((last, contexts))
        counts = np.bincount(contexts - (words.size - sizes[-1]), minlength=sizes[-1])
        begin = np.concatenate([begin, words.size + np.cumsum(counts) - counts])
        renumbered = np.empty(last.size, np.int64)
        renumbered[place] = words.size + np.arange(last.size)
        renumbered = renumbered[: old.stop - old.start]
        words = np.concatenate([words, last[place]])
        log_probs = np.concatenate([log_probs, np.concatenate([table.log_probs[old], inserted])[place]])
        if order < table.order:
            backoffs = np.concatenate([table.log_backoffs[old], np.zeros(len(new), np.float32)])
            log_backoffs = np.concatenate([log_backoffs, backoffs[place]])
        sizes.append(last.size)
    begin = np.append(begin, words.size).astype(table.begin.dtype if words.size < 2**31 else np.int64)
    return indexed(tuple(sizes[1:]), words, log_probs, begin, log_backoffs)


def lacking_suffixes(table: Table) -> list[Rows]:
    """The n-grams that a table lacks as suffixes of others, by order from 0 on."""
    known = _suffixes_not_there(table)
    lacking = [np.zeros((0, order), np.int32) for order in range(table.order + 1)]
    words, begin = table.words, table.begin
    for order in range(table.order, 2, -1):
        longer = lacking[order]
        is_lacking = run(find_rows, words, begin, np.ascontiguousarray(longer[:, 1:])) == NO_NODE
        rows = [_spelled(table, known[order], order)[:, 1:], longer[is_lacking, 1:]]
        lacking[order - 1] = np.unique(np.concatenate(rows), axis=0)
    return lacking


def _suffixes_not_there(table: Table) -> list[Int[ndarray, " nodes"]]:
    """The nodes whose suffixes a table lacks, by order from 0 on."""
    found: list[Int[ndarray, " nodes"]] = [np.zeros(0, np.int64)] * 2
    suffixes = np.full(table.vocabulary_size, ROOT, np.int64)
    for order in range(2, table.order + 1):
        contexts, level = table.level(order - 1), table.level(order)
        ranks, links = np.empty(level.stop - level.start, np.int32), np.empty(level.stop - level.start, np.int64)
        of = contexts.start, contexts.start, contexts.stop
        run(link_suffixes, table.words, table.begin, *of, suffixes, level.start, ranks, links)
        found.append(level.start + np.flatnonzero(links == NO_NODE))
        suffixes = links
    return found


def _spelled(table: Table, nodes: Int[ndarray, " ngrams"], order: int) -> Rows:
    """The words of some nodes of one order."""
    rows = np.empty((nodes.size, order), np.int32)
    for column in range(order - 1, -1, -1):
        rows[:, column] = table.words[nodes]
        contexts = table.level(column)
        begin = np.ascontiguousarray(table.begin[contexts.start : contexts.stop + 1])
        nodes = contexts.start + np.searchsorted(begin, nodes.astype(begin.dtype), side="right") - 1
    return rows
