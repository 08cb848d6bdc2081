"""Compiled reading of ARPA files: lines to numbers and word ids.

No number from a file is used as an unchecked index.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.intrinsics import eight_bytes, trailing_zeros
from chainrule.base.jit import kernel
from chainrule.ngram.arpa.number_kernels import (
    _NEWLINE,
    _RETURN,
    _SPACE,
    _TAB,
    _TOP_BITS,
    is_inside_word,
    number_from,
)
from chainrule.protocol import BEGIN, UNKNOWN
from chainrule.text.tokenization.vocabulary_kernels import HASH_FACTOR, HASH_START, find_token, mixed

Array = NDArray[Any]

# The status that parse_lines returns first; an error is about the field whose span it returns last.
OK, BAD_PROBABILITY, BAD_BACKOFF, NEEDLESS_BACKOFF, UNKNOWN_WORD, TOO_FEW_FIELDS, TOO_MANY_FIELDS = range(7)
# log10. 10^38 is near the largest float32, and no distribution has such backoffs; the minimum keeps sums finite.
MAX_BACKOFF, MIN_BACKOFF = 38.0, -1e30

_LOG_10 = math.log(10)
_LOG10_OF_ZERO = -99.0  # SRILM's convention

# A cache of the ids of words of at most _SHORT bytes; its keys are these bytes, with the length in the top byte.
_SHORT, CACHE_BITS = 7, 13
_LENGTH_SHIFT, _SPREAD, _CACHE_SHIFT = (
    np.uint64(56),
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(64 - CACHE_BITS),
)
_ONES = np.uint64(0x0101010101010101)
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
    cached_words: Array,
    cached_ids: Array,
) -> tuple[int, int, int, int, int]:
    """Writes each line's word ids to a row of `rows`, and its numbers in nats; skips blank lines.

    slots, pool, offsets: the hash table of the vocabulary; ids from `size` on are other spellings of <unk>. If `slots`
    is empty, `order` is 1 and `rows` gets the start and end of each word. The outputs have room for one n-gram more
    than the text can hold. scratch: zeros, three for each word of an n-gram. cached_words: zeros; as large as
    cached_ids, 2^CACHE_BITS. Returns a status, the number of rows, the number of n-grams dropped since they contain
    <s> after the first word, and the span of the wrong field.
    """
    starts, stops, ids = scratch[0], scratch[1], scratch[2]  # of the words of the previous line
    count = dropped = 0
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
                    return BAD_PROBABILITY, count, dropped, start, i
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
                    at = (short * _SPREAD) >> _CACHE_SHIFT
                    if short > 0 and cached_words[at] == short:
                        ids[j], i = cached_ids[at], start + np.int64(short >> _LENGTH_SHIFT)
                    else:
                        hashed = HASH_START
                        while i < text.size and is_inside_word(text[i]):
                            hashed = (hashed ^ np.uint64(text[i])) * HASH_FACTOR
                            i += 1
                        ids[j], _ = find_token(text, start, i, mixed(hashed), slots, pool, offsets)
                        if ids[j] < 0:
                            return UNKNOWN_WORD, count, dropped, start, i
                        if ids[j] >= size:
                            ids[j] = UNKNOWN
                        if short > 0:
                            cached_words[at], cached_ids[at] = short, ids[j]
                    other, starts[j], stops[j] = stops[j], start, i
                    same = _same_words(text, i, other, field, starts, stops)
                    if same > 0:
                        field, i = field + same, stops[j + same]
            elif field == order + 1:
                log10_backoff, i = number_from(text, start)
                if log10_backoff == -np.inf:
                    log10_backoff = _LOG10_OF_ZERO
                if not MIN_BACKOFF <= log10_backoff <= MAX_BACKOFF:
                    return BAD_BACKOFF, count, dropped, start, i
                if log10_backoff != 0 and not has_backoffs:
                    return NEEDLESS_BACKOFF, count, dropped, start, i
                log_backoffs[count] = log10_backoff * _LOG_10
            else:
                return TOO_MANY_FIELDS, count, dropped, first, _end_of_word(text, start)
            field += 1
        if 0 < field <= order:
            return TOO_FEW_FIELDS, count, dropped, first, i
        if field > 0:
            if field == order + 1:
                log_backoffs[count] = 0
            has_inner_begin = False
            if slots.size > 0:
                for j in range(order):
                    rows[count, j] = ids[j]
                    has_inner_begin |= j > 0 and ids[j] == BEGIN
            dropped += has_inner_begin
            count += not has_inner_begin
        i += 1
    return OK, count, dropped, 0, 0


@kernel
def _end_of_word(text: Array, i: int) -> int:
    while i < text.size and is_inside_word(text[i]):
        i += 1
    return i


@kernel
def _short_word(text: Array, start: int) -> int:
    """The bytes and the length of the word at `start` as one number.

    0 if it is not short, or near the end of the text.
    """
    if start + 8 > text.size:
        return np.uint64(0)
    letters = eight_bytes(text, start)
    # set in the first byte <= space, and perhaps in later ones
    spaces = (letters - _ABOVE_SPACES) & ~letters & _TOP_BITS
    length = trailing_zeros(spaces) >> 3
    if length == 0 or length > _SHORT or is_inside_word(text[start + length]):
        return np.uint64(0)
    mask = (np.uint64(1) << np.uint64(8 * length)) - np.uint64(1)
    return letters & mask | np.uint64(length) << _LENGTH_SHIFT


@kernel
def _same_words(text: Array, start: int, other: int, first: int, starts: Array, stops: Array) -> int:
    """How many words of the previous line, from its word `first` on, also follow here; updates their spans.

    Compares the bytes from `start` on, white space included, with those of the previous line from `other` on. Files are
    often sorted, and one comparison mispredicts fewer branches than finding the end of each word.
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
def copy_words(text: Array, spans: Array, pool: Array, offsets: Array) -> None:
    """Copies the words text[spans[i, 0] : spans[i, 1]] to pool[offsets[i] :]."""
    for i in range(spans.shape[0]):
        for k in range(spans[i, 1] - spans[i, 0]):
            pool[offsets[i] + k] = text[spans[i, 0] + k]
