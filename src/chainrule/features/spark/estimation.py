"""Estimates an n-gram model in shards on Spark's workers: the driver holds the vocabulary, and no n-grams.

A task has the n-grams that begin with a range of words. An n-gram and its context begin with the same word, so totals
and back-offs stay within a range. Its suffix begins with its second word, in another range. So two things are sent
between ranges:

    suffixes        each range tells the others how many of its n-grams end in each of theirs: the counts of Kneser-Ney,
                    and the list of probabilities that it will need
    probabilities   order by order, in the order of these lists, so that they are numbers alone

The steps, of which all but the second are shuffles:

    suffixes     as above
    discounts    the driver adds up counts of counts, and estimates the unigrams
    orders       one after the other: each range estimates its n-grams, and sends their probabilities to the ranges
                 whose longer n-grams end in them
    shards       ranges are cut and joined where a model in shards is cut; their arrays come to the driver's disk

Nothing of this depends on which task does it, or how often: a range's rows are sorted before they are used.
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
from chainrule.features.spark.by_level import (
    LevelCounts,
    discounts_by_level,
    estimate_level,
    estimate_unigrams,
    uses_lower_order,
)
from chainrule.features.spark.pieces import EstimatedLevel, Piece, shard_of_pieces
from chainrule.features.spark.sections import Level, Section, cut, merge, spans_of, starts, suffixes_of
from chainrule.features.spark.transport import (
    CHUNKS,
    MESSAGES,
    SORTED_BY,
    Chunk,
    Message,
    batches_of,
    chunks_of,
    gather_chunks,
    message_batches,
    messages_by_part,
    messages_of,
    pack,
    rows_at_driver,
    task,
    unpack,
)
from chainrule.features.spark.workers import merged_parts
from chainrule.ngram.estimation.discounting import CONTINUATION
from chainrule.ngram.estimation.discounts import LARGEST_TALLIED, tally
from chainrule.ngram.layouts import model_over
from chainrule.ngram.models.sharded_model import ShardedModel
from chainrule.ngram.saving import edges_of
from chainrule.ngram.training import record_of_estimates
from chainrule.ngram.trie.table import Table
from chainrule.protocol import BEGIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jaxtyping import Bool, Float, Float32, Int64
    from numpy import ndarray
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame

    from chainrule.base.progress import Progress
    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.estimation.estimates import Discounts
    from chainrule.ngram.layouts import AnyNGram


class RangeSummary(NamedTuple):
    """The figures of a range that the driver needs. tallies: by order from 2, how many adjusted counts are 0, 1, ..."""

    counts: Int64[ndarray, " words"]
    adjusted: Int64[ndarray, " words"]
    kept: Int64[ndarray, " words"]  # how many n-grams that begin with each word are not pruned
    level_sizes: Int64[ndarray, " levels"]
    tallies: Int64[ndarray, " tallies"]


@task(message_batches)
def send_suffixes(batches: Iterable[RecordBatch], config: NGramConfig, bounds: Sequence[int]) -> Iterator[Message]:
    """Yield messages of each range to itself, and of its suffixes. batches: as for `merged_parts`."""
    for part, section in merged_parts(batches):
        if isinstance(section, str):
            yield Message(part, "error", 0, part, section.encode())
            return
        if not uses_lower_order(config):
            yield Message(part, "counts", 0, part, pack(*section.arrays()))
            continue
        suffixes, places = suffixes_of(section, bounds[-1])
        yield Message(part, "counts", 0, part, pack(*section.arrays(), *places))
        for owner, own in enumerate(cut(suffixes, bounds)):
            if not own.is_empty:
                yield Message(owner, "suffixes", 0, part, own.pack())


@task(message_batches)
def adjust_counts(batches: Iterable[RecordBatch], config: NGramConfig, bounds: Sequence[int]) -> Iterator[Message]:
    """Yield messages of each range to itself: a summary, and what `estimate_order` needs. batches: of
    `send_suffixes`.
    """
    for part, received in messages_by_part(batches):
        if "error" in received:
            yield from received["error"]
            return
        yield from _adjusted(part, received, config, bounds)


def _adjusted(
    part: int, received: dict[str, list[Message]], config: NGramConfig, bounds: Sequence[int]
) -> Iterator[Message]:
    """Yield the messages of `adjust_counts` of one range."""
    arrays = unpack(received.pop("counts")[0].data)
    section, places = Section.of_arrays(arrays[: 3 * config.order - 2]), arrays[3 * config.order - 2 :]
    suffixes = received.pop("suffixes", [])
    senders = [message.source for message in suffixes]
    own = section.without_counts(config.order - 1)
    endings, nodes = merge([own, *(Section.unpack(message.data) for message in suffixes)])
    del own, suffixes  # they take as much memory as what remains
    raw = [section.counts, *(level.counts for level in section.levels)]
    adjusted = raw
    if config.smoothing in CONTINUATION:
        lower = [endings.counts, *(level.counts for level in endings.levels)]
        for counts, own_counts, span in zip(lower, raw, _after_begin(section, bounds[part]), strict=False):
            counts[span] = own_counts[span]
        adjusted = [*lower, raw[-1]]
    summary = RangeSummary(
        section.counts,
        adjusted[0],
        _ngrams_by_word(section, _kept_ngrams(section, config, bounds[part])),
        np.array([level.words.size for level in section.levels]),
        np.concatenate([tally(counts, LARGEST_TALLIED) for counts in adjusted[1:]]),
    )
    yield Message(part, "summary", 0, part, pack(*(column.astype(np.int64) for column in summary)))
    for i, level in enumerate(section.levels):
        columns = level.children, level.words, level.counts, adjusted[i + 1].astype(level.counts.dtype)
        yield Message(part, "counts", i + 2, part, pack(*columns, *(places[i - 1 : i] if i else ())))
        if i < len(endings.levels):
            for sender, own_nodes in zip(senders, nodes[1:], strict=True):
                yield Message(part, "suffixes", i + 2, sender, pack(own_nodes[i].astype(np.int32)))


@task(message_batches)
def estimate_order(
    batches: Iterable[RecordBatch],
    config: NGramConfig,
    discounts: Discounts | None,
    unigrams: Float[ndarray, " V"],
) -> Iterator[Message]:
    """Yield messages of each range: estimates of the n-grams of one order, and their probabilities to those that need
    them.

    batches: those of this level, of `adjust_counts` and of the order below. unigrams: the probabilities of unigrams,
    for bigrams.
    """
    for part, received in messages_by_part(batches):
        own = received["counts"][0]
        children, words, counts, adjusted, *places = unpack(own.data)
        answers = [unpack(message.data)[0] for message in received["lower"]]
        lower = np.concatenate(answers)[places[0]] if answers else unigrams[words]
        level = LevelCounts(children, counts, adjusted)
        probs, log_probs, log_backoffs = estimate_level(config, own.level, level, lower, discounts)
        yield Message(part, "estimates", own.level, part, pack(log_probs, log_backoffs))
        if own.level == 2:
            yield Message(part, "backoffs", 0, part, pack(log_backoffs))
        for message in received["suffixes"]:
            (nodes,) = unpack(message.data)
            yield Message(message.source, "lower", own.level + 1, part, pack(probs[nodes]))


@task(message_batches)
def cut_estimates(
    batches: Iterable[RecordBatch], config: NGramConfig, bounds: Sequence[int], edges: Sequence[int]
) -> Iterator[Message]:
    """Yield messages to shards: parts of them, without pruned n-grams. batches: counts and estimates of all orders."""
    for part, received in messages_by_part(batches):
        levels = _kept_levels(received, config, bounds[part])
        begins = [starts(level.children) for level in levels]
        first, stop = bounds[part], bounds[part + 1]
        for shard, (low, high) in enumerate(itertools.pairwise(edges)):
            low, high = max(low, first), min(high, stop)
            if low < high:
                spans = spans_of(begins, low - first, high - first)
                yield Message(shard, "piece", 0, low, pack(*_piece(levels, spans)))


@task(partial(batches_of, CHUNKS))
def build_shards(
    batches: Iterable[RecordBatch], log_probs: Float32[ndarray, " V"], log_backoffs: Float32[ndarray, " V"]
) -> Iterator[Chunk]:
    """Yield rows of CHUNKS: the arrays of each shard's table. batches: of `cut_estimates`.

    log_probs, log_backoffs: those of all unigrams, in nats.
    """
    for shard, received in messages_by_part(batches):
        pieces = []
        for message in received.pop("piece"):
            arrays = unpack(message.data)
            levels = [EstimatedLevel(*arrays[i : i + 4]) for i in range(0, len(arrays), 4)]
            pieces.append(Piece(message.source, levels))
        table = shard_of_pieces(pieces, log_probs, log_backoffs)
        pieces.clear()
        sizes = np.array(table.level_sizes, np.int64)
        for name, array in {"level_sizes": sizes, **table.arrays()}.items():
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            yield from chunks_of(shard, name, array.dtype.name, data)


def _kept_ngrams(section: Section, config: NGramConfig, first: int) -> list[Bool[ndarray, " ngrams"]]:
    """Return, by level, which n-grams are not pruned. first: the first word of the section."""
    masks = []
    begin = np.array([BEGIN - first])  # the context <s>, then <s> <s>, and so on, which are kept
    begin = begin[(begin >= 0) & (begin < section.counts.size)]
    for order, level in enumerate(section.levels, start=2):
        min_count = config.min_count(order)
        kept = level.counts >= (min_count if min_count > 1 else 0)
        for context in begin.tolist():
            low, high = starts(level.children)[context : context + 2].tolist()
            begin = low + np.flatnonzero(level.words[low:high] == BEGIN)
        kept[begin] = True
        masks.append(kept)
    return masks


def _after_begin(section: Section, first: int) -> list[slice]:
    """Return the word <s> and, by level, the n-grams that begin with it. first: the first word of the section."""
    if not first <= BEGIN < first + section.counts.size:
        return [slice(0, 0)] * (1 + len(section.levels))
    return spans_of([starts(level.children) for level in section.levels], BEGIN - first, BEGIN - first + 1)


def _ngrams_by_word(section: Section, kept: Sequence[Bool[ndarray, " ngrams"]]) -> Int64[ndarray, " words"]:
    """Return how many of the n-grams that are kept begin with each word."""
    words = np.arange(section.counts.size)
    number = np.zeros(words.size, np.int64)
    first_words = words
    for level, mask in zip(section.levels, kept, strict=True):
        first_words = np.repeat(first_words, level.children)
        number += np.bincount(first_words[mask], minlength=words.size)
    return number


def _kept_levels(received: dict[str, list[Message]], config: NGramConfig, first: int) -> list[EstimatedLevel]:
    """Return the estimates of all orders of a range without pruned n-grams. first: its first word."""
    counted = [Level(*unpack(message.data)[:3]) for message in received["counts"]]
    estimates = [unpack(message.data) for message in received["estimates"]]
    section = Section(np.zeros(counted[0].children.size, np.int64), counted)
    contexts, levels = np.ones(section.counts.size, np.bool_), []
    for level, kept, (log_probs, log_backoffs) in zip(
        counted, _kept_ngrams(section, config, first), estimates, strict=True
    ):
        context_of = np.repeat(np.arange(level.children.size), level.children)
        children = np.bincount(context_of[kept], minlength=level.children.size)
        own = children[contexts].astype(np.int32), log_backoffs[contexts], level.words[kept], log_probs[kept]
        levels.append(EstimatedLevel(*own))
        contexts = kept
    return levels


def _piece(levels: Sequence[EstimatedLevel], spans: Sequence[slice]) -> Iterator[ndarray[Any, Any]]:
    """Yield the arrays of the n-grams within `spans` of the words and of each level."""
    for level, contexts, own in zip(levels, spans, spans[1:], strict=False):
        yield from (level.children[contexts], level.log_backoffs[contexts], level.words[own], level.log_probs[own])


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
    """Return the model of counted runs, whose shards lie on this machine's disk, and the record of its estimation.

    runs: rows of PARTS, of ranges of words with these bounds. config: of a smoothing that `check_by_level` accepts, and
    of order 2 or more. name: that of the text, for messages. Raises TextError, EstimationError.
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
        discounts = [discounts_by_level(config, order, n) for order, n in enumerate(summary.counts_of_counts, start=1)]
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
    """Sum up the messages of all ranges. Raises TextError where a worker met one."""
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
    """Return the log-backoffs of all unigrams; 0 where nothing follows."""
    log_backoffs = np.zeros(bounds[-1], np.float32)
    for message in _collected(bigrams.where("kind = 'backoffs'")):
        (log_backoffs[bounds[message.part] : bounds[message.part + 1]],) = unpack(message.data)
    return log_backoffs


def _collected(rows: DataFrame) -> Iterator[Message]:
    """Return messages that are small enough for the driver. rows: of MESSAGES."""
    return messages_of(sorted(rows_at_driver(rows), key=lambda row: tuple(row[:-1])))


def _tables(chunks: DataFrame, size: int, on_chunk: Callable[[int], None]) -> dict[int, Table]:
    """Return the tables of shards, on disk. chunks: rows of CHUNKS, in any order, with about `size` bytes."""
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
    """Return messages, those to a part one after the other. rows: of MESSAGES."""
    return rows.repartition(partitions, "part").sortWithinPartitions(*SORTED_BY)


def _computed(rows: DataFrame, stack: ExitStack) -> DataFrame:
    """Return rows that are computed once, and stay on the workers' disks until the block ends."""
    from pyspark import StorageLevel

    rows = rows.persist(StorageLevel.DISK_ONLY)
    stack.callback(rows.unpersist)
    rows.count()
    return rows
