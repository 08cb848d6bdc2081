"""How a Transformer tells places: learned and sinusoidal vectors, rotations, and biases by distance.

Places are counted in each row (or document) from 0 on. Which of these depend on distances alone is said by
`TransformerConfig.is_translation_invariant`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

_BUCKETS, _FAR = 32, 128  # of Raffel et al. 2020: half of the buckets hold one distance each, the last one all from 128


class Learned(nn.Module):
    """A learned vector for each place, added to the token's."""

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(context, width))
        nn.init.normal_(self.vectors, std=0.02)

    def forward(self, places: Tensor) -> Tensor:
        """places: (B or 1, T) -> (B or 1, T, D)."""
        return self.vectors[places]


class Sinusoidal(nn.Module):
    """Vaswani et al. 2017, section 3.5: number 2i is sin(place / 10000^(2i/D)), number 2i+1 the cosine of the same."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, places: Tensor) -> Tensor:
        """places: (B or 1, T) -> (B or 1, T, D), float32."""
        even = (self.width + 1) // 2 * 2
        angles = _angles(places, even, 10_000.0)  # (B, T, D/2)
        return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)[..., : self.width].float()


class Turn(NamedTuple):
    """The rotations of some places: cosines and sines of their angles, (B or 1, T, 1, d/2)."""

    cos: Tensor
    sin: Tensor


class Rotary(nn.Module):
    """Su et al. 2021: number i and number i + d/2 of a head are turned by place * base^(-2i/d)."""

    def __init__(self, width: int, base: float) -> None:
        """width: of a head."""
        super().__init__()
        self.width, self.base = width, base

    def forward(self, places: Tensor, like: Tensor) -> Turn:
        """places: (B or 1, T). like: of the numbers that are to be turned."""
        angles = _angles(places, self.width, self.base).unsqueeze(2)  # (B, T, 1, d/2)
        return Turn(angles.cos().to(like.dtype), angles.sin().to(like.dtype))


def turned(x: Tensor, turn: Turn) -> Tensor:
    """x: (B, T, H, d)."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * turn.cos - b * turn.sin, b * turn.cos + a * turn.sin), -1)


class ALiBi(nn.Module):
    """Press et al. 2022: minus the distance, times a slope for each head."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, distances: Tensor) -> Tensor:
        """distances: (T, S), from a key on to a query -> (H, T, S)."""
        slopes = torch.tensor(alibi_slopes(self.heads), device=distances.device)
        return -slopes[:, None, None] * distances.clamp(min=0)


def alibi_slopes(heads: int) -> list[float]:
    """2^(-8/n), its square, its cube and so on for n heads, a power of 2; else those of the power of 2 below n, and
    every other one of those of the power above.
    """
    below = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * i / below) for i in range(1, below + 1)]
    return slopes + [2.0 ** (-4 * i / below) for i in range(1, 2 * (heads - below), 2)]


class Relative(nn.Module):
    """Raffel et al. 2020 (T5): a learned number for each head and bucket of distances, shared by all layers."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.numbers = nn.Parameter(torch.zeros(_BUCKETS, heads))

    def forward(self, distances: Tensor) -> Tensor:
        """distances: (T, S), from a key on to a query -> (H, T, S)."""
        return self.numbers[distance_buckets(distances)].permute(2, 0, 1)


def distance_buckets(distances: Tensor) -> Tensor:
    """The buckets of distances: one each for 0 to 15, then wider ones, evenly on a scale of logarithms up to 128."""
    half = _BUCKETS // 2
    distances = distances.clamp(min=0)
    logarithms = (distances.clamp(min=half) / half).log() / math.log(_FAR / half)
    return torch.where(distances < half, distances, (half + (logarithms * half).long()).clamp(max=_BUCKETS - 1))


def _angles(places: Tensor, width: int, base: float) -> Tensor:
    """(B, T) -> (B, T, width/2): place * base^(-2i/width), in float64 where there is one: far places stay exact."""
    kind = torch.float32 if places.device.type == "mps" else torch.float64
    waves = base ** (-torch.arange(0, width, 2, device=places.device, dtype=kind) / width)
    return places.to(kind).unsqueeze(-1) * waves
