"""The compiled hash index of the trie's long runs of children; see `table.py`.

A slot holds a node, or 0 where it is empty. A node is in the first slot that was empty from the hash of its context and
its word on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, kernel, prefetch

Array = NDArray[Any]

LONG_RUN = 16  # so many children have to be searched for longer than two cache misses take
MOST_PROBES = 1 << 10  # what may stand between a node's hash and its slot
_BLOCK = 256  # nodes whose slots are asked for before the first one is read

# The constants of xxHash64, whose low and high halves are well mixed.
_FIRST, _SECOND = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
_THIRD, _HALF = np.uint64(0x165667B19E3779F9), np.uint64(32)


@kernel
def slot_of(context: int, word: int, size: int) -> int:
    """Where the search for a child begins among `size` slots, fewer than 2^32."""
    hashed = np.uint64(context) * _FIRST ^ np.uint64(word) * _SECOND
    hashed = ((hashed ^ (hashed >> _HALF)) * _THIRD) >> _HALF
    return np.int64((hashed * np.uint64(size)) >> _HALF)


@kernel
def count_in_long_runs(begin: Array) -> int:
    """How many nodes are children of contexts with more than LONG_RUN of them; the root's are not searched."""
    count = 0
    for context in range(1, begin.size - 1):
        size = begin[context + 1] - begin[context]
        count += size if size > LONG_RUN else 0
    return count


@allocating_kernel
def fill_slots(words: Array, begin: Array, slots: Array) -> bool:
    """Puts the children in long runs into empty slots; False where one would be further than MOST_PROBES away."""
    first_slots = np.empty(_BLOCK, np.int64)
    for context in range(1, begin.size - 1):
        if begin[context + 1] - begin[context] <= LONG_RUN:
            continue
        for first in range(begin[context], begin[context + 1], _BLOCK):
            count = min(_BLOCK, begin[context + 1] - first)
            for i in range(count):
                first_slots[i] = slot_of(context, words[first + i], slots.size)
                prefetch(slots, first_slots[i])
            for i in range(count):
                slot = first_slots[i]
                probes = 0
                while slots[slot] != 0:
                    slot = slot + 1 if slot + 1 < slots.size else 0
                    probes += 1
                    if probes == MOST_PROBES:
                        return False
                slots[slot] = first + i
    return True


@kernel
def find_slot(words: Array, low: int, end: int, word: int, slots: Array, slot: int) -> int:
    """The node of `word` among the children low .. end, searched from `slot` on; -1 where it is not there."""
    for _ in range(MOST_PROBES):
        node = np.int64(slots[slot])
        if node == 0:
            return -1
        if low <= node < end and words[node] == word:
            return node
        slot = slot + 1 if slot + 1 < slots.size else 0
    return -1
