"""What stands between the products of a Transformer in packed weights: norms, rotations, gates, keys and values.

Every sum has its order (`base.lanes`), and every query its own: so a hidden state depends neither on the processor, nor
on threads, nor on how many tokens are read at once, nor on other rows.
Legend: N positions of all rows, T of them in each row, D width, H heads, K heads of keys and values, d their width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.jit import kernel
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
from chainrule.neural.packed.block_kernels import quantise
from chainrule.neural.packed.integer_lanes import (
    largest_bits,
    of_bits,
    put_bytes,
    rounded,
    spread_integer,
)

if TYPE_CHECKING:
    from jaxtyping import Float32, Int8, Int32
    from numpy import ndarray

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
def norm_and_quantise(
    x: Float32[ndarray, "N D"],
    added: Float32[ndarray, "N D"],
    gain: Float32[ndarray, "1 D"],
    epsilon: float,
    out: Float32[ndarray, "N D"],
    numbers: Int8[ndarray, "N D"],
    scales: Float32[ndarray, "N blocks"],
    sums: Int32[ndarray, "N halves"],
) -> None:
    """Do the work of `add_and_norm`, then write the norm in eight bits."""
    add_and_norm(x, added, gain, epsilon, out)
    quantise(out, numbers, scales, sums)


@kernel
def layer_norm_and_quantise(
    x: Float32[ndarray, "N D"],
    added: Float32[ndarray, "N D"],
    gains: Float32[ndarray, "2 D"],
    epsilon: float,
    out: Float32[ndarray, "N D"],
    numbers: Int8[ndarray, "N D"],
    scales: Float32[ndarray, "N blocks"],
    sums: Int32[ndarray, "N halves"],
) -> None:
    """Do the work of `add_and_layer_norm`, then write the norm in eight bits."""
    add_and_layer_norm(x, added, gains, epsilon, out)
    quantise(out, numbers, scales, sums)


@kernel
def add_and_quantise(
    x: Float32[ndarray, "N D"],
    added: Float32[ndarray, "N D"],
    numbers: Int8[ndarray, "N D"],
    scales: Float32[ndarray, "N blocks"],
    sums: Int32[ndarray, "N halves"],
) -> None:
    """Add to x, in place, then write x in eight bits."""
    for i in range(x.shape[0]):
        for k in range(0, x.shape[1], LANES):
            put_lanes(x, i, k, plus(lanes_at(x, i, k), lanes_at(added, i, k)))
    quantise(x, numbers, scales, sums)


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
def add_to_rows(x: Float32[ndarray, "N D"], bias: Float32[ndarray, "1 D"]) -> None:
    """Add a bias to each row of x, in place. D must be a multiple of LANES."""
    for i in range(x.shape[0]):
        for k in range(0, x.shape[1], LANES):
            put_lanes(x, i, k, plus(lanes_at(x, i, k), lanes_at(bias, 0, k)))


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
def store(heads: Float32[ndarray, "N H+2K d"], keys: Float32[ndarray, "B K columns 2d"], column: int) -> None:
    """Write keys and values from a column on. heads: of queries, keys and values."""
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
