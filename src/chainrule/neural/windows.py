"""Windows over the last inputs, for encoders that look back a fixed distance.

Before the beginning of a row, a window holds zeros. Legend: B batch, T time, D width, P positions that a state keeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64


def begins_of(starts: Bool[Tensor, "B T"], kept: int) -> Int64[Tensor, "B T"]:
    """Where the text of each position begins: the last start at or before it; -kept if the text began earlier."""
    positions = torch.arange(starts.shape[1], device=starts.device)
    return torch.where(starts, positions, -kept).cummax(1).values


def side_by_side(
    x: Float[Tensor, "B T D"],
    past: Float[Tensor, "B P D"],
    starts: Bool[Tensor, "B T"] | None,
    size: int,
    dilation: int = 1,
) -> tuple[Float[Tensor, "B T size*D"], Float[Tensor, "B P D"]]:
    """[x_t; x_t-d; ..] at each t, `size` vectors at distances of d = `dilation`; and the new past.

    past: the inputs before x, with P = (size - 1) d. starts: as for `Encoder`.
    """
    length, kept = x.shape[1], past.shape[1]
    whole = torch.cat((past, x), 1)
    parts = [whole[:, kept - back : kept - back + length] for back in range(0, kept + 1, dilation)]
    after = whole[:, length:]
    if starts is not None:
        begins = begins_of(starts, kept)
        ages = torch.arange(length, device=x.device) - begins
        parts = [part.masked_fill((ages < i * dilation)[..., None], 0) for i, part in enumerate(parts)]
        after = forgotten(after, length, begins)
    return torch.cat(parts, -1), after


def forgotten(after: Float[Tensor, "B P D"], length: int, begins: Int64[Tensor, "B T"]) -> Float[Tensor, "B P D"]:
    """The past after `length` positions, set to 0 before the last beginning of each row."""
    positions = torch.arange(length - after.shape[1], length, device=after.device)
    return after.masked_fill((positions < begins[:, -1:])[..., None], 0)
