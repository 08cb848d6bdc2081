"""The settings of embeddings; free of NumPy, so that help and completion are quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chainrule.base.settings import check_settings, setting

Unit = Literal["text", "word", "token"]
Pooling = Literal["mean", "max", "first", "last"]
VectorPrecision = Literal["float32", "bfloat16"]


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig:
    """Raises SettingError.

    good:  model.embed_units(["a text"], EmbeddingConfig(unit="token", layer=0))
    """

    unit: Unit = setting("text", "what gets a vector: a text, a word (as split at spaces), or a token")
    layer: int | None = setting(None, "0: of the tokens alone; from 1 on: that layer's; nothing: the last")
    pooling: Pooling | None = setting(
        None,
        "how the vectors of a unit's tokens become one; nothing: their mean, or of a text as its encoder has learnt",
    )
    precision: VectorPrecision = setting(
        "float32", "what the network computes in; bfloat16 has three digits, and takes half the time where it is known"
    )

    def __post_init__(self) -> None:
        check_settings(self)
