"""Compiled passes that count n-grams, merge the counts of several texts level by level, and read and write count files.

In counting, a position is an index into the stream, and a sort key holds a word in the bits above POSITION_BITS and a
position below. In merging, a key holds a context, counted from the first one of a chunk, in the bits above WORD_BITS
and a word below: keys ascend as the n-grams of a level do.
"""

from __future__ import annotations

import numpy as np

from chainrule.base.jit import allocating_kernel, kernel
from chainrule.ngram.trie.assembly_kernels import _INSERTION_LIMIT, POSITION_BITS, Array, sort_keys
from chainrule.protocol import BEGIN, END, UNKNOWN

_POSITION_MASK = (1 << POSITION_BITS) - 1
_BLOCK = 1024


@allocating_kernel
def count_contexts(stream: Array, start: int, stop: int, vocabulary_size: int) -> Array:
    """Return how often each word precedes the positions start .. stop of a stream; </s> precedes the first position."""
    counts = np.zeros(vocabulary_size, np.int64)
    for position in range(start - 1, stop - 1):
        counts[stream[position] if position >= 0 else END] += 1
    return counts


@kernel
def group_by_context(
    stream: Array, start: int, stop: int, cursor: Array, positions: Array, following: Array, ends: Array
) -> None:
    """Group the positions start .. stop of a stream by the word before; <s> precedes the first word of a document.

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
    """Sort the occurrences of contexts start .. stop, which start at index `at`, by word within each context.

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
    """Number the n-grams that `sort_following` sorted, from `ngram` on, and write their words, counts and suffixes.

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
    """Copy the first column of `rows`; `column` may be in the same memory."""
    for i in range(rows.shape[0]):
        column[i] = rows[i, 0]


WORD_BITS = 32


@kernel
def translate(nodes: Array, first: int, translation: Array) -> None:
    """Replace each node by its translation; first: the node of translation[0]."""
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
    """Write the keys, counts and suffixes of the n-grams after contexts start .. stop of a level of one text.

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
    """Merge two lists of ascending keys, and add up the counts of equal ones. Returns the number of distinct keys."""
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
    """Write the word of each key, and how many keys each context has; children: zeros, one for each context of the
    chunk.
    """
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
    """Write the place among the merged `keys` of each n-gram that `write_keys` wrote."""
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


# The status that parse_counts returns first; an error is about the line that begins at the index it returns last.
OK, NO_COUNT, NEGATIVE, TOO_LARGE, NO_WORDS, TOO_MANY_WORDS, MISPLACED = range(7)
MAX_COUNT = 1 << 53  # float64 is exact up to here
MAX_COUNT_BYTES = 24  # of a count with its separators

_INDEX_MASK = (1 << POSITION_BITS) - 1
_TAB, _NEWLINE, _RETURN, _SPACE, _MINUS, _ZERO = 9, 10, 13, 32, 45, 48
_ORDINARY = -1
_MARKERS = (b"<unk>", b"<s>", b"</s>")
_TEXT_OF_MARKERS = np.frombuffer(bytearray(b"".join(_MARKERS)), np.uint8)
_MARKER_STARTS = np.array([0, 5, 8, 12])


@allocating_kernel
def parse_counts(
    text: Array, order: int, longest: int, words: Array, markers: Array, lengths: Array, counts: Array
) -> tuple[int, int, int, int, int]:
    """Parse lines of words and a count; skip blank lines, and lines of more words than `order`.

    words: gets the ordinary words, with a space after each. markers: by word, its marker, or -1. lengths, counts: by
    line. longest: the largest allowed number of words in a line. Returns a status, the number of bytes in `words`, the
    number of words, the number of lines, and the start of the wrong line.
    """
    starts, stops = np.empty(longest + 2, np.int64), np.empty(longest + 2, np.int64)
    used = word_count = lines = 0
    i = 0
    while i < text.size:
        first = i
        fields = 0
        while True:
            while i < text.size and (text[i] == _SPACE or text[i] == _TAB or text[i] == _RETURN):
                i += 1
            if i == text.size or text[i] == _NEWLINE:
                break
            if fields == longest + 2:
                return TOO_MANY_WORDS, used, word_count, lines, first
            starts[fields] = i
            while i < text.size and not _is_white(text[i]):
                i += 1
            stops[fields] = i
            fields += 1
        i += 1
        if fields == 0:
            continue
        size = fields - 1
        status, count = _whole_number(text, starts[size], stops[size])
        if status != OK:
            return status, used, word_count, lines, first
        if size == 0:
            return NO_WORDS, used, word_count, lines, first
        if size > longest:
            return TOO_MANY_WORDS, used, word_count, lines, first
        if size > order:
            continue
        for k in range(size):
            marker = _marker_at(text, starts[k], stops[k])
            if (marker == BEGIN and k > 0) or (marker == END and k < size - 1):
                return MISPLACED, used, word_count, lines, first
            markers[word_count] = marker
            word_count += 1
            if marker == _ORDINARY:
                for j in range(starts[k], stops[k]):
                    words[used] = text[j]
                    used += 1
                words[used] = _SPACE
                used += 1
        lengths[lines], counts[lines] = size, count
        lines += 1
    return OK, used, word_count, lines, 0


@kernel
def _is_white(byte: int) -> bool:
    return byte == _SPACE or byte == _TAB or byte == _NEWLINE or byte == _RETURN


@kernel
def _whole_number(text: Array, start: int, stop: int) -> tuple[int, int]:
    is_negative = stop - start > 1 and text[start] == _MINUS
    number = 0
    too_large = False
    for i in range(start + is_negative, stop):
        digit = np.int64(text[i]) - _ZERO
        if not 0 <= digit <= 9:
            return NO_COUNT, 0
        number = number * 10 + digit
        if number > MAX_COUNT:
            too_large, number = True, MAX_COUNT
    if is_negative:
        return NEGATIVE, 0
    return TOO_LARGE if too_large else OK, number


@kernel
def _marker_at(text: Array, start: int, stop: int) -> int:
    """Return UNKNOWN, BEGIN or END if text[start:stop] is that marker; else -1."""
    if text[start] != _TEXT_OF_MARKERS[0]:
        return _ORDINARY
    for marker in range(UNKNOWN, END + 1):
        first = _MARKER_STARTS[marker]
        if _MARKER_STARTS[marker + 1] - first == stop - start:
            k = 0
            while k < stop - start and text[start + k] == _TEXT_OF_MARKERS[first + k]:
                k += 1
            if k == stop - start:
                return marker
    return _ORDINARY


@kernel
def merge_equal(keys: Array, begin: Array, first_node: int, counts: Array, words: Array, sums: Array) -> int:
    """Write the n-grams of sorted groups, merging equal ones and adding their counts; return their number.

    keys: a word in the bits above POSITION_BITS, an index of `counts` below. begin: the first node of each group;
    overwritten by the first node after merging.
    """
    ngrams = 0
    start = begin[0] - first_node
    for group in range(begin.size - 1):
        stop = begin[group + 1] - first_node
        begin[group] = first_node + ngrams
        for i in range(start, stop):
            word, count = keys[i] >> POSITION_BITS, counts[keys[i] & _INDEX_MASK]
            if i > start and keys[i - 1] >> POSITION_BITS == word:
                sums[ngrams - 1] += count
            else:
                words[ngrams], sums[ngrams] = word, count
                ngrams += 1
        start = stop
    begin[begin.size - 1] = first_node + ngrams
    return ngrams


@kernel
def first_above_context(begin: Array, counts: Array, start: int, stop: int) -> int:
    """Return the first n-gram with a higher count than its context, of contexts start .. stop except <s>; or -1."""
    for context in range(start, stop):
        if context == 1 + BEGIN:
            continue
        for node in range(begin[context], begin[context + 1]):
            if counts[node] > counts[context]:
                return node
    return -1


@kernel
def write_counts(
    words: Array,
    begin: Array,
    counts: Array,
    text: Array,
    offsets: Array,
    order: int,
    path: Array,
    stop: int,
    out: Array,
) -> tuple[int, int]:
    """Write the nodes from path[order] to `stop`, all of one order, a line each, until `out` is full.

    text, offsets: of the vocabulary. path: by order, the nodes of the prefixes of the first n-gram; overwritten. Skips
    n-grams with a count of 0. Returns the node to continue from, and the number of bytes written.
    """
    used = 0
    for node in range(path[order], stop):
        path[order] = node
        for k in range(order, 1, -1):
            while begin[path[k - 1] + 1] <= path[k]:
                path[k - 1] += 1
        if counts[node] == 0:
            continue
        needed = MAX_COUNT_BYTES
        for k in range(1, order + 1):
            needed += offsets[words[path[k]] + 1] - offsets[words[path[k]]] + 1
        if used + needed > out.size:
            return node, used
        for k in range(1, order + 1):
            for i in range(offsets[words[path[k]]], offsets[words[path[k]] + 1]):
                out[used] = text[i]
                used += 1
            out[used] = _SPACE if k < order else _TAB
            used += 1
        count = counts[node]
        digits = 1
        while count >= 10:
            count //= 10
            digits += 1
        count = counts[node]
        for i in range(used + digits - 1, used - 1, -1):
            out[i] = _ZERO + count % 10
            count //= 10
        used += digits
        out[used] = _NEWLINE
        used += 1
    return stop, used
