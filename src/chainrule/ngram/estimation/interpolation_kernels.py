"""The compiled passes of smoothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, kernel

Array = NDArray[Any]


@kernel
def count_suffixes(suffixes: Array, first: int, counts: Array) -> None:
    """Adds to each n-gram's count the number of n-grams, one order up, that it is the suffix of; first: their node."""
    for suffix in suffixes:
        counts[suffix - first] += 1


@allocating_kernel
def counts_of_counts(counts: Array, largest: int) -> Array:
    """How many counts are 0, 1, ..., largest, and more."""
    n = np.zeros(largest + 2, np.int64)
    for count in counts:
        n[min(count, largest + 1)] += 1
    return n


@kernel
def interpolate(
    start: int,
    stop: int,
    begin: Array,
    suffixes: Array,
    adjusted: Array,
    first: int,
    counts: Array,
    least: int,
    discounts: Array,
    probs: Array,
    log_probs: Array,
    log_backoffs: Array,
) -> None:
    """p = (a - D(a)) / total + gamma p_lower for the n-grams after contexts start .. stop; log_backoffs gets log gamma.

    adjusted: counts a of the level's n-grams, from node `first` on. least: n-grams seen less often are pruned.
    discounts: D(0) = 0, D(1), D(2), D(3 and more). A context that nothing follows has gamma = 1. probs: by node,
    written as far as there is room; `adjusted` may lie there, since each count is read before it is written over.
    """
    for node in range(begin[start], begin[stop]):  # the random reads first, so that the processor overlaps them
        log_probs[node] = probs[suffixes[node]]
    for context in range(start, stop):
        total = 0.0
        spared = 0.0  # what goes to the lower order: discounts of the kept, all of the pruned
        for node in range(begin[context], begin[context + 1]):
            count = adjusted[node - first]
            total += count
            spared += discounts[min(count, 3)] if counts[node] >= least else count
        gamma = spared / total if total > 0 else 1.0
        log_backoffs[context] = math.log(gamma) if gamma > 0 else -np.inf
        for node in range(begin[context], begin[context + 1]):
            count = adjusted[node - first]
            discounted = (count - discounts[min(count, 3)]) / total if total > 0 else 0.0
            prob = discounted + gamma * log_probs[node]
            if node < probs.size:
                probs[node] = prob
            log_probs[node] = math.log(prob)
