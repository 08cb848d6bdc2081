"""A two-dimensional LSTM over pictures that are read row by row, as a context encoder.

The cell that predicts a pixel follows the one on its left, and the one above on its right; the first of a row reads the
last pixel of the row above. So a pixel depends on all pixels on its left, in its own row and those above, and above on
its right on a triangle that grows by a column a row. All cells (i, j) of one 2 i + j are computed together.
Legend: B batch, T time, W columns of a picture, S numbers in a cell's h, P = W - 1 positions that a state keeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.features.vision.network.grid_layers import GridLayer, order_by_diagonals
from chainrule.neural.layers.basic import drop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float, Int64

    from chainrule.features.vision.network.grid_config import GridConfig
    from chainrule.features.vision.network.grid_layers import Diagonal
    from chainrule.neural.layers.state import State

_UNUSED = -9  # as the level of a carried cell that no other follows


class Grid(nn.Module):
    """A two-dimensional LSTM over pictures. A state holds how many pixels of its picture each row has read, (B,); the
    last inputs, (B, P, D); and the last h and c of each layer, (B, P, 2 S).
    """

    is_bidirectional = False
    context: int | None = None  # a state never fills
    reach: int | None = None  # and depends on all tokens

    def __init__(self, config: GridConfig) -> None:
        super().__init__()
        self.columns, self.width, self.dropout = config.columns, config.output_width, config.dropout
        self.input_width = config.input_width
        widths = [*[config.width] * (config.layers - 1), config.output_width]
        inputs = [3 * config.input_width, *widths]
        memories = 2 if config.cell == "grid" else 1
        self.layers = nn.ModuleList(
            GridLayer(own, width // memories, config.cell, directions=1)
            for own, width in zip(inputs, widths, strict=False)
        )

    def start(self, rows: int) -> tuple[Tensor, ...]:
        """Return the state of rows that have read nothing."""
        like, kept = next(self.parameters()), self.columns - 1
        layers = (like.new_zeros(rows, kept, 2 * cast("GridLayer", layer).width) for layer in self.layers)
        return (like.new_zeros(rows), like.new_zeros(rows, kept, self.input_width), *layers)

    def forward(
        self, x: Float[Tensor, "B T D"], state: State = None, starts: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T width"], State]:
        """Return the hidden states and the new state, as `Encoder` does."""
        position, past, *before = self.start(len(x)) if state is None else cast("tuple[Tensor, ...]", state)
        plan = _planned(x, position, starts, self.columns)
        x, past = _with_pixels_above(x, past, plan)
        after = []
        for layer, carried in zip(self.layers, before, strict=True):
            h, carried = _read(cast("GridLayer", layer), x, carried, plan)
            x = drop(h, self.dropout, self.training)
            after.append(carried)
        return x, (plan.position.to(position), past, *after)

    def hidden_layers(
        self, x: Float[Tensor, "B T D"], starts: Bool[Tensor, "B T"] | None = None
    ) -> Iterator[Float[Tensor, "B T width"]]:
        """Implement `Encoder.hidden_layers`."""
        position, past, *before = self.start(len(x))
        plan = _planned(x, position, starts, self.columns)
        x, _ = _with_pixels_above(x, past, plan)
        for layer, carried in zip(self.layers, before, strict=True):
            h, _ = _read(cast("GridLayer", layer), x, carried, plan)
            x = drop(h, self.dropout, self.training)
            yield x


class _Plan(NamedTuple):
    """Where the positions of a batch lie in their pictures, and the order in which their cells are computed.

    position: how many pixels of its picture each row has read afterwards, (B,).
    """

    position: Float[Tensor, " B"]
    has_above: Bool[Tensor, "B T"]
    has_right: Bool[Tensor, "B T"]  # a pixel above on the right
    order: Int64[Tensor, " BT"]
    places: Int64[Tensor, "B T"]
    diagonals: list[Diagonal]


def _planned(x: Tensor, position: Tensor, starts: Tensor | None, columns: int) -> _Plan:
    rows, length = x.shape[:2]
    times, kept = np.arange(length), columns - 1
    read = position.detach().cpu().numpy().astype(np.int64)[:, None]
    ages = read + times
    if starts is not None:
        begins = np.maximum.accumulate(np.where(starts.cpu().numpy(), times, -1), 1)
        ages = np.where(begins < 0, ages, times - begins)
    line, column = np.divmod(ages, columns)
    has_above = line > 0
    has_right = has_above & (column < kept)

    first, given = np.arange(rows)[:, None] * length, rows * length + np.arange(rows)[:, None] * kept

    def back(distance: int, exists: np.ndarray) -> np.ndarray:
        """Return the indices of the cells this many positions back; -1 for none."""
        numbers = np.where(times >= distance, first + times - distance, given + kept + times - distance)
        return np.where(exists, numbers, -1).ravel()

    left, above = back(1, column > 0), back(kept, has_right)
    carried_ages = (read + np.arange(-kept, 0)).ravel()
    carried = np.where(carried_ages < 0, _UNUSED, 2 * (carried_ages // columns) + carried_ages % columns)
    used = np.zeros(rows * (length + kept) + 1, np.bool_)
    used[left], used[above] = True, True
    carried[~used[rows * length : -1]] = _UNUSED
    order, diagonals = order_by_diagonals((2 * line + column).ravel(), left, above, x.device, carried)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))

    def on_device(array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(x.device)

    return _Plan(
        position=on_device(ages[:, -1] + 1),
        has_above=on_device(has_above),
        has_right=on_device(has_right),
        order=on_device(order),
        places=on_device(places.reshape(rows, length)),
        diagonals=diagonals,
    )


def _with_pixels_above(x: Tensor, past: Tensor, plan: _Plan) -> tuple[Float[Tensor, "B T 3*D"], Tensor]:
    """Return the first layer's inputs, the pixels on the left, above, and above on the right; and the new past."""
    length = x.shape[1]
    whole = torch.cat((past.to(x.dtype), x), 1)
    above = whole[:, :length] * plan.has_above[..., None]
    right = whole[:, 1 : length + 1] * plan.has_right[..., None]
    return torch.cat((x, above, right), 2), whole[:, length:]


def _read(layer: GridLayer, x: Tensor, carried: Tensor, plan: _Plan) -> tuple[Float[Tensor, "B T S"], Tensor]:
    """Return h, and the new last h and c."""
    own = layer.own(x).flatten(0, 1)[plan.order][None]
    h, c = layer.scan(own, plan.diagonals, carried.flatten(0, 1)[None])
    states = torch.cat((h, c), 2)[0][plan.places]  # (B, T, 2 S)
    return states[..., : layer.width], torch.cat((carried.to(states.dtype), states), 1)[:, x.shape[1] :]
