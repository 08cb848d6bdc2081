"""The compiled passes of counting.

A position is an index into the stream. A sort key holds a word in the bits above POSITION_BITS and a position below.
"""

from __future__ import annotations

import numpy as np

from chainrule.base.jit import allocating_kernel, kernel
from chainrule.ngram.trie.sorting_kernels import _INSERTION_LIMIT, POSITION_BITS, Array, sort_keys
from chainrule.protocol import BEGIN, END

_POSITION_MASK = (1 << POSITION_BITS) - 1
_BLOCK = 1024


@allocating_kernel
def count_contexts(stream: Array, start: int, stop: int, vocabulary_size: int) -> Array:
    """How often each word precedes the positions start .. stop of a stream; </s> precedes the first position."""
    counts = np.zeros(vocabulary_size, np.int64)
    for position in range(start - 1, stop - 1):
        counts[stream[position] if position >= 0 else END] += 1
    return counts


@kernel
def group_by_context(
    stream: Array, start: int, stop: int, cursor: Array, positions: Array, following: Array, ends: Array
) -> None:
    """Groups the positions start .. stop of a stream by the word before; <s> precedes the first word of a document.

    cursor: by word, where its next occurrence goes; advanced. following: the words at the positions. ends[position]:
    the node of the unigram there, and the next word.
    """
    context = stream[start - 1] if start > 0 else END
    for position in range(start, stop):
        if context == END:
            context = BEGIN
        word = stream[position]
        positions[cursor[context]] = position
        following[cursor[context]] = word
        cursor[context] += 1
        ends[position, 0] = 1 + word
        ends[position, 1] = stream[position + 1] if position + 1 < stream.size else END
        context = word


@allocating_kernel
def sort_following(
    words: Array, sizes: Array, start: int, stop: int, positions: Array, following: Array, at: int
) -> int:
    """Sorts the occurrences of contexts start .. stop, which start at index `at`, by word within each context.

    Returns the number of distinct n-grams. Nothing follows a context that ends with </s>.
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
                keys[i] = np.int64(following[at + i]) << POSITION_BITS | positions[at + i]
            sort_keys(keys[:size], scratch)
            last = -1
            for i in range(size):
                word = keys[i] >> POSITION_BITS
                distinct += word != last
                last = word
                following[at + i] = word
                positions[at + i] = keys[i] & _POSITION_MASK
        at += size
    return distinct


@allocating_kernel
def number_ngrams(
    sizes: Array,
    start: int,
    stop: int,
    positions: Array,
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
    """Numbers the n-grams that `sort_following` sorted, from `ngram` on, and writes their words, counts and suffixes.

    Their occurrences replace those of their contexts, one position further in the stream, except where a document ends;
    not at the last order, for which `ends` has only its first column.
    """
    block_suffixes, block_next_words = np.empty(_BLOCK, ends.dtype), np.empty(_BLOCK, np.int32)
    block = block_end = own_end = at
    for context in range(start, stop):
        own_end += sizes[context] * (words[context] != END)
    ngram -= 1
    target = at
    for context in range(start, stop):
        begin[context] = ngram + 1
        if words[context] == END:
            continue
        word_before = -1
        for i in range(at, at + sizes[context]):
            if i == block_end:  # the random reads of a block first, so that the processor overlaps them
                block, block_end = i, min(i + _BLOCK, own_end)  # entries after own_end may be no positions
                for j in range(block, block_end):
                    block_suffixes[j - block] = ends[positions[j], 0]
                    if not last:
                        block_next_words[j - block] = ends[positions[j], 1]
            word, position = following[i], positions[i]
            if word != word_before:
                ngram += 1
                word_before = word
                words[ngram] = word
                counts[ngram] = 0
                suffixes[ngram] = block_suffixes[i - block]  # the same at all of its positions
            counts[ngram] += 1
            if not last:
                ends[position, 0] = ngram
                following[target] = block_next_words[i - block]
                positions[target] = position + 1
                target += word != END
        at += sizes[context]


@kernel
def keep_first_column(rows: Array, column: Array) -> None:
    """Copies the first column of `rows`; `column` may be in the same memory."""
    for i in range(rows.shape[0]):
        column[i] = rows[i, 0]
