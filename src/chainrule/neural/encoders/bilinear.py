"""The log-bilinear model (Mnih and Hinton 2007): r = C_1 v_1 + .. + C_n v_n; a token's score is u . r + b.

Legend: B batch, T time, D width, n window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from chainrule.neural.windows import side_by_side

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float

    from chainrule.neural.config import BilinearConfig
    from chainrule.neural.encoder_states import State


class Bilinear(nn.Module):
    """The weighted sum of the last n vectors. A state holds the last n - 1 of them, (B, n - 1, D)."""

    is_bidirectional = False
    context: int | None = None  # a state never fills

    def __init__(self, config: BilinearConfig) -> None:
        super().__init__()
        self.width, self.window, self.reach = config.width, config.window, config.window
        inputs = config.window * config.width
        self.matrices = nn.Linear(inputs, config.width, bias=False) if config.position_weights == "matrix" else None
        self.diagonals = nn.Parameter(torch.ones(inputs)) if config.position_weights == "diagonal" else None
        nothing = torch.zeros(1, config.window - 1, config.width, device="cpu")  # never on the device meta
        self.register_buffer("nothing", nothing, persistent=False)

    def start(self, rows: int) -> Tensor:
        """The state of rows that have read nothing."""
        return cast("Tensor", self.nothing).expand(rows, -1, -1)

    def forward(
        self, x: Float[Tensor, "B T D"], state: State = None, starts: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T width"], State]:
        """As `Encoder`."""
        past = self.start(len(x)) if state is None else cast("Tensor", state)
        window, past = side_by_side(x, past, starts, self.window)  # (B, T, n D)
        if self.matrices is not None:
            return self.matrices(window), past
        if self.diagonals is not None:
            window = window * self.diagonals
        return window.view(*x.shape[:2], self.window, self.width).sum(2), past

    def hidden_layers(
        self, x: Float[Tensor, "B T D"], starts: Bool[Tensor, "B T"] | None = None
    ) -> Iterator[Float[Tensor, "B T width"]]:
        """As `Encoder.hidden_layers`: the encoder counts as one layer."""
        yield self(x, None, starts)[0]
