"""Counts texts larger than memory: in runs, each of which fits, that are written to disk and merged.

A run is the counts of some whole documents, so that no n-gram is cut. Runs are merged level by level, from arrays of
any size. The n-grams of a level are sorted in every text, by context and last word, and so are those of all texts
together. So a level is merged from front to end, in chunks of contexts, and each text's n-grams are found in the result
by going along it. The suffix of an n-gram is looked up among those of its own text, which fit into memory.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.memory import MEMORY_HINT, Owned, bytes_shown, release_freed_memory
from chainrule.base.progress import Progress, silent
from chainrule.base.scratch import GrowingArray, check_disk_room, parts_released, release_pages, scratch_folder
from chainrule.base.threads import map_in_order, run_all
from chainrule.errors import EstimationError
from chainrule.ngram.config import DiskPlan
from chainrule.ngram.counting.count import TASK as COUNTING
from chainrule.ngram.counting.count import ExpectedNgrams, count_ngrams, expected_ngrams
from chainrule.ngram.counting.counting_kernels import find_merged, merge_pair, split_keys, translate, write_keys
from chainrule.ngram.counting.counts import Counts, pad_documents
from chainrule.ngram.trie.table import NODE, Records, context_type, level_slice, narrowest, parts_of
from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Int, Int32, Int64, Shaped
    from numpy import ndarray

MERGING = "merging counts"
_CHUNK_BYTES = 1000  # of memory for an n-gram of a chunk, since several are merged or wait to be written
_MIN_CHUNK = 1 << 12  # n-grams
_MAX_CONTEXTS = 1 << 30  # of a chunk, whose keys have 31 bits for a context


def merge_counts(runs: Sequence[Counts], memory: int, progress: Progress = silent) -> Counts:
    """Return the counts of several texts of one vocabulary together, on disk, with records for one model's
    probabilities.

    runs: of the same order, each with the counts and index types of all; their suffixes are overwritten. memory: how
    many bytes may be held beside one text's counts. Raises OutputError where the disk is full.
    """
    merge = _Merge(runs, max(_MIN_CHUNK, memory // _CHUNK_BYTES))
    for order in range(2, runs[0].order + 1):
        merge.add_level(order, progress)
    return merge.finish(memory)


class _Chunk(NamedTuple):
    """The merged n-grams after some contexts.

    places: for each run, the position of each of its n-grams among the merged ones.
    """

    words: Int32[ndarray, " ngrams"]
    counts: Int[ndarray, " ngrams"]
    suffixes: Int[ndarray, " ngrams"]
    children: Int64[ndarray, " contexts"]
    places: list[Int[ndarray, " ngrams"]]


class _Merge:
    """The levels merged so far. `merged`: by run, the merged node of each n-gram of the newest level."""

    def __init__(self, runs: Sequence[Counts], chunk_size: int) -> None:
        self.runs, self.chunk_size = runs, chunk_size
        self.index, self.count_type = runs[0].suffixes.dtype, runs[0].counts.dtype
        size = runs[0].level_sizes[0]
        self.level_sizes = [size]
        self.nodes, self.contexts = GrowingArray(NODE), GrowingArray(context_type(self.index))
        self.suffixes, self.counts = GrowingArray(self.index), GrowingArray(self.count_type)
        self._add_nodes(
            np.arange(-1, size).clip(0),
            np.sum([run.counts[: 1 + size] for run in runs], axis=0),
            np.zeros(1 + size, self.index),
        )
        self._add_contexts(np.array([1]))
        self.merged: list[Int[ndarray, " ngrams"]] = [np.arange(1, 1 + size, dtype=self.index)] * len(runs)

    def add_level(self, order: int, progress: Progress) -> None:
        """Merge the n-grams of an order."""
        for run, merged in zip(self.runs, self.merged, strict=True):
            first = run.level(order - 1).start
            suffixes = run.suffixes[run.level(order)]
            parts = parts_of(slice(0, suffixes.size))
            run_all(translate, [(suffixes[start:stop], first, merged) for start, stop in parts])
            release_pages()
        contexts = level_slice(self.level_sizes, order - 1)
        is_last = order == self.runs[0].order
        following = [GrowingArray(self.index) for _ in self.runs]
        before = self.nodes.size

        def merge_chunk(chunk: tuple[int, int]) -> _Chunk:
            return self._merge_chunk(order, *chunk, places=not is_last)

        chunks = list(self._chunks(order, contexts))
        for chunk, (_, stop) in zip(map_in_order(merge_chunk, chunks), chunks, strict=True):
            node = self.nodes.size
            self._add_contexts(node + np.cumsum(chunk.children) - chunk.children)
            self._add_nodes(chunk.words, chunk.counts, chunk.suffixes)
            for array, places in zip(following, chunk.places, strict=not is_last):
                array.append(node + places)
            release_pages()
            release_freed_memory()
            share = (stop - contexts.start) / (contexts.stop - contexts.start)
            progress(MERGING, order - 2 + share, self.runs[0].order - 1)
        self.level_sizes.append(self.nodes.size - before)
        self.merged = [array.finish() for array in following]

    def finish(self, memory: int) -> Counts:
        nodes = self.nodes.size
        self._add_contexts(np.array([nodes]))
        records = Records(self.nodes.finish(), self.contexts.finish())
        suffixes = self.suffixes.finish()
        index = narrowest(nodes)
        if index is not self.index.type:  # there could have been more nodes
            records = Records(records.nodes, _narrowed_contexts(records.contexts, index))
            suffixes = _narrowed(suffixes, index)
        return Counts(
            tuple(self.level_sizes),
            records.nodes["word"],
            records.contexts["begin"],
            suffixes,
            self.counts.finish(),
            records,
            memory,
        )

    def _chunks(self, order: int, contexts: slice) -> Iterator[tuple[int, int]]:
        """Cut merged contexts into ranges after which the runs have about `chunk_size` n-grams."""
        step = max(1, self.chunk_size // (2 * len(self.runs)))
        marks = []  # contexts of a run with `step` n-grams between one and the next
        for run, merged in zip(self.runs, self.merged, strict=True):
            begin = _begin_of_level(run, order - 1)
            nodes = np.arange(begin[0], begin[-1], step).astype(begin.dtype)
            marks.append(merged[np.searchsorted(begin, nodes, side="right") - 1])
        every = np.sort(np.concatenate(marks))[:: 2 * len(self.runs)]
        limits = np.arange(contexts.start, contexts.stop, _MAX_CONTEXTS)
        edges = np.unique(np.concatenate([every, limits, [contexts.stop]]))
        yield from itertools.pairwise(edges.tolist())

    def _merge_chunk(self, order: int, first: int, stop: int, *, places: bool) -> _Chunk:
        """Merge the n-grams after the merged contexts first .. stop."""
        parts = []
        for run, merged in zip(self.runs, self.merged, strict=True):
            low, high = np.searchsorted(merged, np.array([first, stop], merged.dtype)).tolist()
            parts.append((_begin_of_level(run, order - 1), merged, low, high))
        sizes = [int(begin[high] - begin[low]) for begin, _, low, high in parts]
        ends = np.cumsum(sizes).tolist()
        room, spare = self._lists(sum(sizes)), self._lists(sum(sizes))
        for run, part, size, end in zip(self.runs, parts, sizes, ends, strict=True):
            write_keys(run.words, run.counts, run.suffixes, *part, first, *_slices(room, end - size, size))
        lists = [(end - size, size) for end, size in zip(ends, sizes, strict=True)]
        while len(lists) > 1:
            pairs = list(itertools.zip_longest(lists[::2], lists[1::2], fillvalue=(0, 0)))
            lists = []
            for one, other in pairs:
                merged_size = merge_pair(
                    *_slices(room, *one), *_slices(room, *other), *_slices(spare, one[0], one[1] + other[1])
                )
                lists.append((one[0], merged_size))
            room, spare = spare, room
        keys, counts, suffixes = (column.copy() for column in _slices(room, *lists[0]))
        del room, spare
        words, children = np.empty(keys.size, np.int32), np.zeros(stop - first, np.int64)
        split_keys(keys, words, children)
        found = [np.empty(size, self.index) for size in sizes] if places else []
        for run, part, own in zip(self.runs, parts, found, strict=places):
            find_merged(run.words, *part, first, keys, own)
        return _Chunk(words, counts, suffixes, children, found)

    def _lists(self, size: int) -> list[Int[ndarray, " ngrams"]]:
        """Return empty arrays for keys, counts and suffixes."""
        return [np.empty(size, kind) for kind in (np.int64, self.count_type, self.index)]

    def _add_nodes(
        self,
        words: Int[ndarray, " ngrams"],
        counts: Int[ndarray, " ngrams"],
        suffixes: Int[ndarray, " ngrams"],
    ) -> None:
        nodes = np.zeros(words.size, NODE)
        nodes["word"] = words
        self.nodes.append(nodes)
        self.counts.append(counts)
        self.suffixes.append(suffixes)

    def _add_contexts(self, begin: Int[ndarray, " contexts"]) -> None:
        contexts = np.zeros(begin.size, self.contexts.dtype)  # zeros in the padding bytes, too
        contexts["begin"] = begin
        self.contexts.append(contexts)


def _begin_of_level(counts: Counts, order: int) -> Int[ndarray, " ngrams+1"]:
    level = counts.level(order)
    return counts.begin[level.start : level.stop + 1]


def _slices(columns: Sequence[Int[ndarray, " ngrams"]], start: int, size: int) -> list[Int[ndarray, " ngrams"]]:
    return [column[start : start + size] for column in columns]


def _narrowed(numbers: Int[ndarray, " numbers"], kind: type[np.integer[Any]]) -> Int[ndarray, " numbers"]:
    narrow = GrowingArray(kind)
    for part in parts_released(numbers):
        narrow.append(part)
    return narrow.finish()


def _narrowed_contexts(
    contexts: Shaped[ndarray, " contexts"], kind: type[np.integer[Any]]
) -> Shaped[ndarray, " contexts"]:
    narrow = GrowingArray(context_type(kind))
    for part in parts_released(contexts):
        own = np.zeros(part.size, narrow.dtype)
        own["begin"] = part["begin"]
        narrow.append(own)
    return narrow.finish()


BASE_BYTES = 250_000_000  # what Python, NumPy and Numba hold by themselves
_TOKEN_BYTES, _NGRAM_BYTES, _TYPE_BYTES = 24, 24, 64  # of a token, an n-gram and a type while a run is counted
_MIN_TOKENS = 1 << 16  # of a run
_BATCH = 1 << 20  # numbers that are written at a time


def plan_runs(stream: Int32[ndarray, " tokens"], vocabulary_size: int, order: int, memory: int) -> DiskPlan:
    """Return how to count a stream within `memory` bytes. Raises OutputError where the disk has too little room.

    Raises EstimationError where even the vocabulary does not fit.
    """
    fixed = BASE_BYTES + _TYPE_BYTES * vocabulary_size
    least = fixed + (order * _NGRAM_BYTES + _TOKEN_BYTES) * _MIN_TOKENS
    if memory < least:
        allowed = f"{memory >> 20:,}M" if memory >> 20 else bytes_shown(memory)
        raise EstimationError(
            f"counting {order}-grams with a vocabulary of {vocabulary_size:,} needs at least "
            f"{-(-least // (1 << 20)):,}M of memory, even on disk, and may use {allowed}; allow more memory, "
            f"or, {MEMORY_HINT}"
        )
    expected = expected_ngrams(stream, vocabulary_size, order)
    run_tokens = stream.size
    while run_tokens > _MIN_TOKENS and _run_bytes(run_tokens, expected) > memory - fixed:
        run_tokens = int(run_tokens * 0.9)
    index = np.dtype(_index_type(stream.size, vocabulary_size, order)).itemsize
    in_runs = sum(expected.at(run_tokens)) * -(-stream.size // run_tokens)
    # Words, begin, suffixes and counts of runs, and their merged nodes; the result, its probabilities and index.
    size = in_runs * (4 + 4 * index + 4) + sum(expected.at(stream.size)) * (12 + 5 * index + 4)
    return DiskPlan(stream.size, run_tokens, memory, size, scratch_folder())


def count_in_runs(
    stream: Int32[ndarray, " tokens"],
    vocabulary_size: int,
    order: int,
    plan: DiskPlan,
    progress: Progress = silent,
    *,
    extra_begins: int = 0,
) -> Counts:
    """Count as `count_ngrams` does, but with counts and suffixes on disk. The counts are the same, whatever the plan.

    extra_begins: see `padded`. Raises OutputError where the disk is full, ValueError where the stream is cut inside a
    document, EstimationError where one document is too long for a run.
    """
    if stream.size == 0 or stream[-1] != END:
        raise ValueError("the stream must end with </s>")
    check_disk_room(plan.bytes, f"counting {stream.size:,} tokens")
    index = _index_type(stream.size * (1 + extra_begins), vocabulary_size, order)
    count_type = narrowest(stream.size * (1 + extra_begins))
    runs = []
    release_freed_memory()
    for start, stop in _run_edges(stream, plan.run_tokens):
        progress(COUNTING, start, stream.size)
        part, _ = pad_documents(stream[start:stop].copy(), extra_begins)
        owned = Owned(part)
        del part

        def report(task: str, done: float, total: float | None, start: int = start, size: int = stop - start) -> None:
            progress(COUNTING, start + size * done / (total or 1), stream.size)

        runs.append(_on_disk(count_ngrams(owned, vocabulary_size, order, report), index, count_type))
        release_pages()
        release_freed_memory()
    progress(COUNTING, stream.size, stream.size)
    return merge_counts(runs, max(plan.memory - BASE_BYTES, plan.memory // 4), progress)


def _run_bytes(tokens: int, expected: ExpectedNgrams) -> int:
    return _TOKEN_BYTES * tokens + _NGRAM_BYTES * sum(expected.at(tokens))


def _index_type(tokens: int, vocabulary_size: int, order: int) -> type[np.int32] | type[np.int64]:
    return narrowest(1 + vocabulary_size + (order - 1) * tokens)


def _run_edges(stream: Int32[ndarray, " tokens"], tokens: int) -> list[tuple[int, int]]:
    """Cut a stream after documents into ranges of about as many tokens. Raises EstimationError."""
    edges = [0]
    while stream.size - edges[-1] > tokens + tokens // 2:
        place = edges[-1] + tokens
        ends = np.flatnonzero(stream[place - 1 : place + tokens // 2] == END)
        if not ends.size:
            raise EstimationError(
                f"a document has more than {tokens // 2:,} tokens, too many to be counted in runs of {tokens:,}; give "
                "more memory, or take lines as documents"
            )
        edges.append(place + int(ends[0]))
        release_pages()
    return list(itertools.pairwise([*edges, stream.size]))


def _on_disk(counts: Counts, index: type[np.integer], count_type: type[np.integer]) -> Counts:
    return Counts(
        counts.level_sizes,
        _written(counts.words, np.int32),
        _written(counts.begin, index),
        _written(counts.suffixes, index),
        _written(counts.counts, count_type),
    )


def _written(numbers: Int[ndarray, " numbers"], kind: type[np.integer]) -> Int[ndarray, " numbers"]:
    array = GrowingArray(kind)
    for start in range(0, numbers.size, _BATCH):
        array.append(numbers[start : start + _BATCH])
    return array.finish()
