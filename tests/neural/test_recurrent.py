"""Recurrent layers over rows that begin anew here and there, against one step after the other; and what is dropped."""

from __future__ import annotations

import pytest
import random_networks  # noqa: F401  (one thread)
import torch
from hypothesis import given
from hypothesis import strategies as st
from samples import examples
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from chainrule.errors import SettingError
from chainrule.features.seq2seq.network.config import Seq2SeqConfig
from chainrule.features.seq2seq.network.encoders import RecurrentReader
from chainrule.neural.config import MaskedRecurrentConfig, RecurrentConfig
from chainrule.neural.encoders.bidirectional import BidirectionalRecurrent
from chainrule.neural.encoders.recurrent import Recurrent

WIDTH = 6


@given(
    st.sampled_from(["rnn_tanh", "rnn_relu", "gru", "lstm"]), st.integers(1, 3), st.integers(1, 19), st.integers(0, 999)
)
@examples(1.2)
def test_runs_between_starts_are_read_as_step_by_step(cell: str, rows: int, times: int, seed: int) -> None:
    torch.manual_seed(seed)
    encoder = Recurrent(RecurrentConfig(cell=cell, layers=2, width=WIDTH, residual=True)).eval()
    x, starts = torch.randn(rows, times, WIDTH), torch.rand(rows, times) < torch.rand(1)
    _, before = encoder(torch.randn(rows, 3, WIDTH))
    state, expected = before, []
    for time in range(times):
        found, state = encoder(x[:, time : time + 1], state, starts[:, time : time + 1])
        expected.append(found)
    found, after = encoder(x, before, starts)
    torch.testing.assert_close(found, torch.cat(expected, 1), rtol=0, atol=1e-5)
    for mine, theirs in zip(after, state, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("rows", "width"), [(1, 16), (6, 32)])
@pytest.mark.parametrize("cell", ["rnn_tanh", "rnn_relu", "gru"])
def test_a_kernel_computes_narrow_layers_as_torch_does(cell: str, rows: int, width: int) -> None:
    """With gradients torch's layer reads; a row does not depend on others."""
    torch.manual_seed(1)
    encoder = Recurrent(RecurrentConfig(cell=cell, layers=2, width=width)).eval()
    for weight in encoder.parameters():
        nn.init.normal_(weight, std=0.15)
    x, before = torch.randn(rows, 9, width), ((torch.randn(rows, width),), (torch.randn(rows, width),))
    expected, state = encoder(x, before)
    with torch.no_grad():
        found, after = encoder(x, before)
        for i in range(rows):
            own = slice(i, i + 1)
            alone, _ = encoder(x[own], tuple(tuple(part[own] for part in layer) for layer in before))
            torch.testing.assert_close(alone, found[own], rtol=0, atol=1e-6)
        x[0, 3, 2] = torch.nan
        assert encoder(x, before)[0][0, 3:].isnan().any(1).all()
    assert expected.requires_grad
    torch.testing.assert_close(found, expected, rtol=0, atol=5e-6)
    torch.testing.assert_close(after, state, rtol=0, atol=5e-6)


def test_gradients_go_through_the_pieces_of_a_run() -> None:
    torch.manual_seed(0)
    encoder = Recurrent(RecurrentConfig(layers=1, width=WIDTH)).double()
    x = torch.randn(2, 7, WIDTH, dtype=torch.float64, requires_grad=True)
    starts = torch.zeros(2, 7, dtype=torch.bool)
    starts[0, 3] = True
    assert torch.autograd.gradcheck(lambda x: encoder(x, None, starts)[0], (x,))


def test_the_same_weights_are_dropped_in_all_pieces_of_a_batch() -> None:
    """A step away from state 0, every unit is read by what is left of the weights: the same for runs of 1 and of 2."""
    torch.manual_seed(0)
    encoder = Recurrent(RecurrentConfig(cell="rnn_tanh", layers=1, width=WIDTH, weight_drop=0.5)).train()
    starts = torch.zeros(1, 6, dtype=torch.bool)
    starts[0, [0, 3]] = True  # runs of 3, each read as 2 and 1
    starts_whole = torch.tensor([[True, False, False]])
    x = torch.randn(1, 3, WIDTH).repeat(1, 2, 1)
    torch.manual_seed(1)
    found, _ = encoder(x, None, starts)
    torch.testing.assert_close(found[:, :3], found[:, 3:])
    torch.manual_seed(1)
    first, _ = encoder(x[:, :3], None, starts_whole)
    torch.testing.assert_close(found[:, :3], first)


def test_the_regularisation_of_states_by_hand() -> None:
    hidden = torch.tensor([[[1.0, 2.0], [3.0, 2.0]], [[0.0, 1.0], [0.0, 4.0]]])
    both = RecurrentConfig(width=2, activation_regularisation=2.0, temporal_regularisation=0.5)
    squares, changes = (1 + 4 + 9 + 4 + 0 + 1 + 0 + 16) / 8, (4 + 0 + 0 + 9) / 4
    assert Recurrent(both).penalty(hidden).item() == pytest.approx(2 * squares + 0.5 * changes)
    assert Recurrent(both).penalty(hidden[:, :1]).item() == pytest.approx(2 * (1 + 4 + 0 + 1) / 4)
    assert Recurrent(RecurrentConfig(width=2)).penalty(hidden) == 0
    with pytest.raises(SettingError, match="temporal_regularisation are for one direction only"):
        MaskedRecurrentConfig(width=2, temporal_regularisation=1.0)


def test_layers_one_by_one_are_dropped_out_as_together() -> None:
    torch.manual_seed(0)
    encoder = Recurrent(RecurrentConfig(layers=2, width=WIDTH, dropout=0.5, input_dropout=0.3, output_dropout=0.4))
    x = torch.randn(2, 5, WIDTH)
    for _ in encoder.train(), encoder.eval():
        torch.manual_seed(1)
        together, _ = encoder(x)
        torch.manual_seed(1)
        *_, last = encoder.hidden_layers(x)
        torch.testing.assert_close(last, together)


@pytest.mark.parametrize("width", [6, 10, 12])
def test_two_directions_share_any_even_width(width: int) -> None:
    found, _ = BidirectionalRecurrent(MaskedRecurrentConfig(layers=2, width=width))(torch.randn(2, 3, width))
    assert found.shape == (2, 3, width)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_source_is_read_both_ways_as_by_torch(cell: str) -> None:
    """Against torch's own layers in both directions, over sources of unequal lengths that are packed."""
    torch.manual_seed(0)
    reader = RecurrentReader(Seq2SeqConfig(encoder=cell, decoder="lstm", width=2 * WIDTH, encoder_layers=2)).eval()
    kind = nn.LSTM if cell == "lstm" else nn.GRU
    oracle = kind(2 * WIDTH, WIDTH, 2, batch_first=True, bidirectional=True)
    for number, pair in enumerate(reader.layers.pairs):
        for suffix, one in (("", pair.ahead), ("_reverse", pair.back)):
            for name, weight in one.layers[0].named_parameters():
                getattr(oracle, name.replace("_l0", f"_l{number}") + suffix).data.copy_(weight)
    x, lengths = torch.randn(4, 9, 2 * WIDTH), torch.tensor([5, 9, 1, 6])
    seen = torch.arange(9) < lengths[:, None]
    found = reader(x, seen)
    packed, last = oracle(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
    expected, _ = pad_packed_sequence(packed, batch_first=True)
    torch.testing.assert_close(found.vectors[seen], expected[seen])
    state = last[0] if cell == "lstm" else last
    torch.testing.assert_close(found.summary, torch.cat((state[-2], state[-1]), 1))
