"""Compiled passes of estimation: from counts to probabilities, counts of counts, tuning on held-out words.

See `passes.py`. For `interpolate` and `weigh`, log_probs[node] first holds p_lower, the probability of the n-gram's
suffix, from `read_lower`. An n-gram with a count of 0 is in the trie only as a context, and counts as unseen.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, kernel
from chainrule.ngram.trie.query_kernels import NO_NODE, child
from chainrule.protocol import BEGIN, END

Array = NDArray[Any]

_NOTHING_LEFT = 1e-8  # of a distribution: anything below is a rounding error


@kernel
def sum_children(start: int, stop: int, begin: Array, counts: Array, first: int, totals: Array, types: Array) -> None:
    """Write the number of tokens and of types that follow the contexts start .. stop; first: the node of counts[0]."""
    for context in range(start, stop):
        total = distinct = 0
        for node in range(begin[context], begin[context + 1]):
            total += counts[node - first]
            distinct += counts[node - first] > 0
        totals[context - start], types[context - start] = total, distinct


@kernel
def sum_by_count(start: int, stop: int, begin: Array, counts: Array, first: int, sums: Array) -> None:
    """Write, for contexts start .. stop, the sum of the counts after each, and how many of these are 1, 2, and 3 or
    more.
    """
    for context in range(start, stop):
        row = sums[context - start]
        row[:] = 0
        for node in range(begin[context], begin[context + 1]):
            count = counts[node - first]
            row[0] += count
            if count > 0:
                row[min(count, 3)] += 1


@kernel
def read_lower(start: int, stop: int, suffixes: Array, probs: Array, first: int, log_probs: Array) -> None:
    """Set log_probs[node] to the probability of its suffix, for nodes start .. stop whose suffix has one in `probs`.

    first: the node of probs[0]. These are the random reads of a pass, in a separate loop, so that the processor
    overlaps them.
    """
    for node in range(start, stop):
        suffix = suffixes[node] - first
        if 0 <= suffix < probs.size:
            log_probs[node] = probs[suffix]


@kernel
def interpolate(
    start: int,
    stop: int,
    begin: Array,
    adjusted: Array,
    first: int,
    counts: Array,
    min_count: int,
    discounts: Array,
    probs: Array,
    log_probs: Array,
    log_backoffs: Array,
) -> None:
    """Write p = (a - D(a)) / total + gamma p_lower for the n-grams after contexts start .. stop; log_backoffs gets log
    gamma.

    adjusted: counts a of the level's n-grams, from node `first` on. min_count: n-grams seen less often are pruned.
    discounts: D(0) = 0, D(1), D(2), D(3 and more). A context that nothing follows has gamma = 1. probs: by node, for
    the lower orders only; may share memory with `adjusted`, since each count is read before it is overwritten.
    """
    for context in range(start, stop):
        total = 0.0
        freed = 0.0  # for the lower order: the discounts of kept n-grams, the counts of pruned ones
        for node in range(begin[context], begin[context + 1]):
            count = adjusted[node - first]
            total += count
            freed += discounts[min(count, 3)] if counts[node] >= min_count else count
        gamma = freed / total if total > 0 else 1.0
        log_backoffs[context] = math.log(gamma) if gamma > 0 else -np.inf
        for node in range(begin[context], begin[context + 1]):
            count = adjusted[node - first]
            discounted = (count - discounts[min(count, 3)]) / total if total > 0 else 0.0
            prob = discounted + gamma * log_probs[node]
            if node < probs.size:
                probs[node] = prob
            log_probs[node] = math.log(prob)


@kernel
def weigh(
    start: int,
    stop: int,
    begin: Array,
    counts: Array,
    min_count: int,
    totals: Array,
    weights: Array,
    probs: Array,
    log_probs: Array,
    log_backoffs: Array,
) -> None:
    """Write p = w(h) c(hw) / c(h) + gamma(h) p_lower for what follows contexts start .. stop; log_backoffs gets log
    gamma.

    gamma = 1 - w + the share of pruned n-grams, those seen less often than `min_count`. weights, totals: from `start`
    on. probs: by node, for the lower orders only.
    """
    for context in range(start, stop):
        total, weight = totals[context - start], weights[context - start]
        share = weight / total if total > 0 else 0.0
        gamma = 1 - weight if total > 0 else 1.0
        for node in range(begin[context], begin[context + 1]):
            if counts[node] < min_count:
                gamma += share * counts[node]
        log_backoffs[context] = math.log(gamma) if gamma > 0 else -np.inf
        for node in range(begin[context], begin[context + 1]):
            prob = gamma * log_probs[node]
            if counts[node] >= min_count:
                prob += share * counts[node]
            if node < probs.size:
                probs[node] = prob
            log_probs[node] = math.log(prob) if prob > 0 else -np.inf


@allocating_kernel
def back_off(
    start: int,
    stop: int,
    begin: Array,
    suffixes: Array,
    adjusted: Array,
    first: int,
    counts: Array,
    min_count: int,
    discounts: Array,
    probs: Array,
    log_probs: Array,
    log_backoffs: Array,
) -> None:
    """Write p = (a - D(a)) / total for what was seen after contexts start .. stop, and gamma p_lower for what was not.

    gamma makes each distribution sum to one. The arguments are those of `interpolate`, except that the last discount
    applies to all larger counts, and that p_lower is read from `probs`. If nothing is discounted, one count is set
    aside for the unseen. If nothing is unseen, the seen words share the whole mass; if their discounts leave nothing,
    p = p_lower.
    """
    largest = discounts.size - 1
    most_children = 0
    for context in range(start, stop):
        most_children = max(most_children, begin[context + 1] - begin[context])
    lower = np.empty(most_children, np.float64)
    for context in range(start, stop):
        low, high = begin[context], begin[context + 1]
        total = freed = covered = 0.0
        for node in range(low, high):
            lower[node - low] = probs[suffixes[node]]
        for node in range(low, high):
            count = adjusted[node - first]
            total += count
            if count > 0 and counts[node] >= min_count:
                freed += discounts[min(count, largest)]
                covered += lower[node - low]
            else:
                freed += count
        is_all_seen = 1 - covered <= _NOTHING_LEFT
        if total == 0 or (is_all_seen and total - freed <= _NOTHING_LEFT * total):
            log_backoffs[context] = 0.0
            for node in range(low, high):
                if node < probs.size:
                    probs[node] = lower[node - low]
                log_probs[node] = math.log(lower[node - low]) if lower[node - low] > 0 else -np.inf
            continue
        if freed <= 0:
            total += 1
            freed = 1.0
        gamma = 0.0
        if is_all_seen:
            total -= freed
        else:
            gamma = freed / total / (1 - covered)
        log_backoffs[context] = math.log(gamma) if gamma > 0 else -np.inf
        for node in range(low, high):
            count = adjusted[node - first]
            if count > 0 and counts[node] >= min_count:
                prob = (count - discounts[min(count, largest)]) / total
            else:
                prob = gamma * lower[node - low]
            if node < probs.size:
                probs[node] = prob
            log_probs[node] = math.log(prob) if prob > 0 else -np.inf


@kernel
def divide(
    start: int,
    stop: int,
    begin: Array,
    counts: Array,
    totals: Array,
    probs: Array,
    log_probs: Array,
    log_backoffs: Array,
) -> None:
    """Write log c(hw) / c(h) for the n-grams after contexts start .. stop; all backoffs are 0. totals: from `start` on.

    probs: by node, for the lower orders only.
    """
    for context in range(start, stop):
        log_backoffs[context] = 0
        for node in range(begin[context], begin[context + 1]):
            prob = counts[node] / totals[context - start] if counts[node] > 0 else 0.0
            if node < probs.size:
                probs[node] = prob
            log_probs[node] = math.log(prob) if prob > 0 else -np.inf


@kernel
def count_suffixes(suffixes: Array, first: int, counts: Array) -> None:
    """Count, for each n-gram, the n-grams of the next order that end in it; first: the node of counts[0].

    N-grams outside of `counts` are left out.
    """
    for suffix in suffixes:
        place = suffix - first
        if 0 <= place < counts.size:
            counts[place] += 1


@allocating_kernel
def tally_counts(counts: Array, largest: int) -> Array:
    """Return the numbers of counts that are 0, 1, ..., largest, and above."""
    n = np.zeros(largest + 2, np.int64)
    for count in counts:
        n[min(count, largest + 1)] += 1
    return n


@kernel
def match(words: Array, begin: Array, order: int, stream: Array, nodes: Array, contexts: Array) -> None:
    """Set nodes[i, k] to the (k+1)-gram that ends at stream[i], and contexts[i, k] to its context; NO_NODE where there
    is none.

    Every token is below the vocabulary size.
    """
    inner = begin.size - 1
    for i in range(stream.size):
        begins = i == 0 or stream[i - 1] == END
        contexts[i, 0], nodes[i, 0] = 0, 1 + stream[i]
        for k in range(1, order):
            context = nodes[i - 1, k - 1] if not begins else 1 + BEGIN if k == 1 else NO_NODE
            contexts[i, k] = context
            nodes[i, k] = child(words, begin, context, stream[i]) if 0 <= context < inner else NO_NODE


@allocating_kernel
def expect(
    shares: Array,
    pruned: Array,
    buckets: Array,
    counts: Array,
    bottoms: Array,
    weights: Array,
    stopped: Array,
    reached: Array,
) -> float:
    """Return the expectation step over events with p_k = w (shares_k + pruned_k p_(k-1)) + (1 - w) p_(k-1).

    reached, stopped: by bucket, the expected number of events whose prediction reaches an order, and that its own
    counts generate. A bucket of -1 skips the order. bottoms: p_0. Returns the log-likelihood.
    """
    orders = shares.shape[1]
    probs = np.empty(orders + 1, np.float64)
    total = 0.0
    for i in range(shares.shape[0]):
        probs[0] = bottoms[i]
        for k in range(orders):
            probs[k + 1] = probs[k]
            if buckets[i, k] >= 0:
                weight = weights[buckets[i, k]]
                probs[k + 1] = weight * (shares[i, k] + pruned[i, k] * probs[k]) + (1 - weight) * probs[k]
        if probs[orders] <= 0:
            total = -np.inf
            continue
        total += counts[i] * math.log(probs[orders])
        reach = np.float64(counts[i])
        for k in range(orders - 1, -1, -1):
            if buckets[i, k] >= 0:
                weight = weights[buckets[i, k]]
                reached[buckets[i, k]] += reach
                if probs[k + 1] <= 0:
                    break
                stopped[buckets[i, k]] += reach * weight * (shares[i, k] + pruned[i, k] * probs[k]) / probs[k + 1]
                reach *= (1 - weight + weight * pruned[i, k]) * probs[k] / probs[k + 1]
    return total
