"""What a model is made of, for the functions that `Model` calls and that do not know it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from chainrule.ngram.speller import MixedSpeller, Speller
    from chainrule.text.tokenization.tokenizer import Tokenizer


class ModelParts(NamedTuple):
    """The parts of a `Model`. engine: what the family trains, mostly a LanguageModel."""

    family: str
    engine: Any
    tokenizer: Tokenizer
    speller: Speller | MixedSpeller
    record: dict[str, Any]
