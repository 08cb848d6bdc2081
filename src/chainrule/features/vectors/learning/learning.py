"""What all learners of word vectors share: steps, matrices, the text as a stream of ids, and blocks of words.

What a step learns from is a function of its number and the seed. Rows of matrices are aligned, so that kernels read
them in whole lanes.

A cell is the pairs of a block of words and a block of contexts. In a round, cell (i, i + round) is worked on for every
i: no block stands in two of them, so that no two share a row. The number of blocks comes from the vocabulary alone, and
a cell's pairs have one order: so the result is the same on any number of threads (Gemulla 2011 for matrices; Lerer 2019
draws negatives inside the block).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from chainrule.base.lanes import LANES, pad_to_lanes
from chainrule.errors import TextError
from chainrule.features.vectors.learning.row_kernels import SIGMOID_BOUND, SIGMOID_STEPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int32, Int64, UInt64
    from numpy import ndarray

    from chainrule.features.vectors.learning.config import VectorsConfig

    Matrices = dict[str, ndarray]


def zero_rows(rows: int, width: int) -> Float32[ndarray, "rows padded"]:
    """Return rows of zeros, padded to whole lanes, each of which lies in one cache line."""
    size = rows * pad_to_lanes(width)
    room = np.zeros(size + LANES, np.float32)
    start = -(room.ctypes.data // room.itemsize) % LANES
    return room[start : start + size].reshape(rows, pad_to_lanes(width))


def random_rows(rows: int, width: int, bound: float, rng: np.random.Generator) -> Float32[ndarray, "rows padded"]:
    """Return rows of uniform random numbers between -bound and bound; the padding is 0."""
    drawn = zero_rows(rows, width)
    for start in range(0, rows, 1 << 14):
        part = drawn[start : start + (1 << 14), :width]
        part[:] = (2 * rng.random(part.shape, np.float32) - 1) * np.float32(bound)
    return drawn


Rate = Callable[[float], float]  # the learning rate, by the share of a step that is done
MOST_TOKENS = 1 << 16  # that one call of a kernel learns from


class StepTotals(NamedTuple):
    """The totals of a step.

    loss: the sum over its examples, in nats. words: how many words of the text it read; for GloVe, pairs of words.
    """

    loss: float
    examples: int
    words: int


class Learner(Protocol):
    """A Protocol: learns vectors step by step. matrices: all parameters, by name, changed in place."""

    @property
    def steps(self) -> int:
        """The number of steps in an epoch."""

    @property
    def matrices(self) -> Matrices: ...

    def learn(self, step: int, rate: Rate, rng: np.random.Generator) -> StepTotals:
        """Learn from a step. step: its index in the epoch."""


def sigmoid_table() -> Float32[ndarray, " entries"]:
    """Return a table of the sigmoid, by Python's own exp, so that it is the same on every machine."""
    half = SIGMOID_BOUND * SIGMOID_STEPS
    return np.array([1 / (1 + math.exp(-k / SIGMOID_STEPS)) for k in range(-half, half + 2)], np.float32)


def word_matrices(config: VectorsConfig, rows: int, outputs: int, rng: np.random.Generator) -> Matrices:
    """Return the initial matrices: inputs uniform between -1/D and 1/D, outputs 0, as in gensim and fastText.

    word2vec.c's bound is half of it, from which skip-gram learns less on small texts.
    """
    bound = 1.0 / config.dimensions
    return {
        "inputs": random_rows(rows, config.dimensions, bound, rng),
        "outputs": zero_rows(outputs, config.dimensions),
    }


_MOST_BLOCKS = 8
_LEAST_ROWS = 256  # of a block


def blocks_for(rows: int) -> int:
    """Return how many blocks of words, and of contexts, to make: this is how many threads can work at once."""
    return max(1, min(_MOST_BLOCKS, rows // _LEAST_ROWS))


def random_blocks(rows: int, blocks: int, rng: np.random.Generator) -> Int32[ndarray, " rows"]:
    """Return a random block for each row; consecutive runs of rows (by frequency), as many as there are blocks, all get
    different ones.
    """
    groups = -(-rows // blocks)
    order = rng.permuted(np.tile(np.arange(blocks, dtype=np.int32), (groups, 1)), axis=1)
    return order.reshape(-1)[:rows]


def cells_of_round(number: int, blocks: int) -> list[tuple[int, int]]:
    """Return the cells of a round, as pairs of a block of words and a block of contexts."""
    return [(i, (i + number) % blocks) for i in range(blocks)]


def starts_of(sizes: Int64[ndarray, "parts cells"]) -> tuple[Int64[ndarray, "parts cells"], Int64[ndarray, " cells+1"]]:
    """Return where each part's share of each cell begins, if cells are stored one after the other, each with the parts
    in order; and where each cell begins.
    """
    in_order = sizes.T.reshape(-1)
    starts = (np.cumsum(in_order) - in_order).reshape(sizes.T.shape).T
    return np.ascontiguousarray(starts), np.concatenate([starts[0], [sizes.sum()]]).astype(np.int64)


def seeds(rng: np.random.Generator, number: int) -> UInt64[ndarray, " number"]:
    """Return states for the kernels' generators."""
    return rng.integers(0, 1 << 63, number, dtype=np.uint64)


@dataclass(frozen=True)
class TrainingText:
    """A text to learn from.

    words: by falling frequency; the word of row r has the id r + FIRST_ORDINARY in the stream. Raises TextError.
    """

    stream: Int32[ndarray, " tokens"]
    words: Sequence[bytes]
    counts: Int64[ndarray, " words"]

    def __post_init__(self) -> None:
        if len(self.words) < 2:
            seen = "no word" if not self.words else "one word"
            raise TextError(
                f"the text has {seen} that is frequent enough; vectors need two: give more text, or a lower min_count"
            )

    def kept(self, sample: float) -> UInt64[ndarray, " words"]:
        """Return 2^32 times the probability that an occurrence of a word stays: (sqrt(f / sample) + 1) sample / f.

        f: its share of the words. The formula is that of word2vec.c, gensim and fastText; the paper: sqrt(sample / f).
        """
        shares = self.counts / self.counts.sum()
        kept = np.minimum(1, (np.sqrt(shares / sample) + 1) * sample / shares) if sample else np.ones(shares.size)
        return (kept * 2**32).astype(np.uint64)

    def __len__(self) -> int:
        return self.stream.size
