"""Settings of embeddings and of chat; imports no NumPy, so that help is quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chainrule.base.options import check_settings, option
from chainrule.decoding.config import SamplingConfig
from chainrule.errors import SettingError

Unit = Literal["text", "word", "token"]
Pooling = Literal["mean", "max", "first", "last"]
VectorPrecision = Literal["float32", "bfloat16"]


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig:
    """What is embedded, and how. Raises SettingError.

    good:  model.embed_units(["a text"], EmbeddingConfig(unit="token", layer=0))
    """

    unit: Unit = option("text", "what gets a vector: a text, a word (as split at spaces), or a token", flag=None)
    layer: int | None = option(
        None, "0: token vectors without context; 1, 2, ...: the output of that layer. By default the last"
    )
    pooling: Pooling | None = option(
        None, "how to combine the vectors of several tokens; by default their mean, or a sentence encoder's own"
    )
    prompt: str | None = option(None, "a text to put before each text, as a sentence encoder was trained: query: ")
    prompt_name: str | None = option(None, "one of the prompts in the model's files, such as query or document")
    dimensions: int | None = option(
        None, "keep the first numbers of a sentence encoder's vectors (Matryoshka embeddings)", least=1
    )
    precision: VectorPrecision = option(
        "float32", "bfloat16 keeps three digits and takes half the time on processors that support it"
    )

    def __post_init__(self) -> None:
        check_settings(self)
        of_texts = [name for name in ("prompt", "prompt_name", "dimensions") if getattr(self, name) is not None]
        if of_texts and (self.unit != "text" or self.pooling is not None):
            raise SettingError(
                f"{of_texts[0]} is for the vectors of whole texts by a sentence encoder; leave it out, or pooling and "
                "units of words and tokens"
            )
        if self.prompt is not None and self.prompt_name is not None:
            raise SettingError("prompt and prompt_name both say what to put before a text; leave one out")


CHAT_SAMPLING = SamplingConfig(temperature=0.7, top_p=0.9)
