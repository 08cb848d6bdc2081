"""The counts of n-grams of all orders, as a trie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.ngram.trie.records import Records, level_slice
from chainrule.protocol import BEGIN

if TYPE_CHECKING:
    from jaxtyping import Int, Int32
    from numpy import ndarray


@dataclass(frozen=True)
class Counts:
    """All n-grams of a text and their counts. <s> alone has a count of 0: it is never predicted."""

    level_sizes: tuple[int, ...]  # distinct n-grams by order, from unigrams on
    words: Int32[ndarray, " nodes"]
    begin: Int[ndarray, " inner+1"]
    suffixes: Int[ndarray, " nodes"]  # the node of the n-gram without its first word
    counts: Int[ndarray, " nodes"]
    records: Records | None = None  # hold words and begin, with room for the probabilities of one model

    @property
    def order(self) -> int:
        return len(self.level_sizes)

    def level(self, order: int) -> slice:
        """The nodes of one order; order 0 is the root."""
        return level_slice(self.level_sizes, order)

    def up_to(self, order: int) -> Counts:
        """The counts of the lower orders alone."""
        sizes = self.level_sizes[:order]
        nodes = 1 + sum(sizes)
        inner = nodes - sizes[-1]
        return Counts(sizes, self.words[:nodes], self.begin[: inner + 1], self.suffixes[:nodes], self.counts[:nodes])


def begin_nodes(counts: Counts) -> list[int]:
    """The nodes of <s>, <s> <s>, ..., as far as they occur: contexts that are never predicted."""
    nodes = [1 + BEGIN]
    while nodes[-1] < counts.begin.size - 1:
        low, high = int(counts.begin[nodes[-1]]), int(counts.begin[nodes[-1] + 1])
        node = low + int(np.searchsorted(counts.words[low:high], np.int32(BEGIN)))
        if node == high or counts.words[node] != BEGIN:
            break
        nodes.append(node)
    return nodes


def nodes_after_begin(counts: Counts, order: int) -> slice:
    """The n-grams of an order that begin with <s>; they are contiguous, since their contexts are."""
    first, last = 1 + BEGIN, 2 + BEGIN
    for _ in range(order - 1):
        first, last = int(counts.begin[first]), int(counts.begin[last])
    return slice(first, last)
