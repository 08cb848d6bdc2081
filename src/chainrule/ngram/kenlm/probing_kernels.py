"""The compiled look-ups in KenLM's hashed binaries ("probing"), in the file's own pages; see `kenlm_probing.py`.

An n-gram is found by a 64-bit hash of its words, the last one first; nothing in the file says which words they are.
Tables are rows of 32-bit numbers: a key's two halves, a log10 probability, and but for the highest order a log10
back-off. An empty row's key is 0, and a key is in the first row that was free from key modulo rows on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, array_at, kernel
from chainrule.protocol import BEGIN

Array = NDArray[Any]

STATE_SIZE = 24  # numbers in a state: its length and one for each context of the highest order that there is
# What every model's record holds first, and which kind of model it is.
KIND, ORDER = 0, 1
TRIE, HASHED = 0, 1
# What the record of a hashed model holds, by place: KenLM's numbers of our words, the unigrams, then the other orders'
# tables, each with its address and rows.
NUMBERS, VOCABULARY_SIZE, UNIGRAMS, UNIGRAM_COUNT, UNIGRAM_WIDTH, MIDDLE_WIDTH, TABLES = 8, 9, 10, 11, 12, 13, 14
LONGEST_WIDTH = 3
RECORD_SIZE = TABLES + 2 * 24

_CONTEXT, _WORD = np.uint64(8978948897894561157), np.uint64(17894857484156487943)
_ONE, _UPPER = np.uint64(1), np.uint64(32)
_SIGN = np.uint32(0x80000000)


@kernel
def combined(key: int, word: int) -> int:
    """The key of an n-gram with one more word in front; a word's own key is its number."""
    return (key * _CONTEXT) ^ ((_ONE + np.uint64(word)) * _WORD)


@kernel
def _row(table: Array, rows: int, width: int, key: int) -> int:
    """Where the row of a key begins, or -1."""
    row = np.int64(key % np.uint64(rows))
    for _ in range(rows):
        at = row * width
        found = np.uint64(table[at]) | np.uint64(table[at + 1]) << _UPPER
        if found == key:
            return at
        if found == np.uint64(0):
            return -1
        row = row + 1 if row + 1 < rows else 0
    return -1


@allocating_kernel
def extend_hashed(model_address: int, word: int, before: int, after: int) -> tuple[float, int]:
    """log10 P(word | the state before) and the length of the n-gram found; writes the state after.

    Of a state's numbers, the lower half is a back-off and the upper half the first word of its n-gram.
    """
    model = array_at(model_address, RECORD_SIZE, np.int64)
    lengths_before, lengths_after = array_at(before, 1, np.int64), array_at(after, 1, np.int64)
    words_before, words_after = array_at(before, 2 * STATE_SIZE, np.uint32), array_at(after, 2 * STATE_SIZE, np.uint32)
    backoffs_before = array_at(before, 2 * STATE_SIZE, np.float32)
    backoffs_after = array_at(after, 2 * STATE_SIZE, np.float32)
    order = model[ORDER]
    given = min(max(lengths_before[0], 0), order - 1)
    number = np.int64(array_at(model[NUMBERS], model[VOCABULARY_SIZE], np.int32)[word])
    width = model[UNIGRAM_WIDTH]
    bits = array_at(model[UNIGRAMS], width * model[UNIGRAM_COUNT], np.uint32)
    values = array_at(model[UNIGRAMS], width * model[UNIGRAM_COUNT], np.float32)
    score = 0.0 if word == BEGIN else -np.float64(abs(values[width * number]))
    goes_on = bits[width * number] & _SIGN == 0  # whether longer n-grams end in this one
    first, backoff = words_before[3], backoffs_before[2]  # of the context of `found` words; read before it is written
    words_after[3], backoffs_after[2] = number, values[width * number + 1]
    lengths_after[0] = 1 if bits[width * number + 1] != _SIGN else 0  # -0.0 says that nothing hangs on the context
    found, key = 1, np.uint64(number)
    while goes_on and found <= given:
        key = combined(key, np.int64(first))
        place = TABLES + 2 * (found - 1)
        is_longest = found + 1 == order
        width = LONGEST_WIDTH if is_longest else model[MIDDLE_WIDTH]
        bits = array_at(model[place], width * model[place + 1], np.uint32)
        at = _row(bits, model[place + 1], width, key)
        if at < 0:
            break
        values = array_at(model[place], width * model[place + 1], np.float32)
        score = -np.float64(abs(values[at + 2]))
        found += 1
        if is_longest:
            break
        goes_on = bits[at + 2] & _SIGN == 0
        ended = first
        first, backoff = words_before[2 * found + 1], backoffs_before[2 * found]
        words_after[2 * found + 1], backoffs_after[2 * found] = ended, values[at + 3]
        if bits[at + 3] != _SIGN:
            lengths_after[0] = found
    for length in range(found, given + 1):
        score += backoff if length == found else backoffs_before[2 * length]
    return score, found
