"""A layer of a Transformer in packed weights, and what stands in it between the products: norms, rotations, gates, keys
and values.

A step of one token otherwise spends more time in calls than in all but the products. What depends on the types of
weights, keys and values is called at its address, and compiled by itself.
Every sum has its order (`base.lanes`), and every query its own: so a hidden state depends neither on the processor, nor
on threads, nor on how many tokens are read at once, nor on other rows.
Legend: N positions of all rows, T of them in each row, D width, H heads, K heads of keys and values, d their width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.intrinsics import call_at
from chainrule.base.jit import allocating_kernel, kernel
from chainrule.base.lanes import (
    LANES,
    SCALED,
    bounded,
    exponential,
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
    weights_at,
)
from chainrule.neural.packed.block_kernels import BLOCK, multiply_parts, quantise
from chainrule.neural.packed.integer_lanes import (
    largest_bits,
    of_bits,
    put_bytes,
    rounded,
    spread_integer,
)

if TYPE_CHECKING:
    from jaxtyping import Float32, Int8, Int32, Int64
    from numpy import ndarray

    from chainrule.neural.packed.block_kernels import Parts, Vectors

SILU, GELU, EXACT_GELU, RELU, SQUARED_RELU = range(5)
_GELU = 1.5957691216057308  # 2 root(2 / pi)
_ROOT = 0.7071067811865476  # of 1 / 2
_ERF_SLOPE = 0.3275911
_ERF_0, _ERF_1, _ERF_2, _ERF_3, _ERF_4 = 0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429
_LARGEST = 127
_INFINITE = 0x7F800000  # the bits of infinity


@kernel
def add_and_norm(
    x: Float32[ndarray, "N D"],
    added: Float32[ndarray, "N D"],
    gain: Float32[ndarray, "1 D"],
    epsilon: float,
    out: Float32[ndarray, "N D"],
) -> None:
    """Add to x, in place, and write its RMSNorm to out. D must be a multiple of LANES."""
    width = x.shape[1]
    for i in range(x.shape[0]):
        squares = spread(np.float32(0))
        for k in range(0, width, LANES):
            both = plus(lanes_at(x, i, k), lanes_at(added, i, k))
            put_lanes(x, i, k, both)
            squares = times_plus(both, both, squares)
        mean = total(squares) / np.float32(width)
        factor = spread(np.float32(1) / np.sqrt(np.float32(mean + np.float32(epsilon))))
        for k in range(0, width, LANES):
            put_lanes(out, i, k, times(times(lanes_at(x, i, k), factor), lanes_at(gain, 0, k)))


@kernel
def add_and_layer_norm(
    x: Float32[ndarray, "N D"],
    added: Float32[ndarray, "N D"],
    gains: Float32[ndarray, "2 D"],
    epsilon: float,
    out: Float32[ndarray, "N D"],
) -> None:
    """Add to x, in place, and write its LayerNorm to out.

    gains: the gain, and what is added in the end. D must be a multiple of LANES.
    """
    width = x.shape[1]
    for i in range(x.shape[0]):
        sums = squares = spread(np.float32(0))
        for k in range(0, width, LANES):
            both = plus(lanes_at(x, i, k), lanes_at(added, i, k))
            put_lanes(x, i, k, both)
            sums = plus(sums, both)
        mean = spread(np.float32(total(sums) / np.float32(width)))
        for k in range(0, width, LANES):
            part = minus(lanes_at(x, i, k), mean)
            put_lanes(out, i, k, part)
            squares = times_plus(part, part, squares)
        variance = total(squares) / np.float32(width)
        factor = spread(np.float32(1) / np.sqrt(np.float32(variance + np.float32(epsilon))))
        for k in range(0, width, LANES):
            scaled = times(lanes_at(out, i, k), factor)
            put_lanes(out, i, k, times_plus(scaled, lanes_at(gains, 0, k), lanes_at(gains, 1, k)))


@kernel
def norm_rows(x: Float32[ndarray, "N D"], gain: Float32[ndarray, "1 D"], epsilon: float) -> None:
    """Compute the RMSNorm of each row, in place. D must be a multiple of LANES."""
    for i in range(x.shape[0]):
        _norm_row(x, i, 0, x.shape[1], gain, 0, epsilon)


@kernel
def _norm_row(
    x: Float32[ndarray, "N D"],
    i: int,
    begin: int,
    end: int,
    gains: Float32[ndarray, "rows D"],
    own: int,
    epsilon: float,
) -> None:
    """Compute the RMSNorm of some columns of a row, in place.

    begin, end: the columns that are normalised together. own: the row of gains.
    """
    squares = spread(np.float32(0))
    for k in range(begin, end, LANES):
        part = lanes_at(x, i, k)
        squares = times_plus(part, part, squares)
    mean = total(squares) / np.float32(end - begin)
    factor = spread(np.float32(1) / np.sqrt(np.float32(mean + np.float32(epsilon))))
    for k in range(begin, end, LANES):
        put_lanes(x, i, k, times(times(lanes_at(x, i, k), factor), lanes_at(gains, own, k)))


@kernel
def norm_heads(heads: Float32[ndarray, "N H+2K d"], gains: Float32[ndarray, "H+K d"], epsilon: float) -> None:
    """Compute the RMSNorm of each query and key, in place. gains: of each of these heads."""
    for i in range(heads.shape[0]):
        own = heads[i]
        for head in range(gains.shape[0]):
            _norm_row(own, head, 0, heads.shape[2], gains, head, epsilon)


@kernel
def norm_joint_heads(
    heads: Float32[ndarray, "N numbers"], gains: Float32[ndarray, "1 gained"], queries: int, epsilon: float
) -> None:
    """Compute the RMSNorm of all queries of a position together, and of all its keys, in place.

    queries: their numbers, H d.
    """
    for i in range(heads.shape[0]):
        _norm_row(heads, i, 0, queries, gains, 0, epsilon)
        _norm_row(heads, i, queries, gains.shape[1], gains, 0, epsilon)


@kernel
def activate_and_quantise(
    hidden: Float32[ndarray, "N hidden"],
    kind: int,
    out: Float32[ndarray, "N F"],
    numbers: Int8[ndarray, "N F"],
    scales: Float32[ndarray, "N blocks"],
    sums: Int32[ndarray, "N halves"],
) -> None:
    """Write g(a) in eight bits, a being what is hidden; where that has twice the numbers, g(a) b, of its halves.

    kind: SILU: g(a) = a / (1 + exp(-a)). GELU: a / (1 + exp(-f(a))), f(a) being 2 root(2 / pi) (a + 0.044715 a^3)
    (GELU with tanh, Hendrycks and Gimpel 2016). EXACT_GELU: a times the normal distribution's share below a, with an
    error below 1e-7 (Abramowitz and Stegun 1964, equation 7.1.26). RELU: a or 0. SQUARED_RELU: its square.
    """
    width, zero, one, half = out.shape[1], spread(np.float32(0)), spread(np.float32(1)), spread(np.float32(0.5))
    by_one, by_cube = spread(np.float32(_GELU)), spread(np.float32(_GELU * 0.044715))
    root, slope = spread(np.float32(_ROOT)), spread(np.float32(_ERF_SLOPE))
    c0, c1, c2 = spread(np.float32(_ERF_0)), spread(np.float32(_ERF_1)), spread(np.float32(_ERF_2))
    c3, c4 = spread(np.float32(_ERF_3)), spread(np.float32(_ERF_4))
    is_gated = hidden.shape[1] > width
    for i in range(hidden.shape[0]):
        for k in range(0, width, LANES):
            a = lanes_at(hidden, i, k)
            if kind == SILU or kind == GELU:
                inner = a
                if kind == GELU:
                    inner = times(a, times_plus(times(a, a), by_cube, by_one))
                b = over(a, plus(exponential(minus(zero, inner)), one))
            else:
                size = larger(a, minus(zero, a))
                b = times(plus(a, size), half)  # so that what is no number stays none
                if kind == SQUARED_RELU:
                    b = times(b, b)
                elif kind == EXACT_GELU:
                    x = times(size, root)
                    t = over(one, times_plus(x, slope, one))
                    share = times_plus(times_plus(times_plus(times_plus(c4, t, c3), t, c2), t, c1), t, c0)
                    share = times(times(share, t), exponential(minus(zero, times(x, x))))
                    b = minus(b, times(times(share, half), size))
            if is_gated:
                b = times(b, lanes_at(hidden, i, width + k))
            put_lanes(out, i, k, b)
    quantise(out, numbers, scales, sums)


@kernel
def rotate_heads(
    heads: Float32[ndarray, "N H+2K d"], count: int, cos: Float32[ndarray, "N half"], sin: Float32[ndarray, "N half"]
) -> None:
    """Rotate the first heads, of queries and keys, in place: halves of a head against each other, or of its first
    numbers where there are fewer angles.
    """
    half = cos.shape[1]
    even = half - half % LANES
    for i in range(heads.shape[0]):
        own = heads[i]
        for head in range(count):
            for k in range(0, even, LANES):
                a, b = lanes_at(own, head, k), lanes_at(own, head, half + k)
                c, s = lanes_at(cos, i, k), lanes_at(sin, i, k)
                put_lanes(own, head, k, minus(times(a, c), times(b, s)))
                put_lanes(own, head, half + k, plus(times(b, c), times(a, s)))
            for k in range(even, half):
                first, second = own[head, k], own[head, half + k]
                own[head, k] = first * cos[i, k] - second * sin[i, k]
                own[head, half + k] = second * cos[i, k] + first * sin[i, k]


@kernel
def store(
    heads: Float32[ndarray, "N H+2K d"],
    keys: Float32[ndarray, "B K columns 2d"],
    scales: ndarray,
    column: int,
) -> None:
    """Write keys and values from a column on.

    heads: of queries, keys and values. scales: those of keys in eight bits, not read here.
    """
    key_heads, width = keys.shape[1], heads.shape[2]
    length, queries = heads.shape[0] // keys.shape[0], heads.shape[1] - 2 * key_heads
    for i in range(heads.shape[0]):
        own = heads[i]
        for head in range(key_heads):
            rows = keys[i // length, head]
            for k in range(0, width, LANES):
                put_lanes(rows, column + i % length, k, lanes_at(own, queries + head, k))
                put_lanes(rows, column + i % length, width + k, lanes_at(own, queries + key_heads + head, k))


@kernel
def store_in_eight_bits(
    heads: Float32[ndarray, "N H+2K d"],
    keys: Int8[ndarray, "B K columns bytes"],
    scales: Float32[ndarray, "B K columns blocks"],
    column: int,
) -> None:
    """Write keys and values as `store` does, with the integers and scales of `matrix_products.pack`: a key, its value,
    and the scales of both.
    """
    key_heads, width = keys.shape[1], heads.shape[2]
    length, queries = heads.shape[0] // keys.shape[0], heads.shape[1] - 2 * key_heads
    blocks, most, bound = width // SCALED, np.float32(_LARGEST), spread(np.float32(_LARGEST))
    for i in range(heads.shape[0]):
        own, at = heads[i], column + i % length
        for head in range(key_heads):
            rows, factors = keys[i // length, head], scales[i // length, head]
            for block in range(2 * blocks):
                given = queries + head + block // blocks * key_heads
                first = lanes_at(own, given, block % blocks * SCALED)
                second = lanes_at(own, given, block % blocks * SCALED + LANES)
                size = max(largest_bits(first), largest_bits(second))
                scale = of_bits(np.int32(size)) / most
                if size >= _INFINITE:
                    scale = np.float32(np.nan)
                factors[at, block] = scale
                if scale > 0:
                    divisor = spread(scale)
                    put_bytes(rows, at, block * SCALED, rounded(bounded(over(first, divisor), bound)))
                    put_bytes(rows, at, block * SCALED + LANES, rounded(bounded(over(second, divisor), bound)))
                else:
                    nothing = spread_integer(np.int32(0))
                    put_bytes(rows, at, block * SCALED, nothing)
                    put_bytes(rows, at, block * SCALED + LANES, nothing)


@kernel
def widen_keys(
    keys: Int8[ndarray, "B K columns bytes"],
    scales: Float32[ndarray, "B K columns blocks"],
    begin: int,
    out: Float32[ndarray, "B K S 2d"],
) -> None:
    """Write keys and values in float32, from a column on."""
    for row in range(out.shape[0]):
        for head in range(out.shape[1]):
            own, factors, wide = keys[row, head], scales[row, head], out[row, head]
            for s in range(out.shape[2]):
                for k in range(0, out.shape[3], LANES):
                    put_lanes(wide, s, k, weights_at(own, factors, begin + s, k))


@allocating_kernel
def _rows(room: Float32[ndarray, " numbers"], at: int, count: int, width: int) -> Float32[ndarray, "N width"]:
    return room[at : at + count * width].reshape(count, width)


@allocating_kernel
def _vectors(room: Float32[ndarray, " numbers"], at: int, count: int, width: int) -> Vectors:
    """Return room for vectors in eight bits: 11 of 32 of their numbers."""
    scales = at + count * width // 4
    sums = scales + count * width // BLOCK
    numbers = room[at:scales].view(np.int8).reshape(count, width)
    halves = room[sums : sums + 2 * (sums - scales)].view(np.int32)
    return numbers, _rows(room, scales, count, width // BLOCK), halves.reshape(count, 2 * width // BLOCK)


def room_of_layer(width: int, attended: int, of_heads: int, gated: int, hidden: int) -> int:
    """Return the numbers of `room` that a position takes: the sums of the widths of what `read_layer` has there."""
    most = max(attended, gated)
    return 2 * width + most + of_heads + hidden + 11 * (width + most) // BLOCK


@kernel
def _add(x: Float32[ndarray, "N D"], added: Float32[ndarray, "N D"]) -> None:
    for i in range(x.shape[0]):
        for k in range(0, x.shape[1], LANES):
            put_lanes(x, i, k, plus(lanes_at(x, i, k), lanes_at(added, i, k)))


@kernel
def _shrink(x: Float32[ndarray, "N D"], factor: float) -> None:
    if factor != 1:
        by = spread(np.float32(factor))
        for i in range(x.shape[0]):
            for k in range(0, x.shape[1], LANES):
                put_lanes(x, i, k, times(lanes_at(x, i, k), by))


@kernel
def _prepare(
    summed: Float32[ndarray, "N D"],
    added: Float32[ndarray, "N D"],
    gains: Float32[ndarray, "rows D"],
    epsilon: float,
    normed: Float32[ndarray, "N D"],
    out: Vectors,
) -> None:
    """Add to the residual stream; out: what a sub-layer's first product reads.

    gains: of one norm: one row of an RMSNorm, two of a LayerNorm; none without a norm.
    """
    if gains.shape[0] == 2:
        add_and_layer_norm(summed, added, gains, epsilon, normed)
        quantise(normed, out[0], out[1], out[2])
    elif gains.shape[0] == 1:
        add_and_norm(summed, added, gains, epsilon, normed)
        quantise(normed, out[0], out[1], out[2])
    else:
        _add(summed, added)
        quantise(summed, out[0], out[1], out[2])


@allocating_kernel
def read_layer(
    summed: Float32[ndarray, "N D"],
    added: Float32[ndarray, "N D"],
    room: Float32[ndarray, " numbers"],
    products: tuple[Parts, Parts, Parts, Parts],
    biases: tuple[Float32[ndarray, "1 rows"], ...],
    gains: tuple[Float32[ndarray, "rows D"], ...],
    angles: tuple[Float32[ndarray, "N half"], Float32[ndarray, "N half"]],
    keys: ndarray,
    key_scales: ndarray,
    wide: Float32[ndarray, "B K S 2d"],
    ranges: tuple[Int64[ndarray, " N"], Int64[ndarray, " N"]],
    addresses: tuple[int, int, int],
    sizes: tuple[int, ...],
    factors: tuple[float, ...],
) -> None:
    """Add what the layer before it adds to the residual stream; write what this layer adds.

    room: `room_of_layer` for each position. products, biases: of queries, keys and values, of what attention gives, and
    of the feed-forward layer up and down. gains: of the norms before the two sub-layers and after them, and of heads;
    without rows where there is none. angles: cosines and sines; without rows, nothing is rotated. wide: where keys in
    eight bits are widened, unless it has no columns. ranges: the first key that each query attends to, and the one
    after the last. addresses: of `store` or `store_in_eight_bits`, `widen_keys`, `attend` or `attend_on_threads`.
    sizes: H, K, d, the numbers that `down` reads and that `up` gives, the kind of the activation, whether heads are
    normed together, whether the sub-layers stand side by side, the columns of the first key that is written and of the
    first one that is seen. factors: what norms and those of heads add to variances, the scale and the cap of scores,
    and what a sub-layer's result is multiplied by.
    """
    heads, key_heads, head_width, gated_width, hidden_width, kind, is_joint, is_parallel, column, begin = sizes
    epsilon, head_epsilon, scale, cap, share = factors
    before_attention, before_feed_forward, after_attention, after_feed_forward, of_heads = gains
    count, width = summed.shape
    inner, of_all = heads * head_width, (heads + 2 * key_heads) * head_width
    most = max(inner, gated_width)
    normed, fed = _rows(room, 0, count, width), _rows(room, count * width, count, width)
    at = 2 * count * width
    attended, gated = _rows(room, at, count, inner), _rows(room, at, count, gated_width)
    at += count * most
    turned, hidden = _rows(room, at, count, of_all), _rows(room, at + count * of_all, count, hidden_width)
    at += count * (of_all + hidden_width)
    narrow = _vectors(room, at, count, width)
    at += 11 * count * width // BLOCK
    middle, large = _vectors(room, at, count, inner), _vectors(room, at, count, gated_width)
    by_head = turned.reshape(count, heads + 2 * key_heads, head_width)
    if not is_parallel:
        fed = added

    _prepare(summed, added, before_attention, epsilon, normed, narrow)
    multiply_parts(products[0], narrow, biases[0], turned)
    if of_heads.shape[0] > 0 and is_joint:
        norm_joint_heads(turned, of_heads, inner, head_epsilon)
    elif of_heads.shape[0] > 0:
        norm_heads(by_head, of_heads, head_epsilon)
    if angles[0].shape[0] > 0:
        rotate_heads(by_head, heads + key_heads, angles[0], angles[1])
    call_at(addresses[0], (by_head, keys, key_scales, column))
    if wide.shape[2] > 0:
        call_at(addresses[1], (keys, key_scales, begin, wide))
        call_at(addresses[2], (by_head, wide, wide, ranges[0], ranges[1], scale, cap, attended))
    else:
        call_at(addresses[2], (by_head, keys, key_scales, ranges[0], ranges[1], scale, cap, attended))
    quantise(attended, middle[0], middle[1], middle[2])
    multiply_parts(products[1], middle, biases[1], added)
    if after_attention.shape[0] > 0:
        norm_rows(added, after_attention, epsilon)
    _shrink(added, share)

    if not is_parallel:
        _prepare(summed, added, before_feed_forward, epsilon, normed, narrow)
    elif before_feed_forward.shape[0] > 0:
        fed[:] = 0
        _prepare(summed, fed, before_feed_forward, epsilon, normed, narrow)
    multiply_parts(products[2], narrow, biases[2], hidden)
    activate_and_quantise(hidden, kind, gated, large[0], large[1], large[2])
    multiply_parts(products[3], large, biases[3], fed)
    if after_feed_forward.shape[0] > 0:
        norm_rows(fed, after_feed_forward, epsilon)
    _shrink(fed, share)
    if is_parallel:
        _add(added, fed)
