"""The compiled passes of counting.

A place is an index into the stream. A sort key holds a word above PLACE_BITS and a place below.
"""

from __future__ import annotations

import numpy as np

from chainrule.base.jit import allocating_kernel, kernel
from chainrule.ngram.trie.sorting_kernels import _INSERTION_LIMIT, PLACE_BITS, Array, sort_keys
from chainrule.protocol import BEGIN, END

_PLACE = (1 << PLACE_BITS) - 1
_BLOCK = 1024


@allocating_kernel
def count_contexts(stream: Array, start: int, stop: int, vocabulary_size: int) -> Array:
    """How often each word stands before the places start .. stop of a stream; before the first one stands </s>."""
    counts = np.zeros(vocabulary_size, np.int64)
    for place in range(start - 1, stop - 1):
        counts[stream[place] if place >= 0 else END] += 1
    return counts


@kernel
def group_by_context(
    stream: Array, start: int, stop: int, cursor: Array, places: Array, following: Array, ends: Array
) -> None:
    """Puts the places start .. stop of a stream where its cursor is for the word before, which is <s> at a beginning.

    cursor: by word, moved on. following: the words at the places. ends[place]: the unigram's node there, and the word
    after it.
    """
    context = stream[start - 1] if start > 0 else END
    for place in range(start, stop):
        if context == END:
            context = BEGIN
        word = stream[place]
        places[cursor[context]] = place
        following[cursor[context]] = word
        cursor[context] += 1
        ends[place, 0] = 1 + word
        ends[place, 1] = stream[place + 1] if place + 1 < stream.size else END
        context = word


@allocating_kernel
def sort_following(words: Array, sizes: Array, start: int, stop: int, places: Array, following: Array, at: int) -> int:
    """Sorts the occurrences after contexts start .. stop, which stand from `at` on, by word within each context.

    Returns how many distinct n-grams they are. Nothing follows a context that ends with </s>.
    """
    largest = 0
    for context in range(start, stop):
        if words[context] != END:
            largest = max(largest, sizes[context])
    keys, scratch = np.empty(largest, np.int64), np.empty(largest if largest > _INSERTION_LIMIT else 0, np.int64)
    distinct = 0
    for context in range(start, stop):
        if words[context] == END:
            continue
        size = sizes[context]
        if size == 1:
            distinct += 1
        elif size > 1:
            for i in range(size):
                keys[i] = np.int64(following[at + i]) << PLACE_BITS | places[at + i]
            sort_keys(keys[:size], scratch)
            last = -1
            for i in range(size):
                word = keys[i] >> PLACE_BITS
                distinct += word != last
                last = word
                following[at + i] = word
                places[at + i] = keys[i] & _PLACE
        at += size
    return distinct


@allocating_kernel
def number(
    sizes: Array,
    start: int,
    stop: int,
    places: Array,
    following: Array,
    ends: Array,
    at: int,
    words: Array,
    begin: Array,
    suffixes: Array,
    counts: Array,
    ngram: int,
    last: bool,
) -> None:
    """Numbers the n-grams that `sort_following` sorted, from `ngram` on, and fills in all that is known of them.

    Their own occurrences take the room of their contexts', one place further in the stream, and without those that
    nothing follows; not at the last order, for which `ends` has only its first column.
    """
    suffix_of, word_after = np.empty(_BLOCK, ends.dtype), np.empty(_BLOCK, np.int32)
    block = block_end = own_end = at
    for context in range(start, stop):
        own_end += sizes[context] * (words[context] != END)
    ngram -= 1
    to = at
    for context in range(start, stop):
        begin[context] = ngram + 1
        if words[context] == END:
            continue
        word_before = -1
        for i in range(at, at + sizes[context]):
            if i == block_end:  # the random reads of a block first, so that the processor overlaps them
                block, block_end = i, min(i + _BLOCK, own_end)  # what is behind may be no place at all
                for j in range(block, block_end):
                    suffix_of[j - block] = ends[places[j], 0]
                    if not last:
                        word_after[j - block] = ends[places[j], 1]
            word, place = following[i], places[i]
            if word != word_before:
                ngram += 1
                word_before = word
                words[ngram] = word
                counts[ngram] = 0
                suffixes[ngram] = suffix_of[i - block]  # the same at each of its places
            counts[ngram] += 1
            if not last:
                ends[place, 0] = ngram
                following[to] = word_after[i - block]
                places[to] = place + 1
                to += word != END
        at += sizes[context]


@kernel
def keep_first_column(rows: Array, column: Array) -> None:
    """Both may be the same memory."""
    for i in range(rows.shape[0]):
        column[i] = rows[i, 0]
