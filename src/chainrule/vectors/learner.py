"""How vectors are learned, a step at a time; what a step learns from is a function of its number and the seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from chainrule.vectors.aligned_matrices import random_rows, zero_rows
from chainrule.vectors.row_kernels import SIGMOID_BOUND, SIGMOID_STEPS

if TYPE_CHECKING:
    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.vectors.config import VectorsConfig

    Matrices = dict[str, ndarray]

Rate = Callable[[float], float]  # the learning rate, by the share of a step that is done
MOST_TOKENS = 1 << 16  # that one call of a kernel learns from


class StepTotals(NamedTuple):
    """What a step learned from. loss: the sum over its examples. words: of the text, or pairs of words for GloVe."""

    loss: float
    examples: int
    words: int


class Learner(Protocol):
    """matrices: all that it learns, by name, changed in place."""

    @property
    def steps(self) -> int:
        """Of an epoch."""

    @property
    def matrices(self) -> Matrices: ...

    def learn(self, step: int, rate: Rate, rng: np.random.Generator) -> StepTotals:
        """step: of the epoch."""


def sigmoid_table() -> Float32[ndarray, " entries"]:
    """Of Python's own exp, so that it is the same wherever this runs."""
    half = SIGMOID_BOUND * SIGMOID_STEPS
    return np.array([1 / (1 + math.exp(-k / SIGMOID_STEPS)) for k in range(-half, half + 2)], np.float32)


def word_matrices(config: VectorsConfig, rows: int, outputs: int, rng: np.random.Generator) -> Matrices:
    """Inputs uniform between -1/D and 1/D, outputs 0, as in gensim and fastText.

    word2vec.c's bound is half of it, from which skip-gram learns less on small texts.
    """
    bound = 1.0 / config.dimensions
    return {
        "inputs": random_rows(rows, config.dimensions, bound, rng),
        "outputs": zero_rows(outputs, config.dimensions),
    }
