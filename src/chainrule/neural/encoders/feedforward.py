"""The neural probabilistic language model (Bengio et al. 2003, equation 1): h = tanh(d + H x), x the last n vectors.

Legend: B batch, T time, E width of the vectors, D width, n window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from chainrule.neural.layers import layer_stack
from chainrule.neural.windows import side_by_side

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float

    from chainrule.neural.config import FeedforwardConfig
    from chainrule.neural.encoder_states import State


class Feedforward(nn.Module):
    """Layers over the last n vectors, concatenated. A state holds the last n - 1 of them, (B, n - 1, E).

    With direct connections the hidden state is [h; x], so that the output weight holds Bengio's U and W side by side.
    """

    is_bidirectional = False
    context: int | None = None  # a state never fills

    def __init__(self, config: FeedforwardConfig) -> None:
        super().__init__()
        self.width, self.window, self.reach = config.output_width, config.window, config.window
        self.input_width, self.direct = config.input_width, config.direct
        widths = [config.window * config.input_width, *[config.width] * (config.layers - 1), config.hidden_width]
        self.layers = layer_stack(widths, config.activation, config.dropout)

    def start(self, rows: int) -> Tensor:
        """The state of rows that have read nothing."""
        return next(self.parameters()).new_zeros(rows, self.window - 1, self.input_width)

    def forward(
        self, x: Float[Tensor, "B T E"], state: State = None, starts: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T width"], State]:
        """As `Encoder`."""
        past = self.start(len(x)) if state is None else cast("Tensor", state)
        window, past = side_by_side(x, past, starts, self.window)  # (B, T, n E)
        hidden = self.layers(window)
        return torch.cat((hidden, window), -1) if self.direct else hidden, past

    def hidden_layers(
        self, x: Float[Tensor, "B T E"], starts: Bool[Tensor, "B T"] | None = None
    ) -> Iterator[Float[Tensor, "B T width"]]:
        """As `Encoder.hidden_layers`: the encoder counts as one layer."""
        yield self(x, None, starts)[0]
