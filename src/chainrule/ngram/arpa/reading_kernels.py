"""The compiled side of reading ARPA: lines to numbers and word ids. Nothing that a file says is an index unchecked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import eight_bytes, kernel, trailing_zeros
from chainrule.ngram.arpa.number_kernels import is_inside_word, number_from
from chainrule.protocol import BEGIN, UNKNOWN
from chainrule.text.vocabulary_kernels import HASH_FACTOR, HASH_START, find_token, mixed

Array = NDArray[Any]

# What parse_lines returns first: all is well, or what is wrong with the field at the place that it returns last.
FINE, BAD_PROBABILITY, BAD_BACKOFF, NEEDLESS_BACKOFF, UNKNOWN_WORD, TOO_FEW_FIELDS, TOO_MANY_FIELDS = range(7)
# Decimal. More than 10^38 is no float32, and no back-off of a distribution; below, only sums of them must not overflow.
LARGEST_BACKOFF, LEAST_BACKOFF = 38.0, -1e30

_LOG_10 = math.log(10)
_LOG10_OF_ZERO = -99.0  # SRILM's convention
_NEWLINE, _RETURN, _TAB, _SPACE = 10, 13, 9, 32

# Words of at most _SHORT bytes are remembered by their bytes, with their length above, in the place of their hash.
_SHORT, REMEMBERED_BITS = 7, 13
_LENGTH_SHIFT, _SPREAD, _REMEMBERED_SHIFT = (
    np.uint64(56),
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(64 - REMEMBERED_BITS),
)
_ONES, _TOP_BITS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_ABOVE_SPACES = _ONES * np.uint64(_SPACE + 1)


@kernel
def parse_lines(
    text: Array,
    order: int,
    has_backoffs: bool,
    size: int,
    slots: Array,
    pool: Array,
    offsets: Array,
    rows: Array,
    log_probs: Array,
    log_backoffs: Array,
    scratch: Array,
    remembered: Array,
    their_ids: Array,
) -> tuple[int, int, int, int, int]:
    """Writes each line's word ids to a row of `rows`, and its numbers in nats; blank lines are passed over.

    slots, pool, offsets: the hash table of the vocabulary; ids from `size` on are other names of <unk>. Where `slots`
    is empty, `order` is 1 and `rows` gets the places where the word starts and stops. The outputs have room for one
    n-gram more than there can be in the text. scratch: zeros, three for each word of an n-gram; remembered: zeros,
    2^REMEMBERED_BITS of them, as many as their_ids has room for. Returns a status, the number of rows, that of n-grams
    left out since <s> is in them but not first, and the place of the wrong field.
    """
    starts, stops, ids = scratch[0], scratch[1], scratch[2]  # of the words of the line before
    count = left_out = 0
    i = 0
    while i < text.size:
        field = 0
        first = i
        while True:
            while i < text.size and (text[i] == _SPACE or text[i] == _TAB or text[i] == _RETURN):
                i += 1
            if i == text.size or text[i] == _NEWLINE:
                break
            start = i
            if field == 0:
                log10_prob, i = number_from(text, start)
                if not log10_prob <= 0:
                    return BAD_PROBABILITY, count, left_out, start, i
                log_probs[count] = log10_prob * _LOG_10
                if slots.size > 0 and i < text.size and text[i] != _NEWLINE:
                    same = _same_words(text, i + 1, starts[0], 0, starts, stops)
                    if same > 0:
                        field, i = same, stops[same - 1]
            elif field <= order:
                j = field - 1
                if slots.size == 0:
                    i = _end_of_word(text, start)
                    rows[count, 0], rows[count, 1] = start, i
                else:
                    short = _short_word(text, start)
                    at = (short * _SPREAD) >> _REMEMBERED_SHIFT
                    if short > 0 and remembered[at] == short:
                        ids[j], i = their_ids[at], start + np.int64(short >> _LENGTH_SHIFT)
                    else:
                        hashed = HASH_START
                        while i < text.size and is_inside_word(text[i]):
                            hashed = (hashed ^ np.uint64(text[i])) * HASH_FACTOR
                            i += 1
                        ids[j], _ = find_token(text, start, i, mixed(hashed), slots, pool, offsets)
                        if ids[j] < 0:
                            return UNKNOWN_WORD, count, left_out, start, i
                        if ids[j] >= size:
                            ids[j] = UNKNOWN
                        if short > 0:
                            remembered[at], their_ids[at] = short, ids[j]
                    other, starts[j], stops[j] = stops[j], start, i
                    same = _same_words(text, i, other, field, starts, stops)
                    if same > 0:
                        field, i = field + same, stops[j + same]
            elif field == order + 1:
                log10_backoff, i = number_from(text, start)
                if log10_backoff == -np.inf:
                    log10_backoff = _LOG10_OF_ZERO
                if not LEAST_BACKOFF <= log10_backoff <= LARGEST_BACKOFF:
                    return BAD_BACKOFF, count, left_out, start, i
                if log10_backoff != 0 and not has_backoffs:
                    return NEEDLESS_BACKOFF, count, left_out, start, i
                log_backoffs[count] = log10_backoff * _LOG_10
            else:
                return TOO_MANY_FIELDS, count, left_out, first, _end_of_word(text, start)
            field += 1
        if 0 < field <= order:
            return TOO_FEW_FIELDS, count, left_out, first, i
        if field > 0:
            if field == order + 1:
                log_backoffs[count] = 0
            stray = False
            if slots.size > 0:
                for j in range(order):
                    rows[count, j] = ids[j]
                    stray |= j > 0 and ids[j] == BEGIN
            left_out += stray
            count += not stray
        i += 1
    return FINE, count, left_out, 0, 0


@kernel
def _end_of_word(text: Array, i: int) -> int:
    while i < text.size and is_inside_word(text[i]):
        i += 1
    return i


@kernel
def _short_word(text: Array, start: int) -> int:
    """The bytes of the word at `start` and its length, as one number; 0 where it is not short, or not easily told."""
    if start + 8 > text.size:
        return np.uint64(0)
    letters = eight_bytes(text, start)
    spaces = (letters - _ABOVE_SPACES) & ~letters & _TOP_BITS  # in the first byte up to a space, and perhaps further
    length = trailing_zeros(spaces) >> 3
    if length == 0 or length > _SHORT or is_inside_word(text[start + length]):
        return np.uint64(0)
    kept = (np.uint64(1) << np.uint64(8 * length)) - np.uint64(1)
    return letters & kept | np.uint64(length) << _LENGTH_SHIFT


@kernel
def _same_words(text: Array, start: int, other: int, first: int, starts: Array, stops: Array) -> int:
    """How many words of the line before, from its word `first` on, stand here, too; their places are moved.

    start: from where on the lines are compared, blanks and all; other: where that is in the line before. Comparing in
    one go beats finding where each word ends: files are often sorted, and one branch is mispredicted.
    """
    if first == stops.size or stops[-1] == 0:
        return 0
    shift = start - other
    i = start
    while other <= stops[-1] and i + 8 <= text.size:
        equal = trailing_zeros(eight_bytes(text, i) ^ eight_bytes(text, other)) >> 3
        i += equal
        other += equal
        if equal < 8:
            break
    same = first
    while same < stops.size and stops[same] < other:
        starts[same] += shift
        stops[same] += shift
        same += 1
    return same - first


@kernel
def copy_words(text: Array, places: Array, pool: Array, offsets: Array) -> None:
    """Writes the words from places[i, 0] to places[i, 1] of the text to offsets[i] of the pool."""
    for i in range(places.shape[0]):
        for k in range(places[i, 1] - places[i, 0]):
            pool[offsets[i] + k] = text[places[i, 0] + k]
