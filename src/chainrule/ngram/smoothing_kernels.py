"""The compiled passes of smoothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.jit import kernel

Array = NDArray[Any]


@kernel
def count_suffixes(suffixes: Array, counts: Array) -> None:
    """Adds to each n-gram's count the number of n-grams, one order up, that it is the suffix of."""
    for suffix in suffixes:
        counts[suffix] += 1


@kernel
def counts_of_counts(counts: Array) -> Array:
    """How many counts are 0, 1, 2, 3, 4, and more."""
    n = np.zeros(6, np.int64)
    for count in counts:
        n[min(count, 5)] += 1
    return n


@kernel
def interpolate(
    start: int,
    stop: int,
    begin: Array,
    suffixes: Array,
    counts: Array,
    kept: Array,
    discounts: Array,
    lower: Array,
    probs: Array,
    log_probs: Array,
    log_backoffs: Array,
) -> None:
    """p = (a - D(a)) / total + gamma p_lower for the n-grams after contexts start .. stop; log_backoffs gets log gamma.

    discounts: D(0) = 0, D(1), D(2), D(3 and more). A context that nothing follows has gamma = 1. probs may be empty.
    """
    for context in range(start, stop):
        total = 0.0
        spared = 0.0  # what goes to the lower order: discounts of the kept, all of the pruned
        for ngram in range(begin[context], begin[context + 1]):
            count = counts[ngram]
            total += count
            spared += discounts[min(count, 3)] if kept[ngram] else count
        gamma = spared / total if total > 0 else 1.0
        log_backoffs[context] = math.log(gamma) if gamma > 0 else -np.inf
        for ngram in range(begin[context], begin[context + 1]):
            count = counts[ngram]
            discounted = (count - discounts[min(count, 3)]) / total if total > 0 else 0.0
            prob = discounted + gamma * lower[suffixes[ngram]]
            if probs.size > 0:
                probs[ngram] = prob
            log_probs[ngram] = math.log(prob)
