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
_BLOCK = 256  # nodes whose slots are prefetched before the first one is read

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
def count_in_long_runs(begin: Array) -> int:
    """The number of nodes in runs of more than LONG_RUN children; the root's children need no search."""
    count = 0
    for context in range(1, begin.size - 1):
        size = begin[context + 1] - begin[context]
        count += size if size > LONG_RUN else 0
    return count


@allocating_kernel
def fill_slots(words: Array, begin: Array, slots: Array) -> bool:
    """Puts the children in long runs into empty slots; False if one would be MAX_PROBES away from its hash."""
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
                    if probes == MAX_PROBES:
                        return False
                slots[slot] = first + i
    return True


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
