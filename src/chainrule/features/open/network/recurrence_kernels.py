"""Recurrences of states, token by token, for inference on a processor: what `recurrences` computes with torch.

Each number is computed in the same order however a text is cut into calls, so that none depends on it. Numbers of a
state lie beside each other by rows or by values, which are computed together. Legend: B rows, T time, N width of the
state, I inner width, G groups of inner numbers that share inputs and outputs, H heads, d width of their values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.base.jit import kernel

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
    """Compute h = decay h + added read and out += h write for each token; the state becomes that after the last.

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
    """Compute one token, and one number of each state."""
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
    """Compute S = decay S; S += k (strength (v - S'k))'; out += S'q, for each token and head.

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
