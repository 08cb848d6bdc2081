"""Recurrent decoders: the source is looked at after each step (Luong 2015), before it (Bahdanau 2015), or never.

Legend: B rows, T time, D width, C ways to look at the source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor, nn

from chainrule.neural.config.recurrent import RecurrentConfig
from chainrule.neural.cross_attention import ContextVectors, SingleHeadAttention
from chainrule.neural.dropout import dropped
from chainrule.neural.encoders.recurrent import Recurrent

if TYPE_CHECKING:
    from chainrule.neural.config.conditional import ConditionalConfig
    from chainrule.neural.encoders.recurrent import LayerState
    from chainrule.neural.source import KeysAndValues, Source
    from chainrule.neural.states import State


class _State(NamedTuple):
    """The state of a recurrent decoder.

    layers: the states of the cells. fed: the last step's output, (B, D), or nothing, (B, 0). positions: of the next
    tokens, (B,).
    """

    layers: tuple[LayerState, ...]
    fed: Tensor
    positions: Tensor


class RecurrentDecoder(nn.Module):
    """A Decoder whose first state is computed from the encoder's summary.

    Where hard attention chooses among C positions, there is a hidden state for each choice, with the log-probability of
    the choice as its last element: (B, T, C, D + 1).
    """

    def __init__(self, config: ConditionalConfig) -> None:
        super().__init__()
        self.width, self.dropout = config.width, config.dropout
        self.glance = None if config.attention == "none" else SingleHeadAttention(config)
        self.looks_before, self.feeds = config.attends == "before", config.feeds
        self.hard = config.attention == "hard"
        fed = config.width if self.feeds else 0
        self.cells = Recurrent(
            RecurrentConfig(
                cell="gru" if config.decoder == "gru" else "lstm",
                layers=config.decoder_layers,
                width=config.width,
                embedding_width=config.width + fed,
                dropout=config.dropout,
                variational=False,
            )
        )
        self.fed_width = fed if not self.looks_before else 0
        numbers = sum(len(layer) for layer in self.cells.start(0))
        self.begin = nn.Linear(config.width, numbers * config.width)
        self.out = nn.Linear(config.width * (1 if self.glance is None else 2), config.width)

    def keys_and_values(self, memory: Tensor) -> tuple[KeysAndValues, ...]:
        """As `Decoder.keys_and_values`."""
        return () if self.glance is None else (self.glance.keys_and_values(memory),)

    def start(self, source: Source) -> _State:
        """As `Decoder.start`."""
        numbers = iter(
            torch.tanh(self.begin(source.summary))[source.rows].chunk(self.begin.out_features // self.width, 1)
        )
        layers = tuple(tuple(next(numbers) for _ in layer) for layer in self.cells.start(0))
        rows = source.rows
        return _State(layers, source.memory.new_zeros(len(rows), self.fed_width), torch.zeros_like(rows))

    def forward(self, x: Tensor, state: State, starts: Tensor | None, source: Source) -> tuple[Tensor, State]:
        """As `Decoder`."""
        begun = self.start(source) if state is None else _State(*cast("tuple", state))  # type: ignore[type-arg]
        x = dropped(x, self.dropout, self.training)
        if starts is None and not self.feeds:
            return self._at_once(x, begun, source)
        hidden = []
        for time in range(x.shape[1]):
            if starts is not None:
                begun = _begun_anew(begun, self.start(source), starts[:, time])
            found, begun = self._step(x[:, time : time + 1], begun, source)
            hidden.append(found)
        return torch.cat(hidden, 1), tuple(begun)

    def _at_once(self, x: Tensor, state: _State, source: Source) -> tuple[Tensor, State]:
        """All times of rows whose steps do not depend on what was seen."""
        cells, layers = self.cells(x, state.layers)
        positions = state.positions[:, None] + torch.arange(x.shape[1], device=x.device)
        found = None if self.glance is None else self.glance(cells, positions, source)
        return self._hidden(cells, found), (layers, state.fed, state.positions + x.shape[1])

    def _step(self, x: Tensor, state: _State, source: Source) -> tuple[Tensor, _State]:
        """x: (B, 1, D)."""
        positions = state.positions[:, None]
        if self.glance is None or not self.feeds:
            hidden, after = self._at_once(x, state, source)
            return hidden, _State(*cast("tuple", after))  # type: ignore[type-arg]
        if self.looks_before:
            found = self.glance(state.layers[-1][0][:, None], positions, source)
            cells, layers = self.cells(torch.cat((x, found.values[:, :, 0]), 2), state.layers)
            hidden, fed = self._hidden(cells, found), state.fed
        else:
            cells, layers = self.cells(torch.cat((x, state.fed[:, None]), 2), state.layers)
            found = self.glance(cells, positions, source)
            hidden = self._hidden(cells, found)
            fed = hidden[:, 0, 0, :-1] if self.hard else hidden[:, 0]
        return hidden, _State(cast("tuple[LayerState, ...]", layers), fed, state.positions + 1)

    def _hidden(self, cells: Tensor, found: ContextVectors | None) -> Tensor:
        """tanh(W [what was seen; state]): (B, T, D), or, of hard attention, (B, T, C, D + 1)."""
        if found is None:
            return dropped(torch.tanh(self.out(cells)), self.dropout, self.training)
        both = torch.cat((cells.unsqueeze(2).expand(-1, -1, found.values.shape[2], -1), found.values), 3)
        hidden = dropped(torch.tanh(self.out(both)), self.dropout, self.training)
        return torch.cat((hidden, found.log_probs.unsqueeze(3)), 3) if self.hard else hidden[:, :, 0]


def _begun_anew(state: _State, start: _State, which: Tensor) -> _State:
    """which: (B,), True where a row begins anew."""

    def chosen(anew: Tensor, old: Tensor) -> Tensor:
        return torch.where(which.view(-1, *[1] * (old.ndim - 1)), anew, old)

    layers = tuple(
        tuple(chosen(a, b) for a, b in zip(*pair, strict=True)) for pair in zip(start.layers, state.layers, strict=True)
    )
    return _State(layers, chosen(start.fed, state.fed), chosen(start.positions, state.positions))
