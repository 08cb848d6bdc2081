"""The counts of n-grams of all orders, as a trie; and the padding at the beginning of documents.

A document begins after one <s>, or after order - 1 of them, so that every context is full. The first <s> is implicit
and not in the stream; further ones are tokens that are never predicted.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.scratch import array_on_disk, parts_released
from chainrule.ngram.trie.table import Records, level_slice
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from jaxtyping import Bool, Int, Int32, Int64
    from numpy import ndarray
    from numpy.typing import DTypeLike


@dataclass(frozen=True)
class Counts:
    """All n-grams of a text and their counts. <s> alone has a count of 0: it is never predicted."""

    level_sizes: tuple[int, ...]  # distinct n-grams by order, from unigrams on
    words: Int32[ndarray, " nodes"]
    begin: Int[ndarray, " inner+1"]
    suffixes: Int[ndarray, " nodes"]  # the node of the n-gram without its first word
    counts: Int[ndarray, " nodes"]
    records: Records | None = None  # hold words and begin, with room for the probabilities of one model
    memory: int | None = None  # where the arrays are on disk: how many bytes may be held beside them

    @property
    def order(self) -> int:
        return len(self.level_sizes)

    def level(self, order: int) -> slice:
        """Return the nodes of one order; order 0 is the root."""
        return level_slice(self.level_sizes, order)

    def new_array(self, size: int, dtype: DTypeLike) -> ndarray[Any, Any]:
        """Return an array of zeros, in memory if the counts are, and else on disk."""
        return np.zeros(size, dtype) if self.memory is None else array_on_disk(size, dtype)

    def resident_parts(self, span: slice, item_size: int) -> list[slice]:
        """Cut a range of nodes into parts of which arrays may be in memory: one if the counts are in memory, too."""
        size = span.stop - span.start
        parts = 1 if self.memory is None else max(1, -(-size * item_size // (self.memory // 2)))
        edges = np.linspace(span.start, span.stop, parts + 1).astype(np.int64).tolist()
        return [slice(start, stop) for start, stop in itertools.pairwise(edges)]

    def resident(self, array: ndarray[Any, Any]) -> ndarray[Any, Any]:
        """Return an array that is read at random: itself if it is in memory, and else a copy."""
        if self.memory is None:
            return array
        copy = np.empty(array.size, array.dtype)
        for part, own in zip(parts_released(array), parts_released(copy), strict=True):
            own[:] = part
        return copy

    def up_to(self, order: int) -> Counts:
        """Return the counts of the lower orders alone."""
        sizes = self.level_sizes[:order]
        nodes = 1 + sum(sizes)
        inner = nodes - sizes[-1]
        return Counts(sizes, self.words[:nodes], self.begin[: inner + 1], self.suffixes[:nodes], self.counts[:nodes])


def begin_nodes(counts: Counts) -> list[int]:
    """Return the nodes of <s>, <s> <s>, ..., as far as they occur: contexts that are never predicted."""
    nodes = [1 + BEGIN]
    while nodes[-1] < counts.begin.size - 1:
        low, high = int(counts.begin[nodes[-1]]), int(counts.begin[nodes[-1] + 1])
        node = low + int(np.searchsorted(counts.words[low:high], np.int32(BEGIN)))
        if node == high or counts.words[node] != BEGIN:
            break
        nodes.append(node)
    return nodes


def nodes_after_begin(counts: Counts, order: int) -> slice:
    """Return the n-grams of an order that begin with <s>; they are contiguous, since their contexts are."""
    first, last = 1 + BEGIN, 2 + BEGIN
    for _ in range(order - 1):
        first, last = int(counts.begin[first]), int(counts.begin[last])
    return slice(first, last)


def pad_documents(
    stream: Int32[ndarray, " tokens"], extra: int
) -> tuple[Int32[ndarray, " padded"], Bool[ndarray, " padded"] | slice]:
    """Return the stream with `extra` more <s> before each document, and a mask of the original tokens."""
    if extra == 0 or stream.size == 0:
        return stream, slice(None)
    starts = np.concatenate([[0], np.flatnonzero(stream[:-1] == END) + 1])
    positions = np.repeat(starts, extra)
    return np.insert(stream, positions, np.int32(BEGIN)), np.insert(np.ones(stream.size, np.bool_), positions, False)


def history_lengths(stream: Int32[ndarray, " tokens"], order: int) -> Int64[ndarray, " tokens"]:
    """Return the length of the longest n-gram that could end at each position: back to the document's <s>, at most
    `order`.
    """
    is_first = np.concatenate([[True], stream[:-1] == END])[: stream.size]
    starts = np.flatnonzero(is_first)
    positions = np.arange(stream.size) - starts[np.cumsum(is_first) - 1]
    return np.minimum(positions + 2, order)
