"""The log-bilinear model (Mnih and Hinton 2007): r = C_1 v_1 + .. + C_n v_n; a token's score is then u . r + b.

Legend: B batch, T time, D width, n window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from chainrule.neural.windows import side_by_side

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.neural.config import BilinearConfig
    from chainrule.neural.states import State


class Bilinear(nn.Module):
    """The weighted sum of the last n vectors. A state holds the last n - 1 of them, (B, n - 1, D)."""

    is_bidirectional = False
    context: int | None = None  # a state never fills

    def __init__(self, config: BilinearConfig) -> None:
        super().__init__()
        self.width, self.window, self.reach = config.width, config.window, config.window
        numbers = config.window * config.width
        self.matrices = nn.Linear(numbers, config.width, bias=False) if config.position_weights == "matrix" else None
        self.diagonals = nn.Parameter(torch.ones(numbers)) if config.position_weights == "diagonal" else None
        nothing = torch.zeros(1, config.window - 1, config.width, device="cpu")  # as `never` of the output, always real
        self.register_buffer("nothing", nothing, persistent=False)

    def start(self, rows: int) -> Tensor:
        """The state of rows that have read nothing."""
        return cast("Tensor", self.nothing).expand(rows, -1, -1)

    def forward(self, x: Tensor, state: State = None, starts: Tensor | None = None) -> tuple[Tensor, State]:
        """x: (B, T, D). starts: (B, T), True where a row forgets what it has read and begins anew."""
        past = self.start(len(x)) if state is None else cast("Tensor", state)
        seen, past = side_by_side(x, past, starts, self.window)  # (B, T, n D)
        if self.matrices is not None:
            return self.matrices(seen), past
        if self.diagonals is not None:
            seen = seen * self.diagonals
        return seen.view(*x.shape[:2], self.window, self.width).sum(2), past

    def hidden_layers(self, x: Tensor, starts: Tensor | None = None) -> Iterator[Tensor]:
        """As `Encoder.hidden_layers`: all of it is one."""
        yield self(x, None, starts)[0]
