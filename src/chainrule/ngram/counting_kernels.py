"""The compiled passes of counting.

A place is an index into the stream. A sort key holds a word above PLACE_BITS and a place below.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.jit import kernel
from chainrule.protocol import BEGIN, END

Array = NDArray[Any]

PLACE_BITS = 33  # room for 8.6 thousand million tokens, and for a thousand million words in the 30 bits above
_PLACE = (1 << PLACE_BITS) - 1
_INSERTION_LIMIT = 40  # below this, insertion sort beats radix sort
_SMALL_DIGIT, _LARGE_DIGIT = 6, 11
_LARGE = 4096  # from this size on, a digit of 11 bits pays


@kernel
def group_by_context(stream: Array, vocabulary_size: int, zero: Any) -> tuple[Array, Array]:
    """The places of a stream, but for the last, grouped by the word there as a context, and the sizes of the groups.

    zero: of the type that the places shall have. Words are grouped by id, places ascend within; </s> counts as the
    context <s>.
    """
    sizes = np.zeros(vocabulary_size, np.int64)
    for place in range(stream.size - 1):
        sizes[stream[place]] += 1
    sizes[BEGIN] += sizes[END]
    sizes[END] = 0
    cursor = np.cumsum(sizes) - sizes
    places = np.empty(stream.size - 1, np.array([zero]).dtype)
    for place in range(stream.size - 1):
        word = stream[place]
        if word == END:
            word = BEGIN
        places[cursor[word]] = place
        cursor[word] += 1
    return places, sizes


@kernel
def gather(
    stream: Array, occurrences: Array, sizes: Array, start: int, stop: int, at: int, following: Array
) -> tuple[int, int]:
    """Writes the keys of the tokens after contexts start .. stop to `following`, from `at` on, sorted in each context.

    Returns how many distinct n-grams they are, and how many of the tokens something can follow.
    """
    largest = end = 0
    for context in range(start, stop):
        largest = max(largest, sizes[context])
        end += sizes[context]
    scratch = np.empty(largest if largest > _INSERTION_LIMIT else 0, np.int64)
    followed = 0
    for i in range(at, at + end):  # apart from the sorting, so that the processor overlaps these random reads
        place = np.int64(occurrences[i]) + 1
        word = np.int64(stream[place])
        followed += word != END
        following[i] = word << PLACE_BITS | place
    distinct = 0
    for context in range(start, stop):
        keys = following[at : at + sizes[context]]
        sort_keys(keys, scratch)
        last = -1
        for key in keys:
            distinct += key >> PLACE_BITS != last
            last = key >> PLACE_BITS
        at += sizes[context]
    return distinct, followed


@kernel
def sort_keys(keys: Array, scratch: Array) -> None:
    """Sorts keys, whose places ascend already, by word.

    `scratch` has room for them where they are more than _INSERTION_LIMIT.
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
        top_word = max(top_word, key >> PLACE_BITS)
    digit = _SMALL_DIGIT if keys.size < _LARGE else _LARGE_DIGIT
    counts = np.zeros(1 << digit, np.int64)
    mask = (1 << digit) - 1
    shift = PLACE_BITS
    source, target = keys, scratch[: keys.size]
    passes = 0
    while top_word >> (shift - PLACE_BITS) > 0:
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
        keys[:] = source


@kernel
def extend(
    following: Array,
    sizes: Array,
    start: int,
    stop: int,
    at: int,
    first: int,
    followed_at: int,
    ids: Array,
    words: Array,
    begin: Array,
    suffixes: Array,
    counts: Array,
    new_ids: Array,
    occurrences: Array,
) -> None:
    """Numbers the n-grams that `gather` sorted, from `first` on, and fills in all that is known of them.

    new_ids: the n-gram that ends at each place (left alone where it is empty). occurrences: the places that something
    can follow, from `followed_at` on.
    """
    ngram = first - 1
    for context in range(start, stop):
        begin[context] = ngram + 1
        last = -1
        for i in range(at, at + sizes[context]):
            word = following[i] >> PLACE_BITS
            place = following[i] & _PLACE
            if word != last:
                ngram += 1
                last = word
                words[ngram] = word
                suffixes[ngram] = place
                counts[ngram] = 0
            counts[ngram] += 1
            if new_ids.size > 0:
                new_ids[place] = ngram
            if word != END:
                occurrences[followed_at] = place
                followed_at += 1
        at += sizes[context]
    for i in range(first, ngram + 1):  # apart again, for the random reads
        suffixes[i] = ids[suffixes[i]]
