"""Counts to a text file, as SRILM and Google's n-grams have them: words with a space between, a tab, the count."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.files import compressing, replace_file
from chainrule.base.jit import map_in_order
from chainrule.base.progress import Progress, silent
from chainrule.ngram.count_files.count_file_kernels import COUNT_ROOM, write_counts
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    import os

    from jaxtyping import Int, Int64
    from numpy import ndarray

    from chainrule.ngram.counting.counts import Counts
    from chainrule.text.vocabulary import Vocabulary

TASK = "writing counts"
_BATCH = 1 << 16  # n-grams that a thread writes at once
_LEAST_ROOM = 1 << 20


def write_counts_file(
    path: str | os.PathLike[str], counts: Counts, vocabulary: Vocabulary, progress: Progress = silent
) -> int:
    """Writes all orders, from the unigrams on, compressed where the name ends in .gz, .zst, .xz or .bz2.

    <s> has the number of documents. What was never seen is left out. Returns the number of lines. Raises OutputError;
    then, and when interrupted, what was there before is still there.
    """
    spelled = vocabulary.arrays()
    numbers = counts.counts.copy()
    numbers[1 + BEGIN] = numbers[1 + END]
    longest = int(np.diff(spelled["offsets"]).max()) + 1
    total = counts.words.size - 1
    done = 0
    with replace_file(Path(path)) as raw, compressing(raw, path) as file:
        for order in range(1, counts.order + 1):
            level = counts.level(order)
            room = max(_LEAST_ROOM, COUNT_ROOM + order * longest)
            written = partial(_lines, counts, numbers, spelled, order, room)
            for parts in map_in_order(
                written, itertools.pairwise([*range(level.start, level.stop, _BATCH), level.stop])
            ):
                progress(TASK, done, total)
                file.writelines(parts)
                done += _BATCH
    progress(TASK, total, total)
    return int(np.count_nonzero(numbers[1:]))


def _lines(
    counts: Counts,
    numbers: Int[ndarray, " nodes"],
    spelled: dict[str, ndarray],
    order: int,
    room: int,
    batch: tuple[int, int],
) -> list[bytes]:
    """The nodes of a batch. numbers: their counts. spelled: the vocabulary. room: bytes, for a line at least."""
    out, parts = np.empty(room, np.uint8), []
    node, stop = batch
    arrays = counts.words, counts.begin, numbers, spelled["text"], spelled["offsets"]
    while node < stop:
        node, used = write_counts(*arrays, order, _path(counts, order, node), stop, out)
        parts.append(out[:used].tobytes())
    return parts


def _path(counts: Counts, order: int, node: int) -> Int64[ndarray, " order+1"]:
    """A node and all its contexts, by order."""
    path = np.zeros(order + 1, np.int64)
    path[order] = node
    for n in range(order - 1, 0, -1):
        level = counts.level(n)
        begin = counts.begin[level.start : level.stop + 1]
        # A needle of another type would have NumPy copy the whole level.
        path[n] = level.start + np.searchsorted(begin, begin.dtype.type(path[n + 1]), side="right") - 1
    return path
