"""Chooses the model class for an n-gram table, by how documents begin and by whether its scores are a distribution."""

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
    """begins: one or all. backoff_weight: that of stupid backoff; None for a distribution."""
    model = PaddedModel(NGramModel(table)) if begins == "all" else NGramModel(table)
    return model if backoff_weight is None else StupidBackoff(model, backoff_weight)


def measure_options(model: object) -> dict[str, Any]:
    """The keyword arguments that `measure` takes for a model: how to score it in one pass, its context, whether it is a
    distribution.
    """
    if isinstance(model, NGramModel | CompactNGramModel):
        return {"score_in_full": model.score_stream_in_full, "row_sums_of": model}
    if isinstance(model, HashedModel):
        return {"score_in_full": model.score_stream_in_full}
    if isinstance(model, PaddedModel | StupidBackoff):
        return {
            "score_in_full": model.score_stream_in_full,
            "context": "document" if model.begins == 1 else f"document after {model.begins} <s>",
            "is_distribution": not isinstance(model, StupidBackoff),
        }
    return {}


def why_no_table(model: object) -> str | None:
    """Why a model is more than its n-gram table, in words; None where it is not."""
    if isinstance(model, StupidBackoff):
        return "it is of stupid backoff, whose scores are no distribution; train one with another smoothing"
    return "its documents begin with several <s>" if isinstance(model, PaddedModel) else None


def settings_of_model(model: AnyNGram) -> dict[str, Any]:
    """The settings that `model_from_settings` restores the model class from; empty for an `NGramModel`."""
    if isinstance(model, StupidBackoff):
        return {**settings_of_model(model.frequencies), "backoff_weight": model.weight}
    return {"begins": "all"} if isinstance(model, PaddedModel) else {}


def model_from_settings(settings: dict[str, Any], table: Table) -> AnyNGram:
    """The model of a table and the settings saved with it. Raises ModelFormatError."""
    begins, weight = settings.get("begins", "one"), settings.get("backoff_weight")
    if begins not in ("one", "all") or not (weight is None or (isinstance(weight, float) and 0 < weight <= 1)):
        raise ModelFormatError(
            f"the n-gram settings hold begins = {begins!r} and backoff_weight = {weight!r}; expected one or all, and "
            "a number above 0 and up to 1, or none; the file is damaged, so get or train the model again"
        )
    return model_of(table, begins=begins, backoff_weight=weight)
