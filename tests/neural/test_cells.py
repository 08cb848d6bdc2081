"""The textbook's cells against torch's layers, and by hand."""

from __future__ import annotations

import math

import pytest
import random_networks  # noqa: F401  (one thread)
import torch
from torch import nn

from chainrule.neural.layers import cells

B, T, E, D = 3, 5, 4, 6


def weights(layer: nn.Module) -> cells.Weights:
    return cells.Weights(layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(3)


@pytest.mark.parametrize(("name", "activation"), [("tanh", torch.tanh), ("relu", torch.relu)])
def test_the_rnn_equals_torchs(name: str, activation) -> None:
    layer = nn.RNN(E, D, nonlinearity=name, batch_first=True)
    x, h = torch.randn(B, T, E), torch.randn(B, D)
    expected, _ = layer(x, h[None])
    for t in range(T):
        h = cells.rnn(x[:, t], h, weights(layer), activation)
        torch.testing.assert_close(h, expected[:, t], rtol=0, atol=1e-6)


def test_the_gru_equals_torchs() -> None:
    layer = nn.GRU(E, D, batch_first=True)
    x, h = torch.randn(B, T, E), torch.randn(B, D)
    expected, _ = layer(x, h[None])
    for t in range(T):
        h = cells.gru(x[:, t], h, weights(layer))
        torch.testing.assert_close(h, expected[:, t], rtol=0, atol=1e-6)


def test_the_lstm_equals_torchs() -> None:
    layer = nn.LSTM(E, D, batch_first=True)
    x, h, memory = torch.randn(B, T, E), torch.randn(B, D), torch.randn(B, D)
    expected, (_, last) = layer(x, (h[None], memory[None]))
    for t in range(T):
        h, memory = cells.lstm(x[:, t], h, memory, weights(layer))
        torch.testing.assert_close(h, expected[:, t], rtol=0, atol=1e-6)
    torch.testing.assert_close(memory, last[0], rtol=0, atol=1e-6)


def test_an_lstm_by_hand() -> None:
    ones = cells.Weights(torch.ones(4, 1), torch.zeros(4, 1), torch.zeros(4), torch.zeros(4))
    h, memory = cells.lstm(torch.tensor([[0.0]]), torch.tensor([[0.0]]), torch.tensor([[2.0]]), ones)
    assert memory.item() == pytest.approx(0.5 * 2)  # all gates are sigmoid(0) = 1/2, the candidate is 0
    assert h.item() == pytest.approx(0.5 * math.tanh(1))
