"""Counts all n-grams of all orders.

The id of an n-gram is its rank among those of its order, sorted by (id of its context, last word). So the n-grams with
one context lie side by side, sorted by last word, and the sorted occurrences of one order are, moved one token on, the
occurrences of the next order grouped by context: only the groups have to be sorted. No hashing, two random reads a
token and order.

In the stream every document ends with </s>, and the </s> before a document stands for its <s>: it is the context <s>,
never </s>.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.jit import run, run_all
from chainrule.ngram.counting_kernels import extend, gather, group_by_context
from chainrule.progress import Progress, silent
from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Int, Int32
    from numpy import ndarray

CHUNKS = 64  # what a level is cut into for threads and progress; the counts do not depend on it
TASK = "counting n-grams"


@dataclass(frozen=True)
class Level:
    """The distinct n-grams of one order, by id.

    Order 1 has one context, the empty one, and there a word's id is its n-gram's.
    """

    words: Int[ndarray, " ngrams"]  # last words
    begin: Int[ndarray, " contexts+1"]  # those with context c are begin[c] .. begin[c+1]
    suffixes: Int[ndarray, " ngrams"]  # ids, one order down, without the first word
    counts: Int[ndarray, " ngrams"]

    def __len__(self) -> int:
        return len(self.words)


def count_ngrams(
    stream: Int32[ndarray, " tokens"], vocabulary_size: int, order: int, progress: Progress = silent
) -> list[Level]:
    """The levels of orders 1 .. order of a stream of documents, each ended by </s>.

    Raises ValueError where the stream does not end with </s>: it would be cut inside a document.
    """
    if stream.size == 0 or stream[-1] != END:
        raise ValueError("the stream must end with </s>")
    stream = np.concatenate([[np.int32(END)], stream])  # so that the first document, too, has a </s> before it
    levels = [_unigrams(stream, vocabulary_size)]
    ids = stream
    occurrences, sizes = run(group_by_context, stream, vocabulary_size, narrowest(stream.size)(0))
    sizes = sizes.astype(narrowest(stream.size))
    for n in range(2, order + 1):

        def told(share: float, below: int = n - 2) -> None:
            progress(TASK, below + share, order - 1)

        told(0)
        level, ids, occurrences = _next_level(stream, ids, occurrences, sizes, last=n == order, told=told)
        levels.append(level)
        sizes = np.where(level.words == END, 0, level.counts)  # nothing follows </s>
    progress(TASK, order - 1, order - 1)
    return levels


def narrowest(limit: int) -> type[np.int32] | type[np.int64]:
    """The smaller integer type that holds 0 .. limit."""
    return np.int32 if limit < 2**31 else np.int64


def _unigrams(stream: Int32[ndarray, " tokens"], vocabulary_size: int) -> Level:
    counts = np.bincount(stream, minlength=vocabulary_size)
    counts[END] -= 1  # the one in front
    words = np.arange(vocabulary_size, dtype=np.int32)
    return Level(words, np.array([0, vocabulary_size]), np.zeros(vocabulary_size, np.int32), counts)


def _next_level(
    stream: Int32[ndarray, " tokens"],
    ids: Int[ndarray, " tokens"],
    occurrences: Int[ndarray, " occurrences"],
    sizes: Int[ndarray, " contexts"],
    *,
    last: bool,
    told: Callable[[float], None],
) -> tuple[Level, Int[ndarray, " tokens"], Int[ndarray, " occurrences"]]:
    """One order up; the given occurrences are overwritten.

    ids: of the n-gram, one order down, that ends at each place of the stream. occurrences: the places of the contexts,
    grouped by context, without those that nothing follows; sizes: of the groups. Returns the level, with ids and
    occurrences of its own n-grams.
    """
    bounds = _chunk_bounds(sizes)
    narrow = narrowest(stream.size)
    following = np.empty(occurrences.size, np.int64)
    found = run_all(
        gather,
        [(stream, occurrences, sizes, chunk.start, chunk.stop, chunk.at, following) for chunk in bounds],
        on_done=lambda i: told(0.6 * i / CHUNKS),
    )
    distinct = [0, *itertools.accumulate(chunk_distinct for chunk_distinct, _ in found)]
    followed = [0, *itertools.accumulate(chunk_followed for _, chunk_followed in found)]

    size = distinct[-1]
    level = Level(
        np.empty(size, np.int32), np.empty(sizes.size + 1, narrow), np.empty(size, narrow), np.empty(size, narrow)
    )
    level.begin[-1] = size
    new_ids = np.empty(0 if last else stream.size, narrow)
    outputs = (ids, level.words, level.begin, level.suffixes, level.counts, new_ids, occurrences)
    run_all(
        extend,
        [
            (following, sizes, chunk.start, chunk.stop, chunk.at, first, place, *outputs)
            for chunk, first, place in zip(bounds, distinct[:-1], followed[:-1], strict=True)
        ],
        on_done=lambda i: told(0.6 + 0.4 * i / CHUNKS),
    )
    return level, new_ids, occurrences[: followed[-1]]


class Chunk(NamedTuple):
    """Contexts start .. stop, whose occurrences begin at place `at`."""

    start: int
    stop: int
    at: int


def _chunk_bounds(sizes: Int[ndarray, " contexts"]) -> list[Chunk]:
    """Cuts contexts into at most CHUNKS ranges with about as many occurrences each."""
    if not sizes.size:
        return []  # all documents are shorter than the order
    ends = np.cumsum(sizes, dtype=np.int64)
    total = int(ends[-1])
    cuts = np.unique(np.searchsorted(ends, np.linspace(0, total, CHUNKS + 1)[1:-1]) + 1)
    edges = [0, *cuts[cuts < sizes.size].tolist(), sizes.size]
    return [Chunk(start, stop, int(ends[start - 1]) if start else 0) for start, stop in itertools.pairwise(edges)]
