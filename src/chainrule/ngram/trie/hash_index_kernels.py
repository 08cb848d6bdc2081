"""The compiled hash index of the trie's long runs of children, with linear probing; see `table.py`.

A slot holds a node, or 0 if it is empty. A node is in the first slot that was free, starting at the hash of its context
and word.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.intrinsics import prefetch
from chainrule.base.jit import allocating_kernel, kernel

Array = NDArray[Any]

LONG_RUN = 16  # binary search among more children takes longer than two cache misses
MAX_PROBES = 1 << 10  # slots between a node's hash and its slot, at most
_INDEX_BLOCK = 256  # nodes whose slots are prefetched before the first one is read

# The constants of xxHash64, whose low and high halves are well mixed.
_PRIME_1, _PRIME_2 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3, _HALF = np.uint64(0x165667B19E3779F9), np.uint64(32)


@kernel
def slot_of(context: int, word: int, size: int) -> int:
    """The slot at which the search for a child starts, of `size` < 2^32 slots."""
    hashed = np.uint64(context) * _PRIME_1 ^ np.uint64(word) * _PRIME_2
    hashed = ((hashed ^ (hashed >> _HALF)) * _PRIME_3) >> _HALF
    return np.int64((hashed * np.uint64(size)) >> _HALF)


@kernel
def count_in_long_runs(begin: Array, start: int, stop: int) -> int:
    """The number of nodes in runs of more than LONG_RUN children of contexts start .. stop."""
    count = 0
    for context in range(start, stop):
        size = begin[context + 1] - begin[context]
        count += size if size > LONG_RUN else 0
    return count


@allocating_kernel
def fill_slots(words: Array, begin: Array, slots: Array) -> bool:
    """Puts the children in long runs into empty slots; False if one would be MAX_PROBES away from its hash."""
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
    """Does the share of `fill_slots` that one part of the index has in the children of contexts start .. stop.

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
    """Puts a node into the first empty slot from `place` on, or adds it to `overflow`; returns the latter's new count.

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
    """The node of `word` among the children low .. end, searched from `slot` on; -1 if there is none."""
    for _ in range(MAX_PROBES):
        node = np.int64(slots[slot])
        if node == 0:
            return -1
        if low <= node < end and words[node] == word:
            return node
        slot = slot + 1 if slot + 1 < slots.size else 0
    return -1
