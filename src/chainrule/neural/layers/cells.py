"""The recurrent cells of the textbooks, one step at a time: reference code, to be read.

Training and stepping use torch's fast layers, which a test compares with these. Legend: B batch, E width of the input,
D width of the state, g gates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float
    from torch import Tensor


class Weights(NamedTuple):
    """The weights of all gates of a cell, stacked: D rows for each gate."""

    of_input: Float[Tensor, "g*D E"]  # W
    of_state: Float[Tensor, "g*D D"]  # U
    input_bias: Float[Tensor, " g*D"]  # b
    state_bias: Float[Tensor, " g*D"]  # c


def rnn(
    x: Float[Tensor, "B E"],
    h: Float[Tensor, "B D"],
    weights: Weights,
    activation: Callable[[Tensor], Tensor] = torch.tanh,
) -> Float[Tensor, "B D"]:
    """Return the next state of an RNN (Elman 1990): h' = a(W x + b + U h + c), with a = tanh or ReLU."""
    w, u, b, c = weights
    return activation(x @ w.T + b + h @ u.T + c)


def gru(x: Float[Tensor, "B E"], h: Float[Tensor, "B D"], weights: Weights) -> Float[Tensor, "B D"]:
    """Return the next state of a GRU (Cho et al. 2014), in the form that applies the reset gate after the product with
    U, as cuDNN does.

    r = sigmoid(W_r x + b_r + U_r h + c_r)              reset gate
    z = sigmoid(W_z x + b_z + U_z h + c_z)              update gate
    n = tanh(W_n x + b_n + r * (U_n h + c_n))           candidate
    h' = (1 - z) * n + z * h
    """
    return gru_gates(x, h, weights)["h"]


def gru_gates(x: Float[Tensor, "B E"], h: Float[Tensor, "B D"], weights: Weights) -> dict[str, Float[Tensor, "B D"]]:
    """Return all values that a step of `gru` computes: r, z, n and h'."""
    w, u, b, c = weights
    input_r, input_z, input_n = (x @ w.T + b).chunk(3, 1)
    state_r, state_z, state_n = (h @ u.T + c).chunk(3, 1)
    r, z = torch.sigmoid(input_r + state_r), torch.sigmoid(input_z + state_z)
    n = torch.tanh(input_n + r * state_n)
    return {"r": r, "z": z, "n": n, "h": (1 - z) * n + z * h}


def lstm(
    x: Float[Tensor, "B E"], h: Float[Tensor, "B D"], memory: Float[Tensor, "B D"], weights: Weights
) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
    """Return the next state of an LSTM (Hochreiter and Schmidhuber 1997), with the forget gate of Gers et al. 2000.

    Returns h' and memory'.

    i, f, o = sigmoid(W x + b + U h + c)                input, forget and output gate
    g = tanh(W_g x + b_g + U_g h + c_g)                 candidate
    memory' = f * memory + i * g
    h' = o * tanh(memory')

    The gates are stacked in the order i, f, g, o.
    """
    step = lstm_gates(x, h, memory, weights)
    return step["h"], step["c"]


def lstm_gates(
    x: Float[Tensor, "B E"], h: Float[Tensor, "B D"], memory: Float[Tensor, "B D"], weights: Weights
) -> dict[str, Float[Tensor, "B D"]]:
    """Return all values that a step of `lstm` computes: i, f, o, g, c (the memory) and h'."""
    w, u, b, c = weights
    i, f, g, o = (x @ w.T + b + h @ u.T + c).chunk(4, 1)
    i, f, o, g = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o), torch.tanh(g)
    cell = f * memory + i * g
    return {"i": i, "f": f, "o": o, "g": g, "c": cell, "h": o * torch.tanh(cell)}
