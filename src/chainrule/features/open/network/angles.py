"""How the angles of rotary positions are scaled for contexts longer than those of training."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float

    from chainrule.features.open.network.config import OpenSettings


class Scaling(NamedTuple):
    """How much smaller the angles of a longer context are, so that they stay within the range seen in training.

    Waves longer than `above`, in positions, are slowed down by the factor, those shorter than `below` stay unchanged,
    and between the two the share is linear in 1 / wave: Llama 3 (Grattafiori et al. 2024). Where both are 0, all are
    slowed down: position interpolation (Chen et al. 2023).
    """

    factor: float
    above: float = 0.0
    below: float = 0.0

    def __call__(self, frequencies: Float[Tensor, " waves"]) -> Float[Tensor, " waves"]:
        """Scale angles, in radians a position."""
        if not self.above:
            return frequencies / self.factor
        turns = frequencies / (2 * math.pi)  # a position: 1 / wave
        share = ((turns - 1 / self.above) / (1 / self.below - 1 / self.above)).clamp(0, 1)
        return frequencies * (share + (1 - share) / self.factor)


class Yarn(NamedTuple):
    """YaRN (Peng et al. 2023, section 3.2): angles are slowed down by the factor, but for the first pairs of a head,
    those below `first`; from there to `last` the share that is slowed down grows evenly.
    """

    factor: float
    first: float
    last: float

    def __call__(self, frequencies: Float[Tensor, " waves"]) -> Float[Tensor, " waves"]:
        """Scale angles, as `Scaling` does."""
        pairs = torch.arange(len(frequencies), device=frequencies.device, dtype=frequencies.dtype)
        share = ((pairs - self.first) / max(self.last - self.first, 1e-3)).clamp(0, 1)
        return frequencies * (1 - share) + frequencies / self.factor * share

    @classmethod
    def between(
        cls, factor: float, low: float, high: float, context: int, width: int, base: float, *, whole: bool
    ) -> Yarn:
        """Return the scaling of pairs by how often their waves turn.

        low, high: how often waves turn in the trained context that are slowed down by the whole factor, and not. whole:
        whether `first` and `last` are rounded to whole pairs.
        """

        def pair(turns: float) -> float:
            return width * math.log(context / (2 * math.pi * turns)) / (2 * math.log(base))

        first, last = pair(high), pair(low)
        if whole:
            first, last = math.floor(first), math.ceil(last)
        return cls(factor, max(first, 0), min(last, width - 1))


class Turning(NamedTuple):
    """Only the first pairs of a head turn (Gemma 4, Google 2026)."""

    pairs: int

    def __call__(self, frequencies: Float[Tensor, " waves"]) -> Float[Tensor, " waves"]:
        """Scale angles, as `Scaling` does."""
        return frequencies * (torch.arange(len(frequencies), device=frequencies.device) < self.pairs)


class Divisors(NamedTuple):
    """LongRoPE (Ding et al. 2024): each angle has a separate divisor."""

    numbers: tuple[float, ...]

    def __call__(self, frequencies: Float[Tensor, " waves"]) -> Float[Tensor, " waves"]:
        """Scale angles, as `Scaling` does."""
        return frequencies / torch.tensor(self.numbers, device=frequencies.device, dtype=frequencies.dtype)


def scaling_of(config: OpenSettings) -> Scaling | Yarn | Divisors | Turning | None:
    """Return how the angles of rotary positions are scaled; None if they are not."""
    context = config.rotary_trained_context
    if config.rotary_turning is not None:
        return Turning(config.rotary_turning)
    if config.rotary_scaling == "none":
        return None
    if config.rotary_scaling == "linear":
        return Scaling(config.rotary_factor)
    if config.rotary_scaling == "longrope":
        is_long = not config.changes_rotation and context < config.context
        return Divisors(config.rotary_long_divisors if is_long else config.rotary_divisors)
    if config.rotary_scaling == "yarn":
        ramp = config.rotary_low_factor, config.rotary_high_factor
        width, base = config.rotated_width, config.rotary_base
        return Yarn.between(config.rotary_factor, *ramp, context, width, base, whole=config.rotary_whole_pairs)
    return Scaling(config.rotary_factor, context / config.rotary_low_factor, context / config.rotary_high_factor)
