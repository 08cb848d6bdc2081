"""The compiled counts of a cache of n-grams: of all orders, growing and sliding with the document.

Contexts form a trie: the child of a context is that context with one more token before it. Context 0 is empty. Most
contexts of an order above a few have been seen once: so the first child and the first successor of a context stand in
its tally, and chains of new contexts lie one after the other in memory. All others are in one hash table with linear
probing: a key is a context, doubled, and 1 more for successors, and a token. What leaves the window is subtracted; all
is made anew, from the window, when there is no room left and most of it has left the window, so that it never holds
more than a few times the window.
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
_PRIME = np.uint64(0x9E3779B185EBCA87)  # of xxHash64
_SHIFT = np.uint64(29)
_FEWEST = 1 << 10  # slots, and contexts
_ABSENT = -1
# Of a context: how often it was seen, before how many different tokens; its first successor, and how often that
# followed; the first token before it, and the context with that; whether others are in the table; and the slot of its
# latest successor there, and 1.
_SEEN, _TYPES, _TOKEN, _COUNT, _CHILD_TOKEN, _CHILD, _MANY, _LATEST = 0, 1, 2, 3, 4, 5, 6, 7
_COLUMNS = 3  # of the table
_FIELDS = 8  # so that a tally does not lie on two cache lines
_SUCCESSORS, _CHILDREN = 1, 2  # which others


@kernel
def _key(node: int, kind: int, token: int) -> Any:
    """Return the key of a token at a node. kind: 1 for successors, 0 for children."""
    return ((2 * np.int64(node) + kind) << 32) | np.int64(token)


@kernel
def _node_of(key: int) -> Any:
    return key >> 33


@kernel
def _kind_of(key: int) -> Any:
    return (key >> 32) & 1


@kernel
def _token_of(key: int) -> Any:
    return key & 0xFFFFFFFF


@kernel
def _slot(entries: Array, key: int) -> int:
    """Return the slot of a key, or the empty one where it belongs. entries: as `empty_tables` has them."""
    mask = entries.shape[0] - 1
    hashed = np.uint64(key) * _PRIME
    hashed ^= hashed >> _SHIFT
    hashed *= _PRIME
    slot = int(np.int64(hashed >> np.uint64(32)) & mask)
    while entries[slot, 0] != _ABSENT and entries[slot, 0] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def _child(tallies: Array, entries: Array, node: int, token: int) -> Any:
    """Return the context with one more token before it; 0 if it is not there."""
    if tallies[node, _CHILD_TOKEN] == token:
        return np.int64(tallies[node, _CHILD])
    if not tallies[node, _MANY] & _CHILDREN:
        return np.int64(0)
    slot = _slot(entries, _key(node, 0, token))
    return entries[slot, 1] if entries[slot, 0] != _ABSENT else np.int64(0)


@kernel
def _count_after(tallies: Array, entries: Array, node: int, token: int) -> Any:
    """Return how often a token followed a context."""
    if tallies[node, _TOKEN] == token:
        return np.int64(tallies[node, _COUNT])
    if not tallies[node, _MANY] & _SUCCESSORS:
        return np.int64(0)
    slot = _slot(entries, _key(node, 1, token))
    return entries[slot, 1] if entries[slot, 0] != _ABSENT else np.int64(0)


@allocating_kernel
def empty_tables(vocabulary_size: int, order: int, words: int, tokens: int) -> Any:
    """Return what `score_by_cache` begins with, for a stream of so many tokens: an empty cache.

    The tallies of contexts, (contexts, 8), and the table, (slots, 3): keys, values, and of a successor the slot, and 1,
    of the one before it in the chain of its context; and what has one size throughout: the contexts of the last
    positions, the counts of tokens, and four numbers: how many contexts and slots are in use, since which position they
    have been filled, and where the window begins.
    """
    tallies, entries = np.zeros((_FEWEST, _FIELDS), np.int32), np.full((_FEWEST, _COLUMNS), _ABSENT, np.int64)
    path = np.zeros((min(words, tokens) + 1, max(order, 1)), np.int32)
    tallies[0, _TOKEN] = tallies[0, _CHILD_TOKEN] = _ABSENT
    return (tallies, entries), (path, np.zeros(vocabulary_size, np.int64), np.array([1, 0, 0, 0]))


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
    """Return the log-probabilities of a stream's tokens from a position on; </s> empties the cache.

    The tables after them. tables, fixed: the cache before it, as `empty_tables` gives it; overwritten. log_probs: (R,),
    as many as are scored. unknown: of <unk> at the same positions, (R,), or empty. evidence: (R, 3), or empty: of the
    longest context in the cache, its length, how often it was seen, and how many different tokens followed it. rows:
    the whole distributions, (R, V), or empty.
    """
    tallies, entries = tables
    path, counts, numbers = fixed
    contexts, used, since, first = numbers[0], numbers[1], numbers[2], numbers[3]
    n, t, c = np.zeros(order + 1, np.int64), np.zeros(order + 1, np.int64), np.zeros(order + 1, np.int64)
    nodes, weights = np.zeros(order + 1, np.int64), np.zeros(order + 1)
    probs = np.empty(counts.size if rows.size else 0)
    base = 1.0 / (counts.size - 1)
    for i in range(begin, begin + log_probs.size):
        if i - first > words:
            _remove(stream, first, i, order, tallies, entries, path)
            kept = _is_kept(stream[first])
            counts[stream[first]] -= kept
            counts[BEGIN] -= kept  # <s> is never counted: its place holds the sum
            first += 1
        depth, node = 0, 0
        for k in range(1, min(order, i - first + 1)):
            node = _child(tallies, entries, node, stream[i - k])
            if node == 0 or tallies[node, _SEEN] == 0:
                break
            depth, nodes[k], n[k], t[k] = k, node, tallies[node, _SEEN], tallies[node, _TYPES]
            c[k] = _count_after(tallies, entries, node, stream[i])
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
            _fill_row(tallies, entries, counts, depth, nodes, n, t, weights, probs, rows[place])
        if stream[i] == END:
            for j in range(first, i):
                counts[stream[j]] = 0
            counts[BEGIN] = 0
            if entries.shape[0] > _FEWEST and 16 * used < entries.shape[0]:
                entries = np.full((_FEWEST, _COLUMNS), _ABSENT, np.int64)
            elif used:
                entries[:] = _ABSENT
            contexts, used, first, since = _clear(tallies), 0, i + 1, i + 1
            continue
        kept = _is_kept(stream[i])
        counts[stream[i]] += kept
        counts[BEGIN] += kept
        if order == 1:
            continue
        is_full = contexts + order > tallies.shape[0] or 2 * (used + 2 * order) > entries.shape[0]
        if is_full and i - since < words:  # most of what it holds is still in the window
            if contexts + order > tallies.shape[0]:
                tallies = np.concatenate((tallies, np.zeros_like(tallies)))
            else:
                entries = _with_more_slots(entries, tallies)
        elif is_full:
            entries[:] = _ABSENT
            contexts, used, since, depth = _clear(tallies), 0, i, 0
            for j in range(first, i):
                contexts, used = _add(stream, j, first, order, tallies, entries, path, contexts, used, nodes, 0)
        contexts, used = _add(stream, i, first, order, tallies, entries, path, contexts, used, nodes, depth)
    numbers[0], numbers[1], numbers[2], numbers[3] = contexts, used, since, first
    return tallies, entries


@kernel
def _clear(tallies: Array) -> int:
    """Leave the empty context alone; return how many contexts there are."""
    tallies[0] = 0
    tallies[0, _TOKEN] = tallies[0, _CHILD_TOKEN] = _ABSENT
    return 1


@allocating_kernel
def _with_more_slots(entries: Array, tallies: Array) -> Array:
    """Return the same table with twice as many slots; the successors of each context are chained anew."""
    more = np.full((2 * entries.shape[0], _COLUMNS), _ABSENT, np.int64)
    for slot in range(entries.shape[0]):
        if entries[slot, 0] != _ABSENT and _kind_of(entries[slot, 0]):
            tallies[_node_of(entries[slot, 0]), _LATEST] = 0
    for slot in range(entries.shape[0]):
        key = entries[slot, 0]
        if key == _ABSENT:
            continue
        place = _slot(more, key)
        more[place] = entries[slot]
        if _kind_of(key):
            more[place, 2] = tallies[_node_of(key), _LATEST]
            tallies[_node_of(key), _LATEST] = place + 1
    return more


@kernel
def _fill_row(
    tallies: Array,
    entries: Array,
    counts: Array,
    depth: int,
    nodes: Array,
    n: Array,
    t: Array,
    weights: Array,
    probs: Array,
    row: Array,
) -> None:
    """Write the log-probabilities of all tokens after the contexts of 1 to `depth` tokens. weights, probs:
    overwritten.
    """
    share = 1.0  # of the shorter contexts
    for k in range(depth, 0, -1):
        weights[k] = share / (n[k] + ESCAPE * t[k])
        share *= ESCAPE * t[k] / (n[k] + ESCAPE * t[k])
    share /= counts[BEGIN] + 1
    base = 1.0 / (row.size - 1)
    for token in range(row.size):
        probs[token] = share * (_count_of(counts, token) + base)
    for k in range(1, depth + 1):
        node = nodes[k]
        probs[tallies[node, _TOKEN]] += weights[k] * tallies[node, _COUNT]
        slot = tallies[node, _LATEST] - 1
        while slot >= 0:
            probs[_token_of(entries[slot, 0])] += weights[k] * entries[slot, 1]
            slot = entries[slot, 2] - 1
    for token in range(row.size):
        row[token] = math.log(probs[token])
    row[BEGIN] = -math.inf


@kernel
def _add(
    stream: Array,
    i: int,
    first: int,
    order: int,
    tallies: Array,
    entries: Array,
    path: Array,
    contexts: int,
    used: int,
    nodes: Array,
    depth: int,
) -> tuple[int, int]:
    """Add the n-grams that end at a position; return how many contexts and slots are then in use.

    nodes: the contexts of 1 to `depth` tokens, which are known to be there.
    """
    node, kept = 0, _is_kept(stream[i])
    for k in range(1, min(order, i - first + 1)):
        token = stream[i - k]
        child = nodes[k] if k <= depth else _child(tallies, entries, node, token)
        if child == 0:
            child = np.int64(contexts)
            tallies[child] = 0
            tallies[child, _TOKEN] = tallies[child, _CHILD_TOKEN] = _ABSENT
            contexts += 1
            if tallies[node, _CHILD_TOKEN] == _ABSENT:
                tallies[node, _CHILD_TOKEN], tallies[node, _CHILD] = token, child
            else:
                key = _key(node, 0, token)
                slot = _slot(entries, key)
                entries[slot, 0], entries[slot, 1] = key, child
                tallies[node, _MANY] |= _CHILDREN
                used += 1
        node = child
        path[i % path.shape[0], k] = node
        if not kept:
            continue
        tallies[node, _SEEN] += 1
        if tallies[node, _TOKEN] == _ABSENT:
            tallies[node, _TOKEN] = stream[i]
        if tallies[node, _TOKEN] == stream[i]:
            tallies[node, _TYPES] += tallies[node, _COUNT] == 0
            tallies[node, _COUNT] += 1
            continue
        key = _key(node, 1, stream[i])
        slot = _slot(entries, key)
        if entries[slot, 0] == _ABSENT:
            entries[slot, 0], entries[slot, 1], entries[slot, 2] = key, 0, tallies[node, _LATEST]
            tallies[node, _LATEST] = slot + 1
            tallies[node, _MANY] |= _SUCCESSORS
            used += 1
        tallies[node, _TYPES] += entries[slot, 1] == 0
        entries[slot, 1] += 1
    return contexts, used


@kernel
def _remove(stream: Array, first: int, stop: int, order: int, tallies: Array, entries: Array, path: Array) -> None:
    """Take away the n-grams that begin at a position and end before `stop`."""
    for k in range(1, min(order, stop - first)):
        token = stream[first + k]
        if not _is_kept(token):
            continue
        node = path[(first + k) % path.shape[0], k]
        tallies[node, _SEEN] -= 1
        if tallies[node, _TOKEN] == token:
            tallies[node, _COUNT] -= 1
            tallies[node, _TYPES] -= tallies[node, _COUNT] == 0
        else:
            slot = _slot(entries, _key(node, 1, token))
            entries[slot, 1] -= 1
            tallies[node, _TYPES] -= entries[slot, 1] == 0


@allocating_kernel
def distributions_of_caches(recent: Array, order: int, probs: Array, evidence: Array) -> None:
    """Write the next distribution of each row of last tokens, and what `score_by_cache` has as evidence.

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
    """Return whether the cache keeps a token: neither <unk> nor </s>, nor a place before the first."""
    return token > UNKNOWN and token != BEGIN and token != END


@kernel
def _count_of(counts: Array, token: int) -> int:
    return counts[token] if _is_kept(token) else 0
