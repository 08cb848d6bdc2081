"""What a network has read last, side by side: for encoders that look so far back and no further.

What is further back than a row's beginning is 0. Legend: B batch, T time, D width, P places that a state keeps.
"""

from __future__ import annotations

import torch
from torch import Tensor


def begins_of(starts: Tensor, kept: int) -> Tensor:
    """(B, T): the place of the last start, at or before each one; where there is none, `kept` places before the first.

    starts: (B, T), True where a row begins anew.
    """
    places = torch.arange(starts.shape[1], device=starts.device)
    return torch.where(starts, places, -kept).cummax(1).values


def side_by_side(x: Tensor, past: Tensor, starts: Tensor | None, size: int, dilation: int = 1) -> tuple[Tensor, Tensor]:
    """x_t, x_t-d, .. of each place t, `size` of them, d = `dilation` apart: (B, T, size D), and the past to go on from.

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
    """The past after `length` places, without what came before the last beginning. after: (B, P, D)."""
    places = torch.arange(length - after.shape[1], length, device=after.device)
    return after.masked_fill((places < begins[:, -1:])[..., None], 0)
