"""The deep averaging network (Iyyer et al. 2015): layers on the average of the vectors read so far, in any order.

Legend: B batch, T time, E width of the vectors, D width, n window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.neural.layers import layer_stack
from chainrule.neural.windows import begins_of, forgotten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float

    from chainrule.neural.config import BagConfig
    from chainrule.neural.encoder_states import State


class Bag(nn.Module):
    """Layers over the average of all vectors so far, or of the last n.

    A 1 is appended to each vector, so that a sum of vectors also counts them. A state holds the last n - 1 vectors,
    (B, n - 1, E + 1), or the sum of all, (B, 1, E + 1).
    """

    is_bidirectional = False
    context: int | None = None  # a state never fills

    def __init__(self, config: BagConfig) -> None:
        super().__init__()
        self.width, self.reach, self.input_width = config.output_width, config.window, config.input_width
        widths = [config.input_width, *[config.width] * (config.layers - 1), config.output_width]
        self.layers = layer_stack(widths, config.activation, config.dropout)

    def start(self, rows: int) -> Tensor:
        """The state of rows that have read nothing."""
        kept = 1 if self.reach is None else self.reach - 1
        return next(self.parameters()).new_zeros(rows, kept, self.input_width + 1)

    def forward(
        self, x: Float[Tensor, "B T E"], state: State = None, starts: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T width"], State]:
        """As `Encoder`."""
        past = self.start(len(x)) if state is None else cast("Tensor", state)
        totals, past = self._totals(F.pad(x, (0, 1), value=1.0), past, starts)
        return self.layers(totals[..., :-1] / totals[..., -1:]), past

    def hidden_layers(
        self, x: Float[Tensor, "B T E"], starts: Bool[Tensor, "B T"] | None = None
    ) -> Iterator[Float[Tensor, "B T width"]]:
        """As `Encoder.hidden_layers`: the encoder counts as one layer."""
        yield self(x, None, starts)[0]

    def _totals(
        self, x: Float[Tensor, "B T E+1"], past: Float[Tensor, "B P E+1"], starts: Bool[Tensor, "B T"] | None
    ) -> tuple[Float[Tensor, "B T E+1"], Float[Tensor, "B P E+1"]]:
        """The sum of each position's bag, and the new past."""
        rows, length, width = x.shape
        kept = past.shape[1]
        whole = torch.cat((past, x), 1)
        sums = F.pad(whole.cumsum(1), (0, 0, 1, 0))  # of all vectors before each position, from -kept to T
        begins = torch.full((rows, length), -kept, device=x.device) if starts is None else begins_of(starts, kept)
        oldest = begins
        if self.reach is not None:
            positions = torch.arange(length, device=x.device)
            oldest = begins.maximum(positions - self.reach + 1)
        before = sums.gather(1, (oldest + kept)[..., None].expand(-1, -1, width))
        totals = sums[:, kept + 1 :] - before
        after = totals[:, -1:] if self.reach is None else forgotten(whole[:, length:], length, begins)
        return totals, after
