"""Which vectors of a text are wanted; free of NumPy, so that help and completion are quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["text", "word", "token"]
Pooling = Literal["mean", "max", "first", "last"]
VectorPrecision = Literal["float32", "bfloat16"]


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig:
    """unit: what gets a vector: a text, a word, as `chainrule score --words` cuts them, or a token. layer: 0: of the
    tokens alone; from 1 on: that layer's; None: the last. pooling: how the vectors of a unit's tokens become one.
    precision: what the network computes in; bfloat16 has three digits, and half the time where the processor has it.
    """

    unit: Unit = "text"
    layer: int | None = None
    pooling: Pooling = "mean"
    precision: VectorPrecision = "float32"
