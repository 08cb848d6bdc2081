"""Events: words to be predicted, each with the n-grams that end in it; weights and discounts are tuned on them.

They come from a held-out text, or from the training text itself, each left out of the counts when it is predicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.threads import run
from chainrule.errors import EstimationError
from chainrule.ngram.counting.counts import nodes_after_begin
from chainrule.ngram.counting.padding import history_lengths
from chainrule.ngram.estimation.heldout_kernels import match
from chainrule.ngram.estimation.pass_kernels import sum_children
from chainrule.ngram.estimation.passes import excludes_unknown, uniform_share
from chainrule.ngram.trie.query_kernels import NO_NODE
from chainrule.protocol import BEGIN, END, UNKNOWN

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int, Int32, Int64
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts

MAX_EVENTS = 1 << 19  # of more, every n-th is used


@dataclass(frozen=True)
class Events:
    """Words to be predicted. Column k is for the n-grams of order k + 1; NO_NODE where the counts have none."""

    nodes: Int[ndarray, "events order"]
    contexts: Int[ndarray, "events order"]
    lengths: Int[ndarray, " events"]  # of the longest n-gram that fits into the document
    counts: Float64[ndarray, " events"]  # how often each event occurs
    left_out: int  # to be subtracted from its counts: 1 for an event of the training text

    def known(self, order: int) -> Bool[ndarray, " events"]:
        """Whether the counts have the context of an n-gram of this order."""
        return self.contexts[:, order - 1] != NO_NODE


def heldout_events(counts: Counts, config: NGramConfig, stream: Int32[ndarray, " tokens"]) -> Events:
    """The words of a text, including </s>. Raises EstimationError where the model knows none of them.

    <unk> is left out where it has no probability, however the model is tuned.
    """
    is_event = stream != BEGIN
    if not np.any(is_event & (stream != END) & (stream != UNKNOWN)):
        raise EstimationError(
            "the text to tune on has not one word in common with the vocabulary, so nothing can be learned from it; "
            "use a text of the same kind as the training text, and the same tokenizer"
        )
    if excludes_unknown(counts, config):
        is_event &= stream != UNKNOWN
    shape = stream.size, counts.order
    nodes, contexts = np.empty(shape, counts.begin.dtype), np.empty(shape, counts.begin.dtype)
    run(match, counts.words, counts.begin, counts.order, stream, nodes, contexts)
    positions = _thinned(np.flatnonzero(is_event))
    lengths = history_lengths(stream, counts.order)[positions]
    return Events(nodes[positions], contexts[positions], lengths, np.ones(positions.size), left_out=0)


def training_events(counts: Counts, config: NGramConfig) -> Events:
    """All words of the training text, grouped by their longest n-gram: of the highest order, or beginning with <s>."""
    parts = [_chains(counts, np.arange(*counts.level(counts.order).indices(counts.words.size)), counts.order)]
    if config.begins == "one":
        for order in range(2, counts.order):
            after_begin = nodes_after_begin(counts, order)
            parts.append(_chains(counts, np.arange(after_begin.start, after_begin.stop), order))
    nodes = np.concatenate(parts)
    longest = nodes.max(axis=1)  # nodes of higher orders have higher numbers; NO_NODE is the lowest
    contexts = np.full_like(nodes, NO_NODE)
    for k in range(counts.order):
        known = nodes[:, k] != NO_NODE
        contexts[known, k] = np.searchsorted(counts.begin, nodes[known, k], side="right") - 1
    lengths = np.count_nonzero(nodes != NO_NODE, axis=1)
    return Events(nodes, contexts, lengths, counts.counts[longest].astype(np.float64), left_out=1)


def counts_of(events: Events, counts: Int[ndarray, " ngrams"], first: int, order: int) -> Int64[ndarray, " events"]:
    """The counts of the events' n-grams of an order; 0 where there is none. counts: from node `first` on."""
    nodes = events.nodes[:, order - 1]
    known = nodes != NO_NODE
    return values_at(counts, nodes - first, known) - events.left_out * known


def totals_of(counts: Counts, events: Events, order: int) -> Int64[ndarray, " events"]:
    """The number of tokens after the events' contexts of an order; 0 where there is no such context."""
    sums = _sums(counts, counts.counts[counts.level(order)], order)
    return context_values(counts, events, order, sums) - events.left_out * events.known(order)


def pruned_of(counts: Counts, events: Events, order: int, min_count: int) -> Int64[ndarray, " events"]:
    """The number of tokens after the events' contexts in n-grams seen less often than `min_count`."""
    raw = counts.counts[counts.level(order)]
    sums = _sums(counts, np.where(raw < min_count, raw, 0), order)
    pruned = context_values(counts, events, order, sums)
    full = counts_of(events, raw, counts.level(order).start, order) + events.left_out  # including the event
    return np.maximum(pruned - events.left_out * (full < min_count), 0)


def bottom_shares(counts: Counts, config: NGramConfig, events: Events) -> Float64[ndarray, " events"]:
    """The probability of the events' words below the unigrams: uniform, or shared by <unk> and unseen words."""
    words = events.nodes[:, 0] - 1
    if config.interpolate_unigrams:
        return np.full(words.size, uniform_share(counts, config))
    raw = counts.counts[counts.level(1)]
    unseen = raw == 0
    unseen[UNKNOWN], unseen[BEGIN] = True, False
    types = np.count_nonzero(unseen) + ~unseen[words]  # a word whose only occurrence is left out is unseen, too
    return np.where(unseen[words] | (raw[words] == events.left_out), 1 / types, 0.0)


def context_values(counts: Counts, events: Events, order: int, values: ndarray) -> ndarray:
    """The rows of `values`, by context of the n-grams of an order, for each event; 0 where there is no context."""
    return values_at(values, events.contexts[:, order - 1] - counts.level(order - 1).start, events.known(order))


def values_at(values: ndarray, indices: Int[ndarray, " some"], known: Bool[ndarray, " some"]) -> ndarray:
    """values[indices], and 0 where an index is not known. `values` may be empty."""
    out = np.zeros((indices.size, *values.shape[1:]), np.int64)
    out[known] = values[indices[known]]
    return out


def _sums(counts: Counts, raw: Int[ndarray, " ngrams"], order: int) -> Int64[ndarray, " contexts"]:
    """The sum of the counts after each context of the n-grams of an order."""
    contexts = counts.level(order - 1)
    totals, types = (np.empty(contexts.stop - contexts.start, np.int64) for _ in range(2))
    run(sum_children, contexts.start, contexts.stop, counts.begin, raw, counts.level(order).start, totals, types)
    return totals


def _chains(counts: Counts, nodes: Int64[ndarray, " all"], order: int) -> Int[ndarray, "events order"]:
    """Seen n-grams, thinned, each with all its suffixes."""
    nodes = _thinned(nodes[counts.counts[nodes] > 0])
    chains = np.full((nodes.size, counts.order), NO_NODE, counts.begin.dtype)
    for k in range(order - 1, -1, -1):
        chains[:, k] = nodes
        nodes = counts.suffixes[nodes]
    return chains


def _thinned(items: Int64[ndarray, " all"]) -> Int64[ndarray, " some"]:
    return items[:: -(-items.size // MAX_EVENTS) or 1]
