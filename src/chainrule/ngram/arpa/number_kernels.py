"""Parses the numbers of ARPA files."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.intrinsics import eight_bytes, trailing_zeros
from chainrule.base.jit import kernel

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
    """The number that eight digits make, each the value of a byte; the lowest byte is the first digit."""
    pairs = ((digits & _IN_BYTES) * _TO_PAIRS) >> _8
    fours = ((pairs & _IN_PAIRS) * _TO_FOURS) >> _16
    return np.int64(((fours & _IN_FOURS) * _TO_EIGHT) >> _32)


@kernel
def is_inside_word(byte: int) -> bool:
    """Whether a byte is not white space to KenLM; rare control characters are part of words."""
    return byte > _SPACE or not (byte == _SPACE or byte == _TAB or byte == _NEWLINE or byte == _RETURN)


@kernel
def number_from(text: Array, start: int) -> tuple[float, int]:
    """The number that begins at `start`, or NaN, and its end; plain decimals take one pass."""
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
    """The number text[start:stop], as strtod parses decimals; NaN if it is not a number."""
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
    """Whether text[start:stop] equals `letters`, which are in lower case, ignoring case."""
    if stop - start != letters.size:
        return False
    k = 0
    while k < letters.size and text[start + k] | _LOWER_CASE == letters[k]:
        k += 1
    return k == letters.size
