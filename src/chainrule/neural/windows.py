"""What a network has read last, side by side: for encoders that look so far back and no further.

What is further back than a row's beginning is 0. Legend: B batch, T time, D width, P positions that a state keeps.
"""

from __future__ import annotations

import torch
from torch import Tensor


def begins_of(starts: Tensor, kept: int) -> Tensor:
    """Where the text of each position begins: the last start at or before it; -kept where the text began earlier.

    starts: (B, T), True where a row begins anew. Gives (B, T).
    """
    positions = torch.arange(starts.shape[1], device=starts.device)
    return torch.where(starts, positions, -kept).cummax(1).values


def side_by_side(x: Tensor, past: Tensor, starts: Tensor | None, size: int, dilation: int = 1) -> tuple[Tensor, Tensor]:
    """[x_t; x_t-d; ..], `size` vectors that are d = `dilation` apart, at each t: (B, T, size D); and the new past.

    x: (B, T, D). past: (B, P, D), what came before, with P = (size - 1) d.
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


def forgotten(after: Tensor, length: int, begins: Tensor) -> Tensor:
    """The past after `length` positions, without what came before the last beginning. after: (B, P, D)."""
    positions = torch.arange(length - after.shape[1], length, device=after.device)
    return after.masked_fill((positions < begins[:, -1:])[..., None], 0)
