"""Pairs of a word and one of its context: drawn from a text, sorted into cells, and learned from by negative sampling.

Words are rows of matrices, numbered from 0 by falling frequency. In a stream of ids, a word's id is its
row plus FIRST_ORDINARY.
A cell holds the pairs of a block of words and a block of contexts; cells in which no block stands twice share no row of
any matrix, so it makes no difference in which order, or how much at once, they are learned from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel
from chainrule.protocol import END
from chainrule.text.tokenization.vocabulary_kernels import FIRST_ORDINARY
from chainrule.vectors.row_kernels import add_errors, ask_for_row, below, clear_row, next_random, step, surprise

Array = NDArray[Any]

_ONE, _ZERO = np.float32(1.0), np.float32(0.0)
_LOWER = np.uint64(0xFFFFFFFF)
_NOTED = 64  # of so many pairs, the loss of one is computed


@kernel
def kept_words(stream: Array, start: int, stop: int, keep: Array, random: int, rows: Array) -> tuple[int, int, int]:
    """The rows of the words of one document, or as many as there is room for, without those left out at random.

    keep: of each row, 2^32 times the probability that an occurrence stays. Returns how many rows there are, where the
    next document begins, and the state of the generator.
    """
    count = 0
    while start < stop and count < rows.size:
        token = stream[start]
        start += 1
        if token == END:
            break
        if token >= FIRST_ORDINARY:
            random = next_random(random)
            if random >> np.uint64(32) < keep[token - FIRST_ORDINARY]:
                rows[count] = token - FIRST_ORDINARY
                count += 1
    return count, start, random


@kernel
def draw_pairs(
    stream: Array, start: int, stop: int, keep: Array, window: int, random: int, blocks: int, block_of: Array,
    rows: Array, pairs: Array, sizes: Array,
) -> int:  # fmt: skip
    """The pairs of word and context in a part of a stream, and how many are in each cell.

    The context is 1 to `window` words on both sides, drawn for each word. block_of: words and contexts, the block of
    each row. rows: scratch, as long as the longest sentence. sizes: a number for each cell, words before contexts.
    """
    count = 0
    while start < stop:
        length, start, random = kept_words(stream, start, stop, keep, random, rows)
        for i in range(length):
            random = next_random(random)
            reach = 1 + below(random, window)
            block = np.int64(block_of[0, rows[i]]) * blocks
            for j in range(max(0, i - reach), min(length, i + reach + 1)):
                if j != i:
                    pairs[count, 0], pairs[count, 1] = rows[i], rows[j]
                    sizes[block + block_of[1, rows[j]]] += 1
                    count += 1
    return count


@kernel
def sort_pairs(pairs: Array, count: int, blocks: int, block_of: Array, places: Array, sorted_pairs: Array) -> None:
    """Writes pairs to their cells. places: of each cell, where its next pair goes."""
    for k in range(count):
        cell = np.int64(block_of[0, pairs[k, 0]]) * blocks + block_of[1, pairs[k, 1]]
        place = places[cell]
        places[cell] += 1
        sorted_pairs[place, 0], sorted_pairs[place, 1] = pairs[k, 0], pairs[k, 1]


@kernel
def draw_noise(
    members: Array, shares: Array, aliases: Array, start: int, stop: int, random: int, drawn: Array, k: int,
    outputs: Array,
) -> int:  # fmt: skip
    """Draws rows for drawn[k] from the members of a block, start:stop, by Walker's alias method; asks for them.

    shares: 2^32 times the probability that a member is itself, and not its alias. Returns the state of the generator.
    """
    size = np.uint64(stop - start)
    for n in range(drawn.shape[1]):
        random = next_random(random)
        product = (random >> np.uint64(32)) * size  # upper half: which member; lower half: a share, independent of it
        member = start + np.int64(product >> np.uint64(32))
        alias = aliases[member]
        row = members[member if product & _LOWER < shares[member] else alias]
        drawn[k, n] = row
        ask_for_row(outputs, row)
    return random


@kernel
def learn_pairs(
    pairs: Array, start: int, stop: int, inputs: Array, outputs: Array, rate: float, random: int, members: Array,
    shares: Array, aliases: Array, first: int, last: int, errors: Array, drawn: Array, table: Array,
) -> tuple[float, int]:  # fmt: skip
    """Skip-gram with negative sampling (Mikolov 2013, equation 4) on the pairs of a cell, one after the other.

    For each pair, the context is told from rows drawn from members[first:last]; one that is the context itself is
    left out, as in word2vec.c. errors, drawn: scratch; as many rows are drawn as drawn is wide.
    Returns the sum of the losses of some pairs, and how many they are.
    """
    loss, noted = 0.0, 0
    if start < stop:
        random = draw_noise(members, shares, aliases, first, last, random, drawn, start & 1, outputs)
    for k in range(start, stop):
        if k + 1 < stop:
            random = draw_noise(members, shares, aliases, first, last, random, drawn, (k + 1) & 1, outputs)
            ask_for_row(outputs, pairs[k + 1, 1])
        word, context = pairs[k, 0], pairs[k, 1]
        is_noted = (k - start) % _NOTED == 0
        clear_row(errors, 0)
        likely = step(inputs, word, outputs, context, _ONE, rate, errors, table)
        if is_noted:
            loss += surprise(likely)
            noted += 1
        for n in range(drawn.shape[1]):
            row = drawn[k & 1, n]
            if row != context:
                likely = step(inputs, word, outputs, row, _ZERO, rate, errors, table)
                if is_noted:
                    loss += surprise(1.0 - likely)
        add_errors(errors, inputs, word)
    return loss, noted
