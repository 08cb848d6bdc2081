"""Recurrences of states, token by token, for inference on a processor: what `recurrences` computes with torch, and what
torch's RNN and GRU do, whose calls for each step take longer than the arithmetic of a narrow layer.

Each number is computed in the same order however a text is cut into calls, so that none depends on it. Numbers of a
state lie beside each other by rows or by values, which are computed together. Legend: B rows, T time, N width of the
state, I inner width, G groups of inner numbers that share inputs and outputs, H heads, d width of their values, D width
of a layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.jit import allocating_kernel, kernel
from chainrule.base.lanes import (
    LANES,
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
)

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32
    from numpy import ndarray


@kernel
def scan_states(
    decay: Float32[ndarray, "B T M I"],
    added: Float32[ndarray, "B T I"],
    read: Float32[ndarray, "B T G N"],
    write: Float32[ndarray, "B T G N"],
    starts: Bool[ndarray, "B T"],
    state: Float32[ndarray, "B N I"],
    out: Float32[ndarray, "B T I"],
) -> None:
    """h = decay h + added read; out += h write, for each token; the state becomes that after the last.

    decay: M is N, or 1 where all numbers of a state share it. starts: where the state is 0 before. out: zeros.
    """
    rows, length, inner = added.shape
    groups, width = read.shape[2], read.shape[3]
    share = inner // groups
    for row in range(rows):
        for place in range(length):
            if starts[row, place]:
                for number in range(width):
                    _clear(state[row, number])
            for number in range(width):
                own = number if decay.shape[2] > 1 else 0
                for group in range(groups):
                    part = slice(group * share, group * share + share)
                    _step(
                        decay[row, place, own, part],
                        added[row, place, part],
                        read[row, place, group, number],
                        write[row, place, group, number],
                        state[row, number, part],
                        out[row, place, part],
                    )


@kernel
def _clear(numbers: Float32[ndarray, " I"]) -> None:
    for column in range(len(numbers)):
        numbers[column] = 0


@kernel
def _step(
    decay: Float32[ndarray, " I"],
    added: Float32[ndarray, " I"],
    read: float,
    write: float,
    state: Float32[ndarray, " I"],
    out: Float32[ndarray, " I"],
) -> None:
    """One token, and one number of each state."""
    for column in range(len(added)):
        kept = decay[column] * state[column] + added[column] * read
        state[column] = kept
        out[column] += kept * write


@kernel
def scan_delta(
    decay: Float32[ndarray, "B T H"],
    strength: Float32[ndarray, "B T H"],
    query: Float32[ndarray, "B T H N"],
    key: Float32[ndarray, "B T H N"],
    value: Float32[ndarray, "B T H d"],
    starts: Bool[ndarray, "B T"],
    state: Float32[ndarray, "B H N d"],
    correction: Float32[ndarray, " d"],
    out: Float32[ndarray, "B T H d"],
) -> None:
    """S = decay S; S += k (strength (v - S'k))'; out += S'q, for each token and head.

    The state becomes that after the last token. starts: where it is 0 before. correction: room. out: zeros.
    """
    rows, length, heads, width = query.shape
    for row in range(rows):
        for place in range(length):
            for head in range(heads):
                _clear(correction)
                for number in range(width if starts[row, place] else 0):
                    _clear(state[row, head, number])
                for number in range(width):
                    own = state[row, head, number]
                    _decay_and_read(own, decay[row, place, head], key[row, place, head, number], correction)
                _difference(value[row, place, head], strength[row, place, head], correction)
                for number in range(width):
                    own = state[row, head, number]
                    asked, given = query[row, place, head, number], key[row, place, head, number]
                    _write_and_read(own, given, correction, asked, out[row, place, head])


@kernel
def _decay_and_read(state: Float32[ndarray, " d"], decay: float, weight: float, out: Float32[ndarray, " d"]) -> None:
    for column in range(len(state)):
        kept = state[column] * decay
        state[column] = kept
        out[column] += kept * weight


@kernel
def _difference(value: Float32[ndarray, " d"], strength: float, correction: Float32[ndarray, " d"]) -> None:
    for column in range(len(value)):
        correction[column] = (value[column] - correction[column]) * strength


@kernel
def _write_and_read(
    state: Float32[ndarray, " d"],
    weight: float,
    correction: Float32[ndarray, " d"],
    asked: float,
    out: Float32[ndarray, " d"],
) -> None:
    for column in range(len(state)):
        kept = state[column] + weight * correction[column]
        state[column] = kept
        out[column] += kept * asked


TANH, RELU, GRU = range(3)
_FOUR = 4  # rows that are read together


@allocating_kernel
def scan_cells(
    cell: int,
    given: Float32[ndarray, "B T gates"],
    columns: Float32[ndarray, "D+1 gates"],
    hidden: Float32[ndarray, "B D"],
    out: Float32[ndarray, "B T D"],
) -> None:
    """The hidden states of RNNs (TANH, RELU) and GRUs; the states become those after the last token.

    given: W x + b of the inputs, for the gates of `cells` in torch's order. columns: U transposed, then what is added
    to U h. D must be a multiple of LANES.
    """
    rows, length, width, count = given.shape[0], given.shape[1], hidden.shape[1], given.shape[2]
    sums, one, two = np.empty((_FOUR, count), np.float32), spread(np.float32(1)), spread(np.float32(2))
    zero = spread(np.float32(0))
    for first in range(0, rows, _FOUR):
        r0, r1, r2, r3 = first, min(first + 1, rows - 1), min(first + 2, rows - 1), min(first + 3, rows - 1)
        for t in range(length):
            for k in range(0, count, LANES):
                a0 = a1 = a2 = a3 = lanes_at(columns, width, k)
                for j in range(width):
                    u = lanes_at(columns, j, k)
                    a0 = times_plus(u, spread(float_at(hidden, r0, j)), a0)
                    a1 = times_plus(u, spread(float_at(hidden, r1, j)), a1)
                    a2 = times_plus(u, spread(float_at(hidden, r2, j)), a2)
                    a3 = times_plus(u, spread(float_at(hidden, r3, j)), a3)
                put_lanes(sums, 0, k, a0)
                put_lanes(sums, 1, k, a1)
                put_lanes(sums, 2, k, a2)
                put_lanes(sums, 3, k, a3)
            for q in range(min(_FOUR, rows - first)):
                row = first + q
                own, read = given[row], out[row]
                for k in range(0, width, LANES):
                    a = plus(lanes_at(own, t, k), lanes_at(sums, q, k))
                    h = lanes_at(hidden, row, k)
                    if cell == RELU:
                        size = larger(a, minus(zero, a))
                        h = over(plus(a, size), two)  # so that what is no number stays none
                    elif cell == TANH:
                        h = minus(one, over(two, plus(exponential(times(a, two)), one)))
                    else:
                        b = plus(lanes_at(own, t, width + k), lanes_at(sums, q, width + k))
                        r = over(one, plus(exponential(minus(zero, a)), one))
                        z = over(one, plus(exponential(minus(zero, b)), one))
                        n = times_plus(r, lanes_at(sums, q, 2 * width + k), lanes_at(own, t, 2 * width + k))
                        n = minus(one, over(two, plus(exponential(times(n, two)), one)))
                        h = times_plus(z, minus(h, n), n)
                    put_lanes(read, t, k, h)
            for q in range(min(_FOUR, rows - first)):
                read = out[first + q]
                for k in range(0, width, LANES):
                    put_lanes(hidden, first + q, k, lanes_at(read, t, k))
