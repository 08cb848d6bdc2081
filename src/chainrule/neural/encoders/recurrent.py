"""Recurrent layers, by torch's fast ones: one on the other, with the dropouts of AWD-LSTM (Merity 2018).

What each cell computes is written out in `chainrule.neural.cells`. Legend: B batch, T time, D width.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from chainrule.neural.dropout import dropped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.neural.config import RecurrentConfig
    from chainrule.neural.config.recurrent import Cell
    from chainrule.neural.states import State

    LayerState = tuple[Tensor, ...]  # h, and c of an LSTM: (B, D) each


class Recurrent(nn.Module):
    """RNN, GRU or LSTM. A state is one for each layer: (h,), or (h, c) of an LSTM, (B, D) each."""

    looks_right = False
    context: int | None = None  # a state never fills
    reach: int | None = None  # and never forgets for sure

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        widths = [config.input_width, *[config.width] * (config.layers - 1), config.output_width]
        self.cell, self.width, self.residual = config.cell, config.output_width, config.residual
        self.layers = nn.ModuleList(_layer(config.cell, *pair) for pair in pairwise(widths))
        self.widths = widths[1:]
        dropouts = [config.input_dropout, *[config.dropout] * (config.layers - 1)]
        self.dropouts, self.output_dropout = dropouts, config.output_dropout
        self.variational, self.weight_drop = config.variational, config.weight_drop
        self._initialise(config)

    def start(self, rows: int) -> tuple[LayerState, ...]:
        """The state of rows that have read nothing."""
        number = 2 if self.cell == "lstm" else 1
        like = next(self.parameters())
        return tuple(tuple(like.new_zeros(rows, width) for _ in range(number)) for width in self.widths)

    def forward(self, x: Tensor, state: State = None, starts: Tensor | None = None) -> tuple[Tensor, State]:
        """x: (B, T, D). starts: (B, T), True where a row forgets what it has read and begins anew."""
        before = self.start(len(x)) if state is None else cast("tuple[LayerState, ...]", state)
        if starts is not None and x.shape[1] == 1:
            before = tuple(tuple(each.masked_fill(starts, 0) for each in layer) for layer in before)
            starts = None
        after = []
        for layer, layer_state, dropout in zip(self.layers, before, self.dropouts, strict=True):
            x, last = self._read(layer, self._dropped(x, dropout), layer_state, starts)
            after.append(last)
        return self._dropped(x, self.output_dropout), tuple(after)

    def hidden_layers(self, x: Tensor, starts: Tensor | None = None) -> Iterator[Tensor]:
        """As `Encoder.hidden_layers`."""
        for layer, before in zip(self.layers, self.start(len(x)), strict=True):
            x, _ = self._read(layer, x, before, starts)
            yield x

    def _read(self, layer: nn.Module, x: Tensor, state: LayerState, starts: Tensor | None) -> tuple[Tensor, LayerState]:
        """As `_run`, with what goes in added, where it is."""
        found, last = self._run(layer, x, state, starts)
        return found + x if self.residual and found.shape == x.shape else found, last

    def _run(self, layer: nn.Module, x: Tensor, state: LayerState, starts: Tensor | None) -> tuple[Tensor, LayerState]:
        """A layer over all times: (B, T, D) -> (B, T, D) and the state after the last."""
        if starts is None:
            found, last = self._called(layer, x, state)
            return cast(Tensor, found), last
        pieces = _Pieces(starts)
        anew = starts[pieces.rows, pieces.begins]  # a row whose first token starts nothing goes on
        begun = tuple(each[pieces.rows].masked_fill(anew[:, None], 0) for each in state)
        packed = pack_padded_sequence(pieces.cut(x), pieces.lengths.cpu(), batch_first=True, enforce_sorted=False)
        found, last = self._called(layer, packed, begun)
        padded, _ = pad_packed_sequence(cast(PackedSequence, found), batch_first=True)
        return pieces.joined(padded), tuple(each[pieces.last] for each in last)

    def _called(
        self, layer: nn.Module, x: Tensor | PackedSequence, state: LayerState
    ) -> tuple[Tensor | PackedSequence, LayerState]:
        given: Tensor | LayerState = tuple(each.unsqueeze(0) for each in state)
        if self.cell != "lstm":
            given = given[0]
        if self.training and self.weight_drop:
            weights = {"weight_hh_l0": dropped(cast(Tensor, layer.weight_hh_l0), self.weight_drop)}
            found, last = functional_call(layer, weights, (x, given))
        else:
            found, last = layer(x, given)
        after = last if self.cell == "lstm" else (last,)
        return found, tuple(each.squeeze(0) for each in after)

    def _dropped(self, x: Tensor, share: float) -> Tensor:
        if not (self.training and share):
            return x
        if self.variational:
            return x * dropped(x.new_ones(x.shape[0], 1, x.shape[2]), share)
        return dropped(x, share)

    def _initialise(self, config: RecurrentConfig) -> None:
        for name, weight in self.layers.named_parameters():
            if "bias" in name:
                nn.init.zeros_(weight)
            if self.cell == "lstm" and "bias_ih" in name:  # gates are in the order input, forget, cell, output
                width = len(weight) // 4
                with torch.no_grad():
                    weight[width : 2 * width] = config.forget_bias


class _Pieces:
    """The runs between starts, of all rows: each becomes a row of its own, beginning at the left.

    rows, begins, lengths: of each run. last: the last run of each row.
    """

    def __init__(self, starts: Tensor) -> None:
        """starts: (B, T)."""
        self.shape = starts.shape
        heads = starts.clone()
        heads[:, 0] = True
        self.rows, self.begins = heads.nonzero(as_tuple=True)  # row by row, from left to right
        ends = torch.cat((self.begins[1:], self.begins.new_zeros(1)))
        self.lengths = torch.where(ends > self.begins, ends, starts.shape[1]) - self.begins
        self.last = heads.sum(1).cumsum(0) - 1

    def cut(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (runs, longest, D); past the end of a run is anything."""
        columns = self.begins[:, None] + torch.arange(int(self.lengths.max()), device=x.device)
        return x[self.rows[:, None], columns.clamp(max=x.shape[1] - 1)]

    def joined(self, x: Tensor) -> Tensor:
        """(runs, longest, D) -> (B, T, D)."""
        is_there = torch.arange(x.shape[1], device=x.device) < self.lengths[:, None]
        return x[is_there].view(*self.shape, x.shape[2])  # runs are in the order of rows and times


def _layer(cell: Cell, inputs: int, width: int) -> nn.Module:
    if cell == "lstm":
        return nn.LSTM(inputs, width, batch_first=True)
    if cell == "gru":
        return nn.GRU(inputs, width, batch_first=True)
    return nn.RNN(inputs, width, batch_first=True, nonlinearity="tanh" if cell == "rnn_tanh" else "relu")
