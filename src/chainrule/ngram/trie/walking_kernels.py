"""Scores a stream by following suffixes: one look-up for each token whose n-gram is known, whatever the order.

The longest known context is carried from token to token. If the token is not among its children, its backoff is added
and it is shortened to its suffix, which is stored. A token lengthens it by at most one, so a token takes at most two
look-ups on average. Each look-up depends on the one before; therefore many parts of the stream, the lanes, are walked
at once, and each step prefetches what the next one reads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.intrinsics import prefetch
from chainrule.base.jit import allocating_kernel, kernel
from chainrule.ngram.trie.query_kernels import LONG_RUN, NO_NODE, children, in_run, slot_of, unknown_child
from chainrule.protocol import BEGIN, END, UNKNOWN

Array = NDArray[Any]

LANES = 32  # parts of a stream that are walked at once
_ROOT, _BEGIN_NODE = 0, 1 + BEGIN
_BLOCK = 1 << 8  # contexts whose look-ups are interleaved
_AHEAD = 32  # contexts whose suffixes are asked for ahead


@kernel
def _clamp(number: int, largest: int) -> int:
    """Return a number from a file, brought into 0 .. largest, as an index."""
    return min(max(number, 0), largest)


@kernel
def unknown_follows(words: Array, begin: Array, vocabulary_size: int) -> bool:
    """Return whether <unk> was seen after any token. If not, it was seen after no longer context, either."""
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
    """Set scores[i] to log P(<unk> | contexts[i]), where these are the longest known contexts.

    Shortens each context until <unk> was seen after it, then adds the backoffs, that of the shortest context first, as
    `score_stream` does.
    """
    inner, longest = begin.size - 1, max(order - 1, 1)
    at, lowest = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.float32)
    active, depths = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    backoffs = np.empty((longest, _BLOCK), np.float32)
    for first in range(0, contexts.size, _BLOCK):
        count = live = min(_BLOCK, contexts.size - first)
        for i in range(count):
            at[i] = _clamp(contexts[first + i], inner - 1)
            active[i], depths[i], lowest[i] = i, 0, log_probs[1 + UNKNOWN]
            prefetch(begin, at[i])
            prefetch(suffixes, at[i])
        for depth in range(longest):
            remaining = 0
            for j in range(live):
                i = active[j]
                context = at[i]
                if context == _ROOT:
                    continue
                node = unknown_child(words, begin, context) if follows else NO_NODE
                if node != NO_NODE:
                    lowest[i] = log_probs[node]
                    continue
                backoffs[depth, i], depths[i] = log_backoffs[context], depth + 1
                at[i] = _clamp(int(suffixes[context]), inner - 1)
                prefetch(begin, at[i])
                prefetch(suffixes, at[i])
                active[remaining] = i
                remaining += 1
            live = remaining
        for i in range(count):
            score = lowest[i]
            for depth in range(depths[i] - 1, -1, -1):
                score += backoffs[depth, i]
            scores[first + i] = score


@kernel
def unknown_after_all(
    words: Array, log_probs: Array, begin: Array, log_backoffs: Array, suffixes: Array, follows: bool, scores: Array
) -> bool:
    """Set scores[context] to what `_score_unknown` finds, for all contexts.

    Returns False for a damaged table, in which a suffix does not come before its n-gram.
    """
    for context in range(scores.size):
        if context == _ROOT:
            scores[context] = log_probs[1 + UNKNOWN]
            continue
        prefetch(scores, int(suffixes[min(context + _AHEAD, scores.size - 1)]))
        suffix = int(suffixes[context])
        if not 0 <= suffix < context:
            return False
        node = unknown_child(words, begin, context) if follows else NO_NODE
        scores[context] = log_probs[node] if node != NO_NODE else scores[suffix] + log_backoffs[context]
    return True


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
    unknown_after: Array,
) -> None:
    """Score a stream as `score_stream` does, for a table with suffixes; the results are identical.

    follows: whether <unk> was seen after any context; see `unknown_follows`. unknown_after: the scores of <unk> after
    all contexts, see `unknown_after_all`; empty if they are not known. A lane starts order - 1 tokens before its
    own tokens, with an empty context, and so has the full context when it reaches them.
    """
    inner, last, longest = begin.size - 1, words.size - 1, order - 1
    long_run = LONG_RUN if slots.size > 0 else words.size
    # By lane: its position, its first own token and its end; the context and its length; the context's children and
    # a candidate for the token's node; the backoffs of contexts without the token.
    at, first_own, end = np.empty(LANES, np.int64), np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    context, length = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    low, size = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    slot, candidate = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    backed_off, backoffs = np.zeros(LANES, np.int64), np.empty((LANES, order), np.float32)
    lanes, live = np.arange(LANES), 0
    # the longest known context before each token
    contexts = np.empty(stop - start if unknown.size > 0 and unknown_after.size == 0 else 0, np.int64)
    for lane in range(LANES):
        first_own[live], end[live] = (
            start + (stop - start) * lane // LANES,
            start + (stop - start) * (lane + 1) // LANES,
        )
        at[live] = max(start, first_own[live] - longest)
        is_first = at[live] == start or stream[at[live] - 1] == END
        context[live], length[live] = (_BEGIN_NODE, min(1, longest)) if is_first else (_ROOT, 0)
        live += first_own[live] < end[live]
    while live > 0:
        for i in range(live):
            lane = lanes[i]
            node, token = context[lane], stream[at[lane]]
            if length[lane] == 0:  # the unigrams are sorted by id
                low[lane], size[lane] = 1 + token, 1
                prefetch(words, 1 + token)
                continue
            first, after = children(words, begin, node)
            low[lane], size[lane] = first, after - first
            slot[lane] = slot_of(node, token, slots.size)
            prefetch(slots, slot[lane])
            prefetch(words, low[lane])  # a short run spans at most two cache lines
            prefetch(words, low[lane] + size[lane] - 1)
            prefetch(suffixes, node)
        for i in range(live):
            lane = lanes[i]
            candidate[lane] = min(low[lane] + (size[lane] >> 1), last)
            if size[lane] > long_run:
                candidate[lane] = _clamp(int(slots[slot[lane]]), last)
                prefetch(words, candidate[lane])
            prefetch(suffixes, candidate[lane])
        i = 0
        while i < live:
            lane = lanes[i]
            token = stream[at[lane]]
            if unknown.size > 0 and backed_off[lane] == 0 and at[lane] >= first_own[lane]:
                if contexts.size > 0:
                    contexts[at[lane] - start] = context[lane]
                else:
                    unknown[at[lane]] = unknown_after[min(context[lane], unknown_after.size - 1)]
            node = 1 + token
            if length[lane] > 0:
                node = in_run(words, low[lane], size[lane], long_run, token, slots, slot[lane], candidate[lane])
            if node == NO_NODE:
                backoffs[lane, backed_off[lane]] = log_backoffs[context[lane]]
                backed_off[lane] += 1
                length[lane] -= 1
                context[lane] = _clamp(int(suffixes[context[lane]]), inner - 1)
                prefetch(begin, context[lane])
                i += 1
                continue
            if at[lane] >= first_own[lane]:
                score = log_probs[node]
                for k in range(backed_off[lane] - 1, -1, -1):  # the shortest context first, as in `score_stream`
                    score += backoffs[lane, k]
                scores[at[lane]] = score
                if lengths.size > 0:
                    lengths[at[lane]] = length[lane] + 1
            backed_off[lane] = 0
            if token == END:
                context[lane], length[lane] = _BEGIN_NODE, min(1, longest)
            elif length[lane] < longest:
                context[lane], length[lane] = min(node, inner - 1), length[lane] + 1
            else:
                context[lane] = _clamp(int(suffixes[node]), inner - 1)
            prefetch(begin, context[lane])
            if unknown_after.size > 0:
                prefetch(unknown_after, context[lane])
            at[lane] += 1
            if at[lane] == end[lane]:
                live -= 1
                lanes[i], lanes[live] = lanes[live], lane
            else:
                i += 1
    if contexts.size > 0:
        _score_unknown(words, log_probs, begin, log_backoffs, suffixes, order, contexts, unknown[start:stop], follows)
