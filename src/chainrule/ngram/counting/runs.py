"""Counts texts larger than memory: in runs, each of which fits, that are written to disk and merged.

A run is the counts of some whole documents, so that no n-gram is cut.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.memory import MEMORY_HINT, Owned, release_freed_memory
from chainrule.base.progress import Progress, silent
from chainrule.base.scratch import GrowingArray, check_disk_room, release_pages, scratch_folder
from chainrule.errors import EstimationError
from chainrule.ngram.counting.count import TASK as COUNTING
from chainrule.ngram.counting.count import count_ngrams
from chainrule.ngram.counting.counts import Counts
from chainrule.ngram.counting.disk_plan import DiskPlan
from chainrule.ngram.counting.memory_estimate import ExpectedNgrams, expected_ngrams
from chainrule.ngram.counting.merge import merge_counts
from chainrule.ngram.counting.padding import padded
from chainrule.ngram.trie.records import narrowest
from chainrule.protocol import END

if TYPE_CHECKING:
    from jaxtyping import Int, Int32
    from numpy import ndarray

BASE_BYTES = 250_000_000  # what Python, NumPy and Numba hold by themselves
_TOKEN_BYTES, _NGRAM_BYTES, _TYPE_BYTES = 24, 24, 64  # of a token, an n-gram and a type while a run is counted
_MIN_TOKENS = 1 << 16  # of a run
_BATCH = 1 << 20  # numbers that are written at a time


def plan_runs(stream: Int32[ndarray, " tokens"], vocabulary_size: int, order: int, memory: int) -> DiskPlan:
    """How to count a stream within `memory` bytes. Raises OutputError where the disk has too little room.

    Raises EstimationError where even the vocabulary does not fit.
    """
    fixed = BASE_BYTES + _TYPE_BYTES * vocabulary_size
    least = fixed + (order * _NGRAM_BYTES + _TOKEN_BYTES) * _MIN_TOKENS
    if memory < least:
        raise EstimationError(
            f"counting {order}-grams with a vocabulary of {vocabulary_size:,} needs at least "
            f"{-(-least // (1 << 20)):,}M of memory, even on disk, and may use {memory >> 20:,}M; allow more memory, "
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
    """As `count_ngrams`, but counts and suffixes lie on disk. The counts are the same, whatever the plan.

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
        part, _ = padded(stream[start:stop].copy(), extra_begins)
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
    """Cuts a stream after documents into ranges of about as many tokens. Raises EstimationError."""
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
