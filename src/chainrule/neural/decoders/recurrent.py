"""Recurrent decoders, which attend to the source after each step (Luong 2015), before it (Bahdanau 2015), or never.

Legend: B rows, T time, D width, C choices of hard attention.
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
    from jaxtyping import Bool, Float, Int64

    from chainrule.neural.config.conditional import ConditionalConfig
    from chainrule.neural.encoded_source import KeysAndValues, Source
    from chainrule.neural.encoder_states import State
    from chainrule.neural.encoders.recurrent import LayerState


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
        self.attends_before, self.feeds = config.attends == "before", config.feeds
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
        self.fed_width = fed if not self.attends_before else 0
        vectors = sum(len(layer) for layer in self.cells.start(0))
        self.begin = nn.Linear(config.width, vectors * config.width)
        self.reads_word = config.deep_output
        parts = 1 + (self.glance is not None) + self.reads_word
        self.out = nn.Linear(parts * config.width, config.width)

    def keys_and_values(self, memory: Float[Tensor, "M S D"]) -> tuple[KeysAndValues, ...]:
        """As `Decoder.keys_and_values`."""
        return () if self.glance is None else (self.glance.keys_and_values(memory),)

    def start(self, source: Source) -> _State:
        """As `Decoder.start`."""
        vectors = iter(
            torch.tanh(self.begin(source.summary))[source.rows].chunk(self.begin.out_features // self.width, 1)
        )
        layers = tuple(tuple(next(vectors) for _ in layer) for layer in self.cells.start(0))
        rows = source.rows
        return _State(layers, source.memory.new_zeros(len(rows), self.fed_width), torch.zeros_like(rows))

    def forward(
        self, x: Float[Tensor, "B T D"], state: State, starts: Bool[Tensor, "B T"] | None, source: Source
    ) -> tuple[Float[Tensor, "B T *C D"], State]:
        """As `Decoder`."""
        current = self.start(source) if state is None else _State(*cast("tuple", state))  # type: ignore[type-arg]
        x = dropped(x, self.dropout, self.training)
        if starts is None and not self.feeds:
            return self._read_at_once(x, current, source)
        steps = []
        for time in range(x.shape[1]):
            if starts is not None:
                current = _restart(current, self.start(source), starts[:, time])
            hidden, current = self._step(x[:, time : time + 1], current, source)
            steps.append(hidden)
        return torch.cat(steps, 1), tuple(current)

    def _read_at_once(self, x: Float[Tensor, "B T D"], state: _State, source: Source) -> tuple[Tensor, State]:
        """All steps in one call, if none of them depends on the context vectors of the step before."""
        hidden, _, layers = self.read_steps(x, state.layers, state.positions, source)
        return hidden, (layers, state.fed, state.positions + x.shape[1])

    def read_steps(
        self, x: Float[Tensor, "B T D"], layers: State, first: Int64[Tensor, " B"], source: Source
    ) -> tuple[Float[Tensor, "B T *C D"], Float[Tensor, "B T D"], State]:
        """What is predicted from, the states of the last cells, and those of all layers after the last step.

        Where no step depends on the context vectors of the step before. first: the position of each row's first step.
        """
        cells, after = self.cells(x, layers)
        positions = first[:, None] + torch.arange(x.shape[1], device=x.device)
        contexts = None if self.glance is None else self.glance(cells, positions, source)
        return self._hidden(x, cells, contexts), cells, after

    def _step(self, x: Float[Tensor, "B 1 D"], state: _State, source: Source) -> tuple[Tensor, _State]:
        positions = state.positions[:, None]
        if self.glance is None or not self.feeds:
            hidden, after = self._read_at_once(x, state, source)
            return hidden, _State(*cast("tuple", after))  # type: ignore[type-arg]
        if self.attends_before:
            contexts = self.glance(state.layers[-1][0][:, None], positions, source)
            cells, layers = self.cells(torch.cat((x, contexts.values[:, :, 0]), 2), state.layers)
            hidden, fed = self._hidden(x, cells, contexts), state.fed
        else:
            cells, layers = self.cells(torch.cat((x, state.fed[:, None]), 2), state.layers)
            contexts = self.glance(cells, positions, source)
            hidden = self._hidden(x, cells, contexts)
            fed = hidden[:, 0, 0, :-1] if self.hard else hidden[:, 0]
        return hidden, _State(cast("tuple[LayerState, ...]", layers), fed, state.positions + 1)

    def _hidden(
        self, words: Float[Tensor, "B T D"], cells: Float[Tensor, "B T D"], contexts: ContextVectors | None
    ) -> Float[Tensor, "B T *C D"]:
        """tanh(W [state; context vector]) (Luong 2015, equation 5); hard attention: (B, T, C, D + 1).

        A deep output also reads the last token: tanh(W [token; state; context vector]) (Xu et al. 2015, equation 7).
        """
        if self.reads_word:
            cells = torch.cat((words, cells), 2)
        if contexts is None:
            return dropped(torch.tanh(self.out(cells)), self.dropout, self.training)
        both = torch.cat((cells.unsqueeze(2).expand(-1, -1, contexts.values.shape[2], -1), contexts.values), 3)
        hidden = dropped(torch.tanh(self.out(both)), self.dropout, self.training)
        return torch.cat((hidden, contexts.log_probs.unsqueeze(3)), 3) if self.hard else hidden[:, :, 0]


def _restart(state: _State, start: _State, restarts: Bool[Tensor, " B"]) -> _State:
    """The state with the rows that restart set to `start`."""

    def chosen(new: Tensor, old: Tensor) -> Tensor:
        return torch.where(restarts.view(-1, *[1] * (old.ndim - 1)), new, old)

    layers = tuple(
        tuple(chosen(a, b) for a, b in zip(*pair, strict=True)) for pair in zip(start.layers, state.layers, strict=True)
    )
    return _State(layers, chosen(start.fed, state.fed), chosen(start.positions, state.positions))
