"""Models as records in memory, for queries of one word at a time; see `word_query_kernels.py`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.jit import specialise
from chainrule.features.kenlm.files import word_query_kernels as kernels
from chainrule.features.kenlm.files.binary_kernels import KIND, ORDER, RECORD_SIZE, STATE_SIZE, TRIE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Int32, Int64
    from numpy import ndarray

    from chainrule.ngram.trie.table import Table
    from chainrule.text.tokenization.vocabulary import Vocabulary


@dataclass(frozen=True)
class Record:
    """A model as the kernels read it, at an address that is valid while the record exists."""

    numbers: Int64[ndarray, " record"]
    referenced: tuple[ndarray, ...]  # the arrays that the numbers point into, kept alive
    order: int

    @property
    def address(self) -> int:
        return self.numbers.ctypes.data

    def score_words(self, text: bytes, *, begins: bool, ends: bool) -> tuple[list[float], list[int]]:
        """log10 P of each word of a text, and the length of its matching n-gram, negative for an unknown word."""
        max_words = len(text) // 2 + 2
        scores, lengths, state = (
            np.empty(max_words, np.float64),
            np.empty(max_words, np.int64),
            np.zeros(STATE_SIZE, np.int64),
        )
        letters = np.frombuffer(bytearray(text), np.uint8)
        count = kernels.fully_score_text(self.address, letters, begins, ends, state.ctypes.data, scores, lengths)
        return scores[:count].tolist(), lengths[:count].tolist()

    def encode(self, texts: Sequence[bytes], *, is_whole: bool) -> Int32[ndarray, " tokens"] | None:
        """The ids of sentences, each ended by </s>; None if a sentence contains <s> or </s>."""
        stops = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
        text = np.frombuffer(bytearray(b"".join(texts)), np.uint8)
        ids = np.empty(text.size + len(texts), np.int32)
        count = kernels.encode_texts(self.address, text, stops, is_whole, ids)
        return None if count < 0 else ids[:count]


@dataclass(frozen=True)
class Queries:
    """The kernels, compiled for fixed argument types, so that calls skip the dispatch."""

    score_word: Callable[[int, int, int, int], float]
    fully_score_word: Callable[[int, int, int, int], tuple[float, int, bool]]
    score_text: Callable[[int, bytes, bool, bool, int], float]


@cache
def queries() -> Queries:
    """The compiled queries; compiled on the first call."""
    return Queries(
        specialise(kernels.score_word, 0, 0, 0, 0),
        specialise(kernels.fully_score_word, 0, 0, 0, 0),
        specialise(kernels.score_text, 0, b"", True, True, 0),
    )


def record_of_table(table: Table, vocabulary: Vocabulary) -> Record:
    """The record of a model in the fast layout."""
    numbers, spelled = record_of_vocabulary(vocabulary)
    index = table.begin.dtype
    slots = table.slots if table.slots.dtype == index else np.zeros(0, index)
    arrays = tuple(np.ascontiguousarray(array) for array in (table.nodes, table.contexts, slots))
    numbers[KIND], numbers[ORDER] = TRIE, table.order
    for field, array in zip((kernels.NODES, kernels.CONTEXTS, kernels.INDEX), arrays, strict=True):
        numbers[field] = array.ctypes.data
    numbers[kernels.NODE_COUNT], numbers[kernels.INDEX_SIZE] = table.nodes.size, slots.size
    numbers[kernels.INNER], numbers[kernels.IS_WIDE] = table.contexts.size - 1, index == np.int64
    return Record(numbers, (*spelled, *arrays), table.order)


def record_of_vocabulary(vocabulary: Vocabulary) -> tuple[Int64[ndarray, " record"], tuple[ndarray, ...]]:
    """A record of the vocabulary alone, and the arrays that it points into."""
    arrays = vocabulary.arrays()
    pool, offsets, slots = (np.ascontiguousarray(arrays[name]) for name in ("text", "offsets", "slots"))
    numbers = np.zeros(RECORD_SIZE, np.int64)
    numbers[kernels.POOL], numbers[kernels.POOL_SIZE] = pool.ctypes.data, pool.size
    numbers[kernels.OFFSETS], numbers[kernels.TOKENS] = offsets.ctypes.data, offsets.size - 1
    numbers[kernels.SLOTS], numbers[kernels.SLOTS_SIZE] = slots.ctypes.data, slots.size
    return numbers, (pool, offsets, slots)
