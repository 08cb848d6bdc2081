"""The compiled passes that several estimators share; the one of interpolated discounts is in `smoothing_kernels.py`.

An n-gram with a count of 0 stands in the trie only as a context; it counts as unseen.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, kernel

Array = NDArray[Any]

_NOTHING_LEFT = 1e-8  # of a distribution, that is: only rounding


@kernel
def sum_children(start: int, stop: int, begin: Array, counts: Array, first: int, totals: Array, kinds: Array) -> None:
    """How often something follows the contexts start .. stop, and how many kinds; first: the node of counts[0]."""
    for context in range(start, stop):
        total = kind = 0
        for node in range(begin[context], begin[context + 1]):
            total += counts[node - first]
            kind += counts[node - first] > 0
        totals[context - start], kinds[context - start] = total, kind


@kernel
def sum_kinds(start: int, stop: int, begin: Array, counts: Array, first: int, sums: Array) -> None:
    """By context from `start` on, the sum of the counts of what follows, and how many are 1, 2, and 3 or more."""
    for context in range(start, stop):
        row = sums[context - start]
        row[:] = 0
        for node in range(begin[context], begin[context + 1]):
            count = counts[node - first]
            row[0] += count
            if count > 0:
                row[min(count, 3)] += 1


@kernel
def weigh(
    start: int,
    stop: int,
    begin: Array,
    suffixes: Array,
    counts: Array,
    least: int,
    totals: Array,
    weights: Array,
    probs: Array,
    log_probs: Array,
    log_backoffs: Array,
) -> None:
    """p = w(h) c(hw) / c(h) + gamma(h) p_lower for what follows contexts start .. stop; log_backoffs gets log gamma.

    gamma = 1 - w, and what the pruned had, those seen less often than `least`. weights, totals: from `start` on.
    probs: by node, written as far as there is room.
    """
    for node in range(begin[start], begin[stop]):  # the random reads first, so that the processor overlaps them
        log_probs[node] = probs[suffixes[node]]
    for context in range(start, stop):
        total, weight = totals[context - start], weights[context - start]
        share = weight / total if total > 0 else 0.0
        gamma = 1 - weight if total > 0 else 1.0
        for node in range(begin[context], begin[context + 1]):
            if counts[node] < least:
                gamma += share * counts[node]
        log_backoffs[context] = math.log(gamma) if gamma > 0 else -np.inf
        for node in range(begin[context], begin[context + 1]):
            prob = gamma * log_probs[node]
            if counts[node] >= least:
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
    least: int,
    discounts: Array,
    probs: Array,
    log_probs: Array,
    log_backoffs: Array,
) -> None:
    """p = (a - D(a)) / total for what was seen after contexts start .. stop, and gamma p_lower for what was not.

    gamma makes the whole one. The arguments are those of `interpolate`, but for discounts: D(0) = 0, D(1), ...,
    the last one for all larger counts. Where nothing at all is discounted, one count is set aside for the
    unseen. Where nothing is unseen, the seen share all; if nothing of them is left, the lower order gives all.
    """
    largest = discounts.size - 1
    room = 0
    for context in range(start, stop):
        room = max(room, begin[context + 1] - begin[context])
    lower = np.empty(room, np.float64)
    for context in range(start, stop):
        low, high = begin[context], begin[context + 1]
        total = spared = covered = 0.0
        for node in range(low, high):
            lower[node - low] = probs[suffixes[node]]
        for node in range(low, high):
            count = adjusted[node - first]
            total += count
            if count > 0 and counts[node] >= least:
                spared += discounts[min(count, largest)]
                covered += lower[node - low]
            else:
                spared += count
        is_all_seen = 1 - covered <= _NOTHING_LEFT
        if total == 0 or (is_all_seen and total - spared <= _NOTHING_LEFT * total):
            log_backoffs[context] = 0.0
            for node in range(low, high):
                if node < probs.size:
                    probs[node] = lower[node - low]
                log_probs[node] = math.log(lower[node - low]) if lower[node - low] > 0 else -np.inf
            continue
        if spared <= 0:
            total += 1
            spared = 1.0
        gamma = 0.0
        if is_all_seen:
            total -= spared
        else:
            gamma = spared / total / (1 - covered)
        log_backoffs[context] = math.log(gamma) if gamma > 0 else -np.inf
        for node in range(low, high):
            count = adjusted[node - first]
            if count > 0 and counts[node] >= least:
                prob = (count - discounts[min(count, largest)]) / total
            else:
                prob = gamma * lower[node - low]
            if node < probs.size:
                probs[node] = prob
            log_probs[node] = math.log(prob) if prob > 0 else -np.inf


@kernel
def relative(
    start: int,
    stop: int,
    begin: Array,
    counts: Array,
    totals: Array,
    probs: Array,
    log_probs: Array,
    log_backoffs: Array,
) -> None:
    """log c(hw) / c(h) for what follows contexts start .. stop, and nothing for backing off. totals: from `start` on.

    probs: by node, written as far as there is room.
    """
    for context in range(start, stop):
        log_backoffs[context] = 0
        for node in range(begin[context], begin[context + 1]):
            prob = counts[node] / totals[context - start] if counts[node] > 0 else 0.0
            if node < probs.size:
                probs[node] = prob
            log_probs[node] = math.log(prob) if prob > 0 else -np.inf
