"""Writes counts to a text file in the format of SRILM and Google: words separated by spaces, a tab, the count."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.files import compressing, replace_file
from chainrule.base.progress import Progress, silent
from chainrule.base.scratch import parts_released, release_pages
from chainrule.base.threads import map_in_order
from chainrule.ngram.count_files.count_file_kernels import MAX_COUNT_BYTES, write_counts
from chainrule.ngram.trie.records import context_path
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    import os

    from jaxtyping import Int
    from numpy import ndarray

    from chainrule.ngram.counting.counts import Counts
    from chainrule.text.tokenization.vocabulary import Vocabulary

WRITING = "writing counts"
_BATCH = 1 << 16  # n-grams that a thread writes at once
_MIN_BUFFER = 1 << 20


def write_counts_file(
    path: str | os.PathLike[str], counts: Counts, vocabulary: Vocabulary, progress: Progress = silent
) -> int:
    """Writes all orders, from unigrams up, compressed where the name ends in .gz, .zst, .xz or .bz2.

    The count of <s> is the number of documents. Skips n-grams with a count of 0. Returns the number of lines. Raises
    OutputError where the file cannot be written; then, and when interrupted, an older file is unchanged.
    """
    spelled = vocabulary.arrays()
    node_counts = counts.new_array(counts.counts.size, counts.counts.dtype)
    for own, part in zip(parts_released(node_counts), parts_released(counts.counts), strict=True):
        own[:] = part
    node_counts[1 + BEGIN] = node_counts[1 + END]
    longest = int(np.diff(spelled["offsets"]).max()) + 1
    total = counts.words.size - 1
    done = 0
    with replace_file(Path(path)) as raw, compressing(raw, path) as file:
        for order in range(1, counts.order + 1):
            level = counts.level(order)
            buffer_bytes = max(_MIN_BUFFER, MAX_COUNT_BYTES + order * longest)
            write_batch = partial(_write_batch, counts, node_counts, spelled, order, buffer_bytes)
            for parts in map_in_order(
                write_batch, itertools.pairwise([*range(level.start, level.stop, _BATCH), level.stop])
            ):
                progress(WRITING, done, total)
                file.writelines(parts)
                done += _BATCH
                release_pages()
    progress(WRITING, total, total)
    return sum(int(np.count_nonzero(part)) for part in parts_released(node_counts[1:]))


def _write_batch(
    counts: Counts,
    node_counts: Int[ndarray, " nodes"],
    spelled: dict[str, ndarray],
    order: int,
    buffer_bytes: int,
    batch: tuple[int, int],
) -> list[bytes]:
    """The lines of a batch of nodes. node_counts: all counts. spelled: the vocabulary.

    buffer_bytes: of the buffer, at least a line.
    """
    out, parts = np.empty(buffer_bytes, np.uint8), []
    node, stop = batch
    arrays = counts.words, counts.begin, node_counts, spelled["text"], spelled["offsets"]
    while node < stop:
        node, used = write_counts(
            *arrays, order, context_path(counts.level_sizes, counts.begin, order, node), stop, out
        )
        parts.append(out[:used].tobytes())
    return parts
