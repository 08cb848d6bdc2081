"""Encoders over the last n tokens, Bengio's and the log-bilinear one, and the deep averaging network over all tokens.

    Feedforward    h = tanh(d + H x), x the last n vectors          Bengio et al. 2003, equation 1
    Bilinear       r = C_1 v_1 + .. + C_n v_n, score u . r + b      Mnih and Hinton 2007
    Bag            layers on the average of the vectors so far      Iyyer et al. 2015

Before the beginning of a row, a window holds zeros.
Legend: B batch, T time, E width of the vectors, D width, n window, P positions that a state keeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.neural.layers.basic import layer_stack, segment_starts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float, Int64

    from chainrule.neural.config import BagConfig, BilinearConfig, FeedforwardConfig
    from chainrule.neural.layers.state import State


def concat_window(
    x: Float[Tensor, "B T D"],
    past: Float[Tensor, "B P D"],
    starts: Bool[Tensor, "B T"] | None,
    size: int,
    dilation: int = 1,
) -> tuple[Float[Tensor, "B T size*D"], Float[Tensor, "B P D"]]:
    """Return [x_t; x_t-d; ..] at each t, `size` vectors at distances of d = `dilation`; and the new past.

    past: the inputs before x, with P = (size - 1) d. starts: as for `Encoder`.
    """
    length, kept = x.shape[1], past.shape[1]
    whole = torch.cat((past, x), 1)
    parts = [whole[:, kept - back : kept - back + length] for back in range(0, kept + 1, dilation)]
    after = whole[:, length:]
    if starts is not None:
        begins = segment_starts(starts, kept)
        ages = torch.arange(length, device=x.device) - begins
        parts = [part.masked_fill((ages < i * dilation)[..., None], 0) for i, part in enumerate(parts)]
        after = mask_history(after, length, begins)
    return torch.cat(parts, -1), after


def mask_history(after: Float[Tensor, "B P D"], length: int, begins: Int64[Tensor, "B T"]) -> Float[Tensor, "B P D"]:
    """Return the past after `length` positions, set to 0 before the last beginning of each row."""
    positions = torch.arange(length - after.shape[1], length, device=after.device)
    return after.masked_fill((positions < begins[:, -1:])[..., None], 0)


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
        """Return the state of rows that have read nothing."""
        return next(self.parameters()).new_zeros(rows, self.window - 1, self.input_width)

    def forward(
        self, x: Float[Tensor, "B T E"], state: State = None, starts: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T width"], State]:
        """Return the hidden states and the new state, as `Encoder` does."""
        past = self.start(len(x)) if state is None else cast("Tensor", state)
        window, past = concat_window(x, past, starts, self.window)  # (B, T, n E)
        hidden = self.layers(window)
        return torch.cat((hidden, window), -1) if self.direct else hidden, past

    def hidden_layers(
        self, x: Float[Tensor, "B T E"], starts: Bool[Tensor, "B T"] | None = None
    ) -> Iterator[Float[Tensor, "B T width"]]:
        """Yield the layers of `Encoder.hidden_layers`: the encoder counts as one layer."""
        yield self(x, None, starts)[0]


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
        """Return the state of rows that have read nothing."""
        return cast("Tensor", self.nothing).expand(rows, -1, -1)

    def forward(
        self, x: Float[Tensor, "B T D"], state: State = None, starts: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T width"], State]:
        """Return the hidden states and the new state, as `Encoder` does."""
        past = self.start(len(x)) if state is None else cast("Tensor", state)
        window, past = concat_window(x, past, starts, self.window)  # (B, T, n D)
        if self.matrices is not None:
            return self.matrices(window), past
        if self.diagonals is not None:
            window = window * self.diagonals
        return window.view(*x.shape[:2], self.window, self.width).sum(2), past

    def hidden_layers(
        self, x: Float[Tensor, "B T D"], starts: Bool[Tensor, "B T"] | None = None
    ) -> Iterator[Float[Tensor, "B T width"]]:
        """Yield the layers of `Encoder.hidden_layers`: the encoder counts as one layer."""
        yield self(x, None, starts)[0]


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
        """Return the state of rows that have read nothing."""
        kept = 1 if self.reach is None else self.reach - 1
        return next(self.parameters()).new_zeros(rows, kept, self.input_width + 1)

    def forward(
        self, x: Float[Tensor, "B T E"], state: State = None, starts: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T width"], State]:
        """Return the hidden states and the new state, as `Encoder` does."""
        past = self.start(len(x)) if state is None else cast("Tensor", state)
        totals, past = self._totals(F.pad(x, (0, 1), value=1.0), past, starts)
        return self.layers(totals[..., :-1] / totals[..., -1:]), past

    def hidden_layers(
        self, x: Float[Tensor, "B T E"], starts: Bool[Tensor, "B T"] | None = None
    ) -> Iterator[Float[Tensor, "B T width"]]:
        """Yield the layers of `Encoder.hidden_layers`: the encoder counts as one layer."""
        yield self(x, None, starts)[0]

    def _totals(
        self, x: Float[Tensor, "B T E+1"], past: Float[Tensor, "B P E+1"], starts: Bool[Tensor, "B T"] | None
    ) -> tuple[Float[Tensor, "B T E+1"], Float[Tensor, "B P E+1"]]:
        """Return the sum of each position's bag, and the new past."""
        rows, length, width = x.shape
        kept = past.shape[1]
        whole = torch.cat((past, x), 1)
        sums = F.pad(whole.cumsum(1), (0, 0, 1, 0))  # of all vectors before each position, from -kept to T
        begins = torch.full((rows, length), -kept, device=x.device) if starts is None else segment_starts(starts, kept)
        oldest = begins
        if self.reach is not None:
            positions = torch.arange(length, device=x.device)
            oldest = begins.maximum(positions - self.reach + 1)
        before = sums.gather(1, (oldest + kept)[..., None].expand(-1, -1, width))
        totals = sums[:, kept + 1 :] - before
        after = totals[:, -1:] if self.reach is None else mask_history(whole[:, length:], length, begins)
        return totals, after
