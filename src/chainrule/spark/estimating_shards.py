"""Estimates a model in shards on Spark's workers: the driver holds the vocabulary, and no n-grams.

    suffixes     ranges of first words tell each other how many of their n-grams end in which of theirs
    discounts    the driver adds up counts of counts, and estimates the unigrams
    orders       one after the other: each range estimates its n-grams, and sends their probabilities to the ranges
                 whose longer n-grams end in them
    shards       ranges are cut and joined where a model in shards is cut; their arrays come to the driver's disk

All but the second are shuffles; `range_estimates.py` has their tasks.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from contextlib import ExitStack
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.scratch import array_on_disk, release_pages
from chainrule.errors import TextError
from chainrule.ngram.estimation.by_level import LARGEST_TALLIED, discounts_of, estimate_unigrams
from chainrule.ngram.estimation.discounts import tally
from chainrule.ngram.layouts import model_over
from chainrule.ngram.models.sharded_model import ShardedModel
from chainrule.ngram.saving import EstimatedLevel, Piece, edges_of, shard_of_pieces
from chainrule.ngram.training import record_of_estimates
from chainrule.ngram.trie.table import Table
from chainrule.spark.chunks import CHUNKS, gather_chunks
from chainrule.spark.messages import MESSAGES, SORTED_BY, messages_of
from chainrule.spark.packing import unpack
from chainrule.spark.range_estimates import (
    RangeSummary,
    adjust_counts,
    build_shards,
    cut_estimates,
    estimate_order,
    send_suffixes,
)
from chainrule.spark.rows import rows_at_driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float32, Int64
    from numpy import ndarray
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame

    from chainrule.base.progress import Progress
    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.layouts import AnyNGram
    from chainrule.spark.messages import Message

TASK = "estimating on Spark"
_NGRAM_BYTES = 24  # of a model, with its index


def estimate_shards(
    runs: DataFrame,
    config: NGramConfig,
    bounds: Sequence[int],
    partitions: int,
    shards: int,
    name: str,
    progress: Progress,
) -> tuple[AnyNGram | ShardedModel, dict[str, Any]]:
    """The model of counted runs, whose shards lie on this machine's disk, and the record of its estimation.

    runs: rows of PARTS, of ranges of words with these bounds. config: of a smoothing that `check_by_level` accepts, and
    of order 2 or more. name: of the text, for messages. Raises TextError, EstimationError.
    """
    steps = config.order + 1
    with ExitStack() as stack:

        def exchange(rows: DataFrame, work: Callable[..., Iterator[RecordBatch]]) -> DataFrame:
            return _computed(_delivered(rows, partitions).mapInArrow(work, MESSAGES), stack)

        progress(TASK, 0, steps)
        sent = runs.repartition(partitions, "part").sortWithinPartitions("part")
        sent = sent.mapInArrow(partial(send_suffixes, config=config, bounds=bounds), MESSAGES)
        adjusted = exchange(sent, partial(adjust_counts, config=config, bounds=bounds))
        summary = _summary(adjusted, config, bounds, name)
        discounts = [discounts_of(config, order, n) for order, n in enumerate(summary.counts_of_counts, start=1)]
        unigrams = estimate_unigrams(config, summary.counts, summary.adjusted, discounts[0])
        estimated: list[DataFrame] = []
        for order in range(2, config.order + 1):
            progress(TASK, order - 1, steps)
            rows = adjusted.where(f"level = {order}")
            if estimated:
                rows = rows.union(estimated[-1].where(f"level = {order}"))
            work = partial(estimate_order, config=config, discounts=discounts[order - 1], unigrams=unigrams.probs)
            estimated.append(exchange(rows, work))
        progress(TASK, config.order, steps)
        log_backoffs = _log_backoffs(estimated[0], bounds)
        edges = edges_of(bounds[-1], shards, lambda word: int(summary.ngrams_before[word]))
        all_rows = reduce(lambda one, other: one.union(other), [adjusted.where("kind = 'counts'"), *estimated])
        work = partial(cut_estimates, config=config, bounds=bounds, edges=edges)
        kept = _delivered(all_rows.where("kind in ('counts', 'estimates')"), partitions)
        pieces = _delivered(kept.mapInArrow(work, MESSAGES), len(edges) - 1)
        work = partial(build_shards, log_probs=unigrams.log_probs, log_backoffs=log_backoffs)
        size = _NGRAM_BYTES * (int(summary.ngrams_before[-1]) + len(edges) * bounds[-1])

        def on_chunk(done: int) -> None:
            release_pages()
            progress(TASK, config.order + min(done / size, 1), steps)

        tables = _tables(pieces.mapInArrow(work, CHUNKS), size, on_chunk)
    for k, (first, stop) in enumerate(itertools.pairwise(edges)):
        if k not in tables:  # of words that begin nothing
            levels = _empty_levels(stop - first, config.order)
            tables[k] = shard_of_pieces([Piece(first, levels)], unigrams.log_probs, log_backoffs)
    model = ShardedModel([tables[k] for k in range(len(edges) - 1)], edges)
    progress(TASK, steps, steps)
    impossible = int(np.count_nonzero((summary.counts > 0) & np.isneginf(unigrams.log_probs)))
    estimated_discounts = [values for values in discounts if values is not None]
    record = record_of_estimates(model.level_sizes, summary.level_sizes, estimated_discounts, impossible)
    weight = config.backoff_weight if config.smoothing == "stupid-backoff" else None
    return model_over(model, begins=config.begins, backoff_weight=weight), record


class _Summary(NamedTuple):
    """What is known of all ranges together. counts_of_counts: by order from 1, of the counts 1, 2, ..."""

    counts: Int64[ndarray, " V"]
    adjusted: Int64[ndarray, " V"]
    ngrams_before: Int64[ndarray, " V+1"]  # how many n-grams that are kept begin with a word below each id
    level_sizes: tuple[int, ...]
    counts_of_counts: list[list[int]]


def _summary(adjusted: DataFrame, config: NGramConfig, bounds: Sequence[int], name: str) -> _Summary:
    """Raises TextError where a worker met one."""
    counts, of_words, kept = (np.zeros(bounds[-1], np.int64) for _ in range(3))
    level_sizes = np.zeros(config.order - 1, np.int64)
    tallies = np.zeros((config.order - 1, LARGEST_TALLIED + 2), np.int64)
    for message in _collected(adjusted.where("kind in ('summary', 'error')")):
        if message.kind == "error":
            raise TextError(f"{name}: {message.data.decode()}")
        own, words = RangeSummary(*unpack(message.data)), slice(bounds[message.part], bounds[message.part + 1])
        counts[words], of_words[words], kept[words] = own.counts, own.adjusted, own.kept
        level_sizes += own.level_sizes
        tallies += own.tallies.reshape(tallies.shape)
    of_all = [tally(of_words, LARGEST_TALLIED), *tallies]
    return _Summary(
        counts,
        of_words,
        np.concatenate([[0], np.cumsum(kept)]),
        (bounds[-1], *level_sizes.tolist()),
        [numbers[1 : LARGEST_TALLIED + 1].tolist() for numbers in of_all],
    )


def _log_backoffs(bigrams: DataFrame, bounds: Sequence[int]) -> Float32[ndarray, " V"]:
    """Of all unigrams; 0 where nothing follows."""
    log_backoffs = np.zeros(bounds[-1], np.float32)
    for message in _collected(bigrams.where("kind = 'backoffs'")):
        (log_backoffs[bounds[message.part] : bounds[message.part + 1]],) = unpack(message.data)
    return log_backoffs


def _collected(rows: DataFrame) -> Iterator[Message]:
    """Messages that are small enough for the driver. rows: of MESSAGES."""
    return messages_of(sorted(rows_at_driver(rows), key=lambda row: tuple(row[:-1])))


def _tables(chunks: DataFrame, size: int, on_chunk: Callable[[int], None]) -> dict[int, Table]:
    """The tables of shards, on disk. chunks: rows of CHUNKS, in any order, with about `size` bytes."""
    gathered = gather_chunks(chunks, size, lambda size: array_on_disk(size, np.uint8), on_chunk)
    by_shard: dict[int, dict[str, ndarray[Any, Any]]] = defaultdict(dict)
    for (shard, name), (kind, data) in gathered.items():
        by_shard[shard][name] = data.view(kind)
    tables = {}
    for shard, arrays in by_shard.items():
        sizes = arrays.pop("level_sizes").tolist()
        arrays |= {name: arrays[name].reshape(-1, 2) for name in ("nodes", "contexts")}
        tables[shard] = Table.from_arrays(sizes, arrays)
    return tables


def _empty_levels(words: int, order: int) -> list[EstimatedLevel]:
    none, no_floats = np.zeros(0, np.int32), np.zeros(0, np.float32)
    higher = EstimatedLevel(none, no_floats, none, no_floats)
    return [EstimatedLevel(np.zeros(words, np.int32), no_floats, none, no_floats), *[higher] * (order - 2)]


def _delivered(rows: DataFrame, partitions: int) -> DataFrame:
    """Messages, those to a part one after the other. rows: of MESSAGES."""
    return rows.repartition(partitions, "part").sortWithinPartitions(*SORTED_BY)


def _computed(rows: DataFrame, stack: ExitStack) -> DataFrame:
    """Rows that are computed once, and stay on the workers' disks until the block ends."""
    from pyspark import StorageLevel

    rows = rows.persist(StorageLevel.DISK_ONLY)
    stack.callback(rows.unpersist)
    rows.count()
    return rows
