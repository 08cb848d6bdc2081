"""Which vectors of a text are wanted; free of NumPy, so that help and completion are quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from chainrule.errors import SettingError

Unit = Literal["text", "word", "token"]
Pooling = Literal["mean", "max", "first", "last"]
VectorPrecision = Literal["float32", "bfloat16"]


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig:
    """unit: what gets a vector: a text, a word, as `chainrule score --words` cuts them, or a token. layer: 0: of the
    tokens alone; from 1 on: that layer's; None: the last. pooling: how the vectors of a unit's tokens become one.
    precision: what the network computes in; bfloat16 has three digits, and half the time where the processor has it.
    Raises SettingError.

    good:  model.embed_units(["a text"], EmbeddingConfig(unit="token", layer=0))
    """

    unit: Unit = "text"
    layer: int | None = None
    pooling: Pooling = "mean"
    precision: VectorPrecision = "float32"

    def __post_init__(self) -> None:
        for name, choices in (("unit", Unit), ("pooling", Pooling), ("precision", VectorPrecision)):
            if getattr(self, name) not in get_args(choices):
                raise SettingError(f"{name} is {getattr(self, name)!r}; expected {' or '.join(get_args(choices))}")
        if not isinstance(self.layer, int | None) or isinstance(self.layer, bool):
            raise SettingError(f"layer is {self.layer!r}; expected a whole number, or None for the last")
