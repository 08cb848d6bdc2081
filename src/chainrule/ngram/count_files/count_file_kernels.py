"""Compiled reading and writing of count files, and merging of equal n-grams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.jit import allocating_kernel, kernel
from chainrule.ngram.trie.sorting_kernels import POSITION_BITS
from chainrule.protocol import BEGIN, END, UNKNOWN

if TYPE_CHECKING:
    from chainrule.ngram.trie.assembly_kernels import Array

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
    """Parses lines of words and a count; skips blank lines, and lines of more words than `order`.

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
    """UNKNOWN, BEGIN or END if text[start:stop] is that marker; else -1."""
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
    """Writes the n-grams of sorted groups, merging equal ones and adding their counts; returns their number.

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
    """The first n-gram with a higher count than its context, of contexts start .. stop except <s>; or -1."""
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
    """Writes the nodes from path[order] to `stop`, all of one order, a line each, until `out` is full.

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
