"""Compiled sets of words: tries whose edges, from a node by a code point, are found by hashing."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from chainrule.base.jit import kernel

Array = NDArray[Any]

NOWHERE = -1
_FACTOR = -7046029254386353131  # 2 ** 64 divided by the golden ratio, as a signed number


@kernel
def slot_of(first: int, second: int, third: int, size: int) -> int:
    """Return where the search for a key begins in a table of `size` slots, a power of two."""
    mixed = (first * _FACTOR + second) * _FACTOR + third
    mixed = (mixed ^ (mixed >> 29)) * _FACTOR
    return (mixed >> 32) & (size - 1)


@kernel
def add_words(codes: Array, offsets: Array, trie: Array, slots: Array, shortest: Array, ends: Array) -> int:
    """Make a trie of words, all of which are new: trie[n] = parent and code point. Returns the number of nodes.

    codes[offsets[i]:offsets[i + 1]]: word i. shortest[n]: the length of the shortest word that begins as node n does.
    ends[n]: one more than the number of the word that ends in n, 0 if none does.
    """
    count = 1
    for word in range(offsets.size - 1):
        node, length = 0, offsets[word + 1] - offsets[word]
        for i in range(offsets[word], offsets[word + 1]):
            slot = slot_of(node, int(codes[i]), 0, slots.size)
            while slots[slot] >= 0 and (trie[slots[slot], 0] != node or trie[slots[slot], 1] != codes[i]):
                slot = (slot + 1) & (slots.size - 1)
            if slots[slot] < 0:
                slots[slot] = count
                trie[count, 0], trie[count, 1] = node, codes[i]
                shortest[count] = length
                count += 1
            node = slots[slot]
            shortest[node] = min(shortest[node], length)
        ends[node] = word + 1
    return count


@kernel
def child_of(trie: Array, slots: Array, node: int, code: int) -> int:
    """Return the node after a node of a trie, or NOWHERE."""
    slot = slot_of(node, code, 0, slots.size)
    while slots[slot] >= 0:
        found = int(slots[slot])
        if trie[found, 0] == node and trie[found, 1] == code:
            return found
        slot = (slot + 1) & (slots.size - 1)
    return NOWHERE
