"""Products of a matrix with a few vectors: dot products of its rows with each, on several threads; the log-softmax at
some places, of logits or of products that are never held; sums of a few rows.

A group of rows is multiplied by all vectors while it is in the processor's cache, and the next rows are asked for
meanwhile: the matrix is read once, at the speed of the memory, and up to four vectors take as long as one. Each dot
product is summed up in the same order (`base.lanes`), so that it depends neither on the processor, nor on threads, nor
on how many vectors there are.
Legend: B vectors, N rows of the matrix, K numbers in each, S scales of a row; P places.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.jit import allocating_kernel, alone, kernel, parallel_kernel, prange
from chainrule.base.lanes import (
    LANES,
    ask_for,
    exponential,
    float_at,
    lanes_at,
    lanes_in,
    larger,
    minus,
    plus,
    put_lanes,
    put_totals,
    spread,
    times,
    times_plus,
    total,
    weights_at,
    weights_like,
    zeros_like,
)

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Int8, Int16, Int64, UInt16
    from numpy import ndarray

    # Numbers, the bits of bfloat16 and float16, or integers with scales.
    Weights = Float32[ndarray, "N K"] | UInt16[ndarray, "N K"] | Int16[ndarray, "N K"] | Int8[ndarray, "N K"]

GROUP = 16  # rows
FOUR = 4  # rows by as many vectors, whose products are summed up side by side, in registers
IN_ONE = 2 * LANES  # columns, of which log-softmax takes whole groups
SHARE = 64  # rows whose gradients are summed up together, by one thread
_SUMMED = 128 * IN_ONE  # exponentials that are summed up in float32
_CHUNK = 8 * IN_ONE  # logits of four vectors, 4 KB
_ASKING = 16 * FOUR  # vectors that rows are multiplied by while the next rows are asked for; they are there by then
_ALL_AT_ONCE = 2 * FOUR  # vectors in fours, up to which all of the next rows are asked for with the first ones
_LINE = 64  # bytes that a processor loads into its cache at once


@parallel_kernel
def multiply(
    weight: Weights, scales: Float32[ndarray, "N S"], vectors: Float[ndarray, "B K"], out: Float[ndarray, "B N"]
) -> None:
    """Multiply a matrix by vectors: out[b, n] = weight[n] . vectors[b].

    scales: those of int8 weights, as for `weights_at`; else an array of any size. vectors may have float64, where
    weights have float32 or bfloat16; so then has out. K must be a multiple of LANES.
    """
    for group in prange((weight.shape[0] + GROUP - 1) // GROUP):
        _multiply_group(weight, scales, vectors, group * GROUP, out)


multiply_alone = alone(multiply)


@kernel
def _multiply_group(
    weight: Weights,
    scales: Float32[ndarray, "N S"],
    vectors: Float[ndarray, "B K"],
    first: int,
    out: Float[ndarray, "B N"],
) -> None:
    rows, count = weight.shape[0], vectors.shape[0]
    whole, last = count - count % FOUR, min(first + GROUP, rows)
    in_fours = last - (last - first) % FOUR
    is_few = whole <= _ALL_AT_ONCE
    for vector in range(0, whole, FOUR):
        for row in range(first, in_fours, FOUR):
            if is_few:
                ahead = min(row + FOUR, rows - FOUR) if vector == 0 else -1
                _four_by_four(weight, scales, vectors, row, vector, ahead, vector == 0, out)
            else:
                ahead = min(row + GROUP + (vector // FOUR) % FOUR, rows - 1) if vector < _ASKING else -1
                _four_by_four(weight, scales, vectors, row, vector, ahead, False, out)
    if whole < count:
        for row in range(first, in_fours, FOUR):
            ahead = min(row + FOUR, rows - FOUR) if whole == 0 else -1
            if whole + 1 == count:
                _four_by_one(weight, scales, vectors, row, whole, ahead, out)
            else:
                _four_by_few(weight, scales, vectors, row, whole, count - 1, ahead, out)
    for row in range(in_fours, last):
        for vector in range(count):
            _one_by_one(weight, scales, vectors, row, vector, out)


@kernel
def _one_by_one(
    weight: Weights,
    scales: Float32[ndarray, "N S"],
    vectors: Float[ndarray, "B K"],
    i: int,
    j: int,
    out: Float[ndarray, "B N"],
) -> None:
    a = zeros_like(vectors)
    for k in range(0, vectors.shape[1], lanes_in(vectors)):
        a = times_plus(weights_like(vectors, weight, scales, i, k), lanes_at(vectors, j, k), a)
    out[j, i] = total(a)


@kernel
def _ask_for_four(weight: Weights, row: int, k: int) -> None:
    """Ask for the numbers of four rows from k on, where they begin what a processor loads at once."""
    if k * weight.itemsize % _LINE == 0:
        ask_for(weight, row, k)
        ask_for(weight, row + 1, k)
        ask_for(weight, row + 2, k)
        ask_for(weight, row + 3, k)


@kernel
def _four_by_one(
    weight: Weights,
    scales: Float32[ndarray, "N S"],
    vectors: Float[ndarray, "B K"],
    i: int,
    j: int,
    ahead: int,
    out: Float[ndarray, "B N"],
) -> None:
    """Multiply four rows by one vector. ahead: the first of four rows that will be multiplied soon, or -1."""
    a0 = a1 = a2 = a3 = zeros_like(vectors)
    for k in range(0, vectors.shape[1], lanes_in(vectors)):
        if ahead >= 0:
            _ask_for_four(weight, ahead, k)
        x = lanes_at(vectors, j, k)
        a0 = times_plus(weights_like(vectors, weight, scales, i, k), x, a0)
        a1 = times_plus(weights_like(vectors, weight, scales, i + 1, k), x, a1)
        a2 = times_plus(weights_like(vectors, weight, scales, i + 2, k), x, a2)
        a3 = times_plus(weights_like(vectors, weight, scales, i + 3, k), x, a3)
    out[j, i], out[j, i + 1], out[j, i + 2], out[j, i + 3] = total(a0), total(a1), total(a2), total(a3)


@kernel
def _four_by_few(
    weight: Weights,
    scales: Float32[ndarray, "N S"],
    vectors: Float[ndarray, "B K"],
    i: int,
    j: int,
    last: int,
    ahead: int,
    out: Float[ndarray, "B N"],
) -> None:
    """Multiply four rows by two vectors or three, from j to last. ahead: as for `_four_by_one`."""
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = c0 = c1 = c2 = c3 = zeros_like(vectors)
    for k in range(0, vectors.shape[1], lanes_in(vectors)):
        if ahead >= 0:
            _ask_for_four(weight, ahead, k)
        a, b, c = lanes_at(vectors, j, k), lanes_at(vectors, j + 1, k), lanes_at(vectors, last, k)
        w = weights_like(vectors, weight, scales, i, k)
        a0, b0, c0 = times_plus(w, a, a0), times_plus(w, b, b0), times_plus(w, c, c0)
        w = weights_like(vectors, weight, scales, i + 1, k)
        a1, b1, c1 = times_plus(w, a, a1), times_plus(w, b, b1), times_plus(w, c, c1)
        w = weights_like(vectors, weight, scales, i + 2, k)
        a2, b2, c2 = times_plus(w, a, a2), times_plus(w, b, b2), times_plus(w, c, c2)
        w = weights_like(vectors, weight, scales, i + 3, k)
        a3, b3, c3 = times_plus(w, a, a3), times_plus(w, b, b3), times_plus(w, c, c3)
    out[j, i], out[j, i + 1], out[j, i + 2], out[j, i + 3] = total(a0), total(a1), total(a2), total(a3)
    out[j + 1, i], out[j + 1, i + 1], out[j + 1, i + 2], out[j + 1, i + 3] = total(b0), total(b1), total(b2), total(b3)
    out[last, i], out[last, i + 1], out[last, i + 2], out[last, i + 3] = total(c0), total(c1), total(c2), total(c3)


@kernel
def _four_by_four(
    weight: Weights,
    scales: Float32[ndarray, "N S"],
    vectors: Float[ndarray, "B K"],
    i: int,
    j: int,
    ahead: int,
    four_ahead: bool,
    out: Float[ndarray, "B N"],
) -> None:
    """Multiply four rows by four vectors.

    ahead: a row that will be multiplied soon, or -1. four_ahead: whether the three after it will, too.
    """
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = zeros_like(vectors)
    c0 = c1 = c2 = c3 = d0 = d1 = d2 = d3 = zeros_like(vectors)
    for k in range(0, vectors.shape[1], lanes_in(vectors)):
        if four_ahead:
            _ask_for_four(weight, ahead, k)
        elif ahead >= 0:
            ask_for(weight, ahead, k)
        a, b = lanes_at(vectors, j, k), lanes_at(vectors, j + 1, k)
        c, d = lanes_at(vectors, j + 2, k), lanes_at(vectors, j + 3, k)
        w = weights_like(vectors, weight, scales, i, k)
        a0, b0, c0, d0 = times_plus(w, a, a0), times_plus(w, b, b0), times_plus(w, c, c0), times_plus(w, d, d0)
        w = weights_like(vectors, weight, scales, i + 1, k)
        a1, b1, c1, d1 = times_plus(w, a, a1), times_plus(w, b, b1), times_plus(w, c, c1), times_plus(w, d, d1)
        w = weights_like(vectors, weight, scales, i + 2, k)
        a2, b2, c2, d2 = times_plus(w, a, a2), times_plus(w, b, b2), times_plus(w, c, c2), times_plus(w, d, d2)
        w = weights_like(vectors, weight, scales, i + 3, k)
        a3, b3, c3, d3 = times_plus(w, a, a3), times_plus(w, b, b3), times_plus(w, c, c3), times_plus(w, d, d3)
    put_totals(out, j, i, (a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3))


@parallel_kernel
def log_softmax_of_rows(
    logits: Float32[ndarray, "B N"], places: Int64[ndarray, "B P"], out: Float32[ndarray, "B P"]
) -> None:
    """Set out[b, p] to the log-softmax of logits[b] at places[b, p]; at each p of out, if `places` has no columns."""
    for group in prange((logits.shape[0] + FOUR - 1) // FOUR):
        _log_softmax_of_rows(logits, places, group * FOUR, min((group + 1) * FOUR, logits.shape[0]), out)


log_softmax_of_rows_alone = alone(log_softmax_of_rows)


@allocating_kernel
def _log_softmax_of_rows(
    logits: Float32[ndarray, "B N"], places: Int64[ndarray, "B P"], first: int, last: int, out: Float32[ndarray, "B P"]
) -> None:
    width = logits.shape[1]
    whole = width - width % IN_ONE
    rest, sixteen = np.full((1, IN_ONE), np.float32(-np.inf), np.float32), np.empty((1, LANES), np.float32)
    for i in range(first, last):
        for k in range(whole, width):
            rest[0, k - whole] = logits[i, k]
        a, b = lanes_at(rest, 0, 0), lanes_at(rest, 0, LANES)
        for k in range(0, whole, IN_ONE):
            a, b = larger(a, lanes_at(logits, i, k)), larger(b, lanes_at(logits, i, k + LANES))
        put_lanes(sixteen, 0, 0, larger(a, b))
        peak = _peak(sixteen, 0, np.float32(-np.inf))
        most = spread(np.float32(peak))
        a = exponential(minus(lanes_at(rest, 0, 0), most))
        b = exponential(minus(lanes_at(rest, 0, LANES), most))
        summed = np.float64(0)
        for k in range(0, whole, IN_ONE):
            if k % _SUMMED == 0 and k > 0:
                summed += np.float64(total(plus(a, b)))
                a = b = spread(np.float32(0))
            a = plus(a, exponential(minus(lanes_at(logits, i, k), most)))
            b = plus(b, exponential(minus(lanes_at(logits, i, k + LANES), most)))
        log_sum = math.log(summed + np.float64(total(plus(a, b))))
        for p in range(places.shape[1]):
            out[i, p] = np.float32(np.float64(logits[i, places[i, p]]) - np.float64(peak) - log_sum)
        if places.shape[1] == 0:
            for p in range(out.shape[1]):
                out[i, p] = np.float32(np.float64(logits[i, p]) - np.float64(peak) - log_sum)


@parallel_kernel
def softmax_gradients(
    logits: Float32[ndarray, "B N"] | UInt16[ndarray, "B N"],
    bias: Float32[ndarray, "1 N"],
    targets: Int64[ndarray, " B"],
    weights: Float32[ndarray, " B"],
    losses: Float32[ndarray, " B"],
    by_bias: Float32[ndarray, "shares N"],
) -> None:
    """Set losses[b] to -weights[b] log softmax(logits[b] + bias)[targets[b]], the logits to the gradients, and
    by_bias[b // SHARE] to the sum of those of a share of the rows.

    logits: or the bits of bfloat16. N must be a multiple of LANES.
    """
    width = logits.shape[1]
    for share in prange(by_bias.shape[0]):
        row, sixteen = np.empty((1, width), np.float32), np.empty((1, LANES), np.float32)
        by_bias[share] = 0
        for i in range(share * SHARE, min((share + 1) * SHARE, logits.shape[0])):
            most = spread(np.float32(-np.inf))
            for k in range(0, width, LANES):
                a = plus(weights_at(logits, bias, i, k), lanes_at(bias, 0, k))
                most = larger(most, a)
                put_lanes(row, 0, k, a)
            put_lanes(sixteen, 0, 0, most)
            peak, target = _peak(sixteen, 0, np.float32(-np.inf)), targets[i]
            above = np.float64(row[0, target]) - np.float64(peak)
            most, sums = spread(np.float32(peak)), spread(np.float32(0))
            for k in range(0, width, LANES):
                a = exponential(minus(lanes_at(row, 0, k), most))
                sums = plus(sums, a)
                put_lanes(row, 0, k, a)
            whole = total(sums)
            losses[i] = 0 if weights[i] == 0 else np.float32(weights[i] * (math.log(np.float64(whole)) - above))
            row[0, target] -= whole
            factor = spread(np.float32(weights[i] / whole))
            for k in range(0, width, LANES):
                a = times(lanes_at(row, 0, k), factor)
                put_lanes(logits, i, k, a)
                put_lanes(by_bias, share, k, plus(lanes_at(by_bias, share, k), a))


softmax_gradients_alone = alone(softmax_gradients)


@kernel
def _peak(lanes: Float32[ndarray, "rows 16"], row: int, known: np.float32) -> np.float32:
    """Return the largest number of a row and of what is known; NaN where it is infinity, which has no softmax."""
    peak = known
    for k in range(LANES):
        peak = max(peak, lanes[row, k])
    return np.float32(np.nan) if peak == np.inf else peak


@parallel_kernel
def log_softmax_of_products(
    vectors: Float32[ndarray, "B K"],
    columns: Float32[ndarray, "K+1 N"],
    places: Int64[ndarray, "B P"],
    out: Float32[ndarray, "B P"],
) -> None:
    """Set out[b, p] to the log-softmax of vectors[b] W + c at places[b, p], without holding all of these products.

    columns: W, and c in the last row; N must be a multiple of IN_ONE, and c is -inf in columns that only fill it up.
    """
    for group in prange((vectors.shape[0] + FOUR - 1) // FOUR):
        _log_softmax_of_four(vectors, columns, places, group * FOUR, out)


log_softmax_of_products_alone = alone(log_softmax_of_products)


@allocating_kernel
def _log_softmax_of_four(
    vectors: Float32[ndarray, "B K"],
    columns: Float32[ndarray, "K+1 N"],
    places: Int64[ndarray, "B P"],
    first: int,
    out: Float32[ndarray, "B P"],
) -> None:
    """Write the log-softmax of four vectors, a chunk of columns at a time: sums so far shrink where a chunk has a
    larger number.
    """
    width, last = vectors.shape[1], vectors.shape[0] - 1
    r0, r1, r2, r3 = first, min(first + 1, last), min(first + 2, last), min(first + 3, last)
    logits, sixteen = np.empty((FOUR, _CHUNK), np.float32), np.empty((FOUR, LANES), np.float32)
    sums, peaks = np.zeros((FOUR, LANES), np.float32), np.full((1, FOUR), np.float32(-np.inf), np.float32)
    for begin in range(0, columns.shape[1], _CHUNK):
        end = min(begin + _CHUNK, columns.shape[1])
        a0 = a1 = a2 = a3 = spread(np.float32(-np.inf))
        for k in range(begin, end, LANES):
            x0 = x1 = x2 = x3 = lanes_at(columns, width, k)
            for j in range(width):
                w = lanes_at(columns, j, k)
                x0 = times_plus(w, spread(float_at(vectors, r0, j)), x0)
                x1 = times_plus(w, spread(float_at(vectors, r1, j)), x1)
                x2 = times_plus(w, spread(float_at(vectors, r2, j)), x2)
                x3 = times_plus(w, spread(float_at(vectors, r3, j)), x3)
            a0, a1, a2, a3 = larger(a0, x0), larger(a1, x1), larger(a2, x2), larger(a3, x3)
            put_lanes(logits, 0, k - begin, x0)
            put_lanes(logits, 1, k - begin, x1)
            put_lanes(logits, 2, k - begin, x2)
            put_lanes(logits, 3, k - begin, x3)
        put_lanes(sixteen, 0, 0, a0)
        put_lanes(sixteen, 1, 0, a1)
        put_lanes(sixteen, 2, 0, a2)
        put_lanes(sixteen, 3, 0, a3)
        for q in range(FOUR):
            peak = _peak(sixteen, q, peaks[0, q])
            if peak == -np.inf:
                continue
            most, a, b = spread(np.float32(peak)), lanes_at(sums, q, 0), spread(np.float32(0))
            if peak != peaks[0, q]:
                a = times(a, exponential(minus(spread(float_at(peaks, 0, q)), most)))
                peaks[0, q] = peak
            for k in range(0, end - begin, IN_ONE):
                a = plus(a, exponential(minus(lanes_at(logits, q, k), most)))
                b = plus(b, exponential(minus(lanes_at(logits, q, k + LANES), most)))
            put_lanes(sums, q, 0, plus(a, b))
    for q in range(min(FOUR, last + 1 - first)):
        log_sum = math.log(np.float64(total(lanes_at(sums, q, 0))))
        for p in range(places.shape[1]):
            place = places[first + q, p]
            k = place - place % LANES
            x = lanes_at(columns, width, k)
            for j in range(width):
                x = times_plus(lanes_at(columns, j, k), spread(float_at(vectors, first + q, j)), x)
            put_lanes(sixteen, 0, 0, x)
            out[first + q, p] = np.float32(np.float64(sixteen[0, place % LANES]) - np.float64(peaks[0, q]) - log_sum)
