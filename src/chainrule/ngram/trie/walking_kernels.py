"""Scoring a stream along suffixes: a token takes one look-up where its n-gram is known, whatever the order.

The longest known context is kept from token to token. Where it has no such child its back-off counts, and it is
shortened to its suffix, which is stored; a token makes it longer by one at most, so a token takes two look-ups at most
on average. Each look-up waits for the one before, so many parts of the stream are walked at once, and each step asks
the memory for what the next one reads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, kernel, prefetch
from chainrule.ngram.trie.hash_index_kernels import LONG_RUN, slot_of
from chainrule.ngram.trie.query_kernels import NO_NODE, children, in_run, unknown_child
from chainrule.protocol import BEGIN, END, UNKNOWN

Array = NDArray[Any]

LANES = 32  # parts that are walked at once
_ROOT, _BEGIN_NODE = 0, 1 + BEGIN
_BLOCK = 1 << 8  # contexts that are looked at side by side


@kernel
def _at_most(number: int, most: int) -> int:
    """A number from a file, as an index."""
    return min(max(number, 0), most)


@kernel
def unknown_follows(words: Array, begin: Array, vocabulary_size: int) -> bool:
    """Whether <unk> was seen after any token, as it was wherever it was seen after more of them."""
    for token in range(min(vocabulary_size, begin.size - 2)):
        if unknown_child(words, begin, 1 + token) != NO_NODE:
            return True
    return False


@allocating_kernel
def _score_unknown(
    words: Array,
    log_probs: Array,
    begin: Array,
    log_backoffs: Array,
    suffixes: Array,
    order: int,
    contexts: Array,
    scores: Array,
    follows: bool,
) -> None:
    """scores[i] = log P(<unk> | contexts[i]), each the longest that is known.

    From the longest context to the shorter ones, until <unk> was seen after one; then the back-offs are added, that of
    the shortest first, as `score_stream` adds them.
    """
    inner, longest = log_backoffs.size, max(order - 1, 1)
    at, lowest = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.float32)
    alive, depths = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    backoffs = np.empty((longest, _BLOCK), np.float32)
    for first in range(0, contexts.size, _BLOCK):
        count = live = min(_BLOCK, contexts.size - first)
        for i in range(count):
            at[i] = _at_most(contexts[first + i], inner - 1)
            alive[i], depths[i], lowest[i] = i, 0, log_probs[1 + UNKNOWN]
            prefetch(begin, at[i])
            prefetch(suffixes, at[i])
        for depth in range(longest):
            going_on = 0
            for j in range(live):
                i = alive[j]
                context = at[i]
                if context == _ROOT:
                    continue
                node = unknown_child(words, begin, context) if follows else NO_NODE
                if node != NO_NODE:
                    lowest[i] = log_probs[node]
                    continue
                backoffs[depth, i], depths[i] = log_backoffs[context], depth + 1
                at[i] = _at_most(int(suffixes[context]), inner - 1)
                prefetch(begin, at[i])
                prefetch(suffixes, at[i])
                alive[going_on] = i
                going_on += 1
            live = going_on
        for i in range(count):
            score = lowest[i]
            for depth in range(depths[i] - 1, -1, -1):
                score += backoffs[depth, i]
            scores[first + i] = score


@allocating_kernel
def walk_stream(
    words: Array,
    log_probs: Array,
    begin: Array,
    log_backoffs: Array,
    slots: Array,
    suffixes: Array,
    order: int,
    stream: Array,
    start: int,
    stop: int,
    scores: Array,
    lengths: Array,
    unknown: Array,
    follows: bool,
) -> None:
    """As `score_stream`, of a table that has suffixes, bit for bit the same.

    follows: whether <unk> was seen after any context; see `unknown_follows`.
    A part begins order - 1 tokens early, with no context, and knows as much as one that began with the stream when it
    comes to its own tokens.
    """
    inner, last, longest = log_backoffs.size, words.size - 1, order - 1
    long_run = LONG_RUN if slots.size > 0 else words.size
    # By lane: where it is, its first own token, and where it ends; the context and its length; its children, and where
    # the one looked for may be; the back-offs of contexts that did not have the token.
    at, own, end = np.empty(LANES, np.int64), np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    context, length = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    low, size = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    slot, place = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    failed, backoffs = np.zeros(LANES, np.int64), np.empty((LANES, order), np.float32)
    lanes, live = np.arange(LANES), 0
    contexts = np.empty(stop - start if unknown.size > 0 else 0, np.int64)  # the longest known before each token
    for lane in range(LANES):
        own[live], end[live] = start + (stop - start) * lane // LANES, start + (stop - start) * (lane + 1) // LANES
        at[live] = max(start, own[live] - longest)
        is_first = at[live] == start or stream[at[live] - 1] == END
        context[live], length[live] = (_BEGIN_NODE, min(1, longest)) if is_first else (_ROOT, 0)
        live += own[live] < end[live]
    while live > 0:
        for i in range(live):
            lane = lanes[i]
            node, token = context[lane], stream[at[lane]]
            if length[lane] == 0:  # the unigrams are in order
                low[lane], size[lane] = 1 + token, 1
                prefetch(words, 1 + token)
                continue
            first, after = children(words, begin, node)
            low[lane], size[lane] = first, after - first
            slot[lane] = slot_of(node, token, slots.size)
            prefetch(slots, slot[lane])
            prefetch(words, low[lane])  # a run that is not long has no third line
            prefetch(words, low[lane] + size[lane] - 1)
            prefetch(suffixes, node)
        for i in range(live):
            lane = lanes[i]
            place[lane] = min(low[lane] + (size[lane] >> 1), last)
            if size[lane] > long_run:
                place[lane] = _at_most(int(slots[slot[lane]]), last)
                prefetch(words, place[lane])
            prefetch(suffixes, place[lane])
        i = 0
        while i < live:
            lane = lanes[i]
            token = stream[at[lane]]
            if contexts.size > 0 and failed[lane] == 0 and at[lane] >= own[lane]:
                contexts[at[lane] - start] = context[lane]
            node = 1 + token
            if length[lane] > 0:
                node = in_run(words, low[lane], size[lane], long_run, token, slots, slot[lane], place[lane])
            if node == NO_NODE:
                backoffs[lane, failed[lane]] = log_backoffs[context[lane]]
                failed[lane] += 1
                length[lane] -= 1
                context[lane] = _at_most(int(suffixes[context[lane]]), inner - 1)
                prefetch(begin, context[lane])
                i += 1
                continue
            if at[lane] >= own[lane]:
                score = log_probs[node]
                for k in range(failed[lane] - 1, -1, -1):  # the shortest context first, as `score_stream` adds them
                    score += backoffs[lane, k]
                scores[at[lane]] = score
                if lengths.size > 0:
                    lengths[at[lane]] = length[lane] + 1
            failed[lane] = 0
            if token == END:
                context[lane], length[lane] = _BEGIN_NODE, min(1, longest)
            elif length[lane] < longest:
                context[lane], length[lane] = min(node, inner - 1), length[lane] + 1
            else:
                context[lane] = _at_most(int(suffixes[node]), inner - 1)
            prefetch(begin, context[lane])
            at[lane] += 1
            if at[lane] == end[lane]:
                live -= 1
                lanes[i], lanes[live] = lanes[live], lane
            else:
                i += 1
    if unknown.size > 0:
        _score_unknown(words, log_probs, begin, log_backoffs, suffixes, order, contexts, unknown[start:stop], follows)
