"""Compiled products, sums and logistic steps over rows of vectors; noise tables; n-grams of characters as buckets.

Rows are float32, and their width is a multiple of LANES; the numbers past a vector's own are 0 and stay so.
Noise tables draw rows, each with its probability, in constant time (Walker 1977, made as Vose 1991). N-grams of words'
characters are hashed to buckets as fastText does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel
from chainrule.base.lanes import LANES, ask_for, lanes_at, plus, put_lanes, spread, times, times_plus, total

Array = NDArray[Any]
Float32 = Any  # a scalar of this type
UInt64 = Any

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
SIGMOID_BOUND, SIGMOID_STEPS = 16, 128  # the table: from -bound to bound, with this many steps a unit
_BOUND, _STEPS = np.float32(SIGMOID_BOUND), np.float32(SIGMOID_STEPS)
_FACTOR, _ADDEND = np.uint64(6364136223846793005), np.uint64(1442695040888963407)  # Knuth's, of MMIX
_32 = np.uint64(32)


@kernel
def product(a: Array, i: int, b: Array, j: int) -> Float32:
    """Return the dot product of two rows."""
    sums = spread(_ZERO)
    for column in range(0, a.shape[1], LANES):
        sums = times_plus(lanes_at(a, i, column), lanes_at(b, j, column), sums)
    return total(sums)


@kernel
def add_row(factor: Float32, a: Array, i: int, b: Array, j: int) -> None:
    """Add a multiple of a row to another row: b[j] += factor * a[i]"""
    factors = spread(factor)
    for column in range(0, a.shape[1], LANES):
        put_lanes(b, j, column, times_plus(factors, lanes_at(a, i, column), lanes_at(b, j, column)))


@kernel
def copy_row(factor: Float32, a: Array, i: int, b: Array, j: int) -> None:
    """Set a row to a multiple of another row: b[j] = factor * a[i]"""
    factors = spread(factor)
    for column in range(0, a.shape[1], LANES):
        put_lanes(b, j, column, times(factors, lanes_at(a, i, column)))


@kernel
def clear_row(a: Array, i: int) -> None:
    for column in range(0, a.shape[1], LANES):
        put_lanes(a, i, column, spread(_ZERO))


@kernel
def prefetch_row(a: Array, i: int) -> None:
    """Prefetch a row that is soon to be read."""
    for column in range(0, a.shape[1], LANES):
        ask_for(a, i, column)


@kernel
def sigmoid(x: Float32, table: Array) -> Float32:
    """Return 1 / (1 + exp(-x)) to 1e-6, between the entries of a table; 0 or 1 outside of it."""
    if x >= _BOUND:
        return _ONE
    if x < -_BOUND:  # NaN falls through to a comparison that is false, and out of the table
        return _ZERO
    if x != x:
        return x
    place = (x + _BOUND) * _STEPS
    k = np.int64(place)
    return table[k] + (place - np.float32(k)) * (table[k + 1] - table[k])


@kernel
def step(
    hidden: Array, h: int, outputs: Array, row: int, label: Float32, rate: Float32, errors: Array, table: Array
) -> Float32:
    """Take a step of logistic regression, which raises the likelihood of a row's label, 1 or 0, given hidden[h].

    outputs[row] += rate (label - sigmoid(hidden[h] outputs[row])) hidden[h]; the same, times the old outputs[row], is
    added to errors[0]. Returns the probability of label 1.
    """
    likely = sigmoid(product(hidden, h, outputs, row), table)
    gains = spread(rate * (label - likely))
    for column in range(0, outputs.shape[1], LANES):
        output = lanes_at(outputs, row, column)
        put_lanes(errors, 0, column, times_plus(gains, output, lanes_at(errors, 0, column)))
        put_lanes(outputs, row, column, times_plus(gains, lanes_at(hidden, h, column), output))
    return likely


@kernel
def products_by_three(
    hidden: Array, h: int, outputs: Array, first: int, second: int, third: int
) -> tuple[Float32, Float32, Float32]:
    """Return the dot products of hidden[h] with three rows, for which it is read once."""
    sums, second_sums, third_sums = spread(_ZERO), spread(_ZERO), spread(_ZERO)
    for column in range(0, outputs.shape[1], LANES):
        lanes = lanes_at(hidden, h, column)
        sums = times_plus(lanes, lanes_at(outputs, first, column), sums)
        second_sums = times_plus(lanes, lanes_at(outputs, second, column), second_sums)
        third_sums = times_plus(lanes, lanes_at(outputs, third, column), third_sums)
    return total(sums), total(second_sums), total(third_sums)


@kernel
def move_by_three(hidden: Array, h: int, outputs: Array, rows: Array, gains: Array, n: int, errors: Array) -> None:
    """Move rows[n : n + 3] by their gains: outputs[row] += gain hidden[h]; errors[0] += gain times the old row.

    One that is there twice is moved twice.
    """
    first, second, third = rows[n], rows[n + 1], rows[n + 2]
    gain, second_gain, third_gain = spread(gains[n]), spread(gains[n + 1]), spread(gains[n + 2])
    for column in range(0, outputs.shape[1], LANES):
        lanes = lanes_at(hidden, h, column)
        output = lanes_at(outputs, first, column)
        error = times_plus(gain, output, lanes_at(errors, 0, column))
        put_lanes(outputs, first, column, times_plus(gain, lanes, output))
        output = lanes_at(outputs, second, column)
        error = times_plus(second_gain, output, error)
        put_lanes(outputs, second, column, times_plus(second_gain, lanes, output))
        output = lanes_at(outputs, third, column)
        error = times_plus(third_gain, output, error)
        put_lanes(outputs, third, column, times_plus(third_gain, lanes, output))
        put_lanes(errors, 0, column, error)


@kernel
def add_errors(errors: Array, rows: Array, row: int) -> None:
    """Add the errors to a row: rows[row] += errors[0]"""
    for column in range(0, rows.shape[1], LANES):
        put_lanes(rows, row, column, plus(lanes_at(rows, row, column), lanes_at(errors, 0, column)))


@kernel
def next_random(state: UInt64) -> UInt64:
    """Return the next state of a linear congruential generator, whose upper half is random enough."""
    return state * _FACTOR + _ADDEND


@kernel
def below(state: UInt64, size: int) -> Any:
    """Return a random number from 0 to size - 1, from the upper half of a state."""
    return np.int64(((state >> _32) * np.uint64(size)) >> _32)


@kernel
def negative_log(likely: float) -> float:
    """Return -log of a probability, at most 23."""
    return -math.log(max(likely, 1e-10))


_WHOLE = 4294967296.0  # 2^32


@kernel
def make_aliases(
    weights: Array, starts: Array, members: Array, shares: Array, aliases: Array, heights: Array, waiting: Array
) -> None:
    """Write the tables of each block: shares, 2^32 times the probability that a member stays itself, and its alias
    otherwise.

    heights, waiting: scratch. Members below the mean wait at the front of `waiting`, those above it at the back.
    """
    for block in range(starts.size - 1):
        start, stop = starts[block], starts[block + 1]
        weight = 0.0
        for k in range(start, stop):
            weight += weights[members[k]]
        low, high = start, stop
        for k in range(start, stop):
            heights[k] = weights[members[k]] / weight * (stop - start)
            if heights[k] < 1.0:
                waiting[low] = k
                low += 1
            else:
                high -= 1
                waiting[high] = k
        while low > start and high < stop:
            low -= 1
            poor, rich = waiting[low], waiting[high]
            shares[poor], aliases[poor] = np.uint64(heights[poor] * _WHOLE), rich
            heights[rich] -= 1.0 - heights[poor]
            if heights[rich] < 1.0:
                waiting[low] = rich
                low += 1
                high += 1
        while low > start:
            low -= 1
            shares[waiting[low]], aliases[waiting[low]] = np.uint64(_WHOLE), waiting[low]
        while high < stop:
            shares[waiting[high]], aliases[waiting[high]] = np.uint64(_WHOLE), waiting[high]
            high += 1


_START, _FNV_FACTOR = np.uint32(2166136261), np.uint32(16777619)  # FNV-1a's
_SIGN, _UPPER = np.uint32(0x80), np.uint32(0xFFFFFF00)


@kernel
def ngram_buckets(text: Array, start: int, stop: int, shortest: int, longest: int, buckets: int, found: Array) -> int:
    """Return the buckets of the n-grams of one word, which is text[start:stop] with < before and > after it.

    N-grams are of whole UTF-8 characters; single ones at the edges, which are < and >, are left out. The hash takes a
    byte as a signed number, as fastText does, so that those from 128 on flip the upper bits, too. Returns how many.
    """
    count = 0
    for i in range(start, stop):
        if text[i] & 0xC0 == 0x80:
            continue
        hashed, j, length = _START, i, 1
        while j < stop and length <= longest:
            while True:
                byte = np.uint32(text[j])
                hashed = np.uint32(hashed ^ (byte | _UPPER if byte & _SIGN else byte)) * _FNV_FACTOR
                j += 1
                if j == stop or text[j] & 0xC0 != 0x80:
                    break
            is_edge = length == 1 and (i == start or j == stop)
            if length >= shortest and not is_edge:
                found[count] = np.int64(np.uint32(hashed)) % buckets
                count += 1
            length += 1
    return count
