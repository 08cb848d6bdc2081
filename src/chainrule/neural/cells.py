"""The textbook's recurrent cells, one step at a time: reference code, to be read.

Training and stepping use torch's fast layers, which compute the same; a test holds it. Legend: B batch, E what goes in,
D width of the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


class Weights(NamedTuple):
    """Of all gates of a cell, one below the other: g gates of D rows each."""

    of_input: Tensor  # W, (g D, E)
    of_state: Tensor  # U, (g D, D)
    input_bias: Tensor  # b, (g D,)
    state_bias: Tensor  # c, (g D,)


def rnn(x: Tensor, h: Tensor, weights: Weights, activation: Callable[[Tensor], Tensor] = torch.tanh) -> Tensor:
    """Elman 1990: h' = a(W x + b + U h + c), with a = tanh or ReLU. x: (B, E); h: (B, D) -> (B, D)."""
    w, u, b, c = weights
    return activation(x @ w.T + b + h @ u.T + c)


def gru(x: Tensor, h: Tensor, weights: Weights) -> Tensor:
    """Cho et al. 2014, in the form that applies the reset gate after the product with U, as cuDNN does.

        r = sigmoid(W_r x + b_r + U_r h + c_r)              what of the state the candidate sees
        z = sigmoid(W_z x + b_z + U_z h + c_z)              what of the state stays
        n = tanh(W_n x + b_n + r * (U_n h + c_n))           the candidate
        h' = (1 - z) * n + z * h

    x: (B, E); h: (B, D) -> (B, D).
    """
    w, u, b, c = weights
    input_r, input_z, input_n = (x @ w.T + b).chunk(3, 1)
    state_r, state_z, state_n = (h @ u.T + c).chunk(3, 1)
    r, z = torch.sigmoid(input_r + state_r), torch.sigmoid(input_z + state_z)
    n = torch.tanh(input_n + r * state_n)
    return (1 - z) * n + z * h


def lstm(x: Tensor, h: Tensor, memory: Tensor, weights: Weights) -> tuple[Tensor, Tensor]:
    """Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000.

        i, f, o = sigmoid(W x + b + U h + c)                input, forget, output gate
        g = tanh(W_g x + b_g + U_g h + c_g)                 the candidate
        memory' = f * memory + i * g
        h' = o * tanh(memory')

    x: (B, E); h, memory: (B, D) -> h', memory'. Gates lie in the order i, f, g, o.
    """
    w, u, b, c = weights
    i, f, g, o = (x @ w.T + b + h @ u.T + c).chunk(4, 1)
    memory = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(memory), memory
