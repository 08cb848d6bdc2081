"""Attention of a packed Transformer: the same bits for any number of queries, rows and threads.

A score is summed in sixteen lanes, and the exponentials of a query's scores, too, from the first key that it sees on;
values are added key by key. Four queries of a row that read the same head of keys, at other positions or as heads of
one group, read them together: `_attend_four`, to the bits of `_attend_one`. Other Transformers take from here the
attention of a single query to the keys in a cache (`layers/attention.py`).
Legend: N tokens, those of a row one after the other, B rows, H heads of queries, K heads of keys and values, d their
width, a multiple of 2 LANES.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.jit import allocating_kernel, kernel, parallel_kernel, prange
from chainrule.base.lanes import (
    LANES,
    ask_for,
    exponential,
    float_at,
    lanes_at,
    larger,
    minus,
    over,
    plus,
    put_lanes,
    spread,
    times,
    times_plus,
    total,
    totals,
    weights_at,
)

if TYPE_CHECKING:
    from jaxtyping import Float32, Int8, Int64
    from numpy import ndarray

    # Of each column a key and its value, 2d numbers; in eight bits the scales of each 32 follow, and are also given.
    KeyValues = Float32[ndarray, "B K columns 2d"] | Int8[ndarray, "B K columns bytes"]
    Scales = Float32[ndarray, "B K columns blocks"]  # of keys and values in eight bits; else not read

_FOUR, _LEAST = 4, 3  # queries that read the same keys together, and how many there must be
_LINE = 64  # bytes that a processor loads into its cache at once


@kernel
def _cap(scores: Float32[ndarray, "1 S"], cap: float) -> None:
    """Replace scores s by cap tanh(s / cap), in place."""
    bound, one, two = spread(np.float32(cap)), spread(np.float32(1)), spread(np.float32(2))
    double = spread(np.float32(np.float32(2) / np.float32(cap)))
    for s in range(0, scores.shape[1], LANES):  # tanh(x) = 1 - 2 / (exp(2 x) + 1)
        power = exponential(times(lanes_at(scores, 0, s), double))
        put_lanes(scores, 0, s, times(minus(one, over(two, plus(power, one))), bound))


@allocating_kernel
def _attend_one(
    heads: Float32[ndarray, "N H+2K d"],
    keys: KeyValues,
    scales: Scales,
    begins: Int64[ndarray, " N"],
    ends: Int64[ndarray, " N"],
    scale: float,
    cap: float,
    i: int,
    head: int,
    out: Float32[ndarray, "N H*d"],
) -> None:
    key_heads, width = keys.shape[1], heads.shape[2]
    queries = out.shape[1] // width
    row = i // (heads.shape[0] // keys.shape[0])
    own, factors = keys[row, head // (queries // key_heads)], scales[row, head // (queries // key_heads)]
    following = keys[
        min(row + (head + 1) // queries, keys.shape[0] - 1), (head + 1) % queries // (queries // key_heads)
    ]
    begin, count, is_single = begins[i], ends[i] - begins[i], heads.shape[0] == keys.shape[0]
    whole = (count + LANES - 1) // LANES * LANES
    weights = np.empty((1, whole), np.float32)
    query = heads[i]
    most = spread(np.float32(scale))
    for s in range(0, count - count % LANES, LANES):
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = a8 = a9 = b0 = b1 = b2 = b3 = b4 = b5 = spread(np.float32(0))
        at = begin + s
        if is_single:  # its keys come from memory, and a processor asks for more by itself within a page only
            ahead, first = (own, at + LANES) if s + 2 * LANES <= count else (following, begin)
            for j in range(LANES):
                for k in range(0, keys.shape[3], _LINE // keys.itemsize):
                    ask_for(ahead, first + j, k)
        for k in range(0, width, LANES):
            q = lanes_at(query, head, k)
            a0 = times_plus(q, weights_at(own, factors, at, k), a0)
            a1 = times_plus(q, weights_at(own, factors, at + 1, k), a1)
            a2 = times_plus(q, weights_at(own, factors, at + 2, k), a2)
            a3 = times_plus(q, weights_at(own, factors, at + 3, k), a3)
            a4 = times_plus(q, weights_at(own, factors, at + 4, k), a4)
            a5 = times_plus(q, weights_at(own, factors, at + 5, k), a5)
            a6 = times_plus(q, weights_at(own, factors, at + 6, k), a6)
            a7 = times_plus(q, weights_at(own, factors, at + 7, k), a7)
            a8 = times_plus(q, weights_at(own, factors, at + 8, k), a8)
            a9 = times_plus(q, weights_at(own, factors, at + 9, k), a9)
            b0 = times_plus(q, weights_at(own, factors, at + 10, k), b0)
            b1 = times_plus(q, weights_at(own, factors, at + 11, k), b1)
            b2 = times_plus(q, weights_at(own, factors, at + 12, k), b2)
            b3 = times_plus(q, weights_at(own, factors, at + 13, k), b3)
            b4 = times_plus(q, weights_at(own, factors, at + 14, k), b4)
            b5 = times_plus(q, weights_at(own, factors, at + 15, k), b5)
        of_keys = totals((a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5))
        put_lanes(weights, 0, s, times(of_keys, most))
    for s in range(count - count % LANES, count):
        a = spread(np.float32(0))
        for k in range(0, width, LANES):
            a = times_plus(lanes_at(query, head, k), weights_at(own, factors, begin + s, k), a)
        weights[0, s] = np.float32(total(a) * np.float32(scale))
    if cap > 0:
        _cap(weights, cap)
    for s in range(count, whole):
        weights[0, s] = -np.inf
    sums, sixteen = spread(np.float32(0)), np.empty((1, LANES), np.float32)
    most = spread(np.float32(-np.inf))
    for s in range(0, whole, LANES):
        most = larger(most, lanes_at(weights, 0, s))
    put_lanes(sixteen, 0, 0, most)
    largest = sixteen[0, 0]
    for s in range(1, LANES):
        largest = max(largest, sixteen[0, s])
    most = spread(np.float32(largest))
    for s in range(0, whole, LANES):
        power = exponential(minus(lanes_at(weights, 0, s), most))
        put_lanes(weights, 0, s, power)
        sums = plus(sums, power)
    share = np.float32(1) / np.float32(total(sums))
    shares = spread(np.float32(share))
    for k in range(0, width - width % (2 * LANES), 2 * LANES):
        a = b = spread(np.float32(0))
        for s in range(count):
            weight = spread(float_at(weights, 0, s))
            a = times_plus(weight, weights_at(own, factors, begin + s, width + k), a)
            b = times_plus(weight, weights_at(own, factors, begin + s, width + k + LANES), b)
        put_lanes(out, i, head * width + k, times(a, shares))
        put_lanes(out, i, head * width + k + LANES, times(b, shares))


@allocating_kernel
def _attend_four(
    heads: Float32[ndarray, "N H+2K d"],
    keys: KeyValues,
    scales: Scales,
    begins: Int64[ndarray, " N"],
    ends: Int64[ndarray, " N"],
    scale: float,
    cap: float,
    row: int,
    key_head: int,
    first: int,
    out: Float32[ndarray, "N H*d"],
) -> None:
    """Compute the attention of four queries to the same head of keys, which are read once for all of them: the bits of
    `_attend_one`.

    first: their place among the queries of the row that have this head, by position, then by head.
    """
    width, shared = heads.shape[2], out.shape[1] // heads.shape[2] // keys.shape[1]
    length = heads.shape[0] // keys.shape[0]
    last = length * shared - 1
    own, factors = keys[row, key_head], scales[row, key_head]
    position, place = np.empty(_FOUR, np.int64), np.empty(_FOUR, np.int64)
    for q in range(_FOUR):  # where fewer are left, the last one several times
        pair = min(first + q, last)
        position[q], place[q] = row * length + pair // shared, key_head * shared + pair % shared
    low, inner_low = begins[position[0]], begins[position[0]]
    high, inner_high = ends[position[0]], ends[position[0]]
    for q in range(1, _FOUR):
        low, inner_low = min(low, begins[position[q]]), max(inner_low, begins[position[q]])
        high, inner_high = max(high, ends[position[q]]), min(inner_high, ends[position[q]])
    if inner_low >= inner_high:  # keys that all of them read
        for q in range(min(_FOUR, last + 1 - first)):
            _attend_one(heads, keys, scales, begins, ends, scale, cap, position[q], place[q], out)
        return
    count = high - low
    whole = (count + LANES - 1) // LANES * LANES * _FOUR
    weights = np.empty((1, whole), np.float32)  # of each key, those of the four queries
    query0, query1 = heads[position[0]], heads[position[1]]
    query2, query3 = heads[position[2]], heads[position[3]]
    h0, h1, h2, h3 = place[0], place[1], place[2], place[3]
    by_scale = spread(np.float32(scale))
    is_single = length == 1
    for s in range(0, count - count % _FOUR, _FOUR):
        at = low + s
        if is_single and s + LANES + _FOUR <= count:  # its keys come from memory
            for j in range(_FOUR):
                for k in range(0, keys.shape[3], _LINE // keys.itemsize):
                    ask_for(own, at + LANES + j, k)
        a0 = a1 = a2 = a3 = spread(np.float32(0))
        for k in range(0, width, LANES):
            key = weights_at(own, factors, at, k)
            a0 = times_plus(lanes_at(query0, h0, k), key, a0)
            a1 = times_plus(lanes_at(query1, h1, k), key, a1)
            a2 = times_plus(lanes_at(query2, h2, k), key, a2)
            a3 = times_plus(lanes_at(query3, h3, k), key, a3)
        b0 = b1 = b2 = b3 = spread(np.float32(0))
        for k in range(0, width, LANES):
            key = weights_at(own, factors, at + 1, k)
            b0 = times_plus(lanes_at(query0, h0, k), key, b0)
            b1 = times_plus(lanes_at(query1, h1, k), key, b1)
            b2 = times_plus(lanes_at(query2, h2, k), key, b2)
            b3 = times_plus(lanes_at(query3, h3, k), key, b3)
        c0 = c1 = c2 = c3 = spread(np.float32(0))
        for k in range(0, width, LANES):
            key = weights_at(own, factors, at + 2, k)
            c0 = times_plus(lanes_at(query0, h0, k), key, c0)
            c1 = times_plus(lanes_at(query1, h1, k), key, c1)
            c2 = times_plus(lanes_at(query2, h2, k), key, c2)
            c3 = times_plus(lanes_at(query3, h3, k), key, c3)
        d0 = d1 = d2 = d3 = spread(np.float32(0))
        for k in range(0, width, LANES):
            key = weights_at(own, factors, at + 3, k)
            d0 = times_plus(lanes_at(query0, h0, k), key, d0)
            d1 = times_plus(lanes_at(query1, h1, k), key, d1)
            d2 = times_plus(lanes_at(query2, h2, k), key, d2)
            d3 = times_plus(lanes_at(query3, h3, k), key, d3)
        sixteen = totals((a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3))
        put_lanes(weights, 0, s * _FOUR, times(sixteen, by_scale))
    for s in range(count - count % _FOUR, count):
        for q in range(_FOUR):
            query, h, a = heads[position[q]], place[q], spread(np.float32(0))
            for k in range(0, width, LANES):
                a = times_plus(lanes_at(query, h, k), weights_at(own, factors, low + s, k), a)
            weights[0, s * _FOUR + q] = np.float32(total(a) * np.float32(scale))
    if cap > 0:
        _cap(weights, cap)
    for s in range(count * _FOUR, whole):
        weights[0, s] = -np.inf
    largest = np.full((1, LANES), np.float32(-np.inf), np.float32)
    for q in range(_FOUR):  # what it does not see
        for s in range(low, begins[position[q]]):
            weights[0, (s - low) * _FOUR + q] = -np.inf
        for s in range(ends[position[q]], high):
            weights[0, (s - low) * _FOUR + q] = -np.inf
    most = lanes_at(largest, 0, 0)
    for s in range(0, whole, LANES):
        most = larger(most, lanes_at(weights, 0, s))
    put_lanes(largest, 0, 0, most)
    for q in range(_FOUR):
        for s in range(q, LANES, _FOUR):
            largest[0, q] = max(largest[0, q], largest[0, s])
        for s in range(q, LANES, _FOUR):
            largest[0, s] = largest[0, q]
    most = lanes_at(largest, 0, 0)
    a0 = a1 = a2 = a3 = spread(np.float32(0))
    for s in range(0, whole, _FOUR * LANES):
        b0 = exponential(minus(lanes_at(weights, 0, s), most))
        b1 = exponential(minus(lanes_at(weights, 0, s + LANES), most))
        b2 = exponential(minus(lanes_at(weights, 0, s + 2 * LANES), most))
        b3 = exponential(minus(lanes_at(weights, 0, s + 3 * LANES), most))
        put_lanes(weights, 0, s, b0)
        put_lanes(weights, 0, s + LANES, b1)
        put_lanes(weights, 0, s + 2 * LANES, b2)
        put_lanes(weights, 0, s + 3 * LANES, b3)
        a0, a1, a2, a3 = plus(a0, b0), plus(a1, b1), plus(a2, b2), plus(a3, b3)
    sums, sixteen_sums = np.empty((1, _FOUR * LANES), np.float32), np.empty((1, LANES), np.float32)
    put_lanes(sums, 0, 0, a0)
    put_lanes(sums, 0, LANES, a1)
    put_lanes(sums, 0, 2 * LANES, a2)
    put_lanes(sums, 0, 3 * LANES, a3)
    i0, i1, i2, i3 = position[0], position[1], position[2], position[3]
    for k in range(0, width, 2 * LANES):
        for q in range(_FOUR):
            i, at = position[q], place[q] * width + k
            put_lanes(out, i, at, spread(np.float32(0)))
            put_lanes(out, i, at + LANES, spread(np.float32(0)))
            _add_values(own, factors, weights, width + k, low, begins[i], inner_low, q, i, at, out)
        at0, at1, at2, at3 = h0 * width + k, h1 * width + k, h2 * width + k, h3 * width + k
        a0, b0 = lanes_at(out, i0, at0), lanes_at(out, i0, at0 + LANES)
        a1, b1 = lanes_at(out, i1, at1), lanes_at(out, i1, at1 + LANES)
        a2, b2 = lanes_at(out, i2, at2), lanes_at(out, i2, at2 + LANES)
        a3, b3 = lanes_at(out, i3, at3), lanes_at(out, i3, at3 + LANES)
        for s in range(inner_low, inner_high):
            value = weights_at(own, factors, s, width + k)
            other = weights_at(own, factors, s, width + k + LANES)
            weight = (s - low) * _FOUR
            w = spread(float_at(weights, 0, weight))
            a0, b0 = times_plus(w, value, a0), times_plus(w, other, b0)
            w = spread(float_at(weights, 0, weight + 1))
            a1, b1 = times_plus(w, value, a1), times_plus(w, other, b1)
            w = spread(float_at(weights, 0, weight + 2))
            a2, b2 = times_plus(w, value, a2), times_plus(w, other, b2)
            w = spread(float_at(weights, 0, weight + 3))
            a3, b3 = times_plus(w, value, a3), times_plus(w, other, b3)
        put_lanes(out, i0, at0, a0)
        put_lanes(out, i0, at0 + LANES, b0)
        put_lanes(out, i1, at1, a1)
        put_lanes(out, i1, at1 + LANES, b1)
        put_lanes(out, i2, at2, a2)
        put_lanes(out, i2, at2 + LANES, b2)
        put_lanes(out, i3, at3, a3)
        put_lanes(out, i3, at3 + LANES, b3)
        for q in range(min(_FOUR, last + 1 - first)):
            i, at = position[q], place[q] * width + k
            _add_values(own, factors, weights, width + k, low, inner_high, ends[i], q, i, at, out)
    for q in range(min(_FOUR, last + 1 - first)):
        for s in range(LANES):  # the lane of a key counts from the first key that the query sees
            sixteen_sums[0, s] = sums[0, (s + begins[position[q]] - low) % LANES * _FOUR + q]
        shares = spread(np.float32(np.float32(1) / np.float32(total(lanes_at(sixteen_sums, 0, 0)))))
        for k in range(place[q] * width, (place[q] + 1) * width, LANES):
            put_lanes(out, position[q], k, times(lanes_at(out, position[q], k), shares))


@kernel
def _add_values(
    own: KeyValues,
    factors: Scales,
    weights: Float32[ndarray, "1 4S"],
    column: int,
    low: int,
    begin: int,
    end: int,
    q: int,
    i: int,
    at: int,
    out: Float32[ndarray, "N H*d"],
) -> None:
    """Add the values, from a column on, of keys that not all of four queries see. low: the first key with weights."""
    a, b = lanes_at(out, i, at), lanes_at(out, i, at + LANES)
    for s in range(begin, end):
        weight = spread(float_at(weights, 0, (s - low) * _FOUR + q))
        a = times_plus(weight, weights_at(own, factors, s, column), a)
        b = times_plus(weight, weights_at(own, factors, s, column + LANES), b)
    put_lanes(out, i, at, a)
    put_lanes(out, i, at + LANES, b)


@allocating_kernel
def attend(
    heads: Float32[ndarray, "N H+2K d"],
    keys: KeyValues,
    scales: Scales,
    begins: Int64[ndarray, " N"],
    ends: Int64[ndarray, " N"],
    scale: float,
    cap: float,
    out: Float32[ndarray, "N H*d"],
) -> None:
    """Compute the attention of each query to the columns from `begins` to `ends` of its row (Vaswani et al. 2017,
    equation 1).

    Query head h reads the head h // (H / K) of keys and values. heads: those of queries come first; keys and values may
    follow. scale: the factor of scores. cap: scores s become cap tanh(s / cap) (Gemma 2); 0: unchanged.
    """
    for part in range(_parts(heads, keys, out)):
        _attend_part(heads, keys, scales, begins, ends, scale, cap, part, out)


@parallel_kernel
def attend_on_threads(
    heads: Float32[ndarray, "N H+2K d"],
    keys: KeyValues,
    scales: Scales,
    begins: Int64[ndarray, " N"],
    ends: Int64[ndarray, " N"],
    scale: float,
    cap: float,
    out: Float32[ndarray, "N H*d"],
) -> None:
    """Do the work of `attend` on several threads."""
    for part in prange(_parts(heads, keys, out)):
        _attend_part(heads, keys, scales, begins, ends, scale, cap, part, out)


@kernel
def _parts(heads: Float32[ndarray, "N H+2K d"], keys: KeyValues, out: Float32[ndarray, "N H*d"]) -> int:
    """Return how many fours of queries, or single ones, attend by themselves."""
    shared = out.shape[1] // heads.shape[2] // keys.shape[1]
    of_head = heads.shape[0] // keys.shape[0] * shared
    return keys.shape[0] * keys.shape[1] * (of_head if of_head < _LEAST else (of_head + _FOUR - 1) // _FOUR)


@allocating_kernel
def _attend_part(
    heads: Float32[ndarray, "N H+2K d"],
    keys: KeyValues,
    scales: Scales,
    begins: Int64[ndarray, " N"],
    ends: Int64[ndarray, " N"],
    scale: float,
    cap: float,
    part: int,
    out: Float32[ndarray, "N H*d"],
) -> None:
    parts = _parts(heads, keys, out) // (keys.shape[0] * keys.shape[1])
    shared = out.shape[1] // heads.shape[2] // keys.shape[1]
    length = heads.shape[0] // keys.shape[0]
    row, key_head, own = part // parts // keys.shape[1], part // parts % keys.shape[1], part % parts
    if length * shared < _LEAST:
        i, head = row * length + own // shared, key_head * shared + own % shared
        _attend_one(heads, keys, scales, begins, ends, scale, cap, i, head, out)
    else:
        _attend_four(heads, keys, scales, begins, ends, scale, cap, row, key_head, own * _FOUR, out)
