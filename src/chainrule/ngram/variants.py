"""What stands behind the waist for an n-gram table: by how documents begin, and by whether it is a distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.errors import ModelFormatError
from chainrule.ngram.kenlm.hashed_model import HashedModel
from chainrule.ngram.models.compact_model import CompactNGramModel
from chainrule.ngram.models.ngram_model import NGramModel
from chainrule.ngram.models.padded_model import PaddedModel
from chainrule.ngram.models.stupid_backoff import StupidBackoff

if TYPE_CHECKING:
    from chainrule.ngram.trie.table import Table

    AnyNGram = NGramModel | PaddedModel | StupidBackoff


def model_of(table: Table, *, begins: str = "one", backoff_weight: float | None = None) -> AnyNGram:
    """begins: one or all. backoff_weight: of stupid backoff, whose scores are no distribution."""
    model = PaddedModel(NGramModel(table)) if begins == "all" else NGramModel(table)
    return model if backoff_weight is None else StupidBackoff(model, backoff_weight)


def measured_as(model: object) -> dict[str, Any]:
    """What measuring should know of a model: how long its matches are, what a document begins with, what it is."""
    if isinstance(model, NGramModel | CompactNGramModel):
        return {"in_full": model.score_stream_in_full, "with_rows": model}
    if isinstance(model, HashedModel):
        return {"in_full": model.score_stream_in_full}
    if isinstance(model, PaddedModel | StupidBackoff):
        return {
            "in_full": model.score_stream_in_full,
            "context": "document" if model.begins == 1 else f"document after {model.begins} <s>",
            "is_distribution": not isinstance(model, StupidBackoff),
        }
    return {}


def kind_of(model: AnyNGram) -> dict[str, Any]:
    """The settings that `model_from` takes; nothing where all is as usual."""
    if isinstance(model, StupidBackoff):
        return {**kind_of(model.frequencies), "backoff_weight": model.weight}
    return {"begins": "all"} if isinstance(model, PaddedModel) else {}


def model_from(settings: dict[str, Any], table: Table) -> AnyNGram:
    """Raises ModelFormatError."""
    begins, weight = settings.get("begins", "one"), settings.get("backoff_weight")
    if begins not in ("one", "all") or not (weight is None or (isinstance(weight, float) and 0 < weight <= 1)):
        raise ModelFormatError(
            f"the n-gram settings hold begins = {begins!r} and backoff_weight = {weight!r}; expected one or all, and "
            "a number above 0 and up to 1, or none"
        )
    return model_of(table, begins=begins, backoff_weight=weight)
