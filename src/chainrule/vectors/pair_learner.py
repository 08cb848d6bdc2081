"""Skip-gram with negative sampling, of whole words: pairs in cells, which any number of threads learn from alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.threads import run_all
from chainrule.vectors.aligned_matrices import zero_rows
from chainrule.vectors.learner import StepTotals, sigmoid_table
from chainrule.vectors.noise_tables import noise_of
from chainrule.vectors.pair_kernels import draw_pairs, learn_pairs, sort_pairs
from chainrule.vectors.parallel_blocks import blocks_for, cells_of_round, random_blocks, seeds, starts_of

if TYPE_CHECKING:
    from jaxtyping import Int64
    from numpy import ndarray

    from chainrule.vectors.config import VectorsConfig
    from chainrule.vectors.learner import Matrices, Rate
    from chainrule.vectors.training_text import TrainingText

# Blocks are drawn anew for each step, since a word is told from no other block's words until then: so steps are short,
# about as many tokens as there are words, though not so short that the drawing, which takes that long, would count.
_PARTS = 8  # of a step
_LEAST_TOKENS = 1 << 12  # of a part
_PAIRS = 1 << 22  # of a part, at most


class PairLearner:
    """Skip-gram with negative sampling, of whole words: pairs in cells, on threads."""

    def __init__(self, text: TrainingText, config: VectorsConfig, matrices: Matrices) -> None:
        self._text, self._config, self.matrices = text, config, matrices
        assert config.window is not None
        assert config.sample is not None
        assert config.noise_power is not None
        self._keep, self._table = text.kept(config.sample), sigmoid_table()
        self._weights = text.counts**config.noise_power
        wanted = max(_LEAST_TOKENS, len(text.words) // _PARTS)
        self._part = max(1, min(wanted, _PAIRS // (2 * config.window)))

    @property
    def steps(self) -> int:
        return -(-len(self._text) // (self._part * _PARTS))

    def learn(self, step: int, rate: Rate, rng: np.random.Generator) -> StepTotals:
        blocks = blocks_for(len(self._text.words))
        block_of = np.stack([random_blocks(self._weights.size, blocks, rng) for _ in range(2)])
        noise = noise_of(self._weights, block_of[1], blocks)
        pairs, edges = self._pairs(step, blocks, block_of, rng)
        matrices = self.matrices["inputs"], self.matrices["outputs"]
        loss, examples = 0.0, 0
        for number in range(blocks):
            calls = []
            for (i, j), seed in zip(cells_of_round(number, blocks), seeds(rng, blocks), strict=True):
                cell = i * blocks + j
                scratch = zero_rows(1, self._config.dimensions), np.empty((2, self._config.negatives), np.int64)
                calls.append(
                    (
                        *(pairs, edges[cell], edges[cell + 1], *matrices, np.float32(rate(number / blocks)), seed),
                        *(noise.members, noise.shares, noise.aliases, noise.starts[j], noise.starts[j + 1]),
                        *(*scratch, self._table),
                    )
                )
            for cell_loss, noted in run_all(learn_pairs, calls):
                loss, examples = loss + cell_loss, examples + noted
        return StepTotals(loss, examples, min(self._part * _PARTS, len(self._text) - step * self._part * _PARTS))

    def _pairs(
        self, step: int, blocks: int, block_of: ndarray, rng: np.random.Generator
    ) -> tuple[ndarray, Int64[ndarray, " cells+1"]]:
        """The pairs of a step, sorted into cells, and where each cell begins."""
        start = step * self._part * _PARTS
        stop = min(start + self._part * _PARTS, len(self._text))
        starts = range(start, stop, self._part)
        window = self._config.window
        calls = []
        for first, seed in zip(starts, seeds(rng, len(starts)), strict=True):
            last = min(first + self._part, stop)
            found = np.empty((2 * window * (last - first), 2), np.int32)  # type: ignore[operator]  # resolved
            out = np.empty(last - first, np.int32), found, np.zeros(blocks * blocks, np.int64)
            calls.append((self._text.stream, first, last, self._keep, window, seed, blocks, block_of, *out))
        counts = run_all(draw_pairs, calls)
        places, edges = starts_of(np.array([call[-1] for call in calls]))
        pairs = np.empty((edges[-1], 2), np.int32)
        run_all(
            sort_pairs,
            [
                (call[-2], count, blocks, block_of, part, pairs)
                for call, count, part in zip(calls, counts, places, strict=True)
            ],
        )
        return pairs, edges
