"""The compiled counts of a cache of n-grams: of all orders, growing and sliding with the document.

Contexts form a trie: the child of a context is that context with one more token before it. One hash table with linear
probing holds both the children and the counts of a context's successors; a key is a context, doubled, and 1 more for
successors, with a token. Context 0 is empty. What leaves the window is subtracted; the table is made anew, from the
window, when it is half full, so that it never holds more than a few times the window.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, kernel
from chainrule.protocol import BEGIN, END, UNKNOWN

Array = NDArray[Any]

ESCAPE = 2.0  # how many times a context's number of different successors its shorter context counts
_PRIME_1, _PRIME_2 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)  # of xxHash64
_SHIFT = np.uint64(29)
_FEWEST_SLOTS = 1 << 10
_ABSENT = -1


@kernel
def _slot(keys: Array, tokens: Array, key: int, token: int) -> int:
    """The slot of a key, or the empty one where it belongs."""
    mask = keys.size - 1
    hashed = np.uint64(key) * _PRIME_1 + np.uint64(token) * _PRIME_2
    hashed ^= hashed >> _SHIFT
    hashed *= _PRIME_1
    slot = int(np.int64(hashed >> np.uint64(32)) & mask)
    while keys[slot] != _ABSENT and (keys[slot] != key or tokens[slot] != token):
        slot = (slot + 1) & mask
    return slot


@allocating_kernel
def empty_tables(vocabulary_size: int, order: int, words: int, tokens: int) -> Any:
    """What `score_by_cache` begins with, for a stream of so many tokens: an empty cache.

    That is the table (keys, their tokens, values), of each context how often it was seen and how many different tokens
    followed it; and what has one size throughout: the contexts of the last positions, the counts of tokens, and four
    numbers: how many contexts and slots are in use, where the table was made anew, where the window begins.
    """
    slots = _FEWEST_SLOTS
    keys, key_tokens, values = np.full(slots, _ABSENT, np.int64), np.zeros(slots, np.int32), np.zeros(slots, np.int32)
    seen, types = np.zeros(slots, np.int32), np.zeros(slots, np.int32)  # of contexts
    path = np.zeros((min(words, tokens) + 1, max(order, 1)), np.int32)
    numbers = np.array([1, 0, 0, 0])
    return (keys, key_tokens, values, seen, types), (path, np.zeros(vocabulary_size, np.int64), numbers)


@allocating_kernel
def score_by_cache(
    stream: Array,
    begin: int,
    order: int,
    words: int,
    tables: Any,
    fixed: Any,
    log_probs: Array,
    unknown: Array,
    evidence: Array,
    rows: Array,
) -> Any:
    """The log-probabilities of a stream's tokens from a position on; </s> empties the cache. The table after them.

    tables, fixed: the cache before it, as `empty_tables` gives it; overwritten. log_probs: (R,), as many as are scored.
    unknown: of <unk> at the same positions, (R,), or empty. evidence: (R, 3), or empty: of the longest context in the
    cache, its length, how often it was seen, and how many different tokens followed it. rows: the whole distributions,
    (R, V), or empty.
    """
    keys, key_tokens, values, seen, types = tables
    path, counts, numbers = fixed
    vocabulary_size, slots = counts.size, keys.size
    contexts, used, rebuilt, first = numbers[0], numbers[1], numbers[2], numbers[3]
    n, t, c = np.zeros(order + 1, np.int64), np.zeros(order + 1, np.int64), np.zeros(order + 1, np.int64)
    nodes, shares = np.zeros(order + 1, np.int64), np.ones(order + 2)
    for i in range(begin, begin + log_probs.size):
        if i - first > words:
            _remove(stream, first, i, order, keys, key_tokens, values, seen, types, path)
            kept = _is_kept(stream[first])
            counts[stream[first]] -= kept
            counts[BEGIN] -= kept  # <s> is never counted: its place holds the sum
            first += 1
        depth, node = 0, 0
        for k in range(1, min(order, i - first + 1)):
            slot = _slot(keys, key_tokens, 2 * node, stream[i - k])
            if keys[slot] == _ABSENT or seen[values[slot]] == 0:
                break
            node = values[slot]
            depth, nodes[k], n[k], t[k] = k, node, seen[node], types[node]
            slot = _slot(keys, key_tokens, 2 * node + 1, stream[i])
            c[k] = values[slot] if keys[slot] != _ABSENT else 0
        base = 1.0 / (vocabulary_size - 1)
        p = (_count_of(counts, stream[i]) + base) / (counts[BEGIN] + 1)
        p_unknown = base / (counts[BEGIN] + 1)
        for k in range(1, depth + 1):
            escape = ESCAPE * t[k]
            p = (c[k] + escape * p) / (n[k] + escape)
            p_unknown = escape * p_unknown / (n[k] + escape)
        place = i - begin
        log_probs[place] = math.log(p)
        if unknown.size:
            unknown[place] = math.log(p_unknown)
        if evidence.size:
            evidence[place, 0] = depth
            evidence[place, 1] = n[depth] if depth else 0
            evidence[place, 2] = t[depth] if depth else 0
        if rows.size:
            _fill_row(keys, key_tokens, values, counts, depth, nodes, n, t, shares, rows[place])
        if stream[i] == END:
            for j in range(first, i):
                counts[stream[j]] = 0
            counts[BEGIN] = 0
            if slots > _FEWEST_SLOTS and 16 * used < slots:
                slots = _FEWEST_SLOTS
                keys, key_tokens = np.full(slots, _ABSENT, np.int64), np.zeros(slots, np.int32)
                values, seen, types = np.zeros(slots, np.int32), np.zeros(slots, np.int32), np.zeros(slots, np.int32)
            elif used:
                keys[:], seen[:], types[:] = _ABSENT, 0, 0
            contexts, used, first, rebuilt = 1, 0, i + 1, i + 1
            continue
        kept = _is_kept(stream[i])
        counts[stream[i]] += kept
        counts[BEGIN] += kept
        if order > 1 and 2 * (used + 2 * order) > keys.size:
            if i - rebuilt < words:  # most of what it holds is still in the window
                slots *= 2
                keys, key_tokens = np.full(slots, _ABSENT, np.int64), np.zeros(slots, np.int32)
                values, seen, types = np.zeros(slots, np.int32), np.zeros(slots, np.int32), np.zeros(slots, np.int32)
            else:
                keys[:], seen[:], types[:] = _ABSENT, 0, 0
            contexts, used, rebuilt = 1, 0, i
            for j in range(first, i):
                contexts, used = _add(
                    stream, j, first, order, keys, key_tokens, values, seen, types, path, contexts, used
                )
        if order > 1:
            contexts, used = _add(stream, i, first, order, keys, key_tokens, values, seen, types, path, contexts, used)
    numbers[0], numbers[1], numbers[2], numbers[3] = contexts, used, rebuilt, first
    return keys, key_tokens, values, seen, types


@kernel
def _fill_row(
    keys: Array,
    key_tokens: Array,
    values: Array,
    counts: Array,
    depth: int,
    nodes: Array,
    n: Array,
    t: Array,
    shares: Array,
    row: Array,
) -> None:
    """The log-probabilities of all tokens after the contexts of 1 to `depth` tokens. shares: overwritten.

    A token that has not followed a context has not followed a longer one.
    """
    shares[depth + 1] = 1.0
    for k in range(depth, 0, -1):
        shares[k] = shares[k + 1] * ESCAPE * t[k] / (n[k] + ESCAPE * t[k])
    base = 1.0 / (row.size - 1)
    for token in range(row.size):
        count = _count_of(counts, token)
        p = shares[1] * (count + base) / (counts[BEGIN] + 1)
        for k in range(1, depth + 1 if count else 1):
            slot = _slot(keys, key_tokens, 2 * nodes[k] + 1, token)
            if keys[slot] == _ABSENT or values[slot] == 0:
                break
            p += shares[k + 1] * values[slot] / (n[k] + ESCAPE * t[k])
        row[token] = math.log(p)
    row[BEGIN] = -math.inf


@kernel
def _add(
    stream: Array,
    i: int,
    first: int,
    order: int,
    keys: Array,
    key_tokens: Array,
    values: Array,
    seen: Array,
    types: Array,
    path: Array,
    contexts: int,
    used: int,
) -> tuple[int, int]:
    """Adds the n-grams that end at a position; returns how many contexts and slots are then in use."""
    node, kept = 0, _is_kept(stream[i])
    for k in range(1, min(order, i - first + 1)):
        slot = _slot(keys, key_tokens, 2 * node, stream[i - k])
        if keys[slot] == _ABSENT:
            keys[slot], key_tokens[slot], values[slot] = 2 * node, stream[i - k], contexts
            contexts, used = contexts + 1, used + 1
        node = values[slot]
        path[i % path.shape[0], k] = node
        if kept:
            slot = _slot(keys, key_tokens, 2 * node + 1, stream[i])
            if keys[slot] == _ABSENT:
                keys[slot], key_tokens[slot], values[slot] = 2 * node + 1, stream[i], 0
                used += 1
            types[node] += values[slot] == 0
            values[slot] += 1
            seen[node] += 1
    return contexts, used


@kernel
def _remove(
    stream: Array,
    first: int,
    stop: int,
    order: int,
    keys: Array,
    key_tokens: Array,
    values: Array,
    seen: Array,
    types: Array,
    path: Array,
) -> None:
    """Takes away the n-grams that begin at a position and end before `stop`."""
    for k in range(1, min(order, stop - first)):
        if _is_kept(stream[first + k]):
            node = path[(first + k) % path.shape[0], k]
            slot = _slot(keys, key_tokens, 2 * node + 1, stream[first + k])
            values[slot] -= 1
            seen[node] -= 1
            types[node] -= values[slot] == 0


@allocating_kernel
def distributions_of_caches(recent: Array, order: int, probs: Array, evidence: Array) -> None:
    """The next distribution of each row of last tokens, and what `score_by_cache` has as evidence.

    recent: (B, M), the latest last; -1 before the first. probs: (B, V).
    """
    longest = recent.shape[1]
    base = 1.0 / (probs.shape[1] - 1)
    counts, best = np.zeros(probs.shape[1], np.int64), np.zeros(probs.shape[1], np.int64)
    n, t, weights = np.zeros(order + 1, np.int64), np.zeros(order + 1, np.int64), np.zeros(order + 1)
    depths = np.zeros(longest, np.int64)
    for row in range(recent.shape[0]):
        tokens, total = recent[row], 0
        counts[:], n[:], t[:], best[:] = 0, 0, 0, 0
        for i in range(longest):
            if _is_kept(tokens[i]):
                counts[tokens[i]] += 1
                total += 1
        for i in range(1, longest if order > 1 else 0):
            depths[i] = 0
            if tokens[i - 1] != tokens[longest - 1] or tokens[i - 1] < 0 or not _is_kept(tokens[i]):
                continue
            depth = 1
            while (
                depth + 1 < order
                and depth < i
                and tokens[i - 1 - depth] == tokens[longest - 1 - depth]
                and tokens[i - 1 - depth] >= 0
            ):
                depth += 1
            depths[i] = depth
            n[depth] += 1
            if depth > best[tokens[i]]:
                for k in range(best[tokens[i]] + 1, depth + 1):
                    t[k] += 1
                best[tokens[i]] = depth
        deepest = 0
        for k in range(order - 1, 0, -1):
            n[k] += n[k + 1] if k + 1 < order else 0
            if n[k] and not deepest:
                deepest = k
        share = 1.0  # of the shorter contexts
        for k in range(deepest, 0, -1):
            weights[k] = share / (n[k] + ESCAPE * t[k])
            share *= ESCAPE * t[k] / (n[k] + ESCAPE * t[k])
        for k in range(2, deepest + 1):  # of a token that follows a context of k tokens, in all contexts up to that
            weights[k] += weights[k - 1]
        for token in range(probs.shape[1]):
            probs[row, token] = share * (counts[token] + base) / (total + 1)
        for i in range(1, longest if order > 1 else 0):
            if depths[i]:
                probs[row, tokens[i]] += weights[depths[i]]
        evidence[row, 0] = deepest
        evidence[row, 1], evidence[row, 2] = (n[deepest], t[deepest]) if deepest else (0, 0)


@kernel
def _is_kept(token: int) -> bool:
    """Whether the cache keeps a token: neither <unk> nor </s>, nor a place before the first."""
    return token > UNKNOWN and token != BEGIN and token != END


@kernel
def _count_of(counts: Array, token: int) -> int:
    return counts[token] if _is_kept(token) else 0
