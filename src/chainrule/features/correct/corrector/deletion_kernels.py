"""The compiled index of deletions: variants of words with letters deleted, and the distance that confirms a match.

A variant is what is left of a word's first PREFIX characters after deleting some. It is identified by a 64-bit hash:
the upper bits choose a bucket, the lower 32 are its tag. The distance confirms matches of tags, so that a collision
costs time, but never gives a wrong word.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, kernel

Array = NDArray[Any]

PREFIX = 7  # characters of a word whose variants are stored; exact for distances below it
MOST_VARIANTS = 1 + PREFIX + PREFIX * (PREFIX - 1) // 2
_LONGEST = 64  # characters of a word


@kernel
def variants_of(text: Array, distance: int, variants: Array) -> int:
    """Write the hashes of a text's first characters with up to `distance` deleted to variants[:n]; return n."""
    size = min(text.size, PREFIX)
    n = 0
    for first in range(-1, size if distance > 0 else 0):
        second = -1
        while second < size:
            if second < 0 or (second > first >= 0 and distance > 1):
                value = np.uint64(14695981039346656037)
                for i in range(size):
                    if i != first and i != second:
                        value = (value ^ np.uint64(text[i])) * np.uint64(1099511628211)
                value = (value ^ (value >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
                variants[n] = value ^ (value >> np.uint64(29))
                n += 1
            second += 1
    return n


@allocating_kernel
def count_variants(words: Array, offsets: Array, distance: int, shift: int, counts: Array) -> None:
    """Add the number of variants of the words in bucket b to counts[b + 1]."""
    variants = np.empty(MOST_VARIANTS, np.uint64)
    for word in range(offsets.size - 1):
        for i in range(variants_of(words[offsets[word] : offsets[word + 1]], distance, variants)):
            counts[np.int64(variants[i] >> np.uint64(shift)) + 1] += 1


@allocating_kernel
def store_variants(
    words: Array, offsets: Array, distance: int, shift: int, ends: Array, tags: Array, owners: Array
) -> None:
    """Write each variant's tag and word into its bucket. ends[b]: where bucket b begins; afterwards, where it ends."""
    variants = np.empty(MOST_VARIANTS, np.uint64)
    for word in range(offsets.size - 1):
        for i in range(variants_of(words[offsets[word] : offsets[word + 1]], distance, variants)):
            bucket = np.int64(variants[i] >> np.uint64(shift))
            tags[ends[bucket]] = np.uint32(variants[i] & np.uint64(0xFFFFFFFF))
            owners[ends[bucket]] = word
            ends[bucket] += 1


@kernel
def distance_within(a: Array, b: Array, most: int, rows: Array) -> int:
    """Return the restricted Damerau-Levenshtein distance of two texts, or most + 1 where it is more.

    Insertions, deletions, substitutions and swaps of neighbours cost one each. rows: scratch, (3, longest + 1).
    """
    if abs(a.size - b.size) > most:
        return most + 1
    start = 0
    while start < min(a.size, b.size) and a[start] == b[start]:
        start += 1
    a_size, b_size = a.size, b.size
    while a_size > start and b_size > start and a[a_size - 1] == b[b_size - 1]:
        a_size, b_size = a_size - 1, b_size - 1
    if a_size == start or b_size == start:
        return max(a_size, b_size) - start
    height, width = a_size - start, b_size - start
    beyond = most + 1
    for j in range(width + 1):
        rows[0, j] = min(j, beyond)
    for i in range(1, height + 1):
        now, before, earlier = i % 3, (i - 1) % 3, (i - 2) % 3
        low, high = max(1, i - most), min(width, i + most)
        rows[now, low - 1] = min(i, beyond) if low == 1 else beyond
        best = rows[now, low - 1]
        for j in range(low, high + 1):
            mine, theirs = a[start + i - 1], b[start + j - 1]
            cost = rows[before, j - 1] + (mine != theirs)
            cost = min(cost, rows[now, j - 1] + 1)
            if j < i + most:
                cost = min(cost, rows[before, j] + 1)
            if i > 1 and j > 1 and mine == b[start + j - 2] and theirs == a[start + i - 2]:
                cost = min(cost, rows[earlier, j - 2] + 1)
            rows[now, j] = min(cost, beyond)
            best = min(best, rows[now, j])
        if best > most:
            return beyond
    return min(rows[height % 3, width], beyond)


@allocating_kernel
def words_within(
    texts: Array,
    text_offsets: Array,
    most: Array,
    stored_distance: int,
    shift: int,
    begins: Array,
    tags: Array,
    owners: Array,
    words: Array,
    word_offsets: Array,
    first: int,
    matches: Array,
    distances: Array,
    ends: Array,
) -> int:
    """Return the words within most[i] of each text i from `first` on, one text's after another's, until there is no
    room.

    matches, distances: of the words, by text; ends[i]: where those of text i end. Returns the text that had no room, or
    how many texts there are.
    """
    variants = np.empty(MOST_VARIANTS, np.uint64)
    rows = np.empty((3, _LONGEST + 1), np.int64)
    last_text = np.full(word_offsets.size - 1, -1, np.int32)  # that a word was compared with
    n = 0
    for i in range(first, text_offsets.size - 1):
        text = texts[text_offsets[i] : text_offsets[i + 1]]
        distance = min(most[i], stored_distance)
        for v in range(variants_of(text, distance, variants)):
            bucket = np.int64(variants[v] >> np.uint64(shift))
            tag = np.uint32(variants[v] & np.uint64(0xFFFFFFFF))
            for entry in range(begins[bucket], begins[bucket + 1]):
                word = owners[entry]
                if tags[entry] != tag or last_text[word] == i:
                    continue
                last_text[word] = i
                d = distance_within(text, words[word_offsets[word] : word_offsets[word + 1]], distance, rows)
                if d <= distance:
                    if n == matches.size:
                        return i
                    matches[n], distances[n] = word, d
                    n += 1
        ends[i] = n
    return text_offsets.size - 1
