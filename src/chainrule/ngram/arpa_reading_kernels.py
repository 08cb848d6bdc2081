"""The compiled side of reading ARPA: lines to numbers and word ids. Nothing that a file says is an index unchecked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.jit import allocating_kernel, kernel
from chainrule.protocol import BEGIN, UNKNOWN
from chainrule.text.vocabulary_kernels import HASH_FACTOR, HASH_START, find_token, mixed

Array = NDArray[Any]

# What parse_lines returns first: all is well, or what is wrong with the field at the place that it returns last.
FINE, BAD_PROBABILITY, BAD_BACKOFF, NEEDLESS_BACKOFF, UNKNOWN_WORD, TOO_FEW_FIELDS, TOO_MANY_FIELDS = range(7)
# Decimal. More than 10^38 is no float32, and no back-off of a distribution; below, only sums of them must not overflow.
LARGEST_BACKOFF, LEAST_BACKOFF = 38.0, -1e30

_LOG_10 = math.log(10)
_LOG10_OF_ZERO = -99.0  # SRILM's convention
_LARGEST_POWER = 308
_POWERS = np.array([float(f"1e{i}") for i in range(_LARGEST_POWER + 1)])
_MANTISSA_LIMIT = 10**17  # more digits do not fit an int64, nor matter
_PLAIN_DIGITS = 17  # fit an int64 with room
_EXPONENT_LIMIT = 10**6
_TAB, _NEWLINE, _RETURN, _SPACE, _PLUS, _MINUS, _POINT, _ZERO = 9, 10, 13, 32, 43, 45, 46, 48
_LOWER_CASE = 32  # the bit that tells a lower-case letter
_E = 101
_INF, _INFINITY = np.frombuffer(bytearray(b"inf"), np.uint8), np.frombuffer(bytearray(b"infinity"), np.uint8)


@kernel
def count_newlines(text: Array) -> int:
    count = 0
    for byte in text:
        count += byte == _NEWLINE
    return count


@allocating_kernel
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
) -> tuple[int, int, int, int, int]:
    """Writes each line's word ids to a row of `rows`, and its numbers in nats; blank lines are passed over.

    slots, pool, offsets: the hash table of the vocabulary; ids from `size` on are other names of <unk>. Where `slots`
    is empty, `order` is 1 and `rows` gets the places where the word starts and stops. The outputs have room for one
    n-gram more than there can be in the text. Returns a status, the number of rows, that of n-grams left out since <s>
    is in them but not first, and the place of the wrong field.
    """
    starts = np.zeros(order, np.int64)  # of the words of the line before
    stops = np.zeros(order, np.int64)
    ids = np.zeros(order, np.int64)
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
                log10_prob, i = _number_from(text, start)
                if not log10_prob <= 0:
                    return BAD_PROBABILITY, count, left_out, start, i
                log_probs[count] = log10_prob * _LOG_10
                if slots.size > 0 and i < text.size and text[i] != _NEWLINE:
                    same = _same_words(text, i + 1, starts, stops)
                    if same > 0:
                        field, i = same, stops[same - 1]
            elif field <= order:
                j = field - 1
                if slots.size == 0:
                    i = _end_of_word(text, start)
                    rows[count, 0], rows[count, 1] = start, i
                else:
                    i = _end_of_same_word(text, start, starts[j], stops[j])
                    if i < 0:
                        i = start
                        hashed = HASH_START
                        while i < text.size and _is_inside_word(text[i]):
                            hashed = (hashed ^ np.uint64(text[i])) * HASH_FACTOR
                            i += 1
                        ids[j], _ = find_token(text, start, i, mixed(hashed), slots, pool, offsets)
                        if ids[j] < 0:
                            return UNKNOWN_WORD, count, left_out, start, i
                        if ids[j] >= size:
                            ids[j] = UNKNOWN
                    starts[j], stops[j] = start, i
            elif field == order + 1:
                log10_backoff, i = _number_from(text, start)
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
    while i < text.size and _is_inside_word(text[i]):
        i += 1
    return i


@kernel
def _same_words(text: Array, start: int, starts: Array, stops: Array) -> int:
    """How many words from `start` on, with the blanks between, are those of the line before; their places are moved.

    Comparing them in one go beats finding where each ends: files are often sorted, and one branch is mispredicted.
    """
    i, other = start, starts[0]
    while other < stops[-1] and i < text.size and text[i] == text[other]:
        i += 1
        other += 1
    shift = start - starts[0]
    same = 0
    while same < stops.size and stops[same] < other:
        starts[same] += shift
        stops[same] += shift
        same += 1
    return same


@kernel
def _end_of_same_word(text: Array, start: int, other: int, other_stop: int) -> int:
    """Where the word at `start` ends if it is text[other:other_stop], which is not empty; else -1."""
    i = start
    while other < other_stop and i < text.size and text[i] == text[other]:
        i += 1
        other += 1
    same = i > start and other == other_stop and (i == text.size or not _is_inside_word(text[i]))
    return i if same else -1


@kernel
def _number_from(text: Array, start: int) -> tuple[float, int]:
    """The number that begins at `start`, or nan, and where it ends; in one pass where it is a plain decimal."""
    i = start
    negative = i < text.size and text[i] == _MINUS
    if negative:
        i += 1
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
    if 0 < digits <= _PLAIN_DIGITS and (i == text.size or not _is_inside_word(text[i])):
        magnitude = np.float64(mantissa)
        if point >= 0:
            magnitude /= _POWERS[digits - point]
        return -magnitude if negative else magnitude, i
    i = _end_of_word(text, i)
    return parse_number(text, start, i), i


@kernel
def _is_inside_word(byte: int) -> bool:
    """Whether a byte is no white space to KenLM; rarer control characters are part of a word."""
    return byte > _SPACE or not (byte == _SPACE or byte == _TAB or byte == _NEWLINE or byte == _RETURN)


@kernel
def parse_number(text: Array, start: int, stop: int) -> float:
    """The number that text[start:stop] is, as strtod reads decimals; nan where it is none."""
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
        downwards = i < stop and text[i] == _MINUS
        if i < stop and (text[i] == _MINUS or text[i] == _PLUS):
            i += 1
        if i == stop:
            return np.nan
        given = 0
        while i < stop and _ZERO <= text[i] <= _ZERO + 9:
            given = min(given * 10 + (np.int64(text[i]) - _ZERO), _EXPONENT_LIMIT)
            i += 1
        exponent += -given if downwards else given
    if i < stop:
        return np.nan
    magnitude = _scaled(np.float64(mantissa), exponent)
    return -magnitude if negative else magnitude


@kernel
def _scaled(mantissa: float, exponent: int) -> float:
    """mantissa * 10^exponent."""
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
    """Whether text[start:stop] is these lower-case letters, in either case."""
    if stop - start != letters.size:
        return False
    k = 0
    while k < letters.size and text[start + k] | _LOWER_CASE == letters[k]:
        k += 1
    return k == letters.size


@kernel
def copy_words(text: Array, places: Array, pool: Array, offsets: Array) -> None:
    """Writes the words from places[i, 0] to places[i, 1] of the text to offsets[i] of the pool."""
    for i in range(places.shape[0]):
        for k in range(places[i, 1] - places[i, 0]):
            pool[offsets[i] + k] = text[places[i, 0] + k]
