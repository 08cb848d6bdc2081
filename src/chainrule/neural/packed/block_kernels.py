"""Products of matrices in four to eight bits, as `layouts` has them, with vectors in eight bits.

Sixteen rows of a matrix are multiplied side by side, one in each lane. Products of integers are summed exactly, within
blocks of 32; then each block's sum is scaled and added in float32, in the order of the blocks.
So a number depends neither on the processor, nor on threads, nor on how many vectors there are.
Legend: B vectors, K numbers in each, G groups of sixteen rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.intrinsics import array_at, call_at
from chainrule.base.jit import allocating_kernel, kernel, parallel_kernel, prange
from chainrule.base.lanes import (
    LANES,
    ask_for,
    float_at,
    lanes_at,
    plus,
    put_lanes,
    spread,
    times,
    times_plus,
)
from chainrule.neural.packed.integer_lanes import (
    as_floats,
    bits,
    bytes_at,
    bytes_of_lane,
    dot_words,
    halves_at,
    has_wide_lanes,
    integer_total,
    integers_at,
    joined_bits,
    largest_bits,
    of_bits,
    planes_of_lane,
    plus_integers,
    put_bytes,
    rounded,
    signed_bytes_at,
    spread_integer,
    spread_integer_at,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float32, Int8, Int32, Int64, UInt8
    from numpy import ndarray

    # Of each part of a matrix its kernel's address, that of its groups, their number and bytes, and its first row.
    Parts = Int64[ndarray, "parts 5"]
    Vectors = tuple[Int8[ndarray, "N K"], Float32[ndarray, "N blocks"], Int32[ndarray, "N halves"]]  # by `quantise`

BLOCK = 32  # numbers of a vector, and weights, that share a scale
WORDS = 8  # of four numbers each, in a block
_LOW, _FIFTH, _SIXTH = 0x0F0F0F0F, 0x01010101, 0x03030303
_LARGEST, _PLANE = 127, 64
_LINE, _AHEAD = 64, 4096  # bytes that a processor loads at once; how far ahead it is asked for weights
_ASKED_FROM = 4  # vectors; for fewer, processors with wide lanes find the weights by themselves
_INFINITE, _TINY = 0x7F800000, 0x00800000  # the bits of infinity, and of the smallest number in full precision


class Form(NamedTuple):
    """What blocks of a type hold.

    A head has a scale for each row, in float16, then a minimum, if any, of the `blocks` that follow it. A block has a
    scale of a byte for each row (for each half of the block, if `halved`, with a sign) and a minimum of a byte where it
    shares its head with others; then integers without a sign, four bits or eight of each, and planes of a fifth or of a
    fifth and a sixth bit. A weight is scale * (integer - offset), plus or minus the minimum.

    Word w of a row, four weights, is in the lower halves of the bytes of row r's lane in vector w, from the fifth on in
    the upper ones of vector w - 4. Its fifth bits are bit w of the lane's bytes, its fifth and sixth bits are bits
    2 (w % 4) and the next of vector w // 4.
    """

    low_bits: int
    more_bits: int
    offset: int
    has_minima: bool
    blocks: int = 1
    halved: bool = False

    @property
    def head_bytes(self) -> int:
        """The bytes of a head of sixteen rows."""
        return 2 * LANES * (1 + self.has_minima)

    @property
    def block_bytes(self) -> int:
        """The bytes of a block of sixteen rows."""
        small = LANES * (1 + (self.has_minima or self.halved)) if self.blocks > 1 else 0
        return small + (self.low_bits + self.more_bits) * BLOCK * LANES // 8

    @property
    def bytes(self) -> int:
        """The bytes of sixteen rows, in a head and its blocks."""
        return self.head_bytes + self.blocks * self.block_bytes


@kernel
def quantise(
    vectors: Float32[ndarray, "B K"],
    numbers: Int8[ndarray, "B K"],
    scales: Float32[ndarray, "B blocks"],
    sums: Int32[ndarray, "B halves"],
) -> None:
    """Round vectors to eight bits: the largest number of a block becomes 127 or -127, the others the nearest integers,
    halves the even ones.

    sums: of the integers of each half of a block. A block with NaN or infinity has the scale NaN.
    """
    for i in range(vectors.shape[0]):
        for block in range(vectors.shape[1] // BLOCK):
            column = block * BLOCK
            first, second = lanes_at(vectors, i, column), lanes_at(vectors, i, column + LANES)
            size = max(largest_bits(first), largest_bits(second))
            factor = spread(np.float32(0))
            scales[i, block] = of_bits(np.int32(size)) / np.float32(_LARGEST)
            if size >= _INFINITE:
                scales[i, block] = np.float32(np.nan)
            elif size < _TINY:
                scales[i, block] = np.float32(0)
            else:
                factor = spread(np.float32(_LARGEST) / of_bits(np.int32(size)))
            low, high = rounded(times(first, factor)), rounded(times(second, factor))
            if size >= _INFINITE:  # where a product with 0 is no number
                low = high = spread_integer(np.int32(0))
            put_bytes(numbers, i, column, low)
            put_bytes(numbers, i, column + LANES, high)
            sums[i, 2 * block], sums[i, 2 * block + 1] = integer_total(low), integer_total(high)


def multiplication(form: Form, *, parallel: bool) -> Callable[..., None]:
    """Return multiply(weight, numbers, scales, sums, out, column): out[b, column + n] = weight[n] . vectors[b], of
    blocks of one form.

    numbers, scales, sums: as `quantise` gives them, four int8 numbers in an int32. out: (B, 16 G or more), float32.
    """
    low_bits, more_bits, offset, has_minima, per_head, halved = form
    head_bytes, small, is_super = form.head_bytes, LANES, form.blocks > 1
    block_bytes = -(-form.bytes // form.blocks)
    all_bits = low_bits + more_bits

    compiled = parallel_kernel if parallel else allocating_kernel
    tile = 64 if parallel else 16  # vectors, whose totals the cache holds; Numba's cache tells the two apart by it

    @compiled
    def multiply(
        weight: UInt8[ndarray, "G bytes"],
        numbers: Int32[ndarray, "B words"],
        scales: Float32[ndarray, "B blocks"],
        sums: Int32[ndarray, "B halves"],
        out: Float32[ndarray, "B N"],
        column: int,
    ) -> None:
        count, blocks = scales.shape
        firsts, shifts = np.empty((count, 2 * blocks), np.int32), np.empty((count, blocks), np.float32)
        for i in range(count):
            for block in range(blocks):
                one, two = sums[i, 2 * block], sums[i, 2 * block + 1]
                firsts[i, 2 * block], firsts[i, 2 * block + 1] = np.int32(-offset * one), np.int32(-offset * two)
                shift = np.float32(one + two) * scales[i, block]
                shifts[i, block] = -shift if is_super else shift
        for g in prange(weight.shape[0]):
            totals = np.empty((min(count, tile), LANES), np.float32)  # side by side, so that the cache holds them
            for first in range(0, count, tile):
                last = min(first + tile, count)
                for j in range(last - first):
                    put_lanes(totals, j, 0, spread(np.float32(0)))
                at = 0
                for head in range(blocks // per_head):
                    d = halves_at(weight, g, at)
                    m = d
                    if has_minima:
                        m = halves_at(weight, g, at + 2 * LANES)
                    at += head_bytes
                    for block in range(head * per_head, (head + 1) * per_head):
                        s0, s1, minimum = d, d, m
                        if is_super:
                            if halved:
                                s0 = times(d, signed_bytes_at(weight, g, at))
                                s1 = times(d, signed_bytes_at(weight, g, at + small))
                                at += 2 * small
                            else:
                                s0 = times(d, bytes_at(weight, g, at))
                                at += small
                                if has_minima:
                                    minimum = times(m, bytes_at(weight, g, at))
                                    at += small
                        if first == 0 and (count >= _ASKED_FROM or not has_wide_lanes()):
                            for k in range(0, block_bytes, _LINE):
                                ask_for(weight, g, at + _AHEAD + k)
                        w0, w1 = integers_at(weight, g, at), integers_at(weight, g, at + 64)
                        w2, w3 = integers_at(weight, g, at + 128), integers_at(weight, g, at + 192)
                        at += 256
                        if low_bits == 8:
                            w4, w5 = integers_at(weight, g, at), integers_at(weight, g, at + 64)
                            w6, w7 = integers_at(weight, g, at + 128), integers_at(weight, g, at + 192)
                            at += 256
                        else:
                            w4, w5, w6, w7 = bits(w0, 4, _LOW), bits(w1, 4, _LOW), bits(w2, 4, _LOW), bits(w3, 4, _LOW)
                            w0, w1, w2, w3 = bits(w0, 0, _LOW), bits(w1, 0, _LOW), bits(w2, 0, _LOW), bits(w3, 0, _LOW)
                        if more_bits == 1:
                            h = integers_at(weight, g, at)
                            w0, w1 = joined_bits(w0, bits(h, 0, _FIFTH), 4), joined_bits(w1, bits(h, 1, _FIFTH), 4)
                            w2, w3 = joined_bits(w2, bits(h, 2, _FIFTH), 4), joined_bits(w3, bits(h, 3, _FIFTH), 4)
                            w4, w5 = joined_bits(w4, bits(h, 4, _FIFTH), 4), joined_bits(w5, bits(h, 5, _FIFTH), 4)
                            w6, w7 = joined_bits(w6, bits(h, 6, _FIFTH), 4), joined_bits(w7, bits(h, 7, _FIFTH), 4)
                            at += 64
                        if more_bits == 2:
                            h, k = integers_at(weight, g, at), integers_at(weight, g, at + 64)
                            w0, w1 = joined_bits(w0, bits(h, 0, _SIXTH), 4), joined_bits(w1, bits(h, 2, _SIXTH), 4)
                            w2, w3 = joined_bits(w2, bits(h, 4, _SIXTH), 4), joined_bits(w3, bits(h, 6, _SIXTH), 4)
                            w4, w5 = joined_bits(w4, bits(k, 0, _SIXTH), 4), joined_bits(w5, bits(k, 2, _SIXTH), 4)
                            w6, w7 = joined_bits(w6, bits(k, 4, _SIXTH), 4), joined_bits(w7, bits(k, 6, _SIXTH), 4)
                            at += 128
                        x = block * WORDS
                        for j in range(first, last):
                            scale = float_at(scales, j, block)
                            a = b = spread_integer(np.int32(0))
                            if offset:
                                a = spread_integer_at(firsts, j, 2 * block)
                                b = spread_integer_at(firsts, j, 2 * block + 1)
                            a = dot_words(all_bits, a, w0, w1, w2, w3, numbers, j, x)
                            b = dot_words(all_bits, b, w4, w5, w6, w7, numbers, j, x + WORDS // 2)
                            total = lanes_at(totals, j - first, 0)
                            if halved:
                                both = times_plus(as_floats(b), s1, times(as_floats(a), s0))
                                total = times_plus(both, spread(scale), total)
                            else:
                                total = times_plus(as_floats(plus_integers(a, b)), times(s0, spread(scale)), total)
                            if has_minima:
                                total = times_plus(minimum, spread(float_at(shifts, j, block)), total)
                            put_lanes(totals, j - first, 0, total)
                for j in range(first, last):
                    put_lanes(out, j, column + g * LANES, lanes_at(totals, j - first, 0))

    return multiply


@kernel
def add_to_rows(x: Float32[ndarray, "B N"], bias: Float32[ndarray, "1 N"]) -> None:
    """Add a bias to each row of x, in place. N must be a multiple of LANES."""
    for i in range(x.shape[0]):
        for k in range(0, x.shape[1], LANES):
            put_lanes(x, i, k, plus(lanes_at(x, i, k), lanes_at(bias, 0, k)))


@allocating_kernel
def multiply_parts(parts: Parts, vectors: Vectors, bias: Float32[ndarray, "1 N"], out: Float32[ndarray, "B N"]) -> None:
    """Write the products of a matrix with vectors in eight bits, as `multiplication` does for each of its parts.

    bias: what is added; none if it has no columns.
    """
    numbers, scales, sums = vectors
    words = numbers.view(np.int32)
    for part in range(parts.shape[0]):
        address, groups, count, size, row = parts[part]
        weight = array_at(groups, count * size, np.uint8).reshape(count, size)
        call_at(address, (weight, words, scales, sums, out, row))
    if bias.shape[1] > 0:
        add_to_rows(out, bias)


@kernel
def unpack_rows(
    form: tuple[int, ...],
    weight: UInt8[ndarray, "G bytes"],
    halves: Float32[ndarray, " 65536"],
    rows: Int64[ndarray, " n"],
    out: Float32[ndarray, "n K"],
) -> None:
    """Write rows in float32.

    form: its fields, `head_bytes` and `block_bytes` and `bytes`, as integers. halves: each float16, by its bits.
    """
    low_bits, more_bits, offset, has_minima, per_head, halved, head_bytes, block_bytes, size = form
    planes = low_bits * LANES * BLOCK // 8
    small = block_bytes - planes - more_bits * _PLANE
    for i in range(len(rows)):
        group, lane = rows[i] // LANES, rows[i] % LANES
        for block in range(out.shape[1] // BLOCK):
            head = block // per_head * size
            at = head + head_bytes + block % per_head * block_bytes
            d = m = halves[np.int64(weight[group, head + 2 * lane]) | np.int64(weight[group, head + 2 * lane + 1]) << 8]
            second = d
            if has_minima:
                place = head + 2 * LANES + 2 * lane
                m = halves[np.int64(weight[group, place]) | np.int64(weight[group, place + 1]) << 8]
            if per_head > 1:
                if halved:
                    second = d * np.float32(np.int8(weight[group, at + LANES + lane]))
                    d = d * np.float32(np.int8(weight[group, at + lane]))
                else:
                    d = d * np.float32(weight[group, at + lane])
                    if has_minima:
                        m = -(m * np.float32(weight[group, at + LANES + lane]))
            at += small + 4 * lane
            low, plane = bytes_of_lane(weight, group, at), at + planes
            high = low
            if low_bits == 8:
                high = bytes_of_lane(weight, group, at + 4 * _PLANE)
            else:
                low, high = bits(low, 0, 15), bits(high, 4, 15)
            if more_bits == 1:
                low = joined_bits(low, planes_of_lane(weight, group, plane, 1, 0), 4)
                high = joined_bits(high, planes_of_lane(weight, group, plane, 1, 4), 4)
            elif more_bits == 2:
                low = joined_bits(low, planes_of_lane(weight, group, plane, 2, 0), 4)
                high = joined_bits(high, planes_of_lane(weight, group, plane + _PLANE, 2, 0), 4)
            below = spread_integer(np.int32(-offset))
            a = times(spread(np.float32(d)), as_floats(plus_integers(low, below)))
            b = times(spread(np.float32(second if halved else d)), as_floats(plus_integers(high, below)))
            if has_minima:
                a, b = plus(a, spread(np.float32(m))), plus(b, spread(np.float32(m)))
            put_lanes(out, i, block * BLOCK, a)
            put_lanes(out, i, block * BLOCK + LANES, b)


@kernel
def put_integers(
    low_bits: int,
    more_bits: int,
    per_head: int,
    begin: int,
    stride: int,
    size: int,
    numbers: UInt8[ndarray, "N K"],
    out: UInt8[ndarray, "G bytes"],
) -> None:
    """Write the integers of rows into blocks that are 0.

    begin: of the first block's, in bytes of a head. stride, size: the bytes of a block, and of a head with its blocks.
    """
    planes = low_bits * LANES * BLOCK // 8
    for row in range(numbers.shape[0]):
        group, lane = row // LANES, row % LANES
        for block in range(numbers.shape[1] // BLOCK):
            at = block // per_head * size + begin + block % per_head * stride + 4 * lane
            for k in range(BLOCK):
                word, byte = k // 4, k % 4
                q = numbers[row, block * BLOCK + k]
                if low_bits == 8:
                    out[group, at + byte + 64 * word] = q
                    continue
                out[group, at + byte + 64 * (word % 4)] |= np.uint8((q & 15) << (4 * (word // 4)))
                if more_bits == 1:
                    out[group, at + byte + planes] |= np.uint8((q >> 4) << word)
                elif more_bits == 2:
                    out[group, at + byte + planes + 64 * (word // 4)] |= np.uint8((q >> 4) << (2 * (word % 4)))
