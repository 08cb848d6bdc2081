"""Compiled writing of ARPA files: numbers as their shortest decimals, nodes of the trie as lines."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel
from chainrule.protocol import BEGIN

Array = NDArray[Any]

MAX_NUMBER_BYTES = 24
DAMAGED = -1  # in place of a node: the table holds an impossible word, node or number

_LOG_10 = math.log(10)
_LOG10_OF_ZERO = -99  # for backoffs, as in SRILM: KenLM cannot read -inf
_MINUS_INFINITY = np.frombuffer(bytearray(b"-inf"), np.uint8)
_POWERS = np.array([float(f"1e{i}") for i in range(64)])
_FIRST_EXPONENT = -160  # frexp's, below those of all float32
# By frexp's exponent: half the distance to the next float32, and a number of decimals that nearly always suffices.
_HALF = np.array([math.ldexp(1.0, max(exponent - 25, -150)) for exponent in range(_FIRST_EXPONENT, 130)])
_DECIMALS = np.array([math.ceil(-math.log10(half)) - 1 for half in _HALF])
_MARGIN = 1e-15  # relative; covers a few rounding errors in double precision
_POSITIONAL_FROM, _POSITIONAL_TO = 9.9999995e-7, 1e7  # smaller and larger numbers get an exponent
_TAB, _NEWLINE, _SPACE, _MINUS, _POINT, _ZERO, _E = 9, 10, 32, 45, 46, 48, 101


@kernel
def write_lines(
    words: Array,
    log_probs: Array,
    begin: Array,
    log_backoffs: Array,
    text: Array,
    offsets: Array,
    order: int,
    path: Array,
    stop: int,
    out: Array,
) -> tuple[int, int]:
    """Write the nodes from path[order] to `stop`, all of one order, a line each, until `out` is full.

    text, offsets: of the vocabulary. path: by order, the nodes of the prefixes of the first n-gram; overwritten.
    Returns the node to continue from, or DAMAGED, and the number of bytes written.
    """
    inner = begin.size - 1
    used = 0
    for node in range(path[order], stop):
        path[order] = node
        k = order
        while k > 1 and path[k - 1] + 1 < begin.size and begin[path[k - 1] + 1] <= path[k]:
            while path[k - 1] + 1 < begin.size and begin[path[k - 1] + 1] <= path[k]:
                path[k - 1] += 1
            k -= 1
        if np.isnan(log_probs[node]) or (node < inner and not log_backoffs[node] < np.inf):
            return DAMAGED, used
        needed = 2 * MAX_NUMBER_BYTES
        for k in range(1, order + 1):
            if not (0 <= path[k] < words.size and 0 <= words[path[k]] < offsets.size - 1):
                return DAMAGED, used
            start, end = offsets[words[path[k]]], offsets[words[path[k]] + 1]
            if not 0 <= start <= end <= text.size:
                return DAMAGED, used
            needed += end - start + 1
        if used + needed > out.size:
            return node, used
        if order == 1 and words[node] == BEGIN:
            out[used] = _ZERO  # <s> is never predicted, so any value will do; lmplz writes 0
            used += 1
        elif log_probs[node] == -np.inf:  # as lmplz; -99 would be read as a probability
            for byte in _MINUS_INFINITY:
                out[used] = byte
                used += 1
        else:
            used = write_number(min(log_probs[node], np.float32(0)), _LOG_10, out, used)
        separator = _TAB
        for k in range(1, order + 1):
            out[used] = separator
            used += 1
            for i in range(offsets[words[path[k]]], offsets[words[path[k]] + 1]):
                out[used] = text[i]
                used += 1
            separator = _SPACE
        if node < inner:
            out[used] = _TAB
            used = write_number(log_backoffs[node], _LOG_10, out, used + 1)
        out[used] = _NEWLINE
        used += 1
    return stop, used


@kernel
def write_number(value: float, unit: float, out: Array, at: int) -> int:
    """Write the shortest decimal that, times `unit`, rounds to the float32 `value`; return its end in `out`.

    With a unit of log 10, nats become a decimal logarithm that reads back as the same nats.
    """
    if value == -np.inf:
        value = np.float32(_LOG10_OF_ZERO * unit)
    magnitude = abs(np.float64(value))
    if magnitude == 0:
        out[at] = _ZERO
        return at + 1
    if value < 0:
        out[at] = _MINUS
        at += 1
    # All numbers between low and high round to this float32. Floats are twice as dense just below a power of two.
    fraction, exponent = math.frexp(magnitude)
    half = _HALF[exponent - _FIRST_EXPONENT]
    low = (magnitude - (half / 2 if fraction == 0.5 and exponent > -125 else half)) / unit * (1 + _MARGIN)
    high = (magnitude + half) / unit * (1 - _MARGIN)
    magnitude /= unit
    positional = _POSITIONAL_FROM <= magnitude < _POSITIONAL_TO
    decimals = _DECIMALS[exponent - _FIRST_EXPONENT]
    digits = _nearest_inside(magnitude, low, high, decimals)
    while digits < 0:
        decimals += 1
        digits = _nearest_inside(magnitude, low, high, decimals)
    while decimals > 0 or not positional:
        fewer = _nearest_inside(magnitude, low, high, decimals - 1)
        if fewer <= 0:
            break
        digits = fewer
        decimals -= 1
    if positional:
        return _write_positional(digits, decimals, out, at)
    return _write_scientific(digits, decimals, out, at)


@kernel
def _nearest_inside(magnitude: float, low: float, high: float, decimals: int) -> int:
    """Return the d for which d / 10^decimals is nearest to magnitude, and between low and high; -1 if there is none."""
    d = np.rint(_scaled(magnitude, decimals))
    if low < _scaled(d, -decimals) < high:
        return np.int64(d)
    if low < _scaled(d + 1, -decimals) < high:  # at a power of two, the upper half of the interval is larger
        return np.int64(d) + 1
    return -1


@kernel
def _scaled(value: float, decimals: int) -> float:
    return value * _POWERS[decimals] if decimals >= 0 else value / _POWERS[-decimals]


@kernel
def _write_positional(digits: int, decimals: int, out: Array, at: int) -> int:
    length = max(_length(digits), decimals + 1) + (1 if decimals > 0 else 0)
    for i in range(at + length - 1, at - 1, -1):
        if decimals > 0 and i == at + length - 1 - decimals:
            out[i] = _POINT
        else:
            out[i] = _ZERO + digits % 10
            digits //= 10
    return at + length


@kernel
def _write_scientific(digits: int, decimals: int, out: Array, at: int) -> int:
    length = _length(digits)
    at = _write_positional(digits, length - 1, out, at)
    out[at] = _E
    at += 1
    exponent = length - 1 - decimals
    if exponent < 0:
        out[at] = _MINUS
        at += 1
    return _write_positional(abs(exponent), 0, out, at)


@kernel
def _length(digits: int) -> int:
    length = 1
    while digits >= 10:
        digits //= 10
        length += 1
    return length
