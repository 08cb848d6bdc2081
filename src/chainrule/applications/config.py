"""Settings of embeddings, of chat and of channels of errors; imports no NumPy, so that help is quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chainrule.base.options import check_settings, option
from chainrule.decoding.config import SamplingConfig

Unit = Literal["text", "word", "token"]
Pooling = Literal["mean", "max", "first", "last"]
VectorPrecision = Literal["float32", "bfloat16"]
ReadyChannel = Literal["english", "keyboard", "ocr"]
CHANNELS: tuple[ReadyChannel, ...] = ("english", "keyboard", "ocr")
ENGLISH = CHANNELS[0]


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig:
    """What is embedded, and how. Raises SettingError.

    good:  model.embed_units(["a text"], EmbeddingConfig(unit="token", layer=0))
    """

    unit: Unit = option("text", "what gets a vector: a text, a word (as split at spaces), or a token")
    layer: int | None = option(None, "0: the token embeddings; from 1 on: that layer's output; nothing: the last layer")
    pooling: Pooling | None = option(
        None,
        "how to combine the vectors of a unit's tokens; nothing: their mean, or as a sentence encoder was trained",
    )
    precision: VectorPrecision = option(
        "float32",
        "in which the network computes; bfloat16 has three digits, and is twice as fast where it is supported",
    )

    def __post_init__(self) -> None:
        check_settings(self)


CHAT_SAMPLING = SamplingConfig(temperature=0.7, top_p=0.9)
