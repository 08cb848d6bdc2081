"""Skip-gram and CBOW over running windows, with subwords or without, and with any loss: one word after the other.

What has a vector is a unit: a word, or an n-gram of its characters. A word's input is the mean of its units'.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel
from chainrule.vectors.pair_kernels import draw_noise, kept_words
from chainrule.vectors.row_kernels import (
    add_errors,
    add_row,
    ask_for_row,
    below,
    clear_row,
    copy_row,
    next_random,
    product,
    step,
    surprise,
)

Array = NDArray[Any]

NEGATIVE, HIERARCHICAL, SOFTMAX = 0, 1, 2
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)


@kernel
def foretell(
    hidden: Array, target: int, loss: int, outputs: Array, rate: float, random: int, members: Array, shares: Array,
    aliases: Array, path_starts: Array, path_nodes: Array, path_labels: Array, logits: Array, errors: Array,
    drawn: Array, table: Array,
) -> tuple[float, int]:  # fmt: skip
    """One step to make a word likelier after hidden[0]; its loss so far, in nats, and the state of the generator.

    What is to be added to hidden[0] is added to errors[0].
    """
    cost = 0.0
    if loss == NEGATIVE:
        random = draw_noise(members, shares, aliases, 0, members.size, random, drawn, 0, outputs)
        cost += surprise(step(hidden, 0, outputs, target, _ONE, rate, errors, table))
        for n in range(drawn.shape[1]):
            if drawn[0, n] != target:
                cost += surprise(1.0 - step(hidden, 0, outputs, drawn[0, n], _ZERO, rate, errors, table))
    elif loss == HIERARCHICAL:
        for k in range(path_starts[target], path_starts[target + 1]):
            label = np.float32(path_labels[k])
            likely = step(hidden, 0, outputs, path_nodes[k], label, rate, errors, table)
            cost += surprise(likely if path_labels[k] else 1.0 - likely)
    else:
        cost += _softmax_step(hidden, target, outputs, rate, logits, errors)
    return cost, random


@kernel
def _softmax_step(hidden: Array, target: int, outputs: Array, rate: float, logits: Array, errors: Array) -> float:
    """P(target | hidden) = exp(hidden outputs[target]) / the sum of that over all rows. Returns -log of it."""
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
    """Adds the mean of a word's units to hidden[0]."""
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
    """Learns from a part of a stream; the sum of the losses, and how many words were foretold.

    As in word2vec.c and fastText, each input gets the whole error, though it was a part of a mean, and skip-gram's word
    is corrected after each of its context. As that moves the mean by the error, the units themselves can wait for the
    sum of the errors. (Only an n-gram that a word has twice moves the mean a little more.)
    """
    total, foretold = 0.0, 0
    while start < stop:
        length, start, random = kept_words(stream, start, stop, keep, random, rows)
        for i in range(length):
            random = next_random(random)
            reach = 1 + below(random, window)
            first, last = max(0, i - reach), min(length, i + reach + 1)
            if last - first < 2:
                continue
            if i + reach + 1 < length:
                word = rows[i + reach + 1] if is_cbow else rows[i + 1]
                for k in range(unit_starts[word], unit_starts[word + 1]):
                    ask_for_row(inputs, units[k])
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
                    cost, random = foretell(
                        hidden, rows[j], loss, outputs, rate, random, members, shares, aliases, path_starts,
                        path_nodes, path_labels, logits, errors, drawn, table,
                    )  # fmt: skip
                    add_errors(errors, hidden, 0)
                    add_errors(errors, sums, 0)
                    total += cost
                    foretold += 1
            for j in range(first, last):
                if (j != i) == is_cbow:
                    _correct_units(rows[j], unit_starts, units, sums, inputs)
    return total, foretold
