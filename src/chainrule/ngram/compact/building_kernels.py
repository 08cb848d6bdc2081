"""Compiled conversion of tables to compact ones and back; see `table.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, kernel
from chainrule.ngram.compact.query_kernels import (
    BEGINS,
    CHILD,
    CHILDREN,
    CONTEXTS,
    FEW,
    FIRST,
    NOT_STORED,
    OPEN,
    POSITION,
    SIZE,
    STORED_BITS,
    WIDTH,
    backoff_of,
    implied_backoff,
    open_contexts,
    pack_backoff_and_scale,
    read_bits,
    scale_in,
    width_of,
    write_bits,
)
from chainrule.ngram.trie.query_kernels import NO_NODE, children

Array = NDArray[Any]

TOLERANCE = 0.05  # nats; a backoff is stored if the implied one differs by more
_BATCH = 1 << 10
_TINY = 1e-9


@kernel
def link_suffixes(
    words: Array,
    begin: Array,
    first: int,
    start: int,
    stop: int,
    suffixes: Array,
    child: int,
    ranks: Array,
    links: Array,
) -> int:
    """Write the suffixes of the children of contexts start .. stop, and the ranks of these among their siblings.

    Returns the number of missing suffixes, for which it writes NO_NODE. first: the first context of the order.
    suffixes: of the contexts. child: the first node of the children's order, to which ranks[0] and links[0] belong.
    """
    missing = 0
    for context in range(start, stop):
        suffix = suffixes[context - first]
        low, end = children(words, begin, suffix) if suffix != NO_NODE else (0, 0)
        below = low
        for node in range(begin[context], begin[context + 1]):
            high = end
            while low < high:
                middle = (low + high) >> 1
                if words[middle] < words[node]:
                    low = middle + 1
                else:
                    high = middle
            is_match = low < end and words[low] == words[node]
            missing += 0 if is_match else 1
            ranks[node - child] = low - below
            links[node - child] = low if is_match else NO_NODE
    return missing


@kernel
def encode(log_probs: Array, edges: Array, codes: Array) -> None:
    """Set codes[i] to the number of ascending edges that are at most log_probs[i]."""
    for i in range(log_probs.size):
        low, high = 0, edges.size
        while low < high:
            middle = (low + high) >> 1
            if edges[middle] <= log_probs[i]:
                low = middle + 1
            else:
                high = middle
        codes[i] = low


@kernel
def settle_backoffs(
    log_probs: Array,
    begin: Array,
    log_backoffs: Array,
    quantised: Array,
    first: int,
    start: int,
    stop: int,
    suffixes: Array,
    child: int,
    links: Array,
    stored: Array,
    runs: Array,
) -> None:
    """Write, for contexts start .. stop, the number stored before each run, and the size of the run in bits.

    The number is NOT_STORED where the implied backoff is close enough. quantised: the log-probabilities as in the
    compact table; those of the order of the suffixes and below include their scales.
    """
    for context in range(start, stop):
        low, end = np.int64(begin[context]), np.int64(begin[context + 1])
        seen = seen_below = quantised_seen = quantised_below = 0.0
        for node in range(low, end):
            link = links[node - child]
            seen += math.exp(log_probs[node])
            seen_below += math.exp(log_probs[link])
            quantised_seen += math.exp(quantised[node])
            quantised_below += math.exp(quantised[link])
        log_backoff = np.float64(log_backoffs[context])
        if seen_below < 1 - _TINY and quantised_below < 1 - _TINY:
            log_backoff += math.log((1 - seen_below) / (1 - quantised_below))
        size = end - low
        suffix = suffixes[context - first]
        runs[context - first] = size * width_of(begin[suffix + 1] - begin[suffix])
        stored[context - first] = NOT_STORED
        implied = implied_backoff(quantised_seen, quantised_below) if size > 0 else 0.0
        if size > FEW or not abs(implied - log_backoff) <= TOLERANCE:
            scale = math.log(seen / quantised_seen) if seen > 0 and quantised_seen > 0 else 0.0
            stored[context - first] = pack_backoff_and_scale(log_backoff, scale)
            runs[context - first] += STORED_BITS


@kernel
def apply_scales(begin: Array, first: int, stored: Array, quantised: Array) -> None:
    """Add the stored scale of each context, from node `first` on, to its children's quantised log-probabilities."""
    for i in range(stored.size):
        if stored[i] != NOT_STORED:
            for node in range(begin[first + i], begin[first + i + 1]):
                quantised[node] += scale_in(stored[i])


@kernel
def write_runs(
    begin: Array, first: int, suffixes: Array, child: int, ranks: Array, stored: Array, position: int, bits: Array
) -> None:
    """Write the runs of all contexts of an order, from node `first` on, starting at bit `position`."""
    for i in range(suffixes.size):
        context = first + i
        width = width_of(begin[suffixes[i] + 1] - begin[suffixes[i]])
        if stored[i] != NOT_STORED:
            write_bits(bits, position, STORED_BITS, stored[i])
            position += STORED_BITS
        for node in range(begin[context], begin[context + 1]):
            write_bits(bits, position, width, ranks[node - child])
            position += width


@allocating_kernel
def unpack(
    unigrams: Array,
    values: Array,
    probs: Array,
    codes: Array,
    bits: Array,
    location: Array,
    order: int,
    suffixes: Array,
    scales_below: Array,
    first_below: int,
    words: Array,
    log_probs: Array,
    begin: Array,
    log_backoffs: Array,
    links: Array,
    scales: Array,
) -> bool:
    """Write the contexts of one order, and their children of `order`, into a fast table.

    location: the layout's row of the contexts. suffixes, scales: of the contexts. scales_below: of the contexts one
    word shorter, from node `first_below` on. links: the children's suffixes. Returns False for a damaged table, in
    which a child is out of order or has no suffix.
    """
    count, node = _BATCH, location[CHILD]
    contexts, all_rows = np.empty(count, np.int64), np.arange(count)
    opened, below = np.empty((count, OPEN), np.int64), np.zeros((count, OPEN), np.int64)
    for start in range(0, location[CONTEXTS], count):
        count = min(count, location[CONTEXTS] - start)
        for i in range(count):
            suffix = suffixes[start + i]
            contexts[i] = location[FIRST] + start + i
            below[i, BEGINS] = begin[suffix]
            below[i, SIZE] = max(begin[suffix + 1] - begin[suffix], 0)
        open_contexts(bits, location, contexts, all_rows[:count], below, opened, scales[start : start + count])
        for i in range(count):
            scale = scales_below[suffixes[start + i] - first_below]
            log_backoffs[contexts[i]] = backoff_of(unigrams, probs, codes, bits, order, opened[i], below[i], scale)
            begin[contexts[i]] = opened[i, BEGINS]
            if opened[i, BEGINS] != node:
                return False
            for k in range(opened[i, SIZE]):
                rank = read_bits(bits, opened[i, POSITION] + k * opened[i, WIDTH], opened[i, WIDTH])
                if rank >= below[i, SIZE]:
                    return False
                links[node - location[CHILD]] = below[i, BEGINS] + rank
                words[node] = words[below[i, BEGINS] + rank]
                log_probs[node] = values[order - 2, codes[node - 1 - unigrams.size]] + scales[start + i]
                node += 1
    return node == location[CHILD] + location[CHILDREN]
