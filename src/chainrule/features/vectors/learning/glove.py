"""GloVe's learner: co-occurrences in shuffled cells, from which any number of threads learn the same vectors."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.scratch import room_for
from chainrule.base.threads import run_all
from chainrule.features.vectors.learning.cooccurrence_kernels import UNIT
from chainrule.features.vectors.learning.glove_kernels import cell_sizes, learn_counts, place_cells, shuffle
from chainrule.features.vectors.learning.learning import (
    StepTotals,
    blocks_for,
    cells_of_round,
    random_blocks,
    random_rows,
    seeds,
    starts_of,
    zero_rows,
)

if TYPE_CHECKING:
    from chainrule.features.vectors.learning.config import VectorsConfig
    from chainrule.features.vectors.learning.cooccurrences import Cooccurrences
    from chainrule.features.vectors.learning.learning import Matrices, Rate

_PARTS = 16  # of the counts, which are sorted at once
_SHARES = 8  # of a cell: a pass takes a share of every cell, then the next, so that its order is nearly a random one


def glove_matrices(config: VectorsConfig, words: int, rng: np.random.Generator) -> Matrices:
    """Return the initial matrices, as in GloVe's program: all random, biases too; sums of squared gradients begin
    at 1.
    """
    bound = 0.5 / config.dimensions
    matrices: Matrices = {}
    for name in ("word", "context"):
        squares = zero_rows(words, config.dimensions)
        squares[:] = 1
        matrices |= {f"{name}s": random_rows(words, config.dimensions, bound, rng), f"{name}_squares": squares}
        matrices[f"{name}_biases"] = np.stack([(2 * rng.random(words) - 1) * bound, np.ones(words)])
    return matrices


class GloveLearner:
    """Learns GloVe's vectors; a step is a round of shares of cells."""

    def __init__(self, counted: Cooccurrences, config: VectorsConfig, matrices: Matrices) -> None:
        self._config, self.matrices = config, matrices
        rng = np.random.default_rng(config.seed)
        words = counted.starts.size - 1
        self._blocks = blocks = blocks_for(words)
        self.steps = _SHARES * blocks
        block_of = np.stack([random_blocks(words, blocks, rng) for _ in range(2)])
        edges = np.searchsorted(counted.starts, np.linspace(0, counted.columns.size, _PARTS + 1)[1:-1])
        bounds = np.unique(np.concatenate([[0], edges, [words]])).tolist()
        parts = list(pairwise(bounds))
        sizes = np.zeros((len(parts), blocks**2), np.int64)
        run_all(
            cell_sizes,
            [
                (counted.starts, counted.columns, *part, blocks, block_of, size)
                for part, size in zip(parts, sizes, strict=True)
            ],
        )
        places, self._edges = starts_of(sizes)
        self._pairs, self._counts = (
            room_for((counted.columns.size, 2), np.int32),
            room_for((counted.columns.size,), np.float32),
        )
        run_all(
            place_cells,
            [
                (*counted, float(UNIT), *part, blocks, block_of, place, self._pairs, self._counts)
                for part, place in zip(parts, places, strict=True)
            ],
        )
        cells = zip(self._edges[:-1], self._edges[1:], seeds(rng, blocks**2), strict=True)
        run_all(shuffle, [(self._pairs, self._counts, start, stop, seed) for start, stop, seed in cells])

    def learn(self, step: int, rate: Rate, rng: np.random.Generator) -> StepTotals:
        config = self._config
        names = "words", "contexts", "word_squares", "context_squares", "word_biases", "context_biases"
        calls = []
        share, number = divmod(step, self._blocks)
        for i, j in cells_of_round(number, self._blocks):
            start, stop = self._edges[i * self._blocks + j :][:2].tolist()
            bounds = [start + (stop - start) * k // _SHARES for k in (share, share + 1)]
            matrices = [self.matrices[name] for name in names]
            calls.append((self._pairs, self._counts, *bounds, *matrices, config.rate, config.x_max, config.power))
        costs = run_all(learn_counts, calls)
        pairs = sum(int(call[3] - call[2]) for call in calls)
        return StepTotals(math.fsum(costs), pairs, pairs)
