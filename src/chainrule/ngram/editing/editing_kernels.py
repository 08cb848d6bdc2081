"""Compiled passes of pruning and merging tables.

The trie must be checked, and contain the suffixes of all its n-grams.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, kernel
from chainrule.ngram.trie.query_kernels import NO_NODE, find_children
from chainrule.protocol import BEGIN, END, UNKNOWN

Array = NDArray[Any]

_BLOCK = 1 << 10  # tokens that are looked up in one order before the next, as in `score_stream`
_BEGIN_NODE = 1 + BEGIN


@kernel
def relative_entropies(
    start: int,
    stop: int,
    begin: Array,
    suffixes: Array,
    log_probs: Array,
    log_backoffs: Array,
    log_histories: Array,
    entropies: Array,
) -> None:
    """Set entropies[hw] to D(p || p without hw), in nats, for the n-grams after contexts start .. stop.

    Stolcke (1998), equation 3, with P(h) from log_histories: the change of p(w|h), which backs off, and that of the
    words not seen after h, through the higher backoff of h. entropies[node] first holds the log-probability of the
    suffix, as scratch.
    """
    for node in range(begin[start], begin[stop]):  # the random reads first, so that the processor overlaps them
        entropies[node] = log_probs[suffixes[node]]
    for context in range(start, stop):
        lower = 0.0
        for node in range(begin[context], begin[context + 1]):
            lower += math.exp(entropies[node])
        left_below = max(1 - lower, 0.0)
        left = math.exp(log_backoffs[context]) * left_below  # 1 - the sum of p(w|h) over the words seen after h
        history = math.exp(log_histories[context])
        for node in range(begin[context], begin[context + 1]):
            log_prob, log_lower = np.float64(log_probs[node]), np.float64(entropies[node])
            prob = math.exp(log_prob)
            if log_lower == -np.inf:
                entropies[node] = np.inf if prob > 0 else 0.0
                continue
            log_backoff = math.log((left + prob) / (left_below + math.exp(log_lower))) if left + prob > 0 else 0.0
            change = prob * (log_prob - log_lower - log_backoff) if prob > 0 else 0.0
            if left > 0:
                change -= left * (log_backoff - log_backoffs[context])
            entropies[node] = max(history * change, 0.0)


@kernel
def raise_contexts(start: int, stop: int, begin: Array, scores: Array) -> None:
    """Raise the score of each context start .. stop to the highest score of its children."""
    for context in range(start, stop):
        for node in range(begin[context], begin[context + 1]):
            scores[context] = max(scores[context], scores[node])


@kernel
def chain(start: int, stop: int, begin: Array, log_probs: Array, counts: Array, log_total: float, out: Array) -> None:
    """Set out[hw] to log P(h) + log P(w|h) for the n-grams after contexts start .. stop, if they are contexts.

    counts: of the n-grams in a text, by node, or empty; where a count is above 0, out[hw] = log count - log_total.
    Only <s> is never predicted; where documents begin with several, it follows <s> with probability one.
    """
    for context in range(start, stop):
        for node in range(begin[context], min(begin[context + 1], out.size)):
            if counts.size > 0 and counts[node] > 0:
                out[node] = math.log(counts[node]) - log_total
            else:
                out[node] = out[context] + (log_probs[node] if log_probs[node] > -np.inf else np.float32(0))


@kernel
def renormalise(
    start: int,
    stop: int,
    begin: Array,
    suffixes: Array,
    kept: Array,
    old: Array,
    log_backoffs: Array,
    new: Array,
    new_backoffs: Array,
) -> None:
    """Write the backoffs of contexts start .. stop after pruning, and the log-probabilities of the pruned n-grams.

    old: log-probabilities by node; new: a copy of them, complete in all lower orders, in which those of pruned n-grams
    are overwritten. alpha'(h) = (1 - sum p(w|h)) / (1 - sum p'(w|h')) over the words kept after h; both are computed as
    changes of what alpha(h) implies, so that nothing changes where nothing is pruned.
    """
    for context in range(start, stop):
        low, high = begin[context], begin[context + 1]
        seen_below = lost = lost_below = moved = 0.0
        any_kept = False
        for node in range(low, high):
            suffix = suffixes[node]
            lower = math.exp(old[suffix])
            seen_below += lower
            if kept[node]:
                any_kept = True
                moved += lower - math.exp(new[suffix])
            else:
                lost += math.exp(old[node])
                lost_below += lower
        backoff = log_backoffs[context]
        if not any_kept:
            backoff = np.float32(0)
        elif lost > 0 or lost_below > 0 or moved != 0:
            left_below = max(1 - seen_below, 0.0)
            left = math.exp(backoff) * left_below + lost
            below = left_below + lost_below + moved
            if below > 0:
                backoff = np.float32(math.log(left / below)) if left > 0 else np.float32(-np.inf)
        new_backoffs[context] = backoff
        for node in range(low, high):
            if not kept[node]:
                new[node] = backoff + new[suffixes[node]]


@allocating_kernel
def count_occurrences(
    words: Array, begin: Array, slots: Array, inner: int, order: int, stream: Array, counts: Array
) -> None:
    """Add to counts[node] how often each n-gram of 1 .. order tokens occurs in a stream of documents.

    Tokens must be below the vocabulary size. <s> counts once for each document; the root counts all n-grams that the
    table lacks.
    """
    nodes, contexts = np.empty((order + 1, _BLOCK + 1), np.int64), np.empty((order + 1, _BLOCK), np.int64)
    scratch = np.empty((5, _BLOCK + 1), np.int64)
    nodes[1, 0] = 1 + END
    for first in range(0, stream.size, _BLOCK):
        size = min(_BLOCK, stream.size - first)
        tokens = stream[first : first + size]
        for i in range(size):
            nodes[1, i + 1] = 1 + tokens[i]
            counts[1 + tokens[i]] += 1
            if nodes[1, i] == 1 + END:
                counts[_BEGIN_NODE] += 1
        for n in range(2, order + 1):
            for i in range(size):
                after_end = _BEGIN_NODE if n == 2 else NO_NODE
                contexts[n, i] = after_end if nodes[1, i] == 1 + END else nodes[n - 1, i]
            find_children(words, begin, slots, inner, contexts[n, :size], tokens, scratch, nodes[n, 1:])
            for i in range(size):
                counts[max(nodes[n, i + 1], 0)] += 1
        for n in range(1, order + 1):
            nodes[n, 0] = nodes[n, size]


@kernel
def unknown_shares(
    words: Array,
    begin: Array,
    suffixes: Array,
    log_probs: Array,
    log_backoffs: Array,
    remaining: Array,
    kept: Array,
    shares: Array,
    gains: Array,
) -> None:
    """Compute P'(<unk> | h) of a smaller vocabulary. remaining: by word. kept[node]: whether all its words remain.

    shares[h] = P(<unk> | h) + the sum of P(v | h) over the removed words v: the share of the suffix of h, backed off,
    corrected for the words seen after h. gains[h]: whether <unk> or a removed word was seen after h.
    """
    for context in range(begin.size - 1):  # suffixes are shorter and come first
        is_root = context == 0
        share = 0.0 if is_root else shares[suffixes[context]]
        backoff = 0.0 if is_root else math.exp(log_backoffs[context])
        share *= backoff
        for node in range(begin[context], begin[context + 1]):
            remains = remaining[words[node]]
            kept[node] = kept[context] and remains
            if words[node] == UNKNOWN or not remains:
                gains[context] = True
                lower = 0.0 if is_root else math.exp(log_probs[suffixes[node]])
                share += math.exp(log_probs[node]) - backoff * lower
        shares[context] = max(share, 0.0)


@kernel
def recover_counts(start: int, stop: int, begin: Array, log_backoffs: Array, discount: float, counts: Array) -> None:
    """Raise counts[h] to at least discount * N(h) / gamma(h), N(h) being the types seen after h, and at least 1."""
    for context in range(start, stop):
        types = begin[context + 1] - begin[context]
        recovered = discount * types / max(math.exp(log_backoffs[context]), 1e-9)
        counts[context] = max(counts[context], recovered, 1.0)


@kernel
def add_to_suffixes(start: int, stop: int, suffixes: Array, counts: Array) -> None:
    """Add the count of each node start .. stop to that of its suffix."""
    for node in range(start, stop):
        counts[suffixes[node]] += counts[node]


@kernel
def union(a: Array, b: Array, out: Array) -> int:
    """Write the union of two ascending arrays in order; return its size."""
    i = j = size = 0
    while i < a.size or j < b.size:
        take_a = j == b.size or (i < a.size and a[i] <= b[j])
        value = a[i] if take_a else b[j]
        j += not take_a or (j < b.size and b[j] == value)
        i += take_a
        out[size] = value
        size += 1
    return size


@kernel
def find_ascending(array: Array, items: Array, indices: Array) -> None:
    """Set indices[i] to the index of items[i] in `array`; both ascend, and `array` contains all items."""
    at = 0
    for i in range(items.size):
        while array[at] < items[i]:
            at += 1
        indices[i] = at


@kernel
def add_component(
    start: int,
    stop: int,
    begin: Array,
    suffixes: Array,
    nodes: Array,
    log_probs: Array,
    log_backoffs: Array,
    weight: float,
    values: Array,
    mixed: Array,
    left: Array,
    left_below: Array,
) -> None:
    """Add the weighted probabilities of one table to the n-grams after contexts start .. stop of a union.

    nodes: the table's node of each node of the union, or -1. values: its log-probabilities by nodes of the union,
    complete in all lower orders. left, left_below: get its shares of 1 - sum p(w|h) and 1 - sum p(w|h').
    """
    for context in range(start, stop):
        own = nodes[context]
        backoff = np.float64(log_backoffs[own]) if 0 <= own < log_backoffs.size else 0.0
        lower = 0.0
        for node in range(begin[context], begin[context + 1]):
            suffix = suffixes[node]
            values[node] = log_probs[nodes[node]] if nodes[node] >= 0 else backoff + values[suffix]
            mixed[node] += weight * math.exp(values[node])
            lower += math.exp(values[suffix])
        below = weight * max(1 - lower, 1e-9)  # positive, so that backoffs are averaged even if all words were seen
        left[context] += math.exp(backoff) * below
        left_below[context] += below
