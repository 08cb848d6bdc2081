"""The compiled side of assembling a trie. A sort key holds a word above PLACE_BITS and a place in the level below."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.jit import kernel
from chainrule.ngram.counting_kernels import PLACE_BITS, sort_keys
from chainrule.ngram.query_kernels import NO_NODE, child

Array = NDArray[Any]

_PLACE = (1 << PLACE_BITS) - 1


@kernel
def find_nodes(words: Array, begin: Array, rows: Array, length: int, nodes: Array) -> None:
    """nodes[i] = the node of the first `length` words of row i, or NO_NODE. Words are of the vocabulary."""
    for i in range(rows.shape[0]):
        nodes[i] = 1 + rows[i, 0]
    for k in range(1, length):  # all rows go through one order before the next, so that cache misses overlap
        context_before = NO_NODE
        for i in range(rows.shape[0]):
            context = nodes[i]
            if context >= 0:
                if context == context_before and rows[i, k] == rows[i - 1, k]:
                    nodes[i] = nodes[i - 1]
                else:
                    nodes[i] = child(words, begin, context, rows[i, k])
            context_before = context


@kernel
def is_ascending(contexts: Array, words: Array) -> bool:
    """Whether n-grams are sorted by (context, word), each there once."""
    for i in range(1, contexts.size):
        if contexts[i - 1] > contexts[i] or (contexts[i - 1] == contexts[i] and words[i - 1] >= words[i]):
            return False
    return True


@kernel
def count_children(contexts: Array, first_context: int, first_node: int, begin: Array) -> None:
    """Writes where the children of each context begin, and after the last one where they end; the first at first_node.

    Every context is among the begin.size - 1 from first_context on.
    """
    begin[:] = 0
    for context in contexts:
        begin[context - first_context + 1] += 1
    begin[0] = first_node
    for i in range(1, begin.size):
        begin[i] += begin[i - 1]


@kernel
def group(contexts: Array, words: Array, first_context: int, first_node: int, begin: Array, keys: Array) -> None:
    """Writes the keys of n-grams grouped by context, places ascending."""
    cursor = begin.copy()
    for place in range(contexts.size):
        context = contexts[place] - first_context
        keys[cursor[context] - first_node] = np.int64(words[place]) << PLACE_BITS | place
        cursor[context] += 1


@kernel
def sort_groups(keys: Array, begin: Array, first_node: int, start: int, stop: int) -> int:
    """Sorts the keys of contexts start .. stop by word; the index of a key whose word is there twice, or -1."""
    largest = 0
    for context in range(start, stop):
        largest = max(largest, np.int64(begin[context + 1]) - begin[context])
    scratch = np.empty(largest, np.int64)
    twin = -1
    for context in range(start, stop):
        low, high = begin[context] - first_node, begin[context + 1] - first_node
        sort_keys(keys[low:high], scratch)
        for i in range(low + 1, high):
            if keys[i - 1] >> PLACE_BITS == keys[i] >> PLACE_BITS:
                twin = i
    return twin


@kernel
def place_numbers(
    keys: Array,
    start: int,
    stop: int,
    log_probs: Array,
    log_backoffs: Array,
    words: Array,
    sorted_log_probs: Array,
    sorted_log_backoffs: Array,
) -> None:
    """Writes the word and the numbers of keys start .. stop; log_backoffs may be empty."""
    for i in range(start, stop):
        place = keys[i] & _PLACE
        words[i] = keys[i] >> PLACE_BITS
        sorted_log_probs[i] = log_probs[place]
        if log_backoffs.size > 0:
            sorted_log_backoffs[i] = log_backoffs[place]


@kernel
def find_suffixes(
    words: Array, begin: Array, first_context: int, start: int, stop: int, context_suffixes: Array, suffixes: Array
) -> int:
    """Writes the node of each n-gram without its first word, or NO_NODE; returns how many there are not.

    The n-grams are the children of contexts first_context + (start .. stop), in their order from the first child of
    first_context on.
    """
    first_node = begin[first_context]
    missing = 0
    for context in range(first_context + start, first_context + stop):
        suffix = context_suffixes[context - first_context]
        low = np.int64(begin[suffix]) if suffix >= 0 else 0
        end = np.int64(begin[suffix + 1]) if suffix >= 0 else 0
        for node in range(begin[context], begin[context + 1]):
            high = end
            while low < high:  # words ascend in both, so what is left behind is not looked at again
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
