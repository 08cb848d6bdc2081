"""The compiled queries over the trie of `table.py`, and the hash index of its long runs of children.

Every number from a file is checked against its bound before it is used as an index. A context is a row of nodes: one
for the last word, one for the last two, up to N-1 words; NO_NODE where the model has not seen them together. `<s>`
begins a document and `</s>` ends it, so the context after </s> is <s> alone.

The index has linear probing. A slot holds a node, or 0 if it is empty. A node is in the first slot that was free,
starting at the hash of its context and word.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.intrinsics import prefetch
from chainrule.base.jit import allocating_kernel, kernel
from chainrule.protocol import BEGIN, END, UNKNOWN

Array = NDArray[Any]

LONG_RUN = 16  # binary search among more children takes longer than two cache misses
MAX_PROBES = 1 << 10  # slots between a node's hash and its slot, at most
_INDEX_BLOCK = 256  # nodes whose slots are prefetched before the first one is read

# The constants of xxHash64, whose low and high halves are well mixed.
_PRIME_1, _PRIME_2 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3, _HALF = np.uint64(0x165667B19E3779F9), np.uint64(32)


@kernel
def slot_of(context: int, word: int, size: int) -> int:
    """Return the slot at which the search for a child starts, of `size` < 2^32 slots."""
    hashed = np.uint64(context) * _PRIME_1 ^ np.uint64(word) * _PRIME_2
    hashed = ((hashed ^ (hashed >> _HALF)) * _PRIME_3) >> _HALF
    return np.int64((hashed * np.uint64(size)) >> _HALF)


@kernel
def count_in_long_runs(begin: Array, start: int, stop: int) -> int:
    """Return the number of nodes in runs of more than LONG_RUN children of contexts start .. stop."""
    count = 0
    for context in range(start, stop):
        size = begin[context + 1] - begin[context]
        count += size if size > LONG_RUN else 0
    return count


@allocating_kernel
def fill_slots(words: Array, begin: Array, slots: Array) -> bool:
    """Put the children in long runs into empty slots; return False if one would be MAX_PROBES away from its hash."""
    first_slots = np.empty(_INDEX_BLOCK, np.int64)
    for context in range(1, begin.size - 1):
        if begin[context + 1] - begin[context] <= LONG_RUN:
            continue
        for first in range(begin[context], begin[context + 1], _INDEX_BLOCK):
            count = min(_INDEX_BLOCK, begin[context + 1] - first)
            for i in range(count):
                first_slots[i] = slot_of(context, words[first + i], slots.size)
                prefetch(slots, first_slots[i])
            for i in range(count):
                slot = first_slots[i]
                probes = 0
                while slots[slot] != 0:
                    slot = slot + 1 if slot + 1 < slots.size else 0
                    probes += 1
                    if probes == MAX_PROBES:
                        return False
                slots[slot] = first + i
    return True


@kernel
def fill_part(
    words: Array,
    begin: Array,
    start: int,
    stop: int,
    size: int,
    first: int,
    slots: Array,
    carried: Array,
    cursor: int,
    is_last: bool,
    overflow: Array,
    count: int,
) -> tuple[int, int]:
    """Do the share of `fill_slots` that one part of the index has in the children of contexts start .. stop.

    size: of the whole index. slots: the part, from slot `first` on. carried: nodes that found no slot in the part
    before, and the slots of their hashes, of which `cursor` are done. overflow: likewise for the next part, with
    `count` so far. is_last: whether there are no contexts after `stop`. Returns cursor and count; -1 for the count if a
    node would be MAX_PROBES away from its hash.
    """
    for context in range(start, stop):
        if begin[context + 1] - begin[context] <= LONG_RUN:
            continue
        for node in range(begin[context], begin[context + 1]):
            home = slot_of(context, words[node], size)
            if not first <= home < first + slots.size:
                continue
            while cursor < carried.shape[0] and carried[cursor, 0] < node:
                count = _insert(carried[cursor, 0], carried[cursor, 1], 0, size, first, slots, overflow, count)
                cursor += 1
            count = _insert(node, home, home - first, size, first, slots, overflow, count)
            if count < 0:
                return cursor, count
    while is_last and cursor < carried.shape[0] and count >= 0:
        count = _insert(carried[cursor, 0], carried[cursor, 1], 0, size, first, slots, overflow, count)
        cursor += 1
    return cursor, count


@kernel
def _insert(node: int, home: int, place: int, size: int, first: int, slots: Array, overflow: Array, count: int) -> int:
    """Put a node into the first empty slot from `place` on, or add it to `overflow`; return the latter's new count.

    That is -1 if the node is too far away from `home`, or if `count` was.
    """
    if count < 0:
        return -1
    while place < slots.size and slots[place] != 0:
        place += 1
    if (first + place - home) % size >= MAX_PROBES:
        return -1
    if place < slots.size:
        slots[place] = node
        return count
    if count == overflow.shape[0]:
        return -1
    overflow[count, 0], overflow[count, 1] = node, home
    return count + 1


@kernel
def find_slot(words: Array, low: int, end: int, word: int, slots: Array, slot: int) -> int:
    """Return the node of `word` among the children low .. end, searched from `slot` on; -1 if there is none."""
    for _ in range(MAX_PROBES):
        node = np.int64(slots[slot])
        if node == 0:
            return -1
        if low <= node < end and words[node] == word:
            return node
        slot = slot + 1 if slot + 1 < slots.size else 0
    return -1


NO_NODE = -1

_BLOCK = 1 << 9  # tokens that are looked up in one order before the next, to overlap cache misses
_BEGIN_NODE = 1 + BEGIN


@kernel
def children(words: Array, begin: Array, node: int) -> tuple[int, int]:
    """Return the children low .. high of context `node`; never high < low, for which `range` may overflow."""
    low = max(np.int64(begin[node]), 0)
    return low, max(low, min(np.int64(begin[node + 1]), words.size))


@kernel
def child(words: Array, begin: Array, node: int, word: int) -> int:
    """Return the node of `word` after context `node`, or NO_NODE."""
    low, end = children(words, begin, node)
    high = end
    while low < high:
        middle = (low + high) >> 1
        if words[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low if low < end and words[low] == word else NO_NODE


@kernel
def unknown_child(words: Array, begin: Array, node: int) -> int:
    """Return the node of <unk>, whose id is the lowest, after context `node`, or NO_NODE."""
    low, end = children(words, begin, node)
    return low if low < end and words[low] == UNKNOWN else NO_NODE


@kernel
def find_children(
    words: Array,
    begin: Array,
    slots: Array,
    inner: int,
    contexts: Array,
    tokens: Array,
    scratch: Array,
    nodes: Array,
) -> None:
    """Set nodes[i] to the node of tokens[i] after contexts[i], or NO_NODE.

    scratch: five rows, at least as long as contexts. All look-ups take one step before any takes the next, and each
    step prefetches what the next one reads, to overlap cache misses. Long runs of children are searched by hash, short
    ones by bisection.
    """
    long_run = LONG_RUN if slots.size > 0 else words.size
    last = words.size - 1
    known, low, size, slot, candidate = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    count = 0
    for i in range(contexts.size):
        nodes[i] = NO_NODE
        known[count] = i
        count += 0 <= contexts[i] < inner
    for j in range(count):
        context = contexts[known[j]]
        first = max(np.int64(begin[context]), 0)
        end = max(min(np.int64(begin[context + 1]), words.size), 0)
        low[j] = min(first, last)
        size[j] = max(end - first, 0)
        # for all: waiting for the size would cost a cache miss
        slot[j] = slot_of(context, tokens[known[j]], slots.size)
        prefetch(slots, slot[j])
    for j in range(count):
        node = np.int64(slots[slot[j]]) if size[j] > long_run else low[j] + (size[j] >> 1)
        candidate[j] = min(max(node, 0), last)
        prefetch(words, candidate[j])
        prefetch(begin, min(candidate[j], inner))  # where the next order starts
    for j in range(count):
        nodes[known[j]] = in_run(words, low[j], size[j], long_run, tokens[known[j]], slots, slot[j], candidate[j])


@kernel
def in_run(words: Array, low: int, size: int, long_run: int, word: int, slots: Array, slot: int, candidate: int) -> int:
    """Return the node of `word` among `size` children from `low` on, or NO_NODE. A long run is searched from `slot` on.

    candidate: for a long run, the node in that slot; must be below words.size.
    """
    if size <= long_run:
        node = low
        while size > 1:
            half = size >> 1
            node += half * (words[node + half] <= word)
            size -= half
        return node if size == 1 and words[node] == word else NO_NODE
    if low <= candidate < low + size and words[candidate] == word:
        return candidate
    return find_slot(words, low, low + size, word, slots, slot)


@allocating_kernel
def score_stream(
    words: Array,
    log_probs: Array,
    begin: Array,
    log_backoffs: Array,
    slots: Array,
    order: int,
    stream: Array,
    start: int,
    stop: int,
    scores: Array,
    lengths: Array,
    unknown: Array,
) -> None:
    """Set scores[i] to log P(stream[i] | the tokens of its document before it) for i in start .. stop.

    lengths[i]: of the n-gram that matched. unknown[i] = log P(<unk> | the same tokens). Both may be empty. A document
    begins at `start`. Every token must be below the vocabulary size.
    """
    inner = begin.size - 1
    # By order: the n-grams that end at each token, column 0 being the token before the block; and their contexts.
    block = max(min(_BLOCK, stop - start), 1)
    nodes, contexts = np.empty((order + 1, block + 1), np.int64), np.empty((order + 1, block), np.int64)
    scratch = np.empty((5, block + 1), np.int64)
    nodes[1, 0] = 1 + END
    for first in range(start, stop, block):
        count = min(block, stop - first)
        tokens = stream[first : first + count]
        for i in range(count):
            nodes[1, i + 1] = 1 + tokens[i]
        for n in range(2, order + 1):
            for i in range(count):
                after_end = _BEGIN_NODE if n == 2 else NO_NODE
                contexts[n, i] = after_end if nodes[1, i] == 1 + END else nodes[n - 1, i]
            find_children(words, begin, slots, inner, contexts[n, :count], tokens, scratch, nodes[n, 1:])
        for i in range(count):
            length = order
            while length > 1 and nodes[length, i + 1] == NO_NODE:
                length -= 1
            score = log_probs[nodes[length, i + 1]]
            for n in range(length + 1, order + 1):
                if 0 <= contexts[n, i] < inner:
                    score += log_backoffs[contexts[n, i]]
            scores[first + i] = score
            if lengths.size > 0:
                lengths[first + i] = length
        if unknown.size > 0:
            for i in range(count):
                score = log_probs[1 + UNKNOWN]
                for n in range(2, order + 1):
                    context = contexts[n, i]
                    if not 0 <= context < inner:
                        continue
                    node = unknown_child(words, begin, context)
                    score = score + log_backoffs[context] if node == NO_NODE else log_probs[node]
                unknown[first + i] = score
        for n in range(1, order + 1):
            nodes[n, 0] = nodes[n, count]


@allocating_kernel
def advance(words: Array, begin: Array, inner: int, contexts: Array, tokens: Array) -> Array:
    """Return the contexts after one more token in each row. Tokens must be below the vocabulary size."""
    new = np.full(contexts.shape, NO_NODE, np.int64)
    if contexts.shape[1] == 0:
        return new
    for row in range(contexts.shape[0]):
        if tokens[row] == END:
            new[row, 0] = _BEGIN_NODE
            continue
        new[row, 0] = 1 + tokens[row]
        for j in range(1, contexts.shape[1]):
            context = contexts[row, j - 1]
            if 0 <= context < inner:
                new[row, j] = child(words, begin, context, tokens[row])
    return new


@allocating_kernel
def contexts_along(words: Array, begin: Array, inner: int, context: Array, tokens: Array, out: Array) -> None:
    """Write the contexts before each token of a stream: out, (T, N - 1).

    context: (N - 1,), that before the first; becomes that after the last.
    """
    for i in range(tokens.size):
        out[i] = context
        for j in range(out.shape[1] - 1, -1, -1):
            if j == 0:
                context[0] = _BEGIN_NODE if tokens[i] == END else 1 + tokens[i]
            elif tokens[i] == END or not 0 <= out[i, j - 1] < inner:
                context[j] = NO_NODE
            else:
                context[j] = child(words, begin, out[i, j - 1], tokens[i])


@kernel
def distributions(
    words: Array, log_probs: Array, begin: Array, log_backoffs: Array, vocabulary_size: int, contexts: Array, out: Array
) -> None:
    """Set out[row] to log P(. | contexts[row]).

    Starts from the backed-off unigrams, then overwrites the words that each longer context has seen.
    """
    inner = begin.size - 1
    for row in range(contexts.shape[0]):
        backoff = np.float32(0)
        for context in contexts[row]:
            if 0 <= context < inner:
                backoff += log_backoffs[context]
        for word in range(vocabulary_size):
            out[row, word] = log_probs[1 + word] + backoff
        for j in range(contexts.shape[1]):
            context = contexts[row, j]
            if not 0 <= context < inner:
                continue
            backoff = np.float32(0)
            for longer in contexts[row, j + 1 :]:  # summed anew, since -inf cannot be subtracted
                if 0 <= longer < inner:
                    backoff += log_backoffs[longer]
            low, high = children(words, begin, context)
            for node in range(low, high):
                if 0 <= words[node] < vocabulary_size:
                    out[row, words[node]] = log_probs[node] + backoff


@allocating_kernel
def score_pairs(
    words: Array, log_probs: Array, begin: Array, log_backoffs: Array, contexts: Array, rows: Array, tokens: Array
) -> Array:
    """Return scores[i] = log P(tokens[i] | the context of row rows[i]). Every token is below the vocabulary's size."""
    scores = np.empty(tokens.size, np.float32)
    inner = begin.size - 1
    for i in range(tokens.size):
        context, token = contexts[rows[i]], tokens[i]
        node, longest = np.int64(1 + token), context.size - 1
        while longest >= 0:
            if 0 <= context[longest] < inner:
                below = child(words, begin, context[longest], token)
                if below != NO_NODE:
                    node = below
                    break
            longest -= 1
        backoff = np.float32(0)
        for longer in context[longest + 1 :]:  # in the order of `distributions`, whose bits come out
            if 0 <= longer < inner:
                backoff += log_backoffs[longer]
        scores[i] = log_probs[node] + backoff
    return scores
