"""Dropout (Srivastava et al. 2014) that needs few random bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

if TYPE_CHECKING:
    from jaxtyping import Float

_CHANCES = 1 << 16  # values of a 16-bit random number


def dropped(x: Float[Tensor, "*shape"], share: float, training: bool = True) -> Float[Tensor, "*shape"]:
    """x with about that share of its elements set to 0, and the others scaled up to keep the mean.

    On a processor, where torch would draw 32 random bits for each element, four elements share a draw of 64 bits. The
    share is thereby rounded to a multiple of 1/65,536, and the scale follows the rounded share.
    """
    if not training or not share:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, share)
    zeroed = min(round(share * _CHANCES), _CHANCES - 1)
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
    chances = draws.view(torch.int16)[: x.numel()].view(x.shape)
    return x * ((chances >= zeroed - _CHANCES // 2) * (_CHANCES / (_CHANCES - zeroed))).to(x.dtype)


class Dropout(nn.Module):
    """`dropped` as a module."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """x, with dropout if the module is in training."""
        return dropped(x, self.share, self.training)
