"""The neural probabilistic language model (Bengio 2003): h = tanh(H x + d) of the last n vectors x, side by side.

Legend: B batch, T time, E width of the vectors, D width, n window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from chainrule.neural.layers import hidden_layers
from chainrule.neural.windows import side_by_side

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.neural.config import FeedforwardConfig
    from chainrule.neural.states import State


class Feedforward(nn.Module):
    """Layers over the last n vectors. A state is the last n - 1 of them, (B, n - 1, E).

    With direct connections it gives x behind h, so that the output's weight is Bengio's U beside his W.
    """

    is_bidirectional = False
    context: int | None = None  # a state never fills

    def __init__(self, config: FeedforwardConfig) -> None:
        super().__init__()
        self.width, self.window, self.reach = config.output_width, config.window, config.window
        self.input_width, self.direct = config.input_width, config.direct
        widths = [config.window * config.input_width, *[config.width] * (config.layers - 1), config.hidden_width]
        self.layers = hidden_layers(widths, config.activation, config.dropout)

    def start(self, rows: int) -> Tensor:
        """The state of rows that have read nothing."""
        return next(self.parameters()).new_zeros(rows, self.window - 1, self.input_width)

    def forward(self, x: Tensor, state: State = None, starts: Tensor | None = None) -> tuple[Tensor, State]:
        """x: (B, T, E). starts: (B, T), True where a row forgets what it has read and begins anew."""
        past = self.start(len(x)) if state is None else cast("Tensor", state)
        seen, past = side_by_side(x, past, starts, self.window)  # (B, T, n E)
        hidden = self.layers(seen)
        return torch.cat((hidden, seen), -1) if self.direct else hidden, past

    def hidden_layers(self, x: Tensor, starts: Tensor | None = None) -> Iterator[Tensor]:
        """As `Encoder.hidden_layers`: all of it is one."""
        yield self(x, None, starts)[0]
