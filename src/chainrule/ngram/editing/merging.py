"""Merges several tables into one that interpolates them, like SRILM's -mix-lm.

The merged table has the n-grams of all components, with P(w|h) = sum of weight_i P_i(w|h), where components back off as
needed. N-grams that no component has back off, with the weight for which each distribution sums to one:

    alpha(h) = sum_i weight_i alpha_i(h) d_i(h) / sum_i weight_i d_i(h)
    d_i(h) = 1 - sum of P_i(w|h') over the words w seen after h

which is an average of the components' backoffs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.base.threads import run, run_all
from chainrule.ngram.editing.editing_kernels import add_component, find_ascending, union
from chainrule.ngram.trie.assembly import Trie, check_trie, with_suffixes
from chainrule.ngram.trie.table import Table, build_table, narrowest, parts_of
from chainrule.protocol import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int, Int32
    from numpy import ndarray

TASK = "merging"


def merge_tables(tables: Sequence[Table], weights: Sequence[float], progress: Progress = silent) -> Table:
    """Return the table of a linear mixture of tables over the same vocabulary. weights: must sum to one.

    Raises ModelFormatError where a table is damaged.
    """
    progress(TASK, 0, None)
    tables = [with_suffixes(table)[0] for table in tables]
    level_sizes, words, begin, nodes = _unite(tables)
    empty = np.zeros(words.size, np.float32)
    frame, suffixes = with_suffixes(build_table(level_sizes, words, empty, begin, empty[: begin.size - 1]))
    mixed, left, left_below = np.zeros(words.size), np.zeros(begin.size - 1), np.zeros(begin.size - 1)
    for i, (table, own_nodes, weight) in enumerate(zip(tables, nodes, weights, strict=True)):
        progress(TASK, i, len(tables))
        values = np.zeros(words.size, np.float32)
        _, log_probs, _, log_backoffs = table.columns
        fixed = begin, suffixes, own_nodes, log_probs, log_backoffs, weight, values, mixed, left, left_below
        for order in range(1, len(level_sizes) + 1):
            run_all(add_component, [(start, stop, *fixed) for start, stop in parts_of(frame.level(order - 1))])
    left_below[left_below == 0] = left[left_below == 0] = 1  # the root
    with np.errstate(divide="ignore"):
        log_probs, log_backoffs = np.log(mixed).astype(np.float32), np.log(left / left_below).astype(np.float32)
    log_backoffs[np.diff(begin) == 0] = 0
    log_probs[0] = log_backoffs[0] = 0
    return build_table(level_sizes, words, log_probs, begin, log_backoffs)


def renumber(table: Table, new_ids: Int32[ndarray, " vocab"], vocabulary_size: int) -> Table:
    """Return the table over a larger vocabulary: new_ids[word] is the new id of each word.

    New words have no probability.
    """
    check_trie(table)
    log_probs = np.full(vocabulary_size, -np.inf, np.float32)
    backoffs = np.zeros(vocabulary_size, np.float32)
    log_probs[new_ids] = table.log_probs[table.level(1)]
    if table.order > 1:
        backoffs[new_ids] = table.log_backoffs[table.level(1)]
    trie = Trie(log_probs, backoffs, node_limit=table.words.size + vocabulary_size)
    moved = np.zeros(table.words.size, trie.index)
    moved[table.level(1)] = 1 + new_ids
    for order in range(2, table.order + 1):
        contexts, level = table.level(order - 1), table.level(order)
        parents = np.repeat(moved[contexts], np.diff(table.begin[contexts.start : contexts.stop + 1]))
        first = trie.words.size
        level_arrays = new_ids[table.words[level]], table.log_probs[level].copy(), table.log_backoffs[level].copy()
        indices = trie.add_level(parents, *level_arrays)
        new = np.arange(first, first + parents.size, dtype=moved.dtype)
        moved[level.start : level.stop][slice(None) if indices is None else indices] = new
    return trie.table()


def scale_unknown(table: Table, ratio: float) -> Table:
    """Return the table with the odds of <unk> multiplied by `ratio` after every context; see `mixture/components.py`.

    Probabilities after h are divided by Z(h), and its backoff is multiplied by Z(h') / Z(h), where h' is its suffix.
    """
    table, suffixes = with_suffixes(table)
    contexts = table.begin.size - 1
    first, after = table.begin[:-1], table.begin[1:]
    has_unknown = (first < after) & (table.words[np.minimum(first, table.words.size - 1)] == UNKNOWN)
    log_share = np.where(has_unknown, table.log_probs[np.minimum(first, table.words.size - 1)], 0.0)  # log P(<unk> | h)
    for order in range(1, table.order):
        level = table.level(order)
        nodes = np.arange(level.start, level.stop)[~has_unknown[level]]
        log_share[nodes] = table.log_backoffs[nodes] + log_share[suffixes[nodes]]
    log_total = np.log1p((ratio - 1) * np.exp(log_share))
    log_probs, log_backoffs = table.log_probs.astype(np.float64), table.log_backoffs.astype(np.float64)
    log_probs[1:] -= np.repeat(log_total, np.diff(table.begin))
    log_probs[1:][table.words[1:] == UNKNOWN] += np.log(ratio)
    log_backoffs[1:] += log_total[suffixes[1:contexts]] - log_total[1:]
    arrays = log_probs.astype(np.float32), table.begin, log_backoffs.astype(np.float32)
    return build_table(table.level_sizes, table.words, *arrays)


def _unite(
    tables: Sequence[Table],
) -> tuple[tuple[int, ...], Int32[ndarray, " nodes"], Int[ndarray, " inner+1"], list[Int[ndarray, " nodes"]]]:
    """Return the level sizes, words and begin of the union; and for each table, its node of each node of the union, or
    -1.
    """
    vocabulary_size = tables[0].vocabulary_size
    index = narrowest(sum(table.words.size for table in tables))
    level_sizes = [vocabulary_size]
    words = [np.arange(-1, vocabulary_size, dtype=np.int32)]
    begins = [np.array([1], index)]
    words[0][0] = 0
    # the union's nodes of each table's nodes, as far as they are numbered
    moved = [np.arange(1 + vocabulary_size) for _ in tables]
    first = 1 + vocabulary_size
    for order in range(2, max(table.order for table in tables) + 1):
        first_context = first - level_sizes[-1]
        keys = [_keys(table, order, indices, first_context) for table, indices in zip(tables, moved, strict=True)]
        all_keys = keys[0]
        for other in keys[1:]:
            out = np.empty(all_keys.size + other.size, np.int64)
            all_keys = out[: run(union, all_keys, other, out)]
        for i, own_keys in enumerate(keys):
            indices = np.empty(own_keys.size, np.int64)
            run(find_ascending, all_keys, own_keys, indices)
            moved[i] = np.concatenate([moved[i], indices + first])
        words.append((all_keys % vocabulary_size).astype(np.int32))
        children = np.bincount(all_keys // vocabulary_size, minlength=level_sizes[-1])
        begins.append((first + np.cumsum(children) - children).astype(index))
        level_sizes.append(all_keys.size)
        first += all_keys.size
    begin = np.concatenate([*begins, np.array([first], index)])
    nodes = []
    for indices in moved:
        own_keys = np.full(first, -1, index)
        own_keys[indices] = np.arange(indices.size)
        nodes.append(own_keys)
    return tuple(level_sizes), np.concatenate(words), begin, nodes


def _keys(table: Table, order: int, moved: Int[ndarray, " nodes"], first_context: int) -> Int[ndarray, " ngrams"]:
    """Return the n-grams of one order as ascending keys of (context in the union's level, word)."""
    if order > table.order:
        return np.empty(0, np.int64)
    contexts = table.level(order - 1)
    children = np.diff(table.begin[contexts.start : contexts.stop + 1])
    parents = np.repeat(moved[contexts] - first_context, children)
    return parents.astype(np.int64) * table.vocabulary_size + table.words[table.level(order)]
