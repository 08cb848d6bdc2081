"""Compiled writing of a line for each scored document."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel

Array = NDArray[Any]

MILLION = 1_000_000
NUMBERS_ROOM = 80  # bytes of a line's numbers and tabs, at most
LARGEST = 9e12  # the range of millionths in 64 bits
_TAB, _NEWLINE, _RETURN, _SPACE, _MINUS, _POINT, _ZERO = 9, 10, 13, 32, 45, 46, 48
_INFINITE = np.frombuffer(b"-inf", np.uint8)


@kernel
def write_sentences(log_probs: Array, tokens: Array, unknown: Array, text: Array, stops: Array, out: Array) -> int:
    """Write log-probability, tokens, unknown tokens and text of each document, with tabs between; return the size.

    stops: one past the end of each document in `text`, whose line ends become spaces. `out` needs NUMBERS_ROOM bytes
    for each document, and those of `text`. Log-probabilities are from -LARGEST to LARGEST, or -inf.
    """
    size = 0
    start = 0
    for i in range(stops.size):
        size = _write_fixed(log_probs[i], out, size)
        out[size] = _TAB
        size = _write_whole(tokens[i], 1, out, size + 1)
        out[size] = _TAB
        size = _write_whole(unknown[i], 1, out, size + 1)
        out[size] = _TAB
        size += 1
        for j in range(start, stops[i] - 1):
            out[size] = _SPACE if text[j] == _NEWLINE or text[j] == _RETURN else text[j]
            size += 1
        out[size] = _NEWLINE
        size += 1
        start = stops[i]
    return size


@kernel
def _write_fixed(value: float, out: Array, size: int) -> int:
    """Write a number with six decimals."""
    if value == -np.inf:
        for i in range(_INFINITE.size):
            out[size + i] = _INFINITE[i]
        return size + _INFINITE.size
    millionths = np.int64(np.rint(abs(value) * MILLION))
    if value < 0:
        out[size] = _MINUS
        size += 1
    size = _write_whole(millionths // MILLION, 1, out, size)
    out[size] = _POINT
    return _write_whole(millionths % MILLION, 6, out, size + 1)


@kernel
def _write_whole(number: int, least: int, out: Array, size: int) -> int:
    """Write an integer, with leading zeros up to `least` digits."""
    length = 1
    limit = 10
    while number >= limit or length < least:
        length += 1
        limit *= 10
    for i in range(length - 1, -1, -1):
        out[size + i] = _ZERO + number % 10
        number //= 10
    return size + length
