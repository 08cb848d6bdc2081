"""An n-gram model, whole or in shards, as settings and arrays for a model folder, and back.

A shard holds the n-grams that begin with a range of words. Tables are cut into shards and put together again.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import ModelFormatError, SettingError
from chainrule.ngram.config import COMPACT, FAST, MAX_ORDER, SHARDS
from chainrule.ngram.layouts import base_of, model_from_settings
from chainrule.ngram.models.table_models import CompactNGramModel, NGramModel
from chainrule.ngram.trie.table import NODE, Records, Table, context_type, narrowest, table_from_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.ngram.layouts import AnyNGram
    from chainrule.ngram.models.sharded_model import ShardedModel

MAX_SHARDS = 10_000
TASK = "cutting into shards"


def shard_model(model: Any, shards: int, progress: Progress) -> Any:
    """Return the model in shards of about as many n-grams, fewer where the vocabulary is small. Raises SettingError."""
    from chainrule.ngram.models.sharded_model import ShardedModel

    check_shards(shards)
    base = base_of(model)
    if isinstance(base, ShardedModel):
        raise SettingError(
            "the model is in shards already; for another number, train it again or cut the model that it was cut from"
        )
    if not isinstance(base, NGramModel):
        why = getattr(base, "why_no_table", None) or "it is compact"
        raise SettingError(f"only a plain n-gram model can be cut into shards; this one is not: {why}")
    table = base.table
    edges = edges_of(table.vocabulary_size, shards, lambda word: sum(b - a for a, b in _spans(table, 0, word)))
    tables: list[Table] = []
    for first, last in itertools.pairwise(edges):
        progress(TASK, len(tables), len(edges) - 1)
        tables.append(shard_of(table, first, last))
    progress(TASK, len(tables), len(tables))
    return model_from_settings(model.settings, ShardedModel(tables, edges))


def check_shards(shards: int) -> None:
    """Raise SettingError where a model cannot have so many shards."""
    if not isinstance(shards, int) or isinstance(shards, bool) or not 1 <= shards <= MAX_SHARDS:
        raise SettingError(f"shards is {shards!r}; expected a whole number from 1 to {MAX_SHARDS:,}")


def shard_of(table: Table, first: int, last: int) -> Table:
    """Return the table of all unigrams, and of the longer n-grams with the first words first .. last."""
    spans = _spans(table, first, last)
    sizes = (table.vocabulary_size, *(stop - start for start, stop in spans))
    index = narrowest(1 + sum(sizes))
    nodes = np.empty(1 + sum(sizes), NODE)
    contexts = np.zeros(1 + sum(sizes) - sizes[-1] + 1, context_type(index))
    unigrams = 1 + table.vocabulary_size
    at = 0
    for order, (start, stop) in enumerate([(0, unigrams), *spans], start=1):
        own = slice(at, at + stop - start)
        nodes[own] = table.nodes[start:stop]
        if order < table.order:
            low, high = spans[order - 1]
            following = np.clip(table.begin[start:stop].astype(np.int64), low, high) - low
            contexts["begin"][own] = own.stop + following
            contexts["log_backoff"][own] = table.log_backoffs[start:stop]
        at = own.stop
    contexts["begin"][0], contexts["begin"][-1] = 1, nodes.size
    if table.order == 1:
        contexts["log_backoff"][0] = table.log_backoffs[0]
    return table_from_records(sizes, Records(nodes, contexts), None)


def sharded_settings(model: ShardedModel) -> tuple[dict[str, Any], dict[str, ndarray]]:
    """Return settings and arrays for a model folder, where each shard has a separate file."""
    arrays = {
        f"{file_of(k)}/{name}": array for k, shard in enumerate(model.shards) for name, array in shard.arrays().items()
    }
    sizes = [list(shard.level_sizes) for shard in model.shards]
    return {"ngrams": list(model.level_sizes), "layout": SHARDS, "edges": model.edges, "shards": sizes}, arrays


def sharded_from_arrays(settings: dict[str, Any], arrays: dict[str, ndarray], vocabulary_size: int) -> ShardedModel:
    """Return the model of settings and arrays; reads nothing of the shards. Raises ModelFormatError."""
    from chainrule.ngram.models.sharded_model import ShardedModel

    edges, sizes = index_of(settings)
    if edges[-1] != vocabulary_size:
        raise ModelFormatError(f"the shards are of {edges[-1]:,} words and the vocabulary has {vocabulary_size:,}")
    return ShardedModel([table_of_shard(k, own, arrays) for k, own in enumerate(sizes)], edges)


def index_of(settings: dict[str, Any]) -> tuple[list[int], list[list[int]]]:
    """Return the first words of shards, and the n-grams of each order in each shard. Raises ModelFormatError."""
    from chainrule.ngram.models.sharded_model import NODE_BITS

    edges, sizes, ngrams = settings.get("edges"), settings.get("shards"), settings.get("ngrams")
    if not (
        isinstance(edges, list)
        and isinstance(sizes, list)
        and isinstance(ngrams, list)
        and 1 <= len(sizes) == len(edges) - 1 <= MAX_SHARDS
        and all(type(edge) is int for edge in edges)
        and edges[0] == 0
        and edges == sorted(set(edges))
        and all(isinstance(own, list) and len(own) == len(ngrams) and own[0] == edges[-1] for own in sizes)
        and all(type(size) is int and 0 <= size < 1 << NODE_BITS for own in sizes for size in own)
    ):
        raise ModelFormatError(
            "the n-gram settings do not say which words each shard begins with, and how many n-grams it has; the file "
            "is damaged"
        )
    return edges, sizes


def table_of_shard(k: int, sizes: list[int], arrays: dict[str, ndarray]) -> Table:
    """Return the table of a shard with this many n-grams of each order.

    arrays: those of all shards. Raises ModelFormatError.
    """
    prefix = f"{file_of(k)}/"
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    try:
        return Table.from_arrays(sizes, own)
    except ModelFormatError as error:
        raise ModelFormatError(f"shard {k}: {error}") from error


def file_of(k: int) -> str:
    """Return the prefix of the names of a shard's file and arrays."""
    return f"shard-{k:05d}"


def _spans(table: Table, first: int, last: int) -> list[tuple[int, int]]:
    """Return, by order from 2, the nodes of the n-grams with the first words first .. last."""
    spans, low, high = [], 1 + first, 1 + last
    for _ in range(2, table.order + 1):
        low, high = int(table.begin[low]), int(table.begin[high])
        spans.append((low, high))
    return spans


def edges_of(vocabulary_size: int, shards: int, ngrams_before: Callable[[int], int]) -> list[int]:
    """Cut the vocabulary into ranges of first words with about as many n-grams each.

    ngrams_before: how many n-grams, from bigrams on, begin with a word below some id.
    """
    edges = [0]
    total = ngrams_before(vocabulary_size)
    for k in range(1, shards):
        low, high = edges[-1], vocabulary_size
        while low < high:  # the first word at which enough n-grams came before
            middle = (low + high) // 2
            if ngrams_before(middle) * shards < k * total:
                low = middle + 1
            else:
                high = middle
        edges.append(low)
    return sorted({*edges, vocabulary_size})


def to_state(model: AnyNGram | CompactNGramModel | ShardedModel) -> tuple[dict[str, Any], dict[str, ndarray]]:
    """Return the settings and the arrays of a model."""
    from chainrule.ngram.models.sharded_model import ShardedModel

    base = base_of(model)
    if isinstance(base, ShardedModel):
        settings, arrays = sharded_settings(base)
        return {**settings, **model.settings}, arrays
    if isinstance(model, CompactNGramModel):
        table = model.compact
        settings = {"ngrams": list(table.level_sizes), "layout": COMPACT, "run_bits": list(table.run_bits)}
        return settings, table.arrays()
    return {"ngrams": list(base.table.level_sizes), **model.settings}, base.table.arrays()


def from_state(
    settings: dict[str, Any], arrays: dict[str, ndarray], vocabulary_size: int
) -> AnyNGram | CompactNGramModel | ShardedModel:
    """Return the model of settings and arrays. Raises ModelFormatError."""
    from chainrule.ngram.compact.table import CompactTable

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
