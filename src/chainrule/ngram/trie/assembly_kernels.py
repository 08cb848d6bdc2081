"""Compiled passes that sort n-grams into a trie, and check a trie from a file.

Sorting is radix sort for many keys, insertion sort for few. A sort key holds a word above POSITION_BITS and the index
of an n-gram, or a position, below.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.intrinsics import prefetch
from chainrule.base.jit import allocating_kernel, kernel
from chainrule.ngram.trie.query_kernels import NO_NODE, find_children

Array = NDArray[Any]


POSITION_BITS = 33  # 8.6 billion positions; the 30 bits above hold a billion words
_INSERTION_LIMIT = 40  # up to this size, insertion sort is faster than radix sort
_SMALL_DIGIT, _LARGE_DIGIT = 6, 11
_LARGE = 4096  # from this size on, a digit of 11 bits pays off


@allocating_kernel
def sort_keys(keys: Array, scratch: Array) -> None:
    """Sort keys, whose positions ascend already, by word.

    scratch: as large as `keys`; not used for up to _INSERTION_LIMIT keys.
    """
    if keys.size <= _INSERTION_LIMIT:
        for i in range(1, keys.size):
            key = keys[i]
            j = i
            while j > 0 and keys[j - 1] > key:
                keys[j] = keys[j - 1]
                j -= 1
            keys[j] = key
        return
    top_word = 0
    for key in keys:
        top_word = max(top_word, key >> POSITION_BITS)
    digit = _SMALL_DIGIT if keys.size < _LARGE else _LARGE_DIGIT
    counts = np.zeros(1 << digit, np.int64)
    mask = (1 << digit) - 1
    shift = POSITION_BITS
    source, target = keys, scratch[: keys.size]
    passes = 0
    while top_word >> (shift - POSITION_BITS) > 0:
        counts[:] = 0
        for key in source:
            counts[(key >> shift) & mask] += 1
        total = 0
        for i in range(counts.size):
            counts[i], total = total, total + counts[i]
        for key in source:
            bucket = (key >> shift) & mask
            target[counts[bucket]] = key
            counts[bucket] += 1
        source, target = target, source
        shift += digit
        passes += 1
    if passes % 2 == 1:
        for i in range(keys.size):  # a slice assignment takes two seconds to compile
            keys[i] = source[i]


_INDEX_MASK = (1 << POSITION_BITS) - 1
_BLOCK = 512  # n-grams whose memory is prefetched before the first one is read


@allocating_kernel
def find_nodes(words: Array, begin: Array, slots: Array, rows: Array, length: int, nodes: Array) -> None:
    """Set nodes[i] to the node of the first `length` words of row i, or NO_NODE. Words must be in the vocabulary.

    In sorted files, rows share a prefix with the row before; it is looked up only once.
    """
    contexts, prefix_nodes, scratch = (
        np.empty(_BLOCK, np.int64),
        np.empty(_BLOCK, np.int64),
        np.empty((5, _BLOCK + 1), np.int64),
    )
    tokens, prefix_of, is_same = np.empty(_BLOCK, np.int32), np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.bool_)
    for first in range(0, rows.shape[0], _BLOCK):
        block = rows[first : first + _BLOCK]
        distinct = 0
        for i in range(block.shape[0]):
            is_same[i] = i > 0 and block[i, 0] == block[i - 1, 0]
            distinct += not is_same[i]
            prefix_of[i] = distinct - 1
            prefix_nodes[distinct - 1] = 1 + block[i, 0]
        for k in range(1, length):
            distinct = 0
            for i in range(block.shape[0]):
                is_same[i] = is_same[i] and block[i, k] == block[i - 1, k]
                distinct += not is_same[i]
                contexts[distinct - 1], tokens[distinct - 1] = prefix_nodes[prefix_of[i]], block[i, k]
                prefix_of[i] = distinct - 1
            find_children(
                words,
                begin,
                slots,
                begin.size - 1,
                contexts[:distinct],
                tokens[:distinct],
                scratch,
                prefix_nodes[:distinct],
            )
        for i in range(block.shape[0]):
            nodes[first + i] = prefix_nodes[prefix_of[i]]


@kernel
def is_ascending(contexts: Array, words: Array) -> bool:
    """Return whether n-grams are sorted by (context, word), without duplicates."""
    for i in range(1, contexts.size):
        if contexts[i - 1] > contexts[i] or (contexts[i - 1] == contexts[i] and words[i - 1] >= words[i]):
            return False
    return True


@allocating_kernel
def count_children(contexts: Array, start: int, stop: int, first_context: int, size: int) -> Array:
    """Return how many of the n-grams start .. stop follow each of the `size` contexts from first_context on."""
    counts = np.zeros(size, np.int64)
    for i in range(start, stop):
        counts[contexts[i] - first_context] += 1
    return counts


@kernel
def group_keys(
    contexts: Array, words: Array, start: int, stop: int, first_context: int, cursor: Array, keys: Array
) -> None:
    """Group the keys of the n-grams start .. stop by context; their indices ascend in each group.

    cursor: by context from first_context on, where its next key goes; advanced.
    """
    for first in range(start, stop, _BLOCK):
        last = min(first + _BLOCK, stop)
        for index in range(first, last):
            prefetch(cursor, contexts[index] - first_context)
        for index in range(first, last):
            prefetch(keys, np.int64(cursor[contexts[index] - first_context]))
        for index in range(first, last):
            context = contexts[index] - first_context
            keys[cursor[context]] = np.int64(words[index]) << POSITION_BITS | index
            cursor[context] += 1


@allocating_kernel
def sort_groups(keys: Array, begin: Array, first_node: int, start: int, stop: int) -> int:
    """Sort the keys of contexts start .. stop by word; return the index of a key whose word occurs twice, or -1."""
    largest = 0
    for context in range(start, stop):
        largest = max(largest, np.int64(begin[context + 1]) - begin[context])
    scratch = np.empty(largest, np.int64)
    duplicate = -1
    for context in range(start, stop):
        low, high = begin[context] - first_node, begin[context + 1] - first_node
        sort_keys(keys[low:high], scratch)
        for i in range(low + 1, high):
            if keys[i - 1] >> POSITION_BITS == keys[i] >> POSITION_BITS:
                duplicate = i
    return duplicate


@kernel
def write_sorted(
    keys: Array,
    start: int,
    stop: int,
    log_probs: Array,
    log_backoffs: Array,
    words: Array,
    sorted_log_probs: Array,
    sorted_log_backoffs: Array,
) -> None:
    """Write words, log-probabilities and backoffs in the order of keys start .. stop; log_backoffs may be empty."""
    for i in range(start, stop):
        index = keys[i] & _INDEX_MASK
        words[i] = keys[i] >> POSITION_BITS
        sorted_log_probs[i] = log_probs[index]
        if log_backoffs.size > 0:
            sorted_log_backoffs[i] = log_backoffs[index]


@kernel
def find_suffixes(
    words: Array, begin: Array, first_context: int, start: int, stop: int, context_suffixes: Array, suffixes: Array
) -> int:
    """Write the node of each n-gram's suffix, or NO_NODE; return how many are missing.

    The n-grams are the children of contexts first_context + (start .. stop); suffixes[0] belongs to the first child of
    first_context.
    """
    first_node = begin[first_context]
    missing = 0
    for context in range(first_context + start, first_context + stop):
        suffix = context_suffixes[context - first_context]
        low = np.int64(begin[suffix]) if suffix >= 0 else 0
        end = np.int64(begin[suffix + 1]) if suffix >= 0 else 0
        for node in range(begin[context], begin[context + 1]):
            high = end
            while low < high:  # words ascend in both, so the search goes on from here
                middle = (low + high) >> 1
                if words[middle] < words[node]:
                    low = middle + 1
                else:
                    high = middle
            if low < end and words[low] == words[node]:
                suffixes[node - first_node] = low
            else:
                suffixes[node - first_node] = NO_NODE
                missing += 1
    return missing


@kernel
def first_disorder(words: Array, log_probs: Array, begin: Array, log_backoffs: Array, bounds: Array) -> int:
    """Return the first node that violates the layout of `table.py`, or -1.

    Children must follow those of the context before, and be of the next order; words must be in the vocabulary and
    ascend; log-probabilities and backoffs must be possible. bounds: the first node of every order, and the end of the
    last one.
    """
    vocabulary_size = bounds[1] - 1
    if begin[0] != 1 or begin[begin.size - 1] != words.size:
        return 0
    for order in range(1, bounds.size - 1):
        if begin[bounds[order - 1]] != bounds[order]:
            return bounds[order - 1]
    for context in range(begin.size - 1):
        low, high = np.int64(begin[context]), np.int64(begin[context + 1])
        if low > high or high > words.size or low < 1:
            return context
        if math.isnan(log_backoffs[context]) or log_backoffs[context] == np.inf:
            return context
        previous = np.int64(-1)
        for node in range(low, high):
            if not previous < words[node] < vocabulary_size or not log_probs[node] <= 1e-3:
                return node
            previous = words[node]
    return -1
