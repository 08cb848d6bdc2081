"""Compiled construction of a trie from n-grams in suffix order: by last word, then by the word before, and so on.

The rank of an n-gram is its index in the suffix order of its order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.intrinsics import prefetch
from chainrule.base.jit import allocating_kernel, kernel

Array = NDArray[Any]

_BLOCK = 512  # n-grams whose memory is prefetched before the first one is read


@kernel
def _is_before(lower: Array, rank: int, row: Array) -> bool:
    """Return whether an n-gram of the order below, by rank, precedes the suffix of `row`."""
    k = lower.shape[1] - 1
    while k > 0 and lower[rank, k] == row[k + 1]:
        k -= 1
    return lower[rank, k] < row[k + 1]


@kernel
def _is_suffix(lower: Array, rank: int, row: Array) -> bool:
    for k in range(lower.shape[1]):
        if lower[rank, k] != row[k + 1]:
            return False
    return True


@kernel
def _first_not_before(lower: Array, row: Array) -> int:
    low, high = 0, lower.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if _is_before(lower, middle, row):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _first_not_less(ascending: Array, low: int, high: int, word: int) -> int:
    """Return the first index in low .. high whose word is not below `word`, or `high`, by galloping search."""
    step = 1
    while low + step <= high and ascending[low + step - 1] < word:
        low += step
        step += step
    high = min(high, low + step - 1)
    while low < high:
        middle = (low + high) >> 1
        if ascending[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low


@allocating_kernel
def find_parents(
    rows: Array,
    lower: Array,
    lower_firsts: Array,
    lower_contexts: Array,
    extensions: Array,
    suffixes: Array,
    contexts: Array,
) -> bool:
    """Write the ranks of the n-grams' suffixes and contexts; return False if one is missing, or a row is out of order.

    lower: the words of the order below, by rank; lower_firsts: a contiguous copy of their first words; lower_contexts:
    the ranks of their contexts. extensions: by the rank of an n-gram two orders below, the first of the order below
    that has it as its suffix. N-grams with the same suffix are contiguous, and their first words ascend. So the context
    (a b) of (a b c) is searched for among the n-grams that end in b, the context of (b c), after that of the row
    before.
    """
    order = rows.shape[1]
    is_new, low, high = np.empty(_BLOCK, np.bool_), np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    rank = _first_not_before(lower, rows[0]) if rows.shape[0] > 0 else 0
    at = after = np.int64(0)
    for start in range(0, rows.shape[0], _BLOCK):
        stop = min(start + _BLOCK, rows.shape[0])
        for i in range(start, stop):
            k = order - 1
            if i > 0:
                while k > 0 and rows[i, k] == rows[i - 1, k]:
                    k -= 1
                if rows[i, k] <= rows[i - 1, k]:
                    return False
            is_new[i - start] = i == 0 or k > 0
            if is_new[i - start]:
                while rank < lower.shape[0] and _is_before(lower, rank, rows[i]):
                    rank += 1
                if rank == lower.shape[0] or not _is_suffix(lower, rank, rows[i]):
                    return False
                low[i - start] = lower_contexts[rank]
                prefetch(extensions, low[i - start])
            suffixes[i] = rank
        for i in range(stop - start):
            if is_new[i]:
                low[i], high[i] = extensions[low[i]], extensions[low[i] + 1]
                prefetch(lower_firsts, low[i])
        for i in range(start, stop):
            if is_new[i - start]:
                at, after = low[i - start], high[i - start]
            at = _first_not_less(lower_firsts, at, after, rows[i, 0])
            if at == after or lower_firsts[at] != rows[i, 0]:
                return False
            contexts[i] = at
    return True


@kernel
def mark_extensions(suffixes: Array, extensions: Array) -> None:
    """Set extensions[rank] to the first n-gram whose suffix has at least this rank. suffixes: ascending ranks."""
    rank = 0
    for i in range(suffixes.size):
        while rank <= suffixes[i]:
            extensions[rank] = i
            rank += 1
    extensions[rank:] = suffixes.size


@kernel
def count_children(contexts: Array, counts: Array) -> None:
    """Add the n-grams of each context to its count; contexts are ranks."""
    for context in contexts:
        counts[context] += 1


@kernel
def sum_children(counts: Array, indices: Array, start: int, stop: int, sizes: Array) -> None:
    """Set sizes[indices[rank]] to the number of children of the context. counts: by part of the n-grams, and rank."""
    for rank in range(start, stop):
        size = 0
        for part in range(counts.shape[0]):
            size += counts[part, rank]
        sizes[indices[rank]] = size


@kernel
def set_cursors(counts: Array, indices: Array, begin: Array, start: int, stop: int) -> None:
    """Replace counts by the index of the first child of each context in each part."""
    for rank in range(start, stop):
        cursor = begin[indices[rank]]
        for part in range(counts.shape[0]):
            size = counts[part, rank]
            counts[part, rank] = cursor
            cursor += size


@allocating_kernel
def write_children(
    last_words: Array,
    log_probs: Array,
    log_backoffs: Array,
    contexts: Array,
    suffixes: Array,
    cursor: Array,
    suffix_nodes: Array,
    words: Array,
    node_log_probs: Array,
    node_log_backoffs: Array,
    node_suffixes: Array,
    indices: Array,
    is_last: bool,
) -> None:
    """Write n-grams to the trie, and their indices in the level to `indices`; each context's words already ascend.

    cursor: by the rank of a context, where its next child goes; advanced. suffix_nodes: by rank. is_last: whether there
    are no backoffs.
    """
    block = np.empty(_BLOCK, cursor.dtype)
    for start in range(0, last_words.size, _BLOCK):
        stop = min(start + _BLOCK, last_words.size)
        for i in range(start, stop):
            index = cursor[contexts[i]]
            cursor[contexts[i]] = index + 1
            block[i - start] = indices[i] = index
            prefetch(words, np.int64(index))
            prefetch(node_suffixes, np.int64(index))
        for i in range(start, stop):
            index = block[i - start]
            words[index] = last_words[i]
            node_log_probs[index] = log_probs[i]
            node_suffixes[index] = suffix_nodes[suffixes[i]]
            if not is_last:
                node_log_backoffs[index] = log_backoffs[i]
