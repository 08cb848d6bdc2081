"""Words to be predicted, each with all that the counts know of it: what weights and discounts are tuned on.

They come from a held-out text; or from the training text itself, each left out of the counts when it is its turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.jit import run
from chainrule.errors import EstimationError
from chainrule.ngram.counting.counts import nodes_after_begin
from chainrule.ngram.counting.padding import history_lengths
from chainrule.ngram.estimation.heldout_kernels import match
from chainrule.ngram.estimation.pass_kernels import sum_children
from chainrule.ngram.estimation.passes import is_without_unknown, uniform_share
from chainrule.ngram.trie.query_kernels import NO_NODE
from chainrule.protocol import BEGIN, END, UNKNOWN

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int, Int32, Int64
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts

MOST = 1 << 19  # events; of more, every n-th is taken


@dataclass(frozen=True)
class Events:
    """Occurrences of words. Column k is for the n-grams of order k + 1; NO_NODE where there is none."""

    nodes: Int[ndarray, "events order"]
    contexts: Int[ndarray, "events order"]
    lengths: Int[ndarray, " events"]  # of the longest n-gram that there is room for in the document
    counts: Float64[ndarray, " events"]  # how often each is there
    left_out: int  # how often the counts have it once more than they should: 1 for words of the training text

    def known(self, order: int) -> Bool[ndarray, " events"]:
        """Where the context of this order exists."""
        return self.contexts[:, order - 1] != NO_NODE


def heldout_events(counts: Counts, config: NGramConfig, stream: Int32[ndarray, " tokens"]) -> Events:
    """The words of a text, </s> among them. Raises EstimationError where the model knows none of them.

    <unk> is left out where it has no probability whatever is tuned.
    """
    is_event = stream != BEGIN
    if not np.any(is_event & (stream != END) & (stream != UNKNOWN)):
        raise EstimationError(
            "the text to tune on has not one word in common with the vocabulary, so nothing can be learnt from it; "
            "take a text of the same kind as the training text, and the same tokenizer"
        )
    if is_without_unknown(counts, config):
        is_event &= stream != UNKNOWN
    shape = stream.size, counts.order
    nodes, contexts = np.empty(shape, counts.begin.dtype), np.empty(shape, counts.begin.dtype)
    run(match, counts.words, counts.begin, counts.order, stream, nodes, contexts)
    places = _thinned(np.flatnonzero(is_event))
    lengths = history_lengths(stream, counts.order)[places]
    return Events(nodes[places], contexts[places], lengths, np.ones(places.size), left_out=0)


def training_events(counts: Counts, config: NGramConfig) -> Events:
    """Every word of the training text once, by its longest n-gram: of the highest order, or after <s>."""
    parts = [_chains(counts, np.arange(*counts.level(counts.order).indices(counts.words.size)), counts.order)]
    if config.begins == "one":
        for order in range(2, counts.order):
            after_begin = nodes_after_begin(counts, order)
            parts.append(_chains(counts, np.arange(after_begin.start, after_begin.stop), order))
    nodes = np.concatenate(parts)
    longest = nodes.max(axis=1)  # nodes ascend with the order, and NO_NODE is below all
    contexts = np.full_like(nodes, NO_NODE)
    for k in range(counts.order):
        found = nodes[:, k] != NO_NODE
        contexts[found, k] = np.searchsorted(counts.begin, nodes[found, k], side="right") - 1
    lengths = np.count_nonzero(nodes != NO_NODE, axis=1)
    return Events(nodes, contexts, lengths, counts.counts[longest].astype(np.float64), left_out=1)


def counts_of(events: Events, counts: Int[ndarray, " ngrams"], first: int, order: int) -> Int64[ndarray, " events"]:
    """Of the events' n-grams of an order, as `counts` has them from node `first` on; 0 where there is none."""
    nodes = events.nodes[:, order - 1]
    known = nodes != NO_NODE
    return at(counts, nodes - first, known) - events.left_out * known


def totals_of(counts: Counts, events: Events, order: int) -> Int64[ndarray, " events"]:
    """How often something follows the events' contexts; 0 where there is none."""
    sums = _sums(counts, counts.counts[counts.level(order)], order)
    return of_contexts(counts, events, order, sums) - events.left_out * events.known(order)


def pruned_of(counts: Counts, events: Events, order: int, least: int) -> Int64[ndarray, " events"]:
    """How often what was seen less often than `least` follows the events' contexts; 0 where there is none."""
    raw = counts.counts[counts.level(order)]
    sums = _sums(counts, np.where(raw < least, raw, 0), order)
    found = of_contexts(counts, events, order, sums)
    own = counts_of(events, raw, counts.level(order).start, order) + events.left_out  # with the event itself
    return np.maximum(found - events.left_out * (own < least), 0)


def bottom_shares(counts: Counts, config: NGramConfig, events: Events) -> Float64[ndarray, " events"]:
    """What the events' words have where nothing is known: P(word) below the unigrams."""
    words = events.nodes[:, 0] - 1
    if config.interpolate_unigrams:
        return np.full(words.size, uniform_share(counts, config))
    raw = counts.counts[counts.level(1)]
    unseen = raw == 0
    unseen[UNKNOWN], unseen[BEGIN] = True, False
    types = np.count_nonzero(unseen) + ~unseen[words]  # a word that is left out is unseen, too
    return np.where(unseen[words] | (raw[words] == events.left_out), 1 / types, 0.0)


def of_contexts(counts: Counts, events: Events, order: int, values: ndarray) -> ndarray:
    """Of the events' contexts, those of the n-grams of an order, rows of whole numbers; 0 where there is none."""
    return at(values, events.contexts[:, order - 1] - counts.level(order - 1).start, events.known(order))


def at(values: ndarray, places: Int[ndarray, " some"], known: Bool[ndarray, " some"]) -> ndarray:
    """The values at some places; 0 where the place is not known. A level may have no values at all."""
    found = np.zeros((places.size, *values.shape[1:]), np.int64)
    found[known] = values[places[known]]
    return found


def _sums(counts: Counts, raw: Int[ndarray, " ngrams"], order: int) -> Int64[ndarray, " contexts"]:
    """By context, the sum of counts of the n-grams of an order."""
    contexts = counts.level(order - 1)
    totals, kinds = (np.empty(contexts.stop - contexts.start, np.int64) for _ in range(2))
    run(sum_children, contexts.start, contexts.stop, counts.begin, raw, counts.level(order).start, totals, kinds)
    return totals


def _chains(counts: Counts, nodes: Int64[ndarray, " all"], order: int) -> Int[ndarray, "events order"]:
    """N-grams that were seen, thinned, with all their suffixes."""
    nodes = _thinned(nodes[counts.counts[nodes] > 0])
    chains = np.full((nodes.size, counts.order), NO_NODE, counts.begin.dtype)
    for k in range(order - 1, -1, -1):
        chains[:, k] = nodes
        nodes = counts.suffixes[nodes]
    return chains


def _thinned(places: Int64[ndarray, " all"]) -> Int64[ndarray, " some"]:
    return places[:: -(-places.size // MOST) or 1]
