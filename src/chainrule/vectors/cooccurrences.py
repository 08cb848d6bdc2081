"""Co-occurrences of words: how often each stands near each other one, counted in parts where memory is short.

The sums do not depend on threads or parts, since they are of whole numbers.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.memory import available_memory
from chainrule.base.scratch import room_for
from chainrule.base.threads import run, run_all
from chainrule.errors import TextError
from chainrule.protocol import END
from chainrule.text.tokenization.vocabulary_kernels import FIRST_ORDINARY
from chainrule.vectors.cooccurrence_kernels import UNIT, count_rows, merge_rows, sort_positions

if TYPE_CHECKING:
    from jaxtyping import Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.vectors.cooccurrence_config import CooccurrenceConfig

_BLOCKS = 64  # of rows: what a thread counts at once
_COUNTED_BYTES = 12  # a column and a sum


class Cooccurrences(NamedTuple):
    """Word i has contexts columns[starts[i]:starts[i + 1]], rising, and sums of as many, UNIT for a whole one."""

    starts: Int64[ndarray, " words+1"]
    columns: Int32[ndarray, " pairs"]
    sums: Int64[ndarray, " pairs"]

    def dense(self) -> Float64[ndarray, "words words"]:
        """As one matrix, for small vocabularies."""
        words = self.starts.size - 1
        matrix = np.zeros((words, words))
        matrix[np.repeat(np.arange(words), np.diff(self.starts)), self.columns] = self.sums / UNIT
        return matrix


def count_cooccurrences(
    stream: Int32[ndarray, " tokens"], words: int, config: CooccurrenceConfig, progress: Progress
) -> Cooccurrences:
    """Of a stream of ids: row r is the word of id r + FIRST_ORDINARY, other ids are left out, END ends a document.

    Raises TextError where no two words stand together.
    """
    if not words:
        raise TextError("the text has no word that is frequent enough; give more text, or a lower min_count")
    total: Cooccurrences | None = None
    part = _part_size(stream.size, config)
    for start in range(0, stream.size, part):
        counted = _count_part(_rows_of(stream[start : start + part]), words, config)
        total = counted if total is None else _merged(total, counted)
        progress("counting co-occurrences", min(start + part, stream.size), stream.size)
    if total is None or not total.columns.size:
        raise TextError("no two words of the vocabulary stand together in a document; give more text")
    return total


def _part_size(tokens: int, config: CooccurrenceConfig) -> int:
    """How many tokens are counted at once: as many as surely fit into a quarter of the memory."""
    at_hand = available_memory()
    if at_hand is None:
        return max(1, tokens)
    each = 12 + 2 * min(config.window, 16) * _COUNTED_BYTES  # positions, and at most so many pairs, mostly repeated
    return max(1 << 16, min(tokens, at_hand // 2 // each))


def _rows_of(stream: Int32[ndarray, " tokens"]) -> Int32[ndarray, " rows"]:
    """Words as rows, -1 for the end of a document; other tokens, which no distance counts, are left out."""
    kept = stream[(stream >= FIRST_ORDINARY) | (stream == END)]
    return np.where(kept == END, -1, kept - FIRST_ORDINARY).astype(np.int32)


def _count_part(rows: Int32[ndarray, " rows"], words: int, config: CooccurrenceConfig) -> Cooccurrences:
    counts = np.bincount(rows[rows >= 0], minlength=words)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    positions = np.empty(starts[-1], np.int32 if rows.size < 1 << 31 else np.int64)
    run(sort_positions, rows, starts[:-1].copy(), positions)
    distances = np.arange(1, config.window + 1)
    weights = np.concatenate(
        [[0], (UNIT + distances // 2) // distances if config.weighting == "distance" else UNIT + 0 * distances]
    )
    most = np.minimum(counts * config.window * (2 if config.sides == "both" else 1), words)
    calls = []
    for first, last in _row_blocks(counts):
        room = int(most[first:last].sum())
        scratch = (
            np.zeros(words, np.int64),
            np.zeros(words // 64 + 1, np.uint64),
            np.zeros(words // 4096 + 1, np.uint64),
        )
        out = np.empty(last - first + 1, np.int64), np.empty(room, np.int32), np.empty(room, np.int64)
        sides = config.sides != "right", config.sides != "left"
        calls.append((rows, positions, starts, first, last, weights.astype(np.int64), *sides, *scratch, *out))
    sizes = run_all(count_rows, calls)
    columns, sums = room_for((sum(sizes),), np.int32), room_for((sum(sizes),), np.int64)
    row_starts, done = [np.zeros(1, np.int64)], 0
    for call, size in zip(calls, sizes, strict=True):
        own_starts, own_columns, own_sums = call[-3:]
        row_starts.append(own_starts[1:] + done)
        columns[done : done + size], sums[done : done + size] = own_columns[:size], own_sums[:size]
        done += size
    return Cooccurrences(np.concatenate(row_starts), columns, sums)


def _row_blocks(counts: Int64[ndarray, " words"]) -> list[tuple[int, int]]:
    """Runs of rows with about as much work each."""
    done = np.cumsum(counts + 1)
    edges = np.searchsorted(done, np.linspace(0, done[-1], _BLOCKS + 1)[1:-1])
    bounds = np.unique(np.concatenate([[0], edges, [counts.size]])).tolist()
    return list(pairwise(bounds))


def _merged(first: Cooccurrences, second: Cooccurrences) -> Cooccurrences:
    room = first.columns.size + second.columns.size
    starts, columns, sums = np.empty_like(first.starts), room_for((room,), np.int32), room_for((room,), np.int64)
    size = run(merge_rows, *first, *second, starts, columns, sums)
    return Cooccurrences(starts, columns[:size], sums[:size])
