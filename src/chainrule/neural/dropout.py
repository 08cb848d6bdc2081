"""Dropout (Srivastava 2014), of few random bits."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

_CHANCES = 1 << 16  # that one draw tells apart


def dropped(x: Tensor, share: float, training: bool = True) -> Tensor:
    """x with about that share of its numbers 0, and the others so much larger that the mean stays.

    On a processor, where torch draws 32 bits for each number one by one, four numbers share a draw of 64: a share is
    then known to 1 in 65,536, which the others are enlarged for.
    """
    if not training or not share:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, share)
    falls = min(round(share * _CHANCES), _CHANCES - 1)
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
    chances = draws.view(torch.int16)[: x.numel()].view(x.shape)
    return x * ((chances >= falls - _CHANCES // 2) * (_CHANCES / (_CHANCES - falls))).to(x.dtype)


class Dropout(nn.Module):
    """`dropped`, in training."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        return dropped(x, self.share, self.training)
