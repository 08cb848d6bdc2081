"""Compiled writing of the rows of CSV and TSV from columns of whole numbers, floats, truth values and texts.

A float is written as Python's `repr` writes it: the shortest decimal that reads back as the same float, and of these
the nearest. It is found by Schubfach: Giulietti, The Schubfach way to render doubles (2020).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.intrinsics import array_at, eight_bytes, high_product, put_eight_bytes, trailing_zeros
from chainrule.base.jit import allocating_kernel, kernel

Array = NDArray[Any]

WHOLE, FLOAT, TRUTH, TEXT = range(4)  # the kinds of columns
CELL_ROOM = 26  # bytes of a cell that is no text, with its delimiter, at most
SPARE = 24  # bytes that may be stored beyond the last cell, or read beyond a text
_NEWLINE, _RETURN, _QUOTE, _PLUS, _MINUS, _POINT, _ZERO, _E = 10, 13, 34, 43, 45, 46, 48, 101
_TRUE, _FALSE = (np.uint64(int.from_bytes(word, "little")) for word in (b"TRUE", b"FALSE"))
_INF, _NAN = (np.frombuffer(word, np.uint8) for word in (b"inf", b"nan"))


@allocating_kernel
def write_rows(kinds: Array, addresses: Array, rows: int, delimiter: int, out: Array) -> int:
    """Write the rows of a table, a line each; return their size.

    kinds: of the columns. addresses: a row for each column: of its values, which are int64, float64 or bool; or of its
    text, and of where each of its cells starts and stops in that. `out` needs CELL_ROOM bytes for each cell, and twice
    those of the texts; and SPARE, as a text has after its end.
    """
    size = 0
    scratch = np.empty(48, np.uint8)
    for row in range(rows):
        last, start, stop = np.uint64(0), -1, -1  # the float before in this row, and where it was written
        for column in range(kinds.size):
            kind, address = kinds[column], addresses[column, 0]
            if kind == WHOLE:
                size = _write_whole(array_at(address, rows, np.int64)[row], out, size)
            elif kind == TRUTH:
                is_true = array_at(address, rows, np.bool_)[row]
                put_eight_bytes(out, size, _TRUE if is_true else _FALSE)
                size += 4 if is_true else 5
            elif kind == FLOAT:
                bits = array_at(address, rows, np.uint64)[row]
                if start >= 0 and bits == last:
                    for i in range(0, stop - start, 8):
                        put_eight_bytes(out, size + i, eight_bytes(out, start + i))
                    size += stop - start
                else:
                    start = size
                    size = stop = _write_float(bits, scratch, out, size)
                    last = bits
            else:
                begin = array_at(addresses[column, 1], rows, np.int64)[row]
                end = array_at(addresses[column, 2], rows, np.int64)[row]
                size = _write_text(array_at(address, end + SPARE, np.uint8), begin, end, delimiter, out, size)
            out[size] = delimiter
            size += 1
        out[size - 1] = _NEWLINE
    return size


@kernel
def join_texts(text: Array, starts: Array, stops: Array, offsets: Array, out: Array) -> None:
    """Write texts one after the other; offsets[i] is where the one with number i starts."""
    size = 0
    for i in range(starts.size):
        offsets[i] = size
        for j in range(starts[i], stops[i]):
            out[size] = text[j]
            size += 1
    offsets[starts.size] = size


@kernel
def _write_text(text: Array, start: int, stop: int, delimiter: int, out: Array, at: int) -> int:
    """Write a cell, with quotation marks if it has one, a delimiter or a line end (RFC 4180)."""
    marked = _U0
    for i in range(start, stop, 8):
        eight = eight_bytes(text, i)
        put_eight_bytes(out, at + i - start, eight)
        if stop - i < 8:
            eight &= (_U1 << np.uint64(8 * (stop - i))) - _U1
        for mark in (_QUOTE, delimiter, _NEWLINE, _RETURN):
            other = eight ^ (_ONES * np.uint64(mark))  # has a byte of zero where the mark is
            marked |= (other - _ONES) & ~other & _HIGH
    if marked == _U0:
        return at + stop - start
    out[at] = _QUOTE
    size = at + 1
    for i in range(start, stop):
        if text[i] == _QUOTE:
            out[size] = _QUOTE
            size += 1
        out[size] = text[i]
        size += 1
    out[size] = _QUOTE
    return size + 1


@kernel
def _copy(word: Array, out: Array, at: int) -> int:
    for i in range(word.size):
        out[at + i] = word[i]
    return at + word.size


@kernel
def _write_whole(number: int, out: Array, at: int) -> int:
    if number < 0:
        out[at] = _MINUS
        return _write_digits(-number, out, at + 1)
    return _write_digits(number, out, at)


@kernel
def _write_digits(number: int, out: Array, at: int) -> int:
    if number >= 100_000_000:
        at = _write_digits(number // 100_000_000, out, at)
        put_eight_bytes(out, at, _eight_digits(np.uint64(number % 100_000_000)))
        return at + 8
    digits = _eight_digits(np.uint64(number))
    zeros = min(_leading_zeros(digits), 7)
    put_eight_bytes(out, at, digits >> np.uint64(8 * zeros))
    return at + 8 - zeros


@kernel
def _leading_zeros(digits: Any) -> int:
    """Return how many of eight ASCII digits, the first in the lowest byte, are zeros before another digit."""
    return trailing_zeros(digits ^ _ZEROS) >> 3


_U0, _U1, _U2, _U4, _U10, _U40 = map(np.uint64, (0, 1, 2, 4, 10, 40))
_ONES, _HIGH, _ZEROS = (np.uint64(byte * (2**64 // 255)) for byte in (0x01, 0x80, _ZERO))
_SIGN, _HIDDEN = np.uint64(1 << 63), np.uint64(1 << 52)
_MOST_POSITIONAL, _LEAST_POSITIONAL = 16, -3  # where the point is in numbers without an exponent
_LEAST_POWER = -292  # of ten, that a float64 needs


def _powers() -> Array:
    """Return 128 bits of powers of ten, rounded up, in two halves."""
    rows = []
    for exponent in range(_LEAST_POWER, 325):
        power = 10 ** abs(exponent)
        top = power.bit_length()
        bits = -(-power << 128 >> top) if exponent >= 0 else -((-1 << 127 + top) // power)
        rows.append((bits >> 64, bits & (1 << 64) - 1))
    return np.array(rows, np.uint64)


_POWERS = _powers()


@kernel
def _write_float(bits: Any, scratch: Array, out: Array, at: int) -> int:
    """Write a float64 by its bits, as `repr` does. scratch: room for 48 bytes."""
    if bits & _SIGN != _U0:
        bits ^= _SIGN
        if bits <= np.uint64(0x7FF0000000000000):
            out[at] = _MINUS
            at += 1
    if bits >= np.uint64(0x7FF0000000000000):
        return _copy(_INF if bits == np.uint64(0x7FF0000000000000) else _NAN, out, at)
    if bits == _U0:
        out[at], out[at + 1], out[at + 2] = _ZERO, _POINT, _ZERO
        return at + 3
    digits, exponent = _shortest(bits)
    while digits % _U10 == _U0:
        digits //= _U10
        exponent += 1
    length = _spell(digits, scratch)
    point = length + exponent
    if _LEAST_POSITIONAL <= point <= 0:
        for i in range(2 - point):
            out[at + i] = _ZERO
        out[at + 1] = _POINT
        return _put_digits(scratch, 0, length, length, out, at + 2 - point)
    if 0 < point <= _MOST_POSITIONAL:
        before = min(point, length)
        at = _put_digits(scratch, 0, before, length, out, at)
        for _ in range(point - before):
            out[at] = _ZERO
            at += 1
        out[at] = _POINT
        if point < length:
            return _put_digits(scratch, point, length, length, out, at + 1)
        out[at + 1] = _ZERO
        return at + 2
    at = _put_digits(scratch, 0, 1, length, out, at)
    if length > 1:
        out[at] = _POINT
        at = _put_digits(scratch, 1, length, length, out, at + 1)
    out[at] = _E
    out[at + 1] = _PLUS if point > 0 else _MINUS
    exponent = abs(point - 1)
    if exponent < 10:
        out[at + 2] = _ZERO
        at += 1
    return _write_digits(exponent, out, at + 2)


@kernel
def _put_digits(scratch: Array, first: int, stop: int, length: int, out: Array, at: int) -> int:
    """Write some of the digits that `_spell` left in the scratch; 24 bytes are stored, whatever their number."""
    start = 24 - length + first
    for k in range(0, 24, 8):
        put_eight_bytes(out, at + k, eight_bytes(scratch, start + k))
    return at + stop - first


@kernel
def _spell(digits: Any, scratch: Array) -> int:
    """Write up to 24 digits of a number, which end at byte 24 of the scratch; return how many it has."""
    low = np.uint64(100_000_000)
    rest = digits // low
    put_eight_bytes(scratch, 16, _eight_digits(digits - rest * low))
    high = rest // low
    put_eight_bytes(scratch, 8, _eight_digits(rest - high * low))
    put_eight_bytes(scratch, 0, _eight_digits(high))
    zeros = _leading_zeros(_eight_digits(high))
    if zeros == 8:
        zeros += _leading_zeros(eight_bytes(scratch, 8))
    if zeros == 16:
        zeros += _leading_zeros(eight_bytes(scratch, 16))
    return 24 - zeros


@kernel
def _eight_digits(number: Any) -> Any:
    """Return a number below 10^8 as eight ASCII digits, the first in the lowest byte."""
    high = number // np.uint64(10_000)
    fours = high | (number - high * np.uint64(10_000)) << np.uint64(32)
    hundreds = (fours * np.uint64(5243) >> np.uint64(19)) & np.uint64(0x0000007F0000007F)
    twos = hundreds | (fours - hundreds * np.uint64(100)) << np.uint64(16)
    tens = (twos * np.uint64(103) >> _U10) & np.uint64(0x000F000F000F000F)
    return (tens | (twos - tens * _U10) << np.uint64(8)) + _ZEROS


@kernel
def _shortest(bits: Any) -> tuple[Any, Any]:
    """Return d and k so that d 10^k is the shortest decimal that rounds to a positive float64, and the nearest such."""
    fraction, biased = bits & (_HIDDEN - _U1), np.int64(bits >> np.uint64(52))
    significand = fraction | _HIDDEN if biased != 0 else fraction
    q = (biased if biased > 0 else 1) - 1075
    if -53 < q <= 0 and significand & ((_U1 << np.uint64(-q)) - _U1) == _U0:
        return significand >> np.uint64(-q), 0
    odd = significand & _U1
    closer = fraction == _U0 and biased > 1  # the float below is at half the distance
    k = (q * 1262611 - (524031 if closer else 0)) >> 22  # log10 of the distance to the next float, rounded down
    shift = np.uint64(q + ((-k * 1741647) >> 19) + 1)
    high, low = _POWERS[-k - _LEAST_POWER, 0], _POWERS[-k - _LEAST_POWER, 1]
    quarters = _U4 * significand
    lower = _round_to_odd(high, low, (quarters - (_U1 if closer else _U2)) << shift) + odd
    value = _round_to_odd(high, low, quarters << shift)
    upper = _round_to_odd(high, low, (quarters + _U2) << shift) - odd
    whole = value // _U4
    if whole >= _U10:
        tens = whole // _U10
        below, above = lower <= _U40 * tens, _U40 * tens + _U40 <= upper
        if below != above:
            return tens + (_U1 if above else _U0), k + 1
    below, above = lower <= _U4 * whole, _U4 * whole + _U4 <= upper
    if below != above:
        return whole + (_U1 if above else _U0), k
    middle = _U4 * whole + _U2
    up = value > middle or (value == middle and whole & _U1 != _U0)
    return whole + (_U1 if up else _U0), k


@kernel
def _round_to_odd(high: Any, low: Any, factor: Any) -> Any:
    """Return the upper 64 bits of the 192 of a product, with the lowest set if anything is lost."""
    below = high * factor + high_product(low, factor)
    carry = _U1 if below < high * factor else _U0
    return high_product(high, factor) + carry | (_U1 if below > _U1 else _U0)
