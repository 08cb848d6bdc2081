"""Compiled merging of tables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel

Array = NDArray[Any]


@kernel
def union(a: Array, b: Array, out: Array) -> int:
    """Writes the union of two ascending arrays in order; returns its size."""
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
    """indices[i] = the index of items[i] in `array`; both ascend, and `array` contains all items."""
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
    """Adds the weighted probabilities of one table to the n-grams after contexts start .. stop of a union.

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
