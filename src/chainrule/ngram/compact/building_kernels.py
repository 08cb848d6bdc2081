"""The compiled side of making compact tables, and of making fast ones of them again; see `compact.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, kernel
from chainrule.ngram.compact.bits_kernels import read_bits, width_of, write_bits
from chainrule.ngram.compact.query_kernels import (
    BEGINS,
    CHILD,
    CHILDREN,
    CONTEXTS,
    FEW,
    FIRST,
    NOT_STORED,
    OPEN,
    PLACE,
    SIZE,
    STORED_BITS,
    WIDTH,
    backoff_of,
    implied_backoff,
    open_contexts,
    scale_in,
    stored_number,
)
from chainrule.ngram.trie.query_kernels import NO_NODE, children

Array = NDArray[Any]

CLOSE_ENOUGH = 0.05  # nats that an implied back-off may be off before it is stored instead
_OPENED_AT_ONCE = 1 << 10
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
    """For the children of the contexts start .. stop of an order that begins at `first`: their suffixes, and their
    ranks among the siblings there. How many suffixes are not there; they have NO_NODE instead.

    suffixes: of the contexts. child: where the order of the children begins; ranks and links are theirs.
    """
    lacking = 0
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
            is_there = low < end and words[low] == words[node]
            lacking += 0 if is_there else 1
            ranks[node - child] = low - below
            links[node - child] = low if is_there else NO_NODE
    return lacking


@kernel
def encode(log_probs: Array, edges: Array, codes: Array) -> None:
    """codes[i] = how many of the ascending edges are no larger than a log-probability."""
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
    """For the contexts start .. stop: what is stored before their runs, NOT_STORED where their back-off is implied well
    enough, and how many bits their runs take; and the scales go into `quantised`.

    quantised: log-probabilities as the compact table has them, up to the order of the suffixes with their scales.
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
        if size > FEW or not abs(implied - log_backoff) <= CLOSE_ENOUGH:
            scale = math.log(seen / quantised_seen) if seen > 0 and quantised_seen > 0 else 0.0
            stored[context - first] = stored_number(log_backoff, scale)
            runs[context - first] += STORED_BITS


@kernel
def apply_scales(begin: Array, first: int, stored: Array, quantised: Array) -> None:
    """Adds the stored scale of each context, from the `first` on, to its children's quantised log-probabilities."""
    for i in range(stored.size):
        if stored[i] != NOT_STORED:
            for node in range(begin[first + i], begin[first + i + 1]):
                quantised[node] += scale_in(stored[i])


@kernel
def write_runs(
    begin: Array, first: int, suffixes: Array, child: int, ranks: Array, stored: Array, place: int, bits: Array
) -> None:
    """Writes the runs of all contexts of the order from `first` on, from bit `place` on."""
    for i in range(suffixes.size):
        context = first + i
        width = width_of(begin[suffixes[i] + 1] - begin[suffixes[i]])
        if stored[i] != NOT_STORED:
            write_bits(bits, place, STORED_BITS, stored[i])
            place += STORED_BITS
        for node in range(begin[context], begin[context + 1]):
            write_bits(bits, place, width, ranks[node - child])
            place += width


@allocating_kernel
def unpack(
    unigrams: Array,
    values: Array,
    probs: Array,
    codes: Array,
    bits: Array,
    where: Array,
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
    """Writes the contexts whose row of the layout `where` is, and their children of `order`, as `table.py` has them.

    suffixes, scales: of the contexts. scales_below: of all contexts that are a word shorter, from `first_below` on.
    links: the children's suffixes. False where a child has no place or no suffix: the table is damaged.
    """
    count, node = _OPENED_AT_ONCE, where[CHILD]
    contexts, everywhere = np.empty(count, np.int64), np.arange(count)
    opened, below = np.empty((count, OPEN), np.int64), np.zeros((count, OPEN), np.int64)
    for start in range(0, where[CONTEXTS], count):
        count = min(count, where[CONTEXTS] - start)
        for i in range(count):
            suffix = suffixes[start + i]
            contexts[i] = where[FIRST] + start + i
            below[i, BEGINS] = begin[suffix]
            below[i, SIZE] = max(begin[suffix + 1] - begin[suffix], 0)
        open_contexts(bits, where, contexts, everywhere[:count], below, opened, scales[start : start + count])
        for i in range(count):
            scale = scales_below[suffixes[start + i] - first_below]
            log_backoffs[contexts[i]] = backoff_of(unigrams, probs, codes, bits, order, opened[i], below[i], scale)
            begin[contexts[i]] = opened[i, BEGINS]
            if opened[i, BEGINS] != node:
                return False
            for k in range(opened[i, SIZE]):
                rank = read_bits(bits, opened[i, PLACE] + k * opened[i, WIDTH], opened[i, WIDTH])
                if rank >= below[i, SIZE]:
                    return False
                links[node - where[CHILD]] = below[i, BEGINS] + rank
                words[node] = words[below[i, BEGINS] + rank]
                log_probs[node] = values[order - 2, codes[node - 1 - unigrams.size]] + scales[start + i]
                node += 1
    return node == where[CHILD] + where[CHILDREN]
