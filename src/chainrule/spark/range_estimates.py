"""What workers do to estimate probabilities: a task has the n-grams that begin with a range of words.

An n-gram and its context begin with the same word, so that totals and back-offs stay within a range. Its suffix begins
with its second word, in another range. So two things are sent between ranges:

    suffixes        each range tells the others how many of its n-grams end in each of theirs: the counts of Kneser-Ney,
                    and the list of probabilities that it will need
    probabilities   order by order, in the order of these lists, so that they are numbers alone

Nothing of this depends on which task does it, or how often: a range's rows are sorted before they are used.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.threads import set_threads
from chainrule.ngram.estimation.by_level import (
    CONTINUATION,
    LARGEST_TALLIED,
    LevelCounts,
    estimate_level,
    uses_lower_order,
)
from chainrule.ngram.estimation.discounts import tally
from chainrule.ngram.saving import EstimatedLevel, Piece, shard_of_pieces
from chainrule.protocol import BEGIN
from chainrule.spark.chunks import CHUNKS, Chunk, chunks_of
from chainrule.spark.messages import Message, message_batches, messages_by_part
from chainrule.spark.packing import pack, unpack
from chainrule.spark.rows import batches_of
from chainrule.spark.sections import Level, Section, cut, merge, spans_of, starts, suffixes_of
from chainrule.spark.workers import merged_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jaxtyping import Bool, Float, Float32, Int64
    from numpy import ndarray
    from pyarrow import RecordBatch

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.estimation.estimates import Discounts


class RangeSummary(NamedTuple):
    """What the driver needs to know about a range. tallies: by order from 2, how many adjusted counts are 0, 1, ..."""

    counts: Int64[ndarray, " words"]
    adjusted: Int64[ndarray, " words"]
    kept: Int64[ndarray, " words"]  # how many n-grams that begin with each word are not pruned
    level_sizes: Int64[ndarray, " levels"]
    tallies: Int64[ndarray, " tallies"]


def send_suffixes(batches: Iterable[RecordBatch], config: NGramConfig, bounds: Sequence[int]) -> Iterator[RecordBatch]:
    """Messages of each range to itself, and of its suffixes. batches: as for `merged_parts`."""
    set_threads(1)

    def messages() -> Iterator[Message]:
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

    return message_batches(messages())


def adjust_counts(batches: Iterable[RecordBatch], config: NGramConfig, bounds: Sequence[int]) -> Iterator[RecordBatch]:
    """Messages of each range to itself: a summary, and what `estimate_order` needs. batches: of `send_suffixes`."""
    set_threads(1)

    def messages() -> Iterator[Message]:
        for part, received in messages_by_part(batches):
            if "error" in received:
                yield from received["error"]
                return
            yield from _adjusted(part, received, config, bounds)

    return message_batches(messages())


def _adjusted(
    part: int, received: dict[str, list[Message]], config: NGramConfig, bounds: Sequence[int]
) -> Iterator[Message]:
    """The messages of `adjust_counts` of one range."""
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


def estimate_order(
    batches: Iterable[RecordBatch],
    config: NGramConfig,
    discounts: Discounts | None,
    unigrams: Float[ndarray, " V"],
) -> Iterator[RecordBatch]:
    """Messages of each range: estimates of the n-grams of one order, and their probabilities to those that need them.

    batches: of this level, of `adjust_counts` and of the order below. unigrams: their probabilities, for bigrams.
    """
    set_threads(1)

    def messages() -> Iterator[Message]:
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

    return message_batches(messages())


def cut_estimates(
    batches: Iterable[RecordBatch], config: NGramConfig, bounds: Sequence[int], edges: Sequence[int]
) -> Iterator[RecordBatch]:
    """Messages to shards: pieces of them, without pruned n-grams. batches: counts and estimates of all orders."""
    set_threads(1)

    def messages() -> Iterator[Message]:
        for part, received in messages_by_part(batches):
            levels = _kept_levels(received, config, bounds[part])
            begins = [starts(level.children) for level in levels]
            first, stop = bounds[part], bounds[part + 1]
            for shard, (low, high) in enumerate(itertools.pairwise(edges)):
                low, high = max(low, first), min(high, stop)
                if low < high:
                    spans = spans_of(begins, low - first, high - first)
                    yield Message(shard, "piece", 0, low, pack(*_piece(levels, spans)))

    return message_batches(messages())


def build_shards(
    batches: Iterable[RecordBatch], log_probs: Float32[ndarray, " V"], log_backoffs: Float32[ndarray, " V"]
) -> Iterator[RecordBatch]:
    """Rows of CHUNKS: the arrays of each shard's table. batches: of `cut_estimates`.

    log_probs, log_backoffs: of all unigrams.
    """
    set_threads(1)

    def chunks() -> Iterator[Chunk]:
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

    return batches_of(CHUNKS, chunks())


def _kept_ngrams(section: Section, config: NGramConfig, first: int) -> list[Bool[ndarray, " ngrams"]]:
    """By level, which n-grams are not pruned. first: the first word of the section."""
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
    """The word <s> and, by level, the n-grams that begin with it. first: the first word of the section."""
    if not first <= BEGIN < first + section.counts.size:
        return [slice(0, 0)] * (1 + len(section.levels))
    return spans_of([starts(level.children) for level in section.levels], BEGIN - first, BEGIN - first + 1)


def _ngrams_by_word(section: Section, kept: Sequence[Bool[ndarray, " ngrams"]]) -> Int64[ndarray, " words"]:
    """How many of the n-grams that are kept begin with each word."""
    words = np.arange(section.counts.size)
    number = np.zeros(words.size, np.int64)
    first_words = words
    for level, mask in zip(section.levels, kept, strict=True):
        first_words = np.repeat(first_words, level.children)
        number += np.bincount(first_words[mask], minlength=words.size)
    return number


def _kept_levels(received: dict[str, list[Message]], config: NGramConfig, first: int) -> list[EstimatedLevel]:
    """The estimates of all orders of a range without pruned n-grams. first: its first word."""
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
    """The arrays of the n-grams within `spans` of the words and of each level."""
    for level, contexts, own in zip(levels, spans, spans[1:], strict=False):
        yield from (level.children[contexts], level.log_backoffs[contexts], level.words[own], level.log_probs[own])
