"""The compiled hash table of the vocabulary.

A slot is 0 where empty, else the upper half of the token's hash, then its id + 1 in the lower half. `slots` has a power
of two of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.intrinsics import prefetch
from chainrule.base.jit import kernel
from chainrule.protocol import BEGIN, END, UNKNOWN

Array = NDArray[Any]

DONE, FULL, MARKER_FOUND = 0, 1, 2
FIRST_ORDINARY = END + 1  # the id of the first token that is no marker

# A token's hash: HASH_START, then for each byte (hash ^ byte) * HASH_FACTOR (FNV-1a), then mixed.
HASH_START, HASH_FACTOR = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_UPPER, _LOWER = np.uint64(0xFFFFFFFF00000000), np.uint64(0xFFFFFFFF)
_ONE, _ZERO = np.uint64(1), np.uint64(0)
_SHIFT = np.uint64(32)


@kernel
def mixed(state: int) -> int:
    """Spread an FNV-1a state over all 64 bits (the multiplier is SplitMix64's)."""
    state = (state ^ (state >> _SHIFT)) * _MIX
    return state ^ (state >> _SHIFT)


@kernel
def find_token(
    text: Array, start: int, stop: int, hashed: int, slots: Array, pool: Array, offsets: Array
) -> tuple[int, int]:
    """Return the id of text[start:stop], or -1, and the slot where it is or would go.

    Some slot is empty, and the offsets rise from 0 to the end of the pool; any other number in the slots does no harm.
    """
    mask = np.uint64(slots.size - 1)
    slot = hashed & mask
    while slots[slot] != _ZERO:
        if (slots[slot] ^ hashed) & _UPPER == _ZERO:
            token = np.int64(slots[slot] & _LOWER) - 1
            if 0 <= token < offsets.size - 1:
                first = offsets[token]
                same = offsets[token + 1] - first == stop - start
                k = 0
                while same and k < stop - start:
                    same = pool[first + k] == text[start + k]
                    k += 1
                if same:
                    return token, np.int64(slot)
        slot = (slot + _ONE) & mask
    return -1, np.int64(slot)


@kernel
def insert_all(pool: Array, offsets: Array, size: int, slots: Array) -> int:
    """Fill an empty table with `size` tokens; return the id of a token that is there twice, or -1."""
    for token in range(size):
        hashed = HASH_START
        for k in range(offsets[token], offsets[token + 1]):
            hashed = (hashed ^ np.uint64(pool[k])) * HASH_FACTOR
        hashed = mixed(hashed)
        found, slot = find_token(pool, offsets[token], offsets[token + 1], hashed, slots, pool, offsets)
        if found >= 0:
            return token
        slots[slot] = hashed & _UPPER | np.uint64(token + 1)
    return -1


@kernel
def _insert(
    text: Array, start: int, stop: int, hashed: int, slot: int, slots: Array, pool: Array, offsets: Array, size: int
) -> bool:
    """Give text[start:stop] the id `size`, if there is room."""
    used = offsets[size]
    if 2 * size >= slots.size or size + 1 >= offsets.size or used + stop - start > pool.size:
        return False
    for k in range(stop - start):
        pool[used + k] = text[start + k]
    slots[slot] = hashed & _UPPER | np.uint64(size + 1)
    offsets[size + 1] = used + stop - start
    return True


@kernel
def absorb(
    other_pool: Array,
    other_offsets: Array,
    token: int,
    mapping: Array,
    slots: Array,
    pool: Array,
    offsets: Array,
    size: int,
) -> tuple[int, int]:
    """Write the ids of another vocabulary's tokens, from `token` on, to `mapping`; new ones get the next ids.

    Returns the first token that is still to do, since there is no room, and the size of the vocabulary.
    """
    for other in range(token, mapping.size):
        start, stop = other_offsets[other], other_offsets[other + 1]
        hashed = HASH_START
        for k in range(start, stop):
            hashed = (hashed ^ np.uint64(other_pool[k])) * HASH_FACTOR
        hashed = mixed(hashed)
        found, slot = find_token(other_pool, start, stop, hashed, slots, pool, offsets)
        if found < 0:
            if not _insert(other_pool, start, stop, hashed, slot, slots, pool, offsets, size):
                return other, size
            found = size
            size += 1
        mapping[other] = found
    return mapping.size, size


@kernel
def look_up(
    text: Array,
    position: int,
    slots: Array,
    pool: Array,
    offsets: Array,
    size: int,
    grow: bool,
    keep_unknown: bool,
    ids: Array,
    count: int,
    places: Array,
    hashes: Array,
) -> tuple[int, int, int, int]:
    """Write the ids of the tokens from `position` on.

    Returns status, position, count of ids, size of the vocabulary. FULL: the token at `position` is new and there is no
    room; make some and go on from there. MARKER_FOUND: a marker stands at `position`; <unk> is none with keep_unknown.
    places: two rows of scratch, and hashes one, for as many tokens as are cut before the first of them is looked up.
    """
    starts, stops = places[0], places[1]
    while position < text.size:
        position, tokens = _cut(text, position, slots, starts, stops, hashes)
        ask_for_spellings(tokens, starts, stops, hashes, slots, pool, offsets)
        for j in range(tokens):
            start, stop = starts[j], stops[j]
            if start == stop:
                ids[count] = END
                count += 1
                continue
            token, slot = find_token(text, start, stop, hashes[j], slots, pool, offsets)
            if token < 0 and grow:
                if not _insert(text, start, stop, hashes[j], slot, slots, pool, offsets, size):
                    return FULL, start, count, size
                token = size
                size += 1
            literal = token == UNKNOWN or token == BEGIN or token == END
            if literal and not (token == UNKNOWN and keep_unknown):
                return MARKER_FOUND, start, count, size
            ids[count] = max(token, UNKNOWN)
            count += 1
    return DONE, text.size, count, size


@kernel
def _cut(text: Array, position: int, slots: Array, starts: Array, stops: Array, hashes: Array) -> tuple[int, int]:
    """Cut tokens from `position` on, as many as there is room for, and ask the memory for their slots; an empty one is
    the end of a document.

    Returns the position after them and how many there are; a last one that nothing ends is left out.
    """
    mask = np.uint64(slots.size - 1)
    tokens = 0
    while position < text.size and tokens + 1 < starts.size:
        start, hashed = position, HASH_START
        while position < text.size and text[position] != 32 and text[position] != 10:
            hashed = (hashed ^ np.uint64(text[position])) * HASH_FACTOR
            position += 1
        if position == text.size:
            break
        if position > start:
            hashed = mixed(hashed)
            starts[tokens], stops[tokens], hashes[tokens] = start, position, hashed
            prefetch(slots, np.int64(hashed & mask))
            tokens += 1
        if text[position] == 10:
            starts[tokens], stops[tokens] = position, position
            tokens += 1
        position += 1
    return position, tokens


@kernel
def ask_for_spellings(
    tokens: int, starts: Array, stops: Array, hashes: Array, slots: Array, pool: Array, offsets: Array
) -> None:
    """Ask the memory for the spelling of what is in the slot of each token."""
    mask = np.uint64(slots.size - 1)
    for j in range(tokens):
        if starts[j] < stops[j]:
            prefetch(offsets, np.int64(slots[hashes[j] & mask] & _LOWER) - 1)
    for j in range(tokens):
        if starts[j] < stops[j]:
            token = np.int64(slots[hashes[j] & mask] & _LOWER) - 1
            if 0 <= token < offsets.size:
                prefetch(pool, offsets[token])
