"""Counts all n-grams of all orders, as the trie that `table.py` describes.

A node's children are sorted by word, and the nodes of a level by (context, last word). So the occurrences of one order,
sorted, are grouped by the contexts of the next order: only within the groups have the following words to be sorted.
No hashing, and one random access a token and order.

In the stream every document ends with </s>, and what stands after </s>, or first, is said to follow <s>: </s> is never
a context.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.jit import run, run_all, thread_count
from chainrule.base.owned import unwrap
from chainrule.base.progress import Progress, silent
from chainrule.ngram.counting.counting_kernels import (
    count_contexts,
    group_by_context,
    keep_first_column,
    number,
    sort_following,
)
from chainrule.ngram.counting.counts import Counts
from chainrule.ngram.counting.returnable import Returnable
from chainrule.ngram.trie.records import NODE, Records, context_type, narrowest
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Int, Int32
    from numpy import ndarray

    from chainrule.base.owned import MaybeOwned

SHARDS = 64  # what the work is cut into for threads and progress; the counts do not depend on it
TASK = "counting n-grams"


class Shard(NamedTuple):
    """Neighbouring contexts; what follows them stands in the arrays of occurrences from `at` on."""

    start: int
    stop: int
    at: int


@dataclass
class _Occurrences:
    """Where in the stream the n-grams of the order at hand end, grouped by context. Passed on from order to order.

    A shard keeps its room, and leaves some of it empty where documents end.
    """

    places: Returnable
    following: Returnable  # the words there
    ends: Returnable
    sizes: Int[ndarray, " nodes"]  # how many occurrences a context has
    shards: list[Shard]
    columns: int = 2  # of `ends`

    @property
    def arrays(self) -> tuple[Int[ndarray, " tokens"], Int32[ndarray, " tokens"], Int[ndarray, "tokens columns"]]:
        """Places; the words there; by place, the longest known n-gram that ends there, and the word after it."""
        tokens = self.places.array.size
        return self.places.array, self.following.array, self.ends.array[: tokens * self.columns].reshape(tokens, -1)

    def forget_words_after(self) -> None:
        """Makes `ends` narrower, for the highest order, which nothing follows."""
        tokens = self.places.array.size
        run(keep_first_column, self.arrays[-1], self.ends.array[:tokens])
        self.columns = 1
        self.ends.give_back(tokens, 2 * tokens)

    def give_back(self, shard: int) -> None:
        """The room of a shard that is done with."""
        tokens, at = self.places.array.size, self.shards[shard].at
        end = self.shards[shard + 1].at if shard + 1 < len(self.shards) else tokens
        self.places.give_back(at, end)
        self.following.give_back(at, end)


def count_ngrams(
    stream: MaybeOwned[Int32[ndarray, " tokens"]],
    vocabulary_size: int,
    order: int,
    progress: Progress = silent,
) -> Counts:
    """Counts the n-grams of orders 1 .. order of a stream of documents, each ended by </s>.

    An owned stream is freed when the unigrams are counted: all that is needed of it then lies beside its places.
    Raises ValueError where the stream does not end with </s>: it would be cut inside a document.
    """
    stream = unwrap(stream)
    if stream.size == 0 or stream[-1] != END:
        raise ValueError("the stream must end with </s>")
    progress(TASK, 0, order)
    trie = _Growing.unigrams(vocabulary_size, most=1 + vocabulary_size + (order - 1) * stream.size, tokens=stream.size)
    occurrences = _first_occurrences(stream, vocabulary_size, trie)
    del stream
    for n in range(2, order + 1):

        def told(share: float, done: int = n - 1) -> None:
            progress(TASK, done + share, order)

        told(0)
        distinct = _sort(occurrences, trie, lambda share: told(share / 2))
        trie.make_room(occurrences, sum(distinct))
        _number(occurrences, trie, distinct, last=n == order, told=lambda share: told(0.5 + share / 2))
    progress(TASK, order, order)
    return trie.counts_of_all()


@dataclass
class _Growing:
    """The trie as far as it is counted. Its arrays have room for as many n-grams as there could be: the system gives
    memory only to what is written."""

    level_sizes: list[int]
    records: Records
    suffixes: Int[ndarray, " room"]
    counts: Int[ndarray, " room"]

    @property
    def words(self) -> Int32[ndarray, " room"]:
        return self.records.nodes["word"]

    @property
    def begin(self) -> Int[ndarray, " room+1"]:
        return self.records.contexts["begin"]

    @classmethod
    def unigrams(cls, vocabulary_size: int, *, most: int, tokens: int) -> _Growing:
        """Their counts are still to be written. most: how many nodes there can be."""
        index = narrowest(1 + vocabulary_size)
        records = Records(np.empty(most, NODE), np.empty(most + 1, context_type(index)))
        trie = cls([vocabulary_size], records, np.empty(most, index), np.empty(most, narrowest(tokens)))
        trie.words[0] = trie.suffixes[0] = trie.counts[0] = 0
        trie.begin[0] = 1
        trie.words[1 : trie.nodes] = np.arange(vocabulary_size)
        trie.suffixes[1 : trie.nodes] = 0
        return trie

    @property
    def nodes(self) -> int:
        return 1 + sum(self.level_sizes)

    def make_room(self, occurrences: _Occurrences, ngrams: int) -> None:
        """For one more level. Nodes get 64 bits only when there are too many of them for 32."""
        if narrowest(self.nodes + ngrams) is not self.begin.dtype.type:
            contexts = self.nodes - self.level_sizes[-1]
            wide = np.zeros(self.begin.size, context_type(np.int64))  # zeros, for the bytes that belong to no field
            wide["begin"][:contexts] = self.begin[:contexts]
            self.records = Records(self.records.nodes, wide)
            self.suffixes = _widened(self.suffixes, self.nodes)
            occurrences.ends = _widened_ends(occurrences.ends)
        self.level_sizes.append(ngrams)

    def counts_of_all(self) -> Counts:
        nodes = self.nodes
        inner = nodes - self.level_sizes[-1]
        self.begin[inner] = nodes
        self.records.contexts["log_backoff"][inner] = 0  # of no context, but saved with the others
        records = Records(self.records.nodes[:nodes], self.records.contexts[: inner + 1])
        return Counts(
            tuple(self.level_sizes),
            records.nodes["word"],
            records.contexts["begin"],
            self.suffixes[:nodes],
            self.counts[:nodes],
            records,
        )


def _widened(array: Int[ndarray, " room"], used: int) -> Int[ndarray, " room"]:
    wide = np.empty(array.size, np.int64)
    wide[:used] = array[:used]
    return wide


def _widened_ends(ends: Returnable) -> Returnable:
    wide = Returnable(ends.array.size, np.int64)
    wide.array[:] = ends.array
    return wide


def _first_occurrences(stream: Int32[ndarray, " tokens"], vocabulary_size: int, trie: _Growing) -> _Occurrences:
    """What follows the unigrams; writes the unigrams' counts."""
    unigrams = slice(1, 1 + vocabulary_size)
    places, following = Returnable(stream.size, narrowest(stream.size)), Returnable(stream.size, np.int32)
    occurrences = _Occurrences(places, following, Returnable(2 * stream.size, trie.begin.dtype), trie.counts, [])
    edges = np.linspace(0, stream.size, thread_count() + 1).astype(np.int64).tolist()
    parts = list(itertools.pairwise(edges))
    counts = run_all(count_contexts, [(stream, start, stop, vocabulary_size) for start, stop in parts])
    trie.counts[unigrams] = sum(counts)  # the </s> before the first place stands for that at the end
    sizes = trie.counts[: unigrams.stop].copy()
    sizes[1 + BEGIN] += sizes[1 + END]  # of its own it has some where documents are padded
    sizes[1 + END] = 0
    cursor = np.cumsum(sizes[unigrams]) - sizes[unigrams]  # where the next occurrence after each word goes
    calls = []
    for (start, stop), own in zip(parts, counts, strict=True):
        calls.append((stream, start, stop, cursor.copy(), *occurrences.arrays))
        own[BEGIN] += own[END]
        own[END] = 0
        cursor += own
    run_all(group_by_context, calls)
    occurrences.sizes, occurrences.shards = sizes, _shards(sizes, unigrams.start)
    return occurrences


def _shards(sizes: Int[ndarray, " nodes"], first: int) -> list[Shard]:
    """Cuts the contexts from `first` on into at most SHARDS ranges with about as many occurrences each."""
    ends = np.cumsum(sizes[first:], dtype=np.int64)
    cuts = np.unique(np.searchsorted(ends, np.linspace(0, ends[-1], SHARDS + 1)[1:-1]) + 1)
    edges = [0, *cuts[cuts < ends.size].tolist(), ends.size]
    return [
        Shard(first + start, first + stop, int(ends[start - 1]) if start else 0)
        for start, stop in itertools.pairwise(edges)
    ]


def _sort(occurrences: _Occurrences, trie: _Growing, told: Callable[[float], None]) -> list[int]:
    """Sorts what follows each context by word; how many distinct n-grams each shard makes."""
    given = trie.words, occurrences.sizes
    filled = occurrences.arrays[:2]
    calls = [(*given, shard.start, shard.stop, *filled, shard.at) for shard in occurrences.shards]
    return run_all(sort_following, calls, on_done=lambda done: told(done / len(calls)))


def _number(
    occurrences: _Occurrences, trie: _Growing, distinct: Sequence[int], *, last: bool, told: Callable[[float], None]
) -> None:
    """Numbers the n-grams of the level that the trie has got room for, and makes the occurrences theirs."""
    first = trie.nodes - trie.level_sizes[-1]
    firsts = [first, *(first + total for total in itertools.accumulate(distinct))]
    level = trie.words, trie.begin, trie.suffixes, trie.counts
    if last:
        occurrences.forget_words_after()
    calls = [
        (occurrences.sizes, shard.start, shard.stop, *occurrences.arrays, shard.at, *level, ngram, last)
        for shard, ngram in zip(occurrences.shards, firsts[:-1], strict=True)
    ]

    def done(shards: int) -> None:
        told(shards / len(calls))
        if last:
            occurrences.give_back(shards - 1)

    run_all(number, calls, on_done=done)
    occurrences.sizes = trie.counts
    occurrences.shards = [
        Shard(start, stop, shard.at)
        for shard, (start, stop) in zip(occurrences.shards, itertools.pairwise(firsts), strict=True)
    ]
