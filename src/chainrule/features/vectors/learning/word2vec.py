"""Skip-gram and CBOW: two learners, the noise distribution of negative sampling, and Huffman trees.

    PairLearner     skip-gram with negative sampling, of whole words: pairs in cells, from which any number of threads
                    learn alike
    WindowLearner   CBOW, subwords, and losses through a Huffman tree or over all words: one word after the other, on
                    one thread

The noise distribution draws random words by their frequency. The path from a Huffman tree's root to a word is for
hierarchical softmax (Morin and Bengio 2005).
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.threads import run, run_all
from chainrule.features.vectors.learning.learning import (
    MOST_TOKENS,
    StepTotals,
    blocks_for,
    cells_of_round,
    random_blocks,
    seeds,
    sigmoid_table,
    starts_of,
    zero_rows,
)
from chainrule.features.vectors.learning.row_kernels import make_aliases
from chainrule.features.vectors.learning.word2vec_kernels import (
    HIERARCHICAL,
    NEGATIVE,
    SOFTMAX,
    draw_pairs,
    learn_pairs,
    learn_windows,
    sort_pairs,
)

if TYPE_CHECKING:
    from jaxtyping import Float64, Int32, Int64, UInt8, UInt64
    from numpy import ndarray

    from chainrule.features.vectors.learning.config import VectorsConfig
    from chainrule.features.vectors.learning.fasttext import Units
    from chainrule.features.vectors.learning.learning import Matrices, Rate, TrainingText


class Noise(NamedTuple):
    """The noise distribution: rows in blocks, and for each block the tables of Walker's alias method.

    starts: where each block begins.
    """

    starts: Int64[ndarray, " blocks+1"]
    members: Int32[ndarray, " rows"]
    shares: UInt64[ndarray, " rows"]
    aliases: Int32[ndarray, " rows"]


def noise_of(weights: Float64[ndarray, " rows"], block_of: Int32[ndarray, " rows"], blocks: int) -> Noise:
    """Return the noise distribution. weights: the probability of each row, up to a factor."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(block_of, minlength=blocks))]).astype(np.int64)
    members = np.argsort(block_of.astype(np.int16), kind="stable").astype(np.int32)  # by radix
    shares, aliases = np.empty(members.size, np.uint64), np.empty(members.size, np.int32)
    make_aliases(weights, starts, members, shares, aliases, np.empty(members.size), np.empty(members.size, np.int32))
    return Noise(starts, members, shares, aliases)


# Blocks are drawn anew for each step, since a word's noise comes from a single block until then: so steps are short,
# about as many tokens as there are words, though not so short that the drawing, which takes that long, would count.
_PARTS = 8  # of a step
_LEAST_TOKENS = 1 << 12  # of a part
_PAIRS = 1 << 22  # of a part, at most


class PairLearner:
    """Learns skip-gram with negative sampling, for whole words: from pairs in cells, on threads."""

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
        dimensions, negatives = self._config.dimensions, self._config.negatives
        width = -(-(1 + negatives) // 3) * 3  # the context and its noise, in threes
        loss, examples = 0.0, 0
        for number in range(blocks):
            calls = []
            for (i, j), seed in zip(cells_of_round(number, blocks), seeds(rng, blocks), strict=True):
                cell = i * blocks + j
                scratch = zero_rows(1, dimensions), np.empty((2, width), np.int64), np.empty(width, np.float32)
                calls.append(
                    (
                        *(pairs, edges[cell], edges[cell + 1], *matrices, np.float32(rate(number / blocks)), seed),
                        *(noise.members, noise.shares, noise.aliases, noise.starts[j], noise.starts[j + 1], negatives),
                        *(*scratch, self._table),
                    )
                )
            for cell_loss, noted in run_all(learn_pairs, calls):
                loss, examples = loss + cell_loss, examples + noted
        return StepTotals(loss, examples, min(self._part * _PARTS, len(self._text) - step * self._part * _PARTS))

    def _pairs(
        self, step: int, blocks: int, block_of: ndarray, rng: np.random.Generator
    ) -> tuple[ndarray, Int64[ndarray, " cells+1"]]:
        """Return the pairs of a step, sorted into cells, and where each cell begins."""
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


class Paths(NamedTuple):
    """The inner nodes on the path to each word, from the root, and which branch it takes at each: 1 or 0.

    P(word | hidden) is the product of sigmoid(hidden node) for branches 1, and of 1 - sigmoid(hidden node) for branches
    0. starts: where each word's path begins. There is one inner node less than there are words.
    """

    starts: Int64[ndarray, " words+1"]
    nodes: Int32[ndarray, " steps"]
    labels: UInt8[ndarray, " steps"]


NO_PATHS = Paths(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.uint8))


def huffman_paths(counts: Int64[ndarray, " words"]) -> Paths:
    """Return the paths of Huffman's code: frequent words have short paths; the mean length is within one of the entropy
    of the counts.
    """
    words = counts.size
    parents, sides = np.full(2 * words - 1, -1), np.zeros(2 * words - 1, np.uint8)
    heap = [(count, word) for word, count in enumerate(counts.tolist())]
    heapq.heapify(heap)
    for node in range(words, 2 * words - 1):
        (low, first), (high, second) = heapq.heappop(heap), heapq.heappop(heap)
        parents[[first, second]] = node
        sides[first] = 1  # word2vec.c's label is 1 - code, and its code is 1 for the larger
        heapq.heappush(heap, (low + high, node))
    starts, nodes, labels = [0], [], []
    for word in range(words):
        path = []
        node = word
        while parents[node] >= 0:
            path.append((parents[node] - words, sides[node]))
            node = parents[node]
        for parent, side in reversed(path):
            nodes.append(parent)
            labels.append(side)
        starts.append(len(nodes))
    return Paths(np.array(starts), np.array(nodes, np.int32), np.array(labels, np.uint8))


_LOSSES = {"negative": NEGATIVE, "hierarchical": HIERARCHICAL, "softmax": SOFTMAX}


class WindowLearner:
    """Learns CBOW, subwords and other losses over running windows.

    units: each word's input is the mean of its units'.
    """

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
            *(np.empty(stop - start, np.int32), logits, *rows, np.empty(config.negatives, np.int64), self._table),
        )
        return StepTotals(loss, examples, stop - start)
