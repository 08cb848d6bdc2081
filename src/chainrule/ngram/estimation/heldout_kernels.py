"""Compiled tuning: looks held-out words up in the trie of counts; a step of expectation maximisation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, kernel
from chainrule.ngram.trie.query_kernels import NO_NODE, child
from chainrule.protocol import BEGIN, END

Array = NDArray[Any]


@kernel
def match(words: Array, begin: Array, order: int, stream: Array, nodes: Array, contexts: Array) -> None:
    """nodes[i, k] = the (k+1)-gram that ends at stream[i], contexts[i, k] = its context; NO_NODE where there is none.

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
    """The expectation step over events with p_k = w (shares_k + pruned_k p_(k-1)) + (1 - w) p_(k-1).

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
