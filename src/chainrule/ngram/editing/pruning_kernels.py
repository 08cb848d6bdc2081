"""The compiled passes of pruning. The trie has been checked, and the suffix of every n-gram is in it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, kernel
from chainrule.ngram.trie.query_kernels import NO_NODE, find_children
from chainrule.protocol import BEGIN, END, UNKNOWN

Array = NDArray[Any]

_BLOCK = 1 << 10  # tokens that go through one order before the next, as in `score_stream`
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
    """entropies[hw] = D(p || p without hw), in nats, for the n-grams after contexts start .. stop.

    Stolcke (1998), equation 3, with P(h) as log_histories has it: what is lost where hw is read off its suffix, and
    what the higher back-off weight of h changes for the words that h has not been seen with.
    """
    for node in range(begin[start], begin[stop]):  # the random reads first, so that the processor overlaps them
        entropies[node] = log_probs[suffixes[node]]
    for context in range(start, stop):
        lower = 0.0
        for node in range(begin[context], begin[context + 1]):
            lower += math.exp(entropies[node])
        left_below = max(1 - lower, 0.0)
        left = math.exp(log_backoffs[context]) * left_below  # is 1 - the sum of p(w|h) of what h has been seen with
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
    """Lifts the score of each context start .. stop to the best of what it is the context of."""
    for context in range(start, stop):
        for node in range(begin[context], begin[context + 1]):
            scores[context] = max(scores[context], scores[node])


@kernel
def chain(start: int, stop: int, begin: Array, log_probs: Array, counts: Array, log_total: float, out: Array) -> None:
    """out[hw] = log P(h) + log P(w|h) for the n-grams after contexts start .. stop, as far as they are contexts.

    counts: of the n-grams in some text, by node, or nothing; where there is one, out[hw] = log count - log_total.
    What is never predicted is <s>, of which a document may begin with several: it is sure to follow.
    """
    for context in range(start, stop):
        for node in range(begin[context], min(begin[context + 1], out.size)):
            if counts.size > 0 and counts[node] > 0:
                out[node] = math.log(counts[node]) - log_total
            else:
                out[node] = out[context] + (log_probs[node] if log_probs[node] > -np.inf else np.float32(0))


@kernel
def back_off_anew(
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
    """Back-off weights of contexts start .. stop without the n-grams that are not kept, and what these back off to.

    old: log-probabilities by node; new: a copy of them, complete in all lower orders, in which those that are not kept
    are overwritten. alpha'(h) = (1 - sum p(w|h)) / (1 - sum p'(w|h')) over what is kept after h; both are reached from
    what alpha(h) says they were, so that nothing moves where nothing has changed.
    """
    for context in range(start, stop):
        low, high = begin[context], begin[context + 1]
        before = lost = lost_below = moved = 0.0
        any_kept = False
        for node in range(low, high):
            suffix = suffixes[node]
            lower = math.exp(old[suffix])
            before += lower
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
            left_below = max(1 - before, 0.0)
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
    """Adds to counts[node] how often each n-gram of 1 .. order tokens stands in a stream of documents.

    Every token is below the vocabulary's size. <s> counts as often as documents begin, and the root stands for what
    the table lacks.
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
    staying: Array,
    kept: Array,
    shares: Array,
    gains: Array,
) -> None:
    """kept[node]: whether all of its words are among those that stay.

    shares[h] = P(<unk> | h) + the sum of P(v | h) over the words v that go: what the suffix of h has of it, backed off,
    corrected for what h has been seen with; gains[h]: whether it has been seen with <unk> or one that goes.
    """
    for context in range(begin.size - 1):  # a context's suffix, which is shorter, comes before it
        is_root = context == 0
        share = 0.0 if is_root else shares[suffixes[context]]
        backoff = 0.0 if is_root else math.exp(log_backoffs[context])
        share *= backoff
        for node in range(begin[context], begin[context + 1]):
            stays = staying[words[node]]
            kept[node] = kept[context] and stays
            if words[node] == UNKNOWN or not stays:
                gains[context] = True
                lower = 0.0 if is_root else math.exp(log_probs[suffixes[node]])
                share += math.exp(log_probs[node]) - backoff * lower
        shares[context] = max(share, 0.0)


@kernel
def undiscounted(start: int, stop: int, begin: Array, log_backoffs: Array, discount: float, counts: Array) -> None:
    """Lifts counts[h] to discount * number of words seen after h / gamma(h), and to 1, for contexts start .. stop."""
    for context in range(start, stop):
        types = begin[context + 1] - begin[context]
        found = discount * types / max(math.exp(log_backoffs[context]), 1e-9)
        counts[context] = max(counts[context], found, 1.0)


@kernel
def add_to_suffixes(start: int, stop: int, suffixes: Array, counts: Array) -> None:
    """Adds the count of each node start .. stop to that of its suffix."""
    for node in range(start, stop):
        counts[suffixes[node]] += counts[node]
