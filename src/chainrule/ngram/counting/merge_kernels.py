"""The compiled passes that merge the counts of several texts, level by level.

A key holds a context, counted from the first one of a chunk, in the bits above WORD_BITS and a word below: keys ascend
as the n-grams of a level do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.jit import kernel

if TYPE_CHECKING:
    from chainrule.ngram.trie.assembly_kernels import Array

WORD_BITS = 32


@kernel
def translate(nodes: Array, first: int, translation: Array) -> None:
    """Replaces each node by its translation; first: the node of translation[0]."""
    for i in range(nodes.size):
        nodes[i] = translation[nodes[i] - first]


@kernel
def write_keys(
    words: Array,
    counts: Array,
    suffixes: Array,
    begin: Array,
    merged: Array,
    start: int,
    stop: int,
    first: int,
    keys: Array,
    key_counts: Array,
    key_suffixes: Array,
) -> None:
    """The keys, counts and suffixes of the n-grams after contexts start .. stop of a level of one text.

    begin: of the level. merged: the merged node of each context of the level. first: the chunk's first merged node.
    """
    i = 0
    for context in range(start, stop):
        key = np.int64(merged[context] - first) << WORD_BITS
        for node in range(begin[context], begin[context + 1]):
            keys[i] = key | words[node]
            key_counts[i] = counts[node]
            key_suffixes[i] = suffixes[node]
            i += 1


@kernel
def merge_pair(
    keys: Array,
    counts: Array,
    suffixes: Array,
    other_keys: Array,
    other_counts: Array,
    other_suffixes: Array,
    out_keys: Array,
    out_counts: Array,
    out_suffixes: Array,
) -> int:
    """Merges two lists of ascending keys, and adds up the counts of equal ones. Returns the number of distinct keys."""
    i = j = n = 0
    while i < keys.size and j < other_keys.size:
        key, other = keys[i], other_keys[j]
        out_keys[n] = min(key, other)
        out_counts[n] = counts[i] * (key <= other) + other_counts[j] * (other <= key)
        out_suffixes[n] = suffixes[i] if key <= other else other_suffixes[j]
        i += key <= other
        j += other <= key
        n += 1
    while i < keys.size:
        out_keys[n], out_counts[n], out_suffixes[n] = keys[i], counts[i], suffixes[i]
        i += 1
        n += 1
    while j < other_keys.size:
        out_keys[n], out_counts[n], out_suffixes[n] = other_keys[j], other_counts[j], other_suffixes[j]
        j += 1
        n += 1
    return n


@kernel
def split_keys(keys: Array, words: Array, children: Array) -> None:
    """The word of each key, and how many keys each context has; children: zeros, one for each context of the chunk."""
    for i in range(keys.size):
        words[i] = keys[i] & ((1 << WORD_BITS) - 1)
        children[keys[i] >> WORD_BITS] += 1


@kernel
def find_merged(
    words: Array,
    begin: Array,
    merged: Array,
    start: int,
    stop: int,
    first: int,
    keys: Array,
    places: Array,
) -> None:
    """The place among the merged `keys` of each n-gram that `write_keys` wrote."""
    i = place = 0
    for context in range(start, stop):
        above = np.int64(merged[context] - first) << WORD_BITS
        for child in range(begin[context], begin[context + 1]):
            key = above | words[child]
            step = 1
            while place + step < keys.size and keys[place + step] <= key:  # gallops: a text may have few of the keys
                place += step
                step *= 2
            while step > 1:
                step >>= 1
                if place + step < keys.size and keys[place + step] <= key:
                    place += step
            places[i] = place
            i += 1
