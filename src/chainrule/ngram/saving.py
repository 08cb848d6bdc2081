"""An n-gram model as settings and arrays, for a model folder, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.errors import ModelFormatError
from chainrule.ngram.compact.table import CompactTable
from chainrule.ngram.config import COMPACT, FAST, MAX_ORDER, SHARDS
from chainrule.ngram.model_class import base_of, model_from_settings
from chainrule.ngram.models.compact_model import CompactNGramModel
from chainrule.ngram.models.ngram_model import NGramModel
from chainrule.ngram.models.sharded_model import ShardedModel
from chainrule.ngram.shards.cutting import sharded_from_arrays, sharded_settings
from chainrule.ngram.trie.table import Table

if TYPE_CHECKING:
    from numpy import ndarray

    from chainrule.ngram.model_class import AnyNGram


def take_apart(model: AnyNGram | CompactNGramModel | ShardedModel) -> tuple[dict[str, Any], dict[str, ndarray]]:
    """The settings and the arrays of a model."""
    base = base_of(model)
    if isinstance(base, ShardedModel):
        settings, arrays = sharded_settings(base)
        return {**settings, **model.settings}, arrays
    if isinstance(model, CompactNGramModel):
        table = model.compact
        settings = {"ngrams": list(table.level_sizes), "layout": COMPACT, "run_bits": list(table.run_bits)}
        return settings, table.arrays()
    return {"ngrams": list(base.table.level_sizes), **model.settings}, base.table.arrays()


def put_together(
    settings: dict[str, Any], arrays: dict[str, ndarray], vocabulary_size: int
) -> AnyNGram | CompactNGramModel | ShardedModel:
    """The model of settings and arrays. Raises ModelFormatError."""
    sizes = settings.get("ngrams")
    if (
        not isinstance(sizes, list)
        or not 1 <= len(sizes) <= MAX_ORDER
        or not all(type(size) is int and size >= 0 for size in sizes)
    ):
        raise ModelFormatError(
            f"the n-gram settings hold ngrams = {sizes!r}; expected the number of n-grams of each order, at most "
            f"{MAX_ORDER} orders"
        )
    if sizes[0] != vocabulary_size:
        raise ModelFormatError(
            f"the n-gram table has {sizes[0]} unigrams and the vocabulary {vocabulary_size} tokens; they must agree"
        )
    layout = settings.get("layout", FAST)
    if layout == COMPACT:
        return CompactNGramModel(CompactTable.from_arrays(sizes, settings.get("run_bits"), arrays))
    if layout == SHARDS:
        return model_from_settings(settings, sharded_from_arrays(settings, arrays, vocabulary_size))
    if layout != FAST:
        raise ModelFormatError(
            f"the n-gram settings hold layout = {layout!r}; this version knows {FAST!r}, {COMPACT!r} and {SHARDS!r}"
        )
    return model_from_settings(settings, NGramModel(Table.from_arrays(sizes, arrays)))
