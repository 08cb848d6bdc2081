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
from chainrule.protocol import BEGIN, UNKNOWN
from chainrule.text.tokenization.vocabulary_kernels import HASH_FACTOR, HASH_START, find_token, mixed

Array = NDArray[Any]

_LARGEST_POWER = 308
_POWERS = np.array([float(f"1e{i}") for i in range(_LARGEST_POWER + 1)])
_INTEGER_POWERS = 10 ** np.arange(9)
_MANTISSA_LIMIT = 10**17  # further digits would overflow an int64, and do not matter
_PLAIN_DIGITS = 17  # fit into an int64
_EXPONENT_LIMIT = 10**6
_TAB, _NEWLINE, _RETURN, _SPACE, _PLUS, _MINUS, _POINT, _ZERO = 9, 10, 13, 32, 43, 45, 46, 48
_LOWER_CASE = 32  # the bit that is set in lower-case letters only
_E = 101
_INF, _INFINITY = np.frombuffer(bytearray(b"inf"), np.uint8), np.frombuffer(bytearray(b"infinity"), np.uint8)

# For eight bytes at once: ASCII zeros; an addend that sets a byte's top bit if its digit exceeds 9; the top bits.
_ZEROS, _OVER_NINE, _TOP_BITS = (np.uint64(int.from_bytes(bytes([byte]) * 8, "little")) for byte in (0x30, 0x76, 0x80))
# Eight digits to four pairs, two fours, one eight: masks, factors, shifts.
_IN_BYTES, _IN_PAIRS, _IN_FOURS = (
    np.uint64(0x0F0F0F0F0F0F0F0F),
    np.uint64(0x00FF00FF00FF00FF),
    np.uint64(0x0000FFFF0000FFFF),
)
_TO_PAIRS, _TO_FOURS, _TO_EIGHT = np.uint64(10 * 2**8 + 1), np.uint64(100 * 2**16 + 1), np.uint64(10_000 * 2**32 + 1)
_8, _16, _32 = np.uint64(8), np.uint64(16), np.uint64(32)


@kernel
def _combine_digits(digits: int) -> int:
    """Return the number that eight digits make, each the value of a byte; the lowest byte is the first digit."""
    pairs = ((digits & _IN_BYTES) * _TO_PAIRS) >> _8
    fours = ((pairs & _IN_PAIRS) * _TO_FOURS) >> _16
    return np.int64(((fours & _IN_FOURS) * _TO_EIGHT) >> _32)


@kernel
def is_inside_word(byte: int) -> bool:
    """Return whether a byte is not white space to KenLM; rare control characters are part of words."""
    return byte > _SPACE or not (byte == _SPACE or byte == _TAB or byte == _NEWLINE or byte == _RETURN)


@kernel
def number_from(text: Array, start: int) -> tuple[float, int]:
    """Return the number that begins at `start`, or NaN, and its end; plain decimals take one pass."""
    i = start
    negative = i < text.size and text[i] == _MINUS
    if negative:
        i += 1
    if i + 10 < text.size and text[i + 1] == _POINT and _ZERO <= text[i] <= _ZERO + 9:  # as nearly all numbers are
        nibbles = eight_bytes(text, i + 2) ^ _ZEROS
        digits = trailing_zeros((nibbles + _OVER_NINE | nibbles) & _TOP_BITS) >> 3
        after = i + 2 + digits
        if digits > 0 and not is_inside_word(text[after]):
            whole = (np.int64(text[i]) - _ZERO) * _INTEGER_POWERS[digits]
            magnitude = np.float64(whole + _combine_digits(nibbles << np.uint64(64 - 8 * digits))) / _POWERS[digits]
            return -magnitude if negative else magnitude, after
    mantissa = digits = 0
    point = -1
    while i < text.size:
        digit = np.int64(text[i]) - _ZERO
        if 0 <= digit <= 9:
            mantissa = mantissa * 10 + digit
            digits += 1
        elif text[i] == _POINT and point < 0:
            point = digits
        else:
            break
        i += 1
    if 0 < digits <= _PLAIN_DIGITS and (i == text.size or not is_inside_word(text[i])):
        magnitude = np.float64(mantissa)
        if point >= 0:
            magnitude /= _POWERS[digits - point]
        return -magnitude if negative else magnitude, i
    while i < text.size and is_inside_word(text[i]):
        i += 1
    return parse_number(text, start, i), i


@kernel
def parse_number(text: Array, start: int, stop: int) -> float:
    """Return the number text[start:stop], as strtod parses decimals; NaN if it is not a number."""
    i = start
    negative = i < stop and text[i] == _MINUS
    if i < stop and (text[i] == _MINUS or text[i] == _PLUS):
        i += 1
    if _is_letters(text, i, stop, _INF) or _is_letters(text, i, stop, _INFINITY):
        return -np.inf if negative else np.inf
    mantissa = exponent = 0
    has_digits = has_point = False
    while i < stop:
        digit = np.int64(text[i]) - _ZERO
        if 0 <= digit <= 9:
            has_digits = True
            if mantissa < _MANTISSA_LIMIT:
                mantissa = mantissa * 10 + digit
                exponent -= has_point
            else:
                exponent += not has_point
        elif text[i] == _POINT and not has_point:
            has_point = True
        else:
            break
        i += 1
    if not has_digits:
        return np.nan
    if i < stop and text[i] | _LOWER_CASE == _E:
        i += 1
        is_negative = i < stop and text[i] == _MINUS
        if i < stop and (text[i] == _MINUS or text[i] == _PLUS):
            i += 1
        if i == stop:
            return np.nan
        parsed = 0
        while i < stop and _ZERO <= text[i] <= _ZERO + 9:
            parsed = min(parsed * 10 + (np.int64(text[i]) - _ZERO), _EXPONENT_LIMIT)
            i += 1
        exponent += -parsed if is_negative else parsed
    if i < stop:
        return np.nan
    magnitude = _scaled(np.float64(mantissa), exponent)
    return -magnitude if negative else magnitude


@kernel
def _scaled(mantissa: float, exponent: int) -> float:
    """Return mantissa * 10^exponent."""
    while exponent < 0 and mantissa > 0:
        step = min(-exponent, _LARGEST_POWER)
        mantissa /= _POWERS[step]
        exponent += step
    while exponent > 0 and 0 < mantissa < np.inf:
        step = min(exponent, _LARGEST_POWER)
        mantissa *= _POWERS[step]
        exponent -= step
    return mantissa


@kernel
def _is_letters(text: Array, start: int, stop: int, letters: Array) -> bool:
    """Return whether text[start:stop] equals `letters`, which are in lower case, ignoring case."""
    if stop - start != letters.size:
        return False
    k = 0
    while k < letters.size and text[start + k] | _LOWER_CASE == letters[k]:
        k += 1
    return k == letters.size


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
    """Write each line's word ids to a row of `rows`, and its numbers in nats; skip blank lines.

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
    """Return the bytes and the length of the word at `start` as one number.

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
    """Return how many words of the previous line, from its word `first` on, also follow here; update their spans.

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
    """Copy the words text[spans[i, 0] : spans[i, 1]] to pool[offsets[i] :]."""
    for i in range(spans.shape[0]):
        for k in range(spans[i, 1] - spans[i, 0]):
            pool[offsets[i] + k] = text[spans[i, 0] + k]
