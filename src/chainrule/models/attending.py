"""The attention of a network while it reads a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.drawing.attention import AttentionMap, AttentionMaps
from chainrule.models.files.origin import name_before
from chainrule.protocol import BEGIN, END
from chainrule.text.tokenization.subword import Subword

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Int64
    from numpy import ndarray

    from chainrule.neural.inspection import LayerWeights
    from chainrule.text.tokenization.tokenizer import Tokenizer


def attend_text(engine: Any, tokenizer: Tokenizer, record: dict[str, Any], text: str) -> AttentionMaps:
    """Return the maps of all layers and heads of a model's parts. Raises SettingError where there are none."""
    from chainrule.neural.inspection import maps_of_text

    read, maps = maps_of_text(engine, tokenizer.encode_texts([text]).ids[:-1])
    tokens = names_of_read(tokenizer, record, read)
    return AttentionMaps(text, titled(maps, {"text": (tokens, tokens), "own past": (tokens, tokens)}))


def names_of_read(tokenizer: Tokenizer, record: dict[str, Any], read: Int64[ndarray, " T"]) -> list[str]:
    """Return the tokens that a network reads for a text, as they are shown; what it reads before the text is <s>, or
    has the name that the checkpoint's makers gave it.
    """
    splitter, names = tokenizer.splitter, tokenizer.shown(read.tolist())
    if len(read) and read[0] in (BEGIN, END):
        names[0] = (name_before(record, splitter) if isinstance(splitter, Subword) else None) or "<s>"
    return names


def titled(maps: list[LayerWeights], sides: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> list[AttentionMap]:
    """Return the maps with their titles and tokens. sides: the tokens that attend, and those attended to, by name."""
    return [
        AttentionMap(
            title=f"{layer.sides}, layer {layer.layer}",
            rows=sides[layer.sides][0],
            columns=sides[layer.sides][1],
            weights=layer.weights,
            is_reading=layer.sides == "own past",
        )
        for layer in maps
    ]
