"""A text to validate on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray


@dataclass(frozen=True, kw_only=True)
class Validation:
    """A text to validate on. spelling: the cost of spelling its unknown tokens, which only bits per byte include."""

    stream: Int32[ndarray, " tokens"]
    bytes: int
    spelling: float = 0.0  # nats

    def bits_per_byte(self, loss: float) -> float:
        """loss: nats per token."""
        return (loss * self.stream.size + self.spelling) / math.log(2) / max(1, self.bytes)
