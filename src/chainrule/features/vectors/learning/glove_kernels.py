"""GloVe (Pennington 2014): weighted least squares on the logarithms of co-occurrences, by AdaGrad."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel
from chainrule.base.lanes import LANES, bounded, lanes_at, minus, over, put_lanes, root, spread, times, times_plus
from chainrule.features.vectors.learning.row_kernels import below, next_random, prefetch_row, product

Array = NDArray[Any]

_CLIP = np.float32(100.0)  # of a gradient, as GloVe's
_AHEAD = 2


@kernel
def place_cells(
    starts: Array, columns: Array, sums: Array, unit: float, first: int, last: int, blocks: int, block_of: Array,
    places: Array, pairs: Array, counts: Array,
) -> None:  # fmt: skip
    """Write the co-occurrences of the words first:last to the cells of their blocks.

    places: where the next one of each cell goes.
    """
    for word in range(first, last):
        block = np.int64(block_of[0, word]) * blocks
        for k in range(starts[word], starts[word + 1]):
            cell = block + block_of[1, columns[k]]
            place = places[cell]
            places[cell] += 1
            pairs[place, 0], pairs[place, 1] = word, columns[k]
            counts[place] = np.float32(sums[k] / unit)


@kernel
def cell_sizes(
    starts: Array, columns: Array, first: int, last: int, blocks: int, block_of: Array, sizes: Array
) -> None:
    for word in range(first, last):
        block = np.int64(block_of[0, word]) * blocks
        for k in range(starts[word], starts[word + 1]):
            sizes[block + block_of[1, columns[k]]] += 1


@kernel
def shuffle(pairs: Array, counts: Array, start: int, stop: int, random: int) -> None:
    """Put the pairs of a cell into a random order."""
    for k in range(stop - 1, start, -1):
        random = next_random(random)
        other = start + below(random, k - start + 1)
        for side in range(2):
            pairs[k, side], pairs[other, side] = pairs[other, side], pairs[k, side]
        counts[k], counts[other] = counts[other], counts[k]


@kernel
def learn_counts(
    pairs: Array, counts: Array, start: int, stop: int, words: Array, contexts: Array, word_squares: Array,
    context_squares: Array, word_biases: Array, context_biases: Array, rate: float, x_max: float, power: float,
) -> float:  # fmt: skip
    """Learn from the pairs of a cell, and return the sum of their costs, f(x) (w c + b + d - log x)^2 / 2 each.

    As in GloVe's program, the sums of squares, which begin at 1, take gradients times the rate, but those of biases
    take gradients alone. biases: a row of biases, and a row of their sums of squares.
    """
    cost = 0.0
    for k in range(start, stop):
        if k + _AHEAD < stop:
            prefetch_row(words, pairs[k + _AHEAD, 0])
            prefetch_row(word_squares, pairs[k + _AHEAD, 0])
            prefetch_row(contexts, pairs[k + _AHEAD, 1])
            prefetch_row(context_squares, pairs[k + _AHEAD, 1])
        word, context, count = pairs[k, 0], pairs[k, 1], np.float64(counts[k])
        error = product(words, word, contexts, context) + word_biases[0, word] + context_biases[0, context]
        error -= math.log(count)
        weighted = error if count > x_max else (count / x_max) ** power * error
        cost += 0.5 * weighted * error
        gains, rates, clip = spread(np.float32(weighted)), spread(np.float32(rate)), spread(_CLIP)
        for column in range(0, words.shape[1], LANES):
            w, c = lanes_at(words, word, column), lanes_at(contexts, context, column)
            to_w, to_c = times(bounded(times(gains, c), clip), rates), times(bounded(times(gains, w), clip), rates)
            of_w, of_c = lanes_at(word_squares, word, column), lanes_at(context_squares, context, column)
            put_lanes(words, word, column, minus(w, over(to_w, root(of_w))))
            put_lanes(contexts, context, column, minus(c, over(to_c, root(of_c))))
            put_lanes(word_squares, word, column, times_plus(to_w, to_w, of_w))
            put_lanes(context_squares, context, column, times_plus(to_c, to_c, of_c))
        word_biases[0, word] -= weighted / math.sqrt(word_biases[1, word])
        context_biases[0, context] -= weighted / math.sqrt(context_biases[1, context])
        word_biases[1, word] += weighted * weighted
        context_biases[1, context] += weighted * weighted
    return cost
