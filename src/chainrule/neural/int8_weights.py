"""Weights in eight bits: 32 numbers of a row share a scale, so that a product reads little more than a quarter.

A matrix (N, K) is one int8 tensor, (N, K + K / 8): the integers of a row, then the bytes of its float32 scales. So what
moves, joins, shares or saves tensors needs to know nothing of it. Each weight is its integer times its scale, rounded
once; vectors stay in float32. The integers and scales of GGUF's Q8_0 are these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from chainrule.base.lanes import SCALED

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Int8
    from torch import Tensor

ALIGNMENT = _SCALE_BYTES = 4
_LARGEST = 127
_TOGETHER = 1 << 20  # weights that are packed at a time, so that no second copy is held in float32


def is_packed(weight: Tensor) -> bool:
    """Whether a matrix has its weights in eight bits."""
    return weight.dtype == torch.int8


def can_pack(weight: Tensor) -> bool:
    """Whether a tensor is a matrix whose rows consist of whole blocks."""
    return weight.ndim == 2 and weight.shape[1] % SCALED == 0 and weight.is_floating_point()


def packed_shape(weight: Float[Tensor, "N K"]) -> tuple[int, int] | None:
    """What a matrix is in memory when it is packed; None where it cannot be."""
    rows, width = weight.shape
    return (rows, width + width // SCALED * _SCALE_BYTES) if can_pack(weight) else None


def pack(weight: Float[Tensor, "N K"]) -> Int8[Tensor, "N bytes"]:
    """The nearest integers; the largest weight of a block becomes 127 or -127. Blocks with NaN or infinity become NaN.

    K must be a multiple of SCALED.
    """
    rows, width = weight.shape
    packed = torch.empty(rows, width + width // SCALED * _SCALE_BYTES, dtype=torch.int8)
    step = max(1, _TOGETHER // max(width, 1))
    for begin in range(0, rows, step):
        blocks = weight[begin : begin + step].detach().float().view(-1, width // SCALED, SCALED)  # (n, K/32, 32)
        scales = blocks.abs().amax(2) / _LARGEST
        scales = torch.where(scales.isfinite(), scales, torch.nan)
        numbers = (blocks / scales[:, :, None]).nan_to_num(0).clamp(-_LARGEST, _LARGEST).round().to(torch.int8)
        packed[begin : begin + step, :width] = numbers.flatten(1)
        packed[begin : begin + step, width:] = scales.view(torch.int8)
    return packed


def unpack(packed: Int8[Tensor, "*shape bytes"]) -> Float32[Tensor, "*shape K"]:
    """The weights of some rows."""
    width = packed.shape[-1] * SCALED // (SCALED + _SCALE_BYTES)
    numbers = packed[..., :width].float().view(*packed.shape[:-1], -1, SCALED)
    scales = packed[..., width:].contiguous().view(torch.float32)
    return (numbers * scales[..., None]).flatten(-2)
