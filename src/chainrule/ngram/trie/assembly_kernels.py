"""The compiled assembly of a trie. A sort key holds a word above POSITION_BITS and the index of an n-gram below."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, kernel, prefetch
from chainrule.ngram.trie.query_kernels import NO_NODE, find_children
from chainrule.ngram.trie.sorting_kernels import POSITION_BITS, sort_keys

Array = NDArray[Any]

_PLACE = (1 << POSITION_BITS) - 1
_BLOCK = 512  # n-grams whose memory is asked for before the first one is read


@allocating_kernel
def find_nodes(words: Array, begin: Array, slots: Array, rows: Array, length: int, nodes: Array) -> None:
    """nodes[i] = the node of the first `length` words of row i, or NO_NODE. Words are of the vocabulary.

    In sorted files rows begin as the ones before them do, and what they have in common is looked up once.
    """
    contexts, found, scratch = (
        np.empty(_BLOCK, np.int64),
        np.empty(_BLOCK, np.int64),
        np.empty((5, _BLOCK + 1), np.int64),
    )
    tokens, which, is_same = np.empty(_BLOCK, np.int32), np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.bool_)
    for first in range(0, rows.shape[0], _BLOCK):
        block = rows[first : first + _BLOCK]
        distinct = 0
        for i in range(block.shape[0]):
            is_same[i] = i > 0 and block[i, 0] == block[i - 1, 0]
            distinct += not is_same[i]
            which[i] = distinct - 1
            found[distinct - 1] = 1 + block[i, 0]
        for k in range(1, length):
            distinct = 0
            for i in range(block.shape[0]):
                is_same[i] = is_same[i] and block[i, k] == block[i - 1, k]
                distinct += not is_same[i]
                contexts[distinct - 1], tokens[distinct - 1] = found[which[i]], block[i, k]
                which[i] = distinct - 1
            find_children(
                words, begin, slots, begin.size - 1, contexts[:distinct], tokens[:distinct], scratch, found[:distinct]
            )
        for i in range(block.shape[0]):
            nodes[first + i] = found[which[i]]


@kernel
def is_ascending(contexts: Array, words: Array) -> bool:
    """Whether n-grams are sorted by (context, word), each there once."""
    for i in range(1, contexts.size):
        if contexts[i - 1] > contexts[i] or (contexts[i - 1] == contexts[i] and words[i - 1] >= words[i]):
            return False
    return True


@allocating_kernel
def count_children(contexts: Array, start: int, stop: int, first_context: int, number: int) -> Array:
    """How many of the n-grams start .. stop follow each of the contexts, a `number` of them from first_context on."""
    counts = np.zeros(number, np.int64)
    for i in range(start, stop):
        counts[contexts[i] - first_context] += 1
    return counts


@kernel
def group(contexts: Array, words: Array, start: int, stop: int, first_context: int, cursor: Array, keys: Array) -> None:
    """Writes the keys of the n-grams start .. stop where its cursor is for the context; places ascend.

    cursor: by context from first_context on, moved on.
    """
    for first in range(start, stop, _BLOCK):
        last = min(first + _BLOCK, stop)
        for place in range(first, last):
            prefetch(cursor, contexts[place] - first_context)
        for place in range(first, last):
            prefetch(keys, np.int64(cursor[contexts[place] - first_context]))
        for place in range(first, last):
            context = contexts[place] - first_context
            keys[cursor[context]] = np.int64(words[place]) << POSITION_BITS | place
            cursor[context] += 1


@allocating_kernel
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
            if keys[i - 1] >> POSITION_BITS == keys[i] >> POSITION_BITS:
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
        words[i] = keys[i] >> POSITION_BITS
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
