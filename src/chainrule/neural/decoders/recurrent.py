"""Recurrent decoders: the source is looked at after each step (Luong 2015), before it (Bahdanau 2015), or never.

Legend: B rows, T time, D width, C ways to look at the source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor, nn

from chainrule.neural.config.recurrent import RecurrentConfig
from chainrule.neural.cross_attention import Found, Glance
from chainrule.neural.dropout import dropped
from chainrule.neural.encoders.recurrent import Recurrent

if TYPE_CHECKING:
    from chainrule.neural.config.conditional import ConditionalConfig
    from chainrule.neural.encoders.recurrent import LayerState
    from chainrule.neural.source import Kept, Source
    from chainrule.neural.states import State


class _State(NamedTuple):
    """layers: of the cells. fed: what the last step gave, (B, D), or nothing, (B, 0). places: of next tokens, (B,)."""

    layers: tuple[LayerState, ...]
    fed: Tensor
    places: Tensor


class RecurrentDecoder(nn.Module):
    """A Decoder that begins with what the encoder's summary says.

    Where hard attention chooses among several places, hidden states are those of each choice, with the logarithm of its
    probability as one number more: (B, T, C, D + 1).
    """

    def __init__(self, config: ConditionalConfig) -> None:
        super().__init__()
        self.width, self.dropout = config.width, config.dropout
        self.glance = None if config.attention == "none" else Glance(config)
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

    def kept(self, memory: Tensor) -> tuple[Kept, ...]:
        """As `Decoder.kept`."""
        return () if self.glance is None else (self.glance.kept(memory),)

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
        places = state.places[:, None] + torch.arange(x.shape[1], device=x.device)
        found = None if self.glance is None else self.glance(cells, places, source)
        return self._hidden(cells, found), (layers, state.fed, state.places + x.shape[1])

    def _step(self, x: Tensor, state: _State, source: Source) -> tuple[Tensor, _State]:
        """x: (B, 1, D)."""
        places = state.places[:, None]
        if self.glance is None or not self.feeds:
            hidden, after = self._at_once(x, state, source)
            return hidden, _State(*cast("tuple", after))  # type: ignore[type-arg]
        if self.looks_before:
            found = self.glance(state.layers[-1][0][:, None], places, source)
            cells, layers = self.cells(torch.cat((x, found.values[:, :, 0]), 2), state.layers)
            hidden, fed = self._hidden(cells, found), state.fed
        else:
            cells, layers = self.cells(torch.cat((x, state.fed[:, None]), 2), state.layers)
            found = self.glance(cells, places, source)
            hidden = self._hidden(cells, found)
            fed = hidden[:, 0, 0, :-1] if self.hard else hidden[:, 0]
        return hidden, _State(cast("tuple[LayerState, ...]", layers), fed, state.places + 1)

    def _hidden(self, cells: Tensor, found: Found | None) -> Tensor:
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
    return _State(layers, chosen(start.fed, state.fed), chosen(start.places, state.places))
