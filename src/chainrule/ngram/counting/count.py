"""Counts the n-grams of all orders in memory, into a trie; checks before whether the memory suffices.

The trie is laid out as `ngram/trie/table.py` describes. A node's children are sorted by word, and the nodes of a level
by (context, last word). So the sorted occurrences of one order are already grouped by the contexts of the next order;
only the words after each context remain to be sorted. There is no hashing, and one random access for each token and
order. A ReleasableArray gives parts of its memory back to the system before the whole array ends.

Every document in the stream ends with </s>. The first token of each document follows <s>: </s> is never a context.
"""

from __future__ import annotations

import itertools
import math
import mmap
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.memory import MEMORY_HINT, available_memory, bytes_shown, unwrap
from chainrule.base.progress import Progress, silent
from chainrule.base.threads import run, run_all, thread_count
from chainrule.errors import EstimationError
from chainrule.ngram.counting.counting_kernels import (
    count_contexts,
    group_by_context,
    keep_first_column,
    number_ngrams,
    sort_following,
)
from chainrule.ngram.counting.counts import Counts
from chainrule.ngram.trie.table import NODE, Records, context_type, narrowest
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Int, Int32
    from numpy import ndarray
    from numpy.typing import DTypeLike

    from chainrule.base.memory import MaybeOwned


class ReleasableArray:
    """An array in separate memory."""

    def __init__(self, size: int, dtype: DTypeLike) -> None:
        """Fill the array with zeros; the system assigns memory only where something is written."""
        self._item_size = np.dtype(dtype).itemsize
        self._memory = mmap.mmap(-1, max(size * self._item_size, 1), access=mmap.ACCESS_COPY)  # private to this process
        if hasattr(mmap, "MADV_HUGEPAGE"):  # random access is faster with large pages
            with suppress(OSError):
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        self.array: Int[ndarray, " size"] = np.frombuffer(self._memory, dtype, size)

    def release(self, start: int, stop: int) -> None:
        """Release the memory of elements start .. stop, which must not be read again; a no-op where unsupported."""
        first = -(-start * self._item_size // mmap.PAGESIZE) * mmap.PAGESIZE
        last = stop * self._item_size // mmap.PAGESIZE * mmap.PAGESIZE
        if stop == self.array.size:
            last = -(-len(self._memory) // mmap.PAGESIZE) * mmap.PAGESIZE
        if hasattr(mmap, "MADV_DONTNEED") and first < last:
            with suppress(OSError):
                self._memory.madvise(mmap.MADV_DONTNEED, first, min(last, len(self._memory)) - first)


SHARDS = 64  # parts of the work, for threads and progress; the counts do not depend on their number
TASK = "counting n-grams"


class Shard(NamedTuple):
    """A range of contexts; their occurrences start at index `at` of the arrays of occurrences."""

    start: int
    stop: int
    at: int


@dataclass
class _Occurrences:
    """Where in the stream the n-grams of the current order end, grouped by context; updated from order to order.

    A shard keeps its section of the arrays, and uses less of it where documents end.
    """

    positions: ReleasableArray
    following: ReleasableArray  # the words at these positions
    ends: ReleasableArray
    sizes: Int[ndarray, " nodes"]  # the number of occurrences of each context
    shards: list[Shard]
    columns: int = 2  # of `ends`

    @property
    def arrays(self) -> tuple[Int[ndarray, " tokens"], Int32[ndarray, " tokens"], Int[ndarray, "tokens columns"]]:
        """The arrays: positions; the words there; and by position, the longest n-gram so far that ends there, and the
        next word.
        """
        tokens = self.positions.array.size
        return self.positions.array, self.following.array, self.ends.array[: tokens * self.columns].reshape(tokens, -1)

    def drop_next_words(self) -> None:
        """Narrow `ends` to its first column for the highest order, whose n-grams are no contexts."""
        tokens = self.positions.array.size
        run(keep_first_column, self.arrays[-1], self.ends.array[:tokens])
        self.columns = 1
        self.ends.release(tokens, 2 * tokens)

    def release(self, shard: int) -> None:
        """Return the memory of a finished shard to the system."""
        tokens, at = self.positions.array.size, self.shards[shard].at
        end = self.shards[shard + 1].at if shard + 1 < len(self.shards) else tokens
        self.positions.release(at, end)
        self.following.release(at, end)


def count_ngrams(
    stream: MaybeOwned[Int32[ndarray, " tokens"]],
    vocabulary_size: int,
    order: int,
    progress: Progress = silent,
) -> Counts:
    """Count the n-grams of orders 1 .. order of a stream of documents, each ended by </s>.

    An owned stream is freed after the unigrams are counted: `_Occurrences` then holds all that is still needed of it.
    Raises ValueError where the stream does not end with </s>, that is, inside a document.
    """
    stream = unwrap(stream)
    if stream.size == 0 or stream[-1] != END:
        raise ValueError("the stream must end with </s>")
    progress(TASK, 0, order)
    trie = _TrieBuilder.unigrams(
        vocabulary_size, max_nodes=1 + vocabulary_size + (order - 1) * stream.size, tokens=stream.size
    )
    occurrences = _first_occurrences(stream, vocabulary_size, trie)
    del stream
    for n in range(2, order + 1):

        def report(share: float, done: int = n - 1) -> None:
            progress(TASK, done + share, order)

        report(0)
        distinct = _sort(occurrences, trie, lambda share: report(share / 2))
        trie.make_room(occurrences, sum(distinct))
        _number_ngrams(occurrences, trie, distinct, last=n == order, report=lambda share: report(0.5 + share / 2))
    progress(TASK, order, order)
    return trie.finish()


@dataclass
class _TrieBuilder:
    """The trie of the orders counted so far. Its arrays have room for as many n-grams as there could be: the system
    assigns memory only where something is written.
    """

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
    def unigrams(cls, vocabulary_size: int, *, max_nodes: int, tokens: int) -> _TrieBuilder:
        """Return a trie of unigrams whose counts are still to be written. max_nodes: the room for nodes."""
        index = narrowest(1 + vocabulary_size)
        records = Records(np.empty(max_nodes, NODE), np.empty(max_nodes + 1, context_type(index)))
        trie = cls([vocabulary_size], records, np.empty(max_nodes, index), np.empty(max_nodes, narrowest(tokens)))
        trie.words[0] = trie.suffixes[0] = trie.counts[0] = 0
        trie.begin[0] = 1
        trie.words[1 : trie.nodes] = np.arange(vocabulary_size)
        trie.suffixes[1 : trie.nodes] = 0
        return trie

    @property
    def nodes(self) -> int:
        return 1 + sum(self.level_sizes)

    def make_room(self, occurrences: _Occurrences, ngrams: int) -> None:
        """Add a level of n-grams to be numbered. Node numbers get 64 bits only when there are too many for 32."""
        if narrowest(self.nodes + ngrams) is not self.begin.dtype.type:
            contexts = self.nodes - self.level_sizes[-1]
            wide = np.zeros(self.begin.size, context_type(np.int64))  # zeros, for the bytes that belong to no field
            wide["begin"][:contexts] = self.begin[:contexts]
            self.records = Records(self.records.nodes, wide)
            self.suffixes = _widened(self.suffixes, self.nodes)
            occurrences.ends = _widened_ends(occurrences.ends)
        self.level_sizes.append(ngrams)

    def finish(self) -> Counts:
        nodes = self.nodes
        inner = nodes - self.level_sizes[-1]
        self.begin[inner] = nodes
        self.records.contexts["log_backoff"][inner] = 0  # the record after the last context, which is saved, too
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


def _widened_ends(ends: ReleasableArray) -> ReleasableArray:
    wide = ReleasableArray(ends.array.size, np.int64)
    wide.array[:] = ends.array
    return wide


def _first_occurrences(stream: Int32[ndarray, " tokens"], vocabulary_size: int, trie: _TrieBuilder) -> _Occurrences:
    """Return the occurrences after each unigram, and write the unigrams' counts."""
    unigrams = slice(1, 1 + vocabulary_size)
    positions = ReleasableArray(stream.size, narrowest(stream.size))
    following = ReleasableArray(stream.size, np.int32)
    occurrences = _Occurrences(
        positions, following, ReleasableArray(2 * stream.size, trie.begin.dtype), trie.counts, []
    )
    edges = np.linspace(0, stream.size, thread_count() + 1).astype(np.int64).tolist()
    parts = list(itertools.pairwise(edges))
    counts = run_all(count_contexts, [(stream, start, stop, vocabulary_size) for start, stop in parts])
    trie.counts[unigrams] = sum(counts)  # the </s> before the first position stands for the one at the end
    sizes = trie.counts[: unigrams.stop].copy()
    sizes[1 + BEGIN] += sizes[1 + END]  # where documents are padded, <s> has occurrences of its own
    sizes[1 + END] = 0
    cursor = np.cumsum(sizes[unigrams]) - sizes[unigrams]  # where the next occurrence after each word goes
    calls = []
    for (start, stop), part_counts in zip(parts, counts, strict=True):
        calls.append((stream, start, stop, cursor.copy(), *occurrences.arrays))
        part_counts[BEGIN] += part_counts[END]
        part_counts[END] = 0
        cursor += part_counts
    run_all(group_by_context, calls)
    occurrences.sizes, occurrences.shards = sizes, _shards(sizes, unigrams.start)
    return occurrences


def _shards(sizes: Int[ndarray, " nodes"], first: int) -> list[Shard]:
    """Cut the contexts from `first` on into at most SHARDS ranges with about as many occurrences each."""
    ends = np.cumsum(sizes[first:], dtype=np.int64)
    cuts = np.unique(np.searchsorted(ends, np.linspace(0, ends[-1], SHARDS + 1)[1:-1]) + 1)
    edges = [0, *cuts[cuts < ends.size].tolist(), ends.size]
    return [
        Shard(first + start, first + stop, int(ends[start - 1]) if start else 0)
        for start, stop in itertools.pairwise(edges)
    ]


def _sort(occurrences: _Occurrences, trie: _TrieBuilder, report: Callable[[float], None]) -> list[int]:
    """Sort the occurrences of each context by word; return the number of distinct n-grams of each shard."""
    contexts = trie.words, occurrences.sizes
    filled = occurrences.arrays[:2]
    calls = [(*contexts, shard.start, shard.stop, *filled, shard.at) for shard in occurrences.shards]
    return run_all(sort_following, calls, on_done=lambda done: report(done / len(calls)))


def _number_ngrams(
    occurrences: _Occurrences,
    trie: _TrieBuilder,
    distinct: Sequence[int],
    *,
    last: bool,
    report: Callable[[float], None],
) -> None:
    """Number the n-grams of the newest level; `occurrences` become those of these n-grams."""
    first = trie.nodes - trie.level_sizes[-1]
    firsts = [first, *(first + total for total in itertools.accumulate(distinct))]
    level = trie.words, trie.begin, trie.suffixes, trie.counts
    if last:
        occurrences.drop_next_words()
    calls = [
        (occurrences.sizes, shard.start, shard.stop, *occurrences.arrays, shard.at, *level, ngram, last)
        for shard, ngram in zip(occurrences.shards, firsts[:-1], strict=True)
    ]

    def on_done(shards: int) -> None:
        report(shards / len(calls))
        if last:
            occurrences.release(shards - 1)

    run_all(number_ngrams, calls, on_done=on_done)
    occurrences.sizes = trie.counts
    occurrences.shards = [
        Shard(start, stop, shard.at)
        for shard, (start, stop) in zip(occurrences.shards, itertools.pairwise(firsts), strict=True)
    ]


# Bytes a token (the stream and the arrays of occurrences) and an n-gram (the trie, counts, suffixes and probabilities):
# where probabilities take the place of counts, and where these are kept beside them.
_REUSED, _KEPT = (16, 20), (20, 32)
SAMPLE = 1 << 20  # how many tokens of a text tell how many n-grams it has


def check_memory(
    stream: Int32[ndarray, " tokens"], vocabulary_size: int, order: int, *, keeps_counts: bool = True
) -> None:
    """Raise EstimationError where counting and smoothing would need more memory than there is.

    keeps_counts: whether counts stay in memory beside probabilities.
    """
    available = available_memory()
    if available is None or fits_memory(stream, vocabulary_size, order, available, keeps_counts=keeps_counts):
        return
    ngrams = expected_ngrams(stream, vocabulary_size, order).at(stream.size)

    def needed(sizes: list[int]) -> int:
        return _needed(stream.size, sum(sizes), keeps_counts=keeps_counts)

    fitting = [n for n in range(1, order) if needed(ngrams[:n]) <= available]
    advice = f"take order={fitting[-1]}, or a shorter text" if fitting else "take a shorter text"
    raise EstimationError(
        f"counting {order}-grams of {stream.size:,} tokens needs about {bytes_shown(needed(ngrams))} "
        f"of memory, and {bytes_shown(available)} are free; {advice}, or a smaller vocabulary; "
        f"{MEMORY_HINT}"
    )


def fits_memory(
    stream: Int32[ndarray, " tokens"], vocabulary_size: int, order: int, memory: int, *, keeps_counts: bool = True
) -> bool:
    """Return whether counting and smoothing need at most `memory` bytes; as `check_memory`."""
    if _needed(stream.size, vocabulary_size + (order - 1) * stream.size, keeps_counts=keeps_counts) <= memory:
        return True  # even if all n-grams are distinct
    ngrams = sum(expected_ngrams(stream, vocabulary_size, order).at(stream.size))
    return _needed(stream.size, ngrams, keeps_counts=keeps_counts) <= memory


def _needed(tokens: int, ngrams: int, *, keeps_counts: bool) -> int:
    token_bytes, ngram_bytes = _KEPT if keeps_counts else _REUSED
    return token_bytes * tokens + ngram_bytes * ngrams


def check_text_fits(tokens: int, token_bytes: int) -> None:
    """Raise EstimationError where a text of `tokens` tokens, at `token_bytes` bytes each, needs too much memory."""
    available = available_memory()
    if available is not None and tokens * token_bytes > available:
        raise EstimationError(
            f"training on about {tokens:,} tokens needs at least {bytes_shown(tokens * token_bytes)} of memory, and "
            f"{bytes_shown(available)} are free; take a shorter text, such as a part of it (chainrule split); "
            f"{MEMORY_HINT}"
        )


class ExpectedNgrams(NamedTuple):
    """How many n-grams of each order a text has, by its length: from a sample, and from a quarter of it.

    Their number grows as a power of the length (Heaps' law) that falls slowly, so that the estimate for longer texts
    is rather too high.
    """

    tokens: int  # of the sample
    sizes: list[int]
    exponents: list[float]

    def at(self, tokens: int) -> list[int]:
        """Return the expected number of n-grams of each order, for this many tokens."""
        growth = tokens / self.tokens
        higher = zip(self.sizes[1:], self.exponents[1:], strict=True)
        return [self.sizes[0], *(int(size * growth**exponent) for size, exponent in higher)]


def expected_ngrams(stream: Int32[ndarray, " tokens"], vocabulary_size: int, order: int) -> ExpectedNgrams:
    """Estimate the n-grams of each order from a sample of the middle of the text."""
    start = max(0, stream.size // 2 - SAMPLE // 2)
    sample = stream[start : start + SAMPLE].copy()
    quarter = sample[: -(-sample.size // 4)].copy()
    sample[-1] = quarter[-1] = END
    sizes, fewer = (count_ngrams(part, vocabulary_size, order).level_sizes for part in (sample, quarter))
    exponents = [
        math.log(max(size, 1) / max(few, 1)) / math.log(sample.size / quarter.size) if quarter.size < sample.size else 1
        for size, few in zip(sizes, fewer, strict=True)
    ]
    return ExpectedNgrams(sample.size, list(sizes), exponents)
