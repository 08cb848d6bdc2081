"""Chooses the kind of a model by its family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.api.models.causal_model import CausalModel, CausalNetwork
from chainrule.api.models.classifier_model import ClassifierModel
from chainrule.api.models.embedding_model import EmbeddingModel
from chainrule.api.models.masked_model import MaskedModel
from chainrule.families.table import FAMILIES

if TYPE_CHECKING:
    from chainrule.api.models.model import Model
    from chainrule.ngram.speller import MixedSpeller, Speller
    from chainrule.storage.safetensors import MappedFile
    from chainrule.text.tokenization.tokenizer import Tokenizer


def build_model(
    family: str,
    engine: Any,
    tokenizer: Tokenizer,
    record: dict[str, Any] | None = None,
    speller: Speller | MixedSpeller | None = None,
    *,
    mapped: MappedFile | None = None,
) -> Model:
    """A model of a family, as the kind that its family is. The arguments are those of `Model`."""
    return kind_of(family)(family, engine, tokenizer, record, speller, mapped=mapped)


def kind_of(family: str) -> type[Model]:
    """What the models of a family can do."""
    match FAMILIES[family].job:
        case "continue":
            return CausalNetwork if FAMILIES[family].embeds else CausalModel
        case "fill":
            return MaskedModel
        case "embed":
            return EmbeddingModel
        case "classify":
            return ClassifierModel
