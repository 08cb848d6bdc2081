"""Compiled reading of KenLM's binaries: numbers in its tries, and look-ups in its hash tables.

Tries hold contiguous numbers of any width up to 57 bits.

Hash tables ("probing", see `probing.py`) are queried in the mapped file. The key of an n-gram is a 64-bit hash of its
words, from the last to the first; the words themselves are not stored. Tables are rows of 32-bit numbers: the two
halves of a key, a log10 probability and, below the highest order, a log10 backoff. An empty row has key 0. A key is in
the first row that was free, from (key modulo the number of rows) on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.intrinsics import array_at
from chainrule.base.jit import kernel
from chainrule.protocol import BEGIN

Array = NDArray[Any]

_THREE, _SEVEN, _ONE = np.uint64(3), np.uint64(7), np.uint64(1)


@kernel
def unpack(data: Array, base: int, first_bit: int, stride: int, width: int, start: int, stop: int, out: Array) -> None:
    """out[i] = the `width` bits of entry i, little-endian; entries are `stride` bits apart; for start <= i < stop.

    Each number, and the eight bytes from its first byte on, must be inside `data`.
    """
    mask = (_ONE << np.uint64(width)) - _ONE
    for i in range(start, stop):
        bit = np.uint64(first_bit) + np.uint64(i) * np.uint64(stride)
        at = base + np.int64(bit >> _THREE)
        value = np.uint64(0)
        for k in range(8):
            value |= np.uint64(data[at + k]) << np.uint64(8 * k)
        out[i] = (value >> (bit & _SEVEN)) & mask


@kernel
def are_ascending(begins: Array, last: int) -> bool:
    """Whether the ranges of children ascend from 0 to `last`."""
    for i in range(1, begins.size):
        if begins[i - 1] > begins[i]:
            return False
    return begins[0] == 0 and begins[begins.size - 1] == last


@kernel
def prepend_words(words: Array, parents: Array, rows_before: Array, rows: Array) -> None:
    """rows[i] = words[i], then the row of its parent."""
    for i in range(words.size):
        rows[i, 0] = words[i]
        for k in range(rows_before.shape[1]):
            rows[i, k + 1] = rows_before[parents[i], k]


@kernel
def add_high_parts(firsts: Array, shift: int, out: Array) -> None:
    """Adds to out[i], shifted left, its high part: how many of firsts[1:], which ascend, are at most i."""
    high = 0
    for i in range(out.size):
        while high + 1 < firsts.size and firsts[high + 1] <= np.uint64(i):
            high += 1
        out[i] += np.int64(high) << shift


STATE_SIZE = 24  # numbers in a state: its length, and one for each context up to the highest supported order
# The first fields of every model's record, and the kinds of models.
KIND, ORDER = 0, 1
TRIE, HASHED = 0, 1
# The other fields of a hashed model's record: KenLM's ids of our words, the unigrams, then the address and the length
# of each other order's table.
KENLM_IDS, VOCABULARY_SIZE, UNIGRAMS, UNIGRAM_COUNT, UNIGRAM_WIDTH, MIDDLE_WIDTH, TABLES = 8, 9, 10, 11, 12, 13, 14
LONGEST_WIDTH = 3
CALLS = TABLES + 2 * 24  # what `method_kernels.py` needs: eight fields, and a state
RECORD_SIZE = CALLS + 8 + STATE_SIZE

_CONTEXT, _WORD = np.uint64(8978948897894561157), np.uint64(17894857484156487943)
_UPPER = np.uint64(32)
_SIGN = np.uint32(0x80000000)


@kernel
def extend_key(key: int, word: int) -> int:
    """The key of an n-gram extended by a word on the left; the key of a single word is its id."""
    return (key * _CONTEXT) ^ ((_ONE + np.uint64(word)) * _WORD)


@kernel
def _row(table: Array, rows: int, width: int, key: int) -> int:
    """The index at which the row of a key begins, or -1."""
    row = np.int64(key % np.uint64(rows))
    for _ in range(rows):
        at = row * width
        stored = np.uint64(table[at]) | np.uint64(table[at + 1]) << _UPPER
        if stored == key:
            return at
        if stored == np.uint64(0):
            return -1
        row = row + 1 if row + 1 < rows else 0
    return -1


@kernel
def extend_hashed(model_address: int, word: int, before: int, after: int) -> tuple[float, int]:
    """log10 P(word | the state before) and the length of the n-gram that matched; writes the state after.

    Each number of a state has a backoff in its lower half and the first word of its n-gram in the upper half.
    """
    model = array_at(model_address, RECORD_SIZE, np.int64)
    lengths_before, lengths_after = array_at(before, 1, np.int64), array_at(after, 1, np.int64)
    words_before, words_after = array_at(before, 2 * STATE_SIZE, np.uint32), array_at(after, 2 * STATE_SIZE, np.uint32)
    backoffs_before = array_at(before, 2 * STATE_SIZE, np.float32)
    backoffs_after = array_at(after, 2 * STATE_SIZE, np.float32)
    order = model[ORDER]
    context_length = min(max(lengths_before[0], 0), order - 1)
    kenlm_id = np.int64(array_at(model[KENLM_IDS], model[VOCABULARY_SIZE], np.int32)[word])
    width = model[UNIGRAM_WIDTH]
    bits = array_at(model[UNIGRAMS], width * model[UNIGRAM_COUNT], np.uint32)
    values = array_at(model[UNIGRAMS], width * model[UNIGRAM_COUNT], np.float32)
    score = 0.0 if word == BEGIN else -np.float64(abs(values[width * kenlm_id]))
    can_extend = bits[width * kenlm_id] & _SIGN == 0  # whether longer n-grams end in this one
    # of the context of `length` words; read before it is overwritten
    first, backoff = (
        words_before[3],
        backoffs_before[2],
    )
    words_after[3], backoffs_after[2] = kenlm_id, values[width * kenlm_id + 1]
    # -0.0 marks a context that extends to no longer n-gram
    lengths_after[0] = 1 if bits[width * kenlm_id + 1] != _SIGN else 0
    length, key = 1, np.uint64(kenlm_id)
    while can_extend and length <= context_length:
        key = extend_key(key, np.int64(first))
        field = TABLES + 2 * (length - 1)
        is_longest = length + 1 == order
        width = LONGEST_WIDTH if is_longest else model[MIDDLE_WIDTH]
        bits = array_at(model[field], width * model[field + 1], np.uint32)
        at = _row(bits, model[field + 1], width, key)
        if at < 0:
            break
        values = array_at(model[field], width * model[field + 1], np.float32)
        score = -np.float64(abs(values[at + 2]))
        length += 1
        if is_longest:
            break
        can_extend = bits[at + 2] & _SIGN == 0
        matched_first = first
        first, backoff = words_before[2 * length + 1], backoffs_before[2 * length]
        words_after[2 * length + 1], backoffs_after[2 * length] = matched_first, values[at + 3]
        if bits[at + 3] != _SIGN:
            lengths_after[0] = length
    for unmatched in range(length, context_length + 1):
        score += backoff if unmatched == length else backoffs_before[2 * unmatched]
    return score, length
