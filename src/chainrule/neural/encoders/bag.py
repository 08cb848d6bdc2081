"""Deep averaging (Iyyer 2015): layers on the average of the vectors that were read, whatever their order.

Legend: B batch, T time, E width of the vectors, D width, n window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.neural.layers import hidden_layers
from chainrule.neural.windows import begins_of, forgotten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.neural.config import BagConfig
    from chainrule.neural.states import State


class Bag(nn.Module):
    """Layers over the average of all vectors so far, or of the last n.

    Each vector goes with a 1, so that their sum tells how many they are. A state is the last n - 1 of them,
    (B, n - 1, E + 1), or the sum of all, (B, 1, E + 1).
    """

    is_bidirectional = False
    context: int | None = None  # a state never fills

    def __init__(self, config: BagConfig) -> None:
        super().__init__()
        self.width, self.reach, self.input_width = config.output_width, config.window, config.input_width
        widths = [config.input_width, *[config.width] * (config.layers - 1), config.output_width]
        self.layers = hidden_layers(widths, config.activation, config.dropout)

    def start(self, rows: int) -> Tensor:
        """The state of rows that have read nothing."""
        kept = 1 if self.reach is None else self.reach - 1
        return next(self.parameters()).new_zeros(rows, kept, self.input_width + 1)

    def forward(self, x: Tensor, state: State = None, starts: Tensor | None = None) -> tuple[Tensor, State]:
        """x: (B, T, E). starts: (B, T), True where a row forgets what it has read and begins anew."""
        past = self.start(len(x)) if state is None else cast("Tensor", state)
        totals, past = self._totals(F.pad(x, (0, 1), value=1.0), past, starts)
        return self.layers(totals[..., :-1] / totals[..., -1:]), past

    def hidden_layers(self, x: Tensor, starts: Tensor | None = None) -> Iterator[Tensor]:
        """As `Encoder.hidden_layers`: all of it is one."""
        yield self(x, None, starts)[0]

    def _totals(self, x: Tensor, past: Tensor, starts: Tensor | None) -> tuple[Tensor, Tensor]:
        """Of each position's bag: (B, T, E + 1); and the past to go on from. x, past: with the ones."""
        rows, length, width = x.shape
        kept = past.shape[1]
        whole = torch.cat((past, x), 1)
        sums = F.pad(whole.cumsum(1), (0, 0, 1, 0))  # of all before each position, from -kept to T
        begins = torch.full((rows, length), -kept, device=x.device) if starts is None else begins_of(starts, kept)
        oldest = begins
        if self.reach is not None:
            positions = torch.arange(length, device=x.device)
            oldest = begins.maximum(positions - self.reach + 1)
        before = sums.gather(1, (oldest + kept)[..., None].expand(-1, -1, width))
        totals = sums[:, kept + 1 :] - before
        after = totals[:, -1:] if self.reach is None else forgotten(whole[:, length:], length, begins)
        return totals, after
