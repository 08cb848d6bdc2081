"""Settings of networks that give vectors of texts, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chainrule.base.options import setting
from chainrule.neural.config.network import MAX_CONTEXT
from chainrule.neural.config.transformer import TransformerConfig

TextPooling = Literal["mean", "max", "first"]


@dataclass(frozen=True, kw_only=True)
class TextEncoderConfig(TransformerConfig):
    """A Transformer that sees both sides and predicts nothing: it gives vectors of texts (Reimers 2019)."""

    text_pooling: TextPooling = setting(
        "mean",
        "how the vectors of all that is read for a text become one, its markers among them; first: that of the first",
    )
    unit_length: bool = setting(False, "the vectors of texts have length 1")
    most_tokens: int | None = setting(
        None,
        "tokens that are read for the vector of a text, its markers among them; nothing: the context",
        least=3,
        below=MAX_CONTEXT,
    )
