"""Chooses the model class of an n-gram table, and converts between its two layouts, fast and compact.

The class depends on the layout, on how documents begin, and on whether the scores are a distribution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.errors import ModelFormatError, SettingError
from chainrule.ngram.config import COMPACT, FAST
from chainrule.ngram.models.table_models import CompactNGramModel, NGramModel, TrieModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chainrule.base.progress import Progress
    from chainrule.ngram.models.padded_model import PaddedModel
    from chainrule.ngram.models.sharded_model import ShardedModel
    from chainrule.ngram.models.stream_scorer import StreamScorer
    from chainrule.ngram.models.stupid_backoff import StupidBackoff
    from chainrule.ngram.trie.table import Table

    AnyNGram = NGramModel | PaddedModel | StupidBackoff
    AnyModel = StreamScorer | PaddedModel | StupidBackoff


def model_of(table: Table, *, begins: str = "one", backoff_weight: float | None = None) -> AnyNGram:
    """Return the model over a table.

    begins: one or all. backoff_weight: that of stupid backoff; None for a distribution.
    """
    return model_over(NGramModel(table), begins=begins, backoff_weight=backoff_weight)


def model_over(base: NGramModel | ShardedModel, *, begins: str = "one", backoff_weight: float | None = None) -> Any:
    """Return the model of `model_of`, over a table in one piece or in shards."""
    from chainrule.ngram.models.padded_model import PaddedModel
    from chainrule.ngram.models.stupid_backoff import StupidBackoff

    model = PaddedModel(base) if begins == "all" else base
    return model if backoff_weight is None else StupidBackoff(model, backoff_weight)


def base_of(model: Any) -> Any:
    """Return the model that `model_over` was given."""
    from chainrule.ngram.models.padded_model import PaddedModel
    from chainrule.ngram.models.stupid_backoff import StupidBackoff

    model = model.frequencies if isinstance(model, StupidBackoff) else model
    return model.base if isinstance(model, PaddedModel) else model


def measure_options(model: AnyModel) -> dict[str, Any]:
    """Return the keyword arguments that `measure` takes for a model: how to score it in one pass, its context, whether
    it is a distribution, and whether its distributions are quick to sum.
    """
    return {
        "score_in_full": model.score_stream_in_full,
        "context": "document" if model.begins == 1 else f"document after {model.begins} <s>",
        "is_distribution": model.is_distribution,
        "row_sums_of": model if isinstance(model, TrieModel) else None,
    }


def model_from_settings(settings: Mapping[str, Any], base: NGramModel | ShardedModel) -> Any:
    """Return the model over a table and the settings saved with it. Raises ModelFormatError."""
    begins, weight = settings.get("begins", "one"), settings.get("backoff_weight")
    if begins not in ("one", "all") or not (weight is None or (isinstance(weight, float) and 0 < weight <= 1)):
        raise ModelFormatError(
            f"the n-gram settings hold begins = {begins!r} and backoff_weight = {weight!r}; expected one or all, and "
            "a number above 0 and up to 1, or none; the file is damaged, so get or train the model again"
        )
    return model_over(base, begins=begins, backoff_weight=weight)


def layout_of(model: Any) -> str:
    return COMPACT if isinstance(model, CompactNGramModel) else FAST


def compact(model: Any, progress: Progress) -> CompactNGramModel:
    """Return the model in the compact layout, quantised unless it already is.

    Raises SettingError where the model is more than its table, ModelFormatError where the table is damaged,
    EstimationError where there is not enough memory.
    """
    from chainrule.ngram.compact.building import compact_table

    model = plain_table_model(model, "has no compact form")
    return model if isinstance(model, CompactNGramModel) else CompactNGramModel(compact_table(model.table, progress))


def fast(model: Any, progress: Progress) -> NGramModel:
    """Return the model in the fast layout. Raises as `compact` does."""
    from chainrule.ngram.compact.building import unpack_table

    model = plain_table_model(model, "has no compact form")
    return NGramModel(unpack_table(model.compact, progress)) if isinstance(model, CompactNGramModel) else model


def plain_table_model(model: Any, problem: str) -> Any:
    """Return the model if it is its table alone. Raises SettingError with the `problem` that any other one has."""
    from chainrule.ngram.models.padded_model import PaddedModel
    from chainrule.ngram.models.sharded_model import ShardedModel
    from chainrule.ngram.models.stupid_backoff import StupidBackoff

    if isinstance(model, ShardedModel):
        raise SettingError(f"a model in shards {problem}; take the model that was cut into shards")
    if isinstance(model, PaddedModel | StupidBackoff):
        raise SettingError(
            f"a model of stupid backoff, or of documents that begin with several <s>, {problem}; save it as a folder"
        )
    return model
