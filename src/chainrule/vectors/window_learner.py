"""CBOW, subwords, and the losses that go through a tree or all words: one word after the other, on one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.threads import run
from chainrule.vectors.aligned_matrices import zero_rows
from chainrule.vectors.huffman import NO_PATHS, huffman_paths
from chainrule.vectors.learner import MOST_TOKENS, StepTotals, sigmoid_table
from chainrule.vectors.noise_tables import noise_of
from chainrule.vectors.parallel_blocks import seeds
from chainrule.vectors.window_kernels import HIERARCHICAL, NEGATIVE, SOFTMAX, learn_windows

if TYPE_CHECKING:
    from chainrule.vectors.config import VectorsConfig
    from chainrule.vectors.learner import Matrices, Rate
    from chainrule.vectors.subwords import Units
    from chainrule.vectors.training_text import TrainingText

_LOSSES = {"negative": NEGATIVE, "hierarchical": HIERARCHICAL, "softmax": SOFTMAX}


class WindowLearner:
    """As the module says. units: what each word's input is the mean of."""

    def __init__(self, text: TrainingText, config: VectorsConfig, matrices: Matrices, units: Units) -> None:
        self._text, self._config, self.matrices, self._units = text, config, matrices, units
        assert config.sample is not None
        assert config.noise_power is not None
        self._keep, self._table = text.kept(config.sample), sigmoid_table()
        every = np.zeros(len(text.words), np.int32)
        self._noise = noise_of(text.counts**config.noise_power, every, 1)
        self._paths = huffman_paths(text.counts) if config.loss == "hierarchical" else NO_PATHS

    @property
    def steps(self) -> int:
        return -(-len(self._text) // MOST_TOKENS)

    def learn(self, step: int, rate: Rate, rng: np.random.Generator) -> StepTotals:
        config, noise = self._config, self._noise
        start, stop = step * MOST_TOKENS, min((step + 1) * MOST_TOKENS, len(self._text))
        logits = np.empty(len(self._text.words) if config.loss == "softmax" else 0)
        rows = [zero_rows(1, config.dimensions) for _ in range(3)]
        loss, examples = run(
            learn_windows,
            *(self._text.stream, start, stop, self._keep, config.window, config.method == "cbow"),
            *(_LOSSES[config.loss or "negative"], self._units.starts, self._units.rows),
            *(self.matrices["inputs"], self.matrices["outputs"], np.float32(rate(0)), seeds(rng, 1)[0]),
            *(noise.members, noise.shares, noise.aliases, *self._paths),
            *(np.empty(stop - start, np.int32), logits, *rows, np.empty((1, config.negatives), np.int64), self._table),
        )
        return StepTotals(loss, examples, stop - start)
