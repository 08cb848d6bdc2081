"""Position encodings of Transformers: learned and sinusoidal vectors, rotations, and biases by distance.

Positions count from 0 in each row (or document). `TransformerConfig.is_translation_invariant` says which encodings
depend on distances alone. `position_vectors` gives them for drawing.
Legend: B batch, T time or queries, S keys, D width, H heads, d width of a head.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from chainrule.errors import SettingError
from chainrule.neural.config import TransformerConfig

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Int64
    from numpy import ndarray

    from chainrule.neural.network import Network

_BUCKETS, _FAR = 32, 128  # Raffel et al. 2020: half of the buckets hold one distance each, the last one 128 and more


class Learned(nn.Module):
    """A learned vector for each position, added to that of the token (Gehring et al. 2017)."""

    def __init__(self, context: int, width: int, offset: int = 0) -> None:
        """Build a vector for each position. offset: the row of the first position."""
        super().__init__()
        self.offset = offset
        self.vectors = nn.Parameter(torch.empty(offset + context, width))
        nn.init.normal_(self.vectors, std=0.02)

    def forward(self, positions: Int64[Tensor, "#B T"]) -> Float[Tensor, "#B T D"]:
        """Return the vector of each position."""
        return self.vectors[positions + self.offset if self.offset else positions]


class Sinusoidal(nn.Module):
    """Vaswani et al. 2017, section 3.5: p_2i = sin(position / 10000^(2i/D)), p_2i+1 = cos(position / 10000^(2i/D))."""

    def __init__(self, width: int, *, interleaved: bool = True, inclusive: bool = False, offset: int = 0) -> None:
        """Store the settings.

        interleaved: whether sines and cosines take turns, as in the paper; otherwise all sines come first. inclusive:
        whether the last wave is 10,000 times as long as the first, as in tensor2tensor; in the paper, that would be the
        wave after the last. offset: the number of the first position.
        """
        super().__init__()
        self.width, self.interleaved, self.inclusive, self.offset = width, interleaved, inclusive, offset

    def forward(self, positions: Int64[Tensor, "#B T"]) -> Float32[Tensor, "#B T D"]:
        """Return the vector of each position."""
        even = (self.width + 1) // 2 * 2
        base = 10_000.0 ** (even / max(even - 2, 1)) if self.inclusive else 10_000.0
        waves = _waves(positions.device, even, base)
        angles = (positions + self.offset).to(waves.dtype).unsqueeze(-1) * waves  # (B, T, D/2)
        sines_and_cosines = torch.stack((angles.sin(), angles.cos()), -1 if self.interleaved else -2)
        return sines_and_cosines.flatten(-2)[..., : self.width].float()


class Rotation(NamedTuple):
    """The cosines and sines of the angles by which queries and keys are rotated."""

    cos: Float[Tensor, "#B T 1 d/2"]
    sin: Float[Tensor, "#B T 1 d/2"]

    def in_type(self, dtype: torch.dtype) -> Rotation:
        """Return the rotation of vectors of a type."""
        return Rotation(self.cos.to(dtype), self.sin.to(dtype))


class AngleScaling(Protocol):
    """How angles are changed for contexts longer than those of training."""

    def __call__(self, frequencies: Float[Tensor, " waves"]) -> Float[Tensor, " waves"]:
        """Scale angles, in radians a position."""


class Rotary(nn.Module):
    """Su et al. 2021: the pair of elements i and i + d/2 of a head is rotated by position * base^(-2i/d)."""

    def __init__(
        self,
        width: int,
        base: float,
        scaling: AngleScaling | None = None,
        amplitude: float = 1.0,
    ) -> None:
        """Store the settings.

        width: d, the width of a head, or of its part that is rotated. amplitude: a factor of what is rotated.
        """
        super().__init__()
        self.width, self.base, self.scaling, self.amplitude = width, base, scaling, amplitude
        self.waves: Tensor | None = None  # radians a position, of a device; kept, since each step needs them

    def forward(self, positions: Int64[Tensor, "#B T"], like: Tensor) -> Rotation:
        """Return the rotation of each position, in the type of `like`."""
        waves = self.waves
        if waves is None or waves.device != positions.device:
            waves = _waves(positions.device, self.width, self.base, self.scaling)
            self.waves = None if torch.compiler.is_compiling() else waves
        angles = (positions.to(waves.dtype).unsqueeze(-1) * waves).unsqueeze(2)  # (B, T, 1, d/2)
        cos, sin = angles.cos(), angles.sin()
        if self.amplitude != 1:
            cos, sin = cos * self.amplitude, sin * self.amplitude
        return Rotation(cos.to(like.dtype), sin.to(like.dtype))


def rotate(x: Float[Tensor, "B T H d"], rotation: Rotation) -> Float[Tensor, "B T H d"]:
    """Return queries or keys, each rotated by its position; where there are fewer angles than pairs, the first
    elements.
    """
    half = rotation.cos.shape[-1]
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    rotated = (a * rotation.cos - b * rotation.sin, b * rotation.cos + a * rotation.sin)
    return torch.cat((*rotated, rest) if rest.shape[-1] else rotated, -1)


class ALiBi(nn.Module):
    """Press et al. 2022, section 3: each head has a slope, and adds minus the slope times the distance."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, distances: Int64[Tensor, "T S"]) -> Float[Tensor, "H T S"]:
        """Return the biases to add to the scores. distances: from each key to each query, in positions."""
        slopes = torch.tensor(alibi_slopes(self.heads), device=distances.device)
        return -slopes[:, None, None] * distances.clamp(min=0)


def alibi_slopes(heads: int) -> list[float]:
    """Return 2^(-8/n), 2^(-16/n), .. 2^(-8) for n heads, if n is a power of 2; otherwise the slopes of the next lower
    power of 2, and then every other slope of the next higher one.
    """
    below = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * i / below) for i in range(1, below + 1)]
    return slopes + [2.0 ** (-4 * i / below) for i in range(1, 2 * (heads - below), 2)]


class Relative(nn.Module):
    """Raffel et al. 2020 (T5), section 2.1: a learned bias for each head and bucket of distances, shared by layers."""

    def __init__(self, heads: int, *, two_sided: bool = False) -> None:
        """Build a bias for each head and bucket. two_sided: whether keys after a query have separate buckets."""
        super().__init__()
        self.numbers, self.two_sided = nn.Parameter(torch.zeros(_BUCKETS, heads)), two_sided

    def forward(self, distances: Int64[Tensor, "T S"]) -> Float[Tensor, "H T S"]:
        """Return the biases to add to the scores.

        distances: from each key to each query, in positions; negative where the key comes later.
        """
        buckets = two_sided_buckets(distances) if self.two_sided else distance_buckets(distances)
        return self.numbers[buckets].float().permute(2, 0, 1)


def distance_buckets(distances: Int64[Tensor, "*shape"], buckets: int = _BUCKETS) -> Int64[Tensor, "*shape"]:
    """Return the buckets of distances: of 32, one each for 0 to 15, then 16 that grow logarithmically up to 128."""
    half = buckets // 2
    distances = distances.clamp(min=0)
    logarithms = (distances.clamp(min=half) / half).log() / math.log(_FAR / half)
    return torch.where(distances < half, distances, (half + (logarithms * half).long()).clamp(max=buckets - 1))


def two_sided_buckets(distances: Int64[Tensor, "*shape"]) -> Int64[Tensor, "*shape"]:
    """Return 16 buckets for 0 and more, then 16 for distances below 0."""
    half = _BUCKETS // 2
    return distance_buckets(distances.abs(), half) + half * (distances < 0)


def _waves(
    device: torch.device, width: int, base: float, scaling: AngleScaling | None = None
) -> Float[Tensor, " width/2"]:
    """Return base^(-2i/width), in float64 where the device has it, so that large positions stay exact."""
    kind = torch.float32 if device.type == "mps" else torch.float64
    waves = base ** (-torch.arange(0, width, 2, device=device, dtype=kind) / width)
    return waves if scaling is None else scaling(waves)


@torch.inference_mode()
def position_vectors(network: Network) -> Float32[ndarray, "T D"]:
    """Return the vector of each position of the context, for drawing; with rotary positions, that of ones after its
    rotation.

    Raises SettingError if the network has no such vectors.
    """
    config = network.config
    if not isinstance(config, TransformerConfig):
        raise SettingError("this network has no position encoding; expected a Transformer")
    positions = torch.arange(config.context)[None]
    if config.positions == "sinusoidal":
        return Sinusoidal(config.width)(positions)[0].numpy()
    if config.positions == "rotary":
        ones = torch.ones(1, config.context, 1, config.rotated_width)
        rotation = Rotary(config.rotated_width, config.rotary_base)(positions, ones)
        return rotate(ones, rotation)[0, :, 0].numpy()
    learned = next((module for module in network.modules() if isinstance(module, Learned)), None)
    if learned is None:
        raise SettingError(
            f"{config.positions} positions have no vectors to draw; expected learned, sinusoidal or rotary ones"
        )
    return learned.vectors[learned.offset : learned.offset + config.context].float().cpu().numpy()


def sinusoids_2d(width: int, height: int, across: int) -> Float[Tensor, "width height across"]:
    """Return sines and cosines of the row, then of the column (Beyer et al. 2022, section 2)."""
    quarter = width // 4
    rates = 1e4 ** -(torch.arange(quarter) / max(1, quarter - 1))
    rows, columns = (rates[:, None] * torch.arange(count) for count in (height, across))
    table = torch.zeros(width, height, across)
    table[: 2 * quarter] = torch.cat((rows.sin(), rows.cos()))[:, :, None]
    table[2 * quarter : 4 * quarter] = torch.cat((columns.sin(), columns.cos()))[:, None]
    return table
