"""A Huffman tree of words: the path from its root to a word, for hierarchical softmax (Morin and Bengio 2005)."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Int32, Int64, UInt8
    from numpy import ndarray


class Paths(NamedTuple):
    """The inner nodes on the way to each word, from the root, and which of its two ways it goes at each: 1 or 0.

    P(word | hidden) is the product of sigmoid(hidden node) where it goes 1, and of 1 - that where it goes 0. starts:
    where each word's begin. There are as many inner nodes as words, less one.
    """

    starts: Int64[ndarray, " words+1"]
    nodes: Int32[ndarray, " steps"]
    labels: UInt8[ndarray, " steps"]


NO_PATHS = Paths(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.uint8))


def huffman_paths(counts: Int64[ndarray, " words"]) -> Paths:
    """Frequent words have short paths; the mean length is within one of the entropy of the counts."""
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
