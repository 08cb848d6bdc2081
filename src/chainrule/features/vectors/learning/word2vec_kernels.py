"""Compiled learning of skip-gram and CBOW: from pairs in cells by negative sampling, and over running windows.

Words are rows of matrices, numbered from 0 by falling frequency. In a stream of ids, a word's id is its row plus
FIRST_ORDINARY. Pairs of a word and one of its context are drawn from a text and sorted into cells. A cell holds the
pairs of a block of words and a block of contexts; cells in which no block stands twice share no row of any matrix, so
it makes no difference in which order, or how many at once, they are learned from.

Windows work with subwords or without, and with any loss: one word after the other. What has a vector is a unit: a word,
or an n-gram of its characters. A word's input is the mean of its units'.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel
from chainrule.features.vectors.learning.row_kernels import (
    add_errors,
    add_row,
    below,
    clear_row,
    copy_row,
    move_by_three,
    negative_log,
    next_random,
    prefetch_row,
    product,
    products_by_three,
    sigmoid,
    step,
)
from chainrule.protocol import END
from chainrule.text.tokenization.vocabulary_kernels import FIRST_ORDINARY

Array = NDArray[Any]

_ONE, _ZERO = np.float32(1.0), np.float32(0.0)
_LOWER = np.uint64(0xFFFFFFFF)
_NOTED = 64  # the loss of one in this many pairs is computed


@kernel
def subsample(stream: Array, start: int, stop: int, keep: Array, random: int, rows: Array) -> tuple[int, int, int]:
    """Subsample one document: the rows of its words, as many as there is room for, without those left out at random.

    keep: for each row, 2^32 times the probability that an occurrence stays. Returns how many rows there are, where the
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
    """Return the pairs of word and context in a part of a stream, and how many are in each cell.

    The context is 1 to `window` words on both sides, drawn for each word. block_of: the block of each row, for words
    and for contexts. rows: scratch, as long as the longest sentence. sizes: the number of pairs in each cell, by block
    of words, then of contexts.
    """
    count = 0
    while start < stop:
        length, start, random = subsample(stream, start, stop, keep, random, rows)
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
    """Write pairs to their cells. places: for each cell, where its next pair goes."""
    for k in range(count):
        cell = np.int64(block_of[0, pairs[k, 0]]) * blocks + block_of[1, pairs[k, 1]]
        place = places[cell]
        places[cell] += 1
        sorted_pairs[place, 0], sorted_pairs[place, 1] = pairs[k, 0], pairs[k, 1]


@kernel
def draw_noise(
    members: Array, shares: Array, aliases: Array, start: int, stop: int, random: int, drawn: Array, outputs: Array
) -> int:  # fmt: skip
    """Draw noise rows from the members start:stop of a block, by Walker's alias method, and prefetch them.

    shares: 2^32 times the probability that a member is itself, and not its alias. Returns the state of the generator.
    """
    size = np.uint64(stop - start)
    for n in range(drawn.size):
        random = next_random(random)
        product = (random >> np.uint64(32)) * size  # upper half: which member; lower half: a share, independent of it
        member = start + np.int64(product >> np.uint64(32))
        alias = aliases[member]
        row = members[member if product & _LOWER < shares[member] else alias]
        drawn[n] = row
        prefetch_row(outputs, row)
    return random


@kernel
def learn_pairs(
    pairs: Array, start: int, stop: int, inputs: Array, outputs: Array, rate: float, random: int, members: Array,
    shares: Array, aliases: Array, first: int, last: int, negatives: int, errors: Array, drawn: Array, gains: Array,
    table: Array,
) -> tuple[float, int]:  # fmt: skip
    """Learn by skip-gram with negative sampling (Mikolov 2013, equation 4) from the pairs of a cell, one after the
    other.

    For each pair, noise rows are drawn from members[first:last]; one that is the context itself is left out, as in
    word2vec.c. errors, drawn, gains: scratch; `drawn` has a column for the context, one for each noise row, and others
    up to a multiple of three. All probabilities of a pair are those before its step. Returns the sum of the losses
    of some pairs, in nats, and how many pairs these are.
    """
    loss, noted, width = 0.0, 0, drawn.shape[1]
    if start < stop:
        random = draw_noise(members, shares, aliases, first, last, random, drawn[start & 1, 1 : 1 + negatives], outputs)
    for k in range(start, stop):
        word, context, rows = pairs[k, 0], pairs[k, 1], drawn[k & 1]
        if k + 1 < stop:  # what the next pair needs, so that it arrives in time
            random = draw_noise(
                members, shares, aliases, first, last, random, drawn[k + 1 & 1, 1 : 1 + negatives], outputs
            )
            prefetch_row(outputs, pairs[k + 1, 1])
            prefetch_row(inputs, pairs[k + 1, 0])
        rows[0] = context
        for n in range(1 + negatives, width):
            rows[n] = context
        for n in range(0, width, 3):
            gains[n], gains[n + 1], gains[n + 2] = products_by_three(
                inputs, word, outputs, rows[n], rows[n + 1], rows[n + 2]
            )
        is_noted = (k - start) % _NOTED == 0
        for n in range(width):
            likely = sigmoid(gains[n], table)
            gains[n] = rate * (_ONE - likely) if n == 0 else -rate * likely if rows[n] != context else _ZERO
            if is_noted and (n == 0 or rows[n] != context):
                loss += negative_log(likely if n == 0 else _ONE - likely)
        noted += is_noted
        clear_row(errors, 0)
        for n in range(0, width, 3):
            move_by_three(inputs, word, outputs, rows, gains, n, errors)
        add_errors(errors, inputs, word)
    return loss, noted


NEGATIVE, HIERARCHICAL, SOFTMAX = 0, 1, 2


@kernel
def predict(
    hidden: Array, target: int, loss: int, outputs: Array, rate: float, random: int, members: Array, shares: Array,
    aliases: Array, path_starts: Array, path_nodes: Array, path_labels: Array, logits: Array, errors: Array,
    drawn: Array, table: Array,
) -> tuple[float, int]:  # fmt: skip
    """Take a step that makes a word likelier given hidden[0].

    Returns its loss before the step, in nats, and the generator's state. The correction of hidden[0] is added to
    errors[0].
    """
    cost = 0.0
    if loss == NEGATIVE:
        random = draw_noise(members, shares, aliases, 0, members.size, random, drawn, outputs)
        cost += negative_log(step(hidden, 0, outputs, target, _ONE, rate, errors, table))
        for n in range(drawn.size):
            if drawn[n] != target:
                cost += negative_log(1.0 - step(hidden, 0, outputs, drawn[n], _ZERO, rate, errors, table))
    elif loss == HIERARCHICAL:
        for k in range(path_starts[target], path_starts[target + 1]):
            label = np.float32(path_labels[k])
            likely = step(hidden, 0, outputs, path_nodes[k], label, rate, errors, table)
            cost += negative_log(likely if path_labels[k] else 1.0 - likely)
    else:
        cost += _softmax_step(hidden, target, outputs, rate, logits, errors)
    return cost, random


@kernel
def _softmax_step(hidden: Array, target: int, outputs: Array, rate: float, logits: Array, errors: Array) -> float:
    """Take a step by P(target | hidden) = exp(hidden outputs[target]) / the sum of that over all rows.

    Returns -log of it.
    """
    highest = -math.inf
    for row in range(logits.size):
        logits[row] = product(hidden, 0, outputs, row)
        highest = max(highest, logits[row])
    sum_of_all = 0.0
    for row in range(logits.size):
        sum_of_all += math.exp(logits[row] - highest)
    cost = math.log(sum_of_all) + highest - logits[target]
    for row in range(logits.size):
        likely = math.exp(logits[row] - highest) / sum_of_all
        gain = np.float32(rate * ((row == target) - likely))
        add_row(gain, outputs, row, errors, 0)
        add_row(gain, hidden, 0, outputs, row)
    return cost


@kernel
def _add_units(word: int, unit_starts: Array, units: Array, inputs: Array, hidden: Array) -> None:
    """Add the mean of a word's units to hidden[0]."""
    start, stop = unit_starts[word], unit_starts[word + 1]
    share = np.float32(1.0 / (stop - start))
    for k in range(start, stop):
        add_row(share, inputs, units[k], hidden, 0)


@kernel
def _correct_units(word: int, unit_starts: Array, units: Array, errors: Array, inputs: Array) -> None:
    for k in range(unit_starts[word], unit_starts[word + 1]):
        add_errors(errors, inputs, units[k])


@kernel
def learn_windows(
    stream: Array, start: int, stop: int, keep: Array, window: int, is_cbow: bool, loss: int, unit_starts: Array,
    units: Array, inputs: Array, outputs: Array, rate: float, random: int, members: Array, shares: Array,
    aliases: Array, path_starts: Array, path_nodes: Array, path_labels: Array, rows: Array, logits: Array,
    hidden: Array, errors: Array, sums: Array, drawn: Array, table: Array,
) -> tuple[float, int]:  # fmt: skip
    """Learn from a part of a stream; return the sum of the losses, in nats, and how many words were predicted.

    As in word2vec.c and fastText, each input gets the whole error, although it was only a part of a mean, and
    skip-gram's word is corrected after each word of its context. As that moves the mean by the error, the units
    themselves are updated later, by the sum of the errors. (Only an n-gram that a word has twice moves the mean a
    little more.)
    """
    total, predicted = 0.0, 0
    while start < stop:
        length, start, random = subsample(stream, start, stop, keep, random, rows)
        for i in range(length):
            random = next_random(random)
            reach = 1 + below(random, window)
            first, last = max(0, i - reach), min(length, i + reach + 1)
            if last - first < 2:
                continue
            if i + reach + 1 < length:
                word = rows[i + reach + 1] if is_cbow else rows[i + 1]
                for k in range(unit_starts[word], unit_starts[word + 1]):
                    prefetch_row(inputs, units[k])
            clear_row(hidden, 0)
            clear_row(sums, 0)
            if is_cbow:
                for j in range(first, last):
                    if j != i:
                        _add_units(rows[j], unit_starts, units, inputs, hidden)
                copy_row(np.float32(1.0 / (last - first - 1)), hidden, 0, hidden, 0)
            else:
                _add_units(rows[i], unit_starts, units, inputs, hidden)
            for j in range(first, last):
                if (j == i) == is_cbow:
                    clear_row(errors, 0)
                    cost, random = predict(
                        hidden, rows[j], loss, outputs, rate, random, members, shares, aliases, path_starts,
                        path_nodes, path_labels, logits, errors, drawn, table,
                    )  # fmt: skip
                    add_errors(errors, hidden, 0)
                    add_errors(errors, sums, 0)
                    total += cost
                    predicted += 1
            for j in range(first, last):
                if (j != i) == is_cbow:
                    _correct_units(rows[j], unit_starts, units, sums, inputs)
    return total, predicted
