"""Held-out events, and discounts and pseudocounts tuned to their likelihood.

Events are words to be predicted, each with the n-grams that end in it. They come from a held-out text, or from the
training text itself, each left out of the counts when it is predicted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.threads import run
from chainrule.errors import EstimationError
from chainrule.ngram.counting.counts import history_lengths, nodes_after_begin
from chainrule.ngram.estimation.backoff_and_additive import lidstone
from chainrule.ngram.estimation.discounting import counts_to_discount
from chainrule.ngram.estimation.discounts import counts_of_counts, discounts_of
from chainrule.ngram.estimation.estimates import Discounts, Estimates
from chainrule.ngram.estimation.estimation_kernels import match, sum_by_count, sum_children
from chainrule.ngram.estimation.passes import excludes_unknown, interpolate_by_discounts, uniform_share
from chainrule.ngram.trie.query_kernels import NO_NODE
from chainrule.protocol import BEGIN, END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Bool, Float64, Int, Int32, Int64
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.estimation.passes import AdjustedCounts

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
        """Return whether the counts have the context of an n-gram of this order."""
        return self.contexts[:, order - 1] != NO_NODE


def heldout_events(counts: Counts, config: NGramConfig, stream: Int32[ndarray, " tokens"]) -> Events:
    """Return the words of a text, including </s>. Raises EstimationError where the model knows none of them.

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
    """Return all words of the training text, grouped by their longest n-gram: of the highest order, or beginning with
    <s>.
    """
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
    """Return the counts of the events' n-grams of an order; 0 where there is none. counts: from node `first` on."""
    nodes = events.nodes[:, order - 1]
    known = nodes != NO_NODE
    return values_at(counts, nodes - first, known) - events.left_out * known


def totals_of(counts: Counts, events: Events, order: int) -> Int64[ndarray, " events"]:
    """Return the number of tokens after the events' contexts of an order; 0 where there is no such context."""
    sums = _sums(counts, counts.counts[counts.level(order)], order)
    return context_values(counts, events, order, sums) - events.left_out * events.known(order)


def count_pruned(counts: Counts, events: Events, order: int, min_count: int) -> Int64[ndarray, " events"]:
    """Return the number of tokens after the events' contexts in n-grams seen less often than `min_count`."""
    raw = counts.counts[counts.level(order)]
    sums = _sums(counts, np.where(raw < min_count, raw, 0), order)
    pruned = context_values(counts, events, order, sums)
    full = counts_of(events, raw, counts.level(order).start, order) + events.left_out  # including the event
    return np.maximum(pruned - events.left_out * (full < min_count), 0)


def bottom_shares(counts: Counts, config: NGramConfig, events: Events) -> Float64[ndarray, " events"]:
    """Return the probability of the events' words below the unigrams: uniform, or shared by <unk> and unseen words."""
    words = events.nodes[:, 0] - 1
    if config.interpolate_unigrams:
        return np.full(words.size, uniform_share(counts, config))
    raw = counts.counts[counts.level(1)]
    unseen = raw == 0
    unseen[UNKNOWN], unseen[BEGIN] = True, False
    types = np.count_nonzero(unseen) + ~unseen[words]  # a word whose only occurrence is left out is unseen, too
    return np.where(unseen[words] | (raw[words] == events.left_out), 1 / types, 0.0)


def context_values(counts: Counts, events: Events, order: int, values: ndarray) -> ndarray:
    """Return the rows of `values`, by context of the n-grams of an order, for each event; 0 where there is no
    context.
    """
    return values_at(values, events.contexts[:, order - 1] - counts.level(order - 1).start, events.known(order))


def values_at(values: ndarray, indices: Int[ndarray, " some"], known: Bool[ndarray, " some"]) -> ndarray:
    """Return values[indices], and 0 where an index is not known. `values` may be empty."""
    out = np.zeros((indices.size, *values.shape[1:]), np.int64)
    out[known] = values[indices[known]]
    return out


def _sums(counts: Counts, raw: Int[ndarray, " ngrams"], order: int) -> Int64[ndarray, " contexts"]:
    """Return the sum of the counts after each context of the n-grams of an order."""
    contexts = counts.level(order - 1)
    totals, types = (np.empty(contexts.stop - contexts.start, np.int64) for _ in range(2))
    run(sum_children, contexts.start, contexts.stop, counts.begin, raw, counts.level(order).start, totals, types)
    return totals


def _chains(counts: Counts, nodes: Int64[ndarray, " all"], order: int) -> Int[ndarray, "events order"]:
    """Return seen n-grams, thinned, each with all its suffixes."""
    nodes = _thinned(nodes[counts.counts[nodes] > 0])
    chains = np.full((nodes.size, counts.order), NO_NODE, counts.begin.dtype)
    for k in range(order - 1, -1, -1):
        chains[:, k] = nodes
        nodes = counts.suffixes[nodes]
    return chains


def _thinned(items: Int64[ndarray, " all"]) -> Int64[ndarray, " some"]:
    return items[:: -(-items.size // MAX_EVENTS) or 1]


TASK = "tuning"
_ROUNDS = 8
_TOLERANCE = 1e-6  # nats a word: a round that gains less is the last
_MIN_DISCOUNT = 1e-3  # so that some mass is left for the unseen
_BISECTIONS = 30
_MIN_PSEUDOCOUNT, _MAX_PSEUDOCOUNT = 1e-7, 1e3
_GOLDEN = (math.sqrt(5) - 1) / 2
_GOLDEN_STEPS = 40


def tune_discounts(
    counts: Counts, config: NGramConfig, progress: Progress, heldout: Int32[ndarray, " tokens"]
) -> Estimates:
    """Return the estimates of interpolated `discounting` by constants that maximise the likelihood of a held-out
    stream.

    Those of each order are tuned in turn, starting from the ones that `discounting` takes. Raises EstimationError.
    """
    adjusted_at = counts_to_discount(counts, config)
    model = _EventModel(counts, config, adjusted_at, heldout_events(counts, config, heldout))
    orders = range(1, counts.order + 1)
    values = np.array([discounts_of(config, order, counts_of_counts(adjusted_at(order))).values for order in orders])
    previous = -np.inf
    for iteration in range(_ROUNDS):
        for order in orders:
            progress(TASK, iteration * counts.order + order - 1, None)
            for j in range(values.shape[1]):
                values[order - 1, j] = model.best_discount(values, order, j)
        likelihood = float(np.log(model.probs(values)).mean())
        if likelihood - previous < _TOLERANCE:
            break
        previous = likelihood
    tuned = [Discounts(order, tuple(row)) for order, row in enumerate(values.tolist(), start=1)]
    return interpolate_by_discounts(counts, config, adjusted_at, lambda order, _: tuned[order - 1], progress)


def tune_lidstone(
    counts: Counts, config: NGramConfig, progress: Progress, heldout: Int32[ndarray, " tokens"]
) -> Estimates:
    """Return the estimates of Lidstone smoothing; the pseudocount maximises the likelihood of a held-out stream.

    Raises EstimationError.
    """
    events = heldout_events(counts, config, heldout)
    words = 1 / uniform_share(counts, config)
    seen, totals = np.zeros(events.counts.size), np.zeros(events.counts.size)
    for order in range(1, counts.order + 1):
        is_longest = events.lengths == order
        level = counts.level(order)
        raw = counts.counts[level]
        seen[is_longest] = counts_of(events, raw, level.start, order)[is_longest]
        totals[is_longest] = _context_sums(counts, events, raw, order)[is_longest, 0]

    def log_likelihood(log_constant: float) -> float:
        constant = math.exp(log_constant)
        return float(np.log((seen + constant) / (totals + constant * words)).sum())

    best = _argmax(log_likelihood, math.log(_MIN_PSEUDOCOUNT), math.log(_MAX_PSEUDOCOUNT))
    constant = math.exp(max(best, math.log(config.pseudocount), key=log_likelihood))
    estimates = lidstone(counts, replace(config, pseudocount=constant), progress)
    return replace(estimates, record={"pseudocount": constant})


class _EventModel:
    """The probabilities of held-out events as a function of the discounts.

    p_k = (a - D(a)) / total + (sum_j D_j N_j + pruned) / total p_(k-1). This is linear in each D_j, so the
    log-likelihood is concave in it, and bisection finds the optimum.
    """

    def __init__(self, counts: Counts, config: NGramConfig, adjusted_at: AdjustedCounts, events: Events) -> None:
        shape = counts.order, events.counts.size
        self.bottoms = bottom_shares(counts, config, events)
        self.shares, self.inverse = np.zeros(shape), np.zeros(shape)
        self.free = np.zeros(shape)  # the lower order's share apart from discounts: pruned mass, or all
        self.count_classes = np.zeros(shape, np.int8)
        self.types = np.zeros((3, *shape))  # after the context with counts 1, 2, and 3 or more, over the total
        for order in range(1, counts.order + 1):
            k, level = order - 1, counts.level(order)
            adjusted = adjusted_at(order)
            kept = np.where(counts.counts[level] >= config.min_count(order), adjusted, 0)
            seen = counts_of(events, kept, level.start, order)
            totals = _context_sums(counts, events, adjusted, order)[:, 0]
            sums = _context_sums(counts, events, kept, order)
            is_seen = totals > 0
            self.inverse[k, is_seen] = 1 / totals[is_seen]
            self.free[k] = np.where(is_seen, (totals - sums[:, 0]) * self.inverse[k], 1)
            self.shares[k] = seen * self.inverse[k]
            self.count_classes[k] = np.minimum(seen, 3)
            self.types[:, k] = sums[:, 1:].T * self.inverse[k]

    def probs(self, values: Float64[ndarray, "order size"]) -> Float64[ndarray, " events"]:
        """Return the probability of each event with these discounts."""
        probs = self.bottoms
        for k, row in enumerate(values):
            discounts = np.broadcast_to(row, 3)
            subtracted = np.concatenate([[0.0], discounts])[self.count_classes[k]]
            gamma = np.tensordot(discounts, self.types[:, k], 1) + self.free[k]
            probs = self.shares[k] - subtracted * self.inverse[k] + gamma * probs
        return probs

    def best_discount(self, values: Float64[ndarray, "order size"], order: int, j: int) -> float:
        """Return the j-th discount of an order that maximises the likelihood, all others being fixed."""
        current = values[order - 1, j]
        values = values.copy()
        values[order - 1, j] = 0
        without = self.probs(values)
        values[order - 1, j] = 1
        slope = self.probs(values) - without
        without, slope = without[slope != 0], slope[slope != 0]
        low, high = _MIN_DISCOUNT, j + 1 - _MIN_DISCOUNT
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            if float((slope / (without + middle * slope)).sum()) > 0:
                low = middle
            else:
                high = middle
        middle = (low + high) / 2
        with np.errstate(divide="ignore"):
            at_middle, at_current = (float(np.log(without + value * slope).sum()) for value in (middle, current))
        return middle if at_middle > at_current else float(current)


def _context_sums(
    counts: Counts, events: Events, adjusted: Int[ndarray, " ngrams"], order: int
) -> Int64[ndarray, "events 4"]:
    """Return, for the events' contexts, the sum of the counts after each, and how many of these are 1, 2, and 3 or
    more.
    """
    contexts, level = counts.level(order - 1), counts.level(order)
    sums = np.empty((contexts.stop - contexts.start, 4), np.int64)
    run(sum_by_count, contexts.start, contexts.stop, counts.begin, adjusted, level.start, sums)
    return context_values(counts, events, order, sums)


def _argmax(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the argument of the maximum of a unimodal function, by golden-section search."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(_GOLDEN_STEPS):
        if at_left > at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return (low + high) / 2
