"""Writes an n-gram table, in one piece or in shards, as an ARPA file in the layout of KenLM's lmplz.

Numbers are the shortest decimals that `read_arpa` reads as the same float32 nats, so writing and reading is lossless.
The file is replaced in one step: a kill at any moment leaves either the old one or the new one.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.files import compressing, replace_file
from chainrule.base.progress import Progress, silent
from chainrule.base.threads import run_all, thread_count
from chainrule.errors import ModelFormatError
from chainrule.ngram.arpa.writing_kernels import DAMAGED, MAX_NUMBER_BYTES, write_lines
from chainrule.ngram.trie.table import Table, context_path

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from numpy import ndarray

    from chainrule.text.tokenization.vocabulary import Vocabulary

TASK = "writing ARPA"
_BATCH = 1 << 15  # n-grams that a thread formats at once
_LINE_BYTES = 128  # for each of them; if that is too little, the rest goes into a second buffer


def write_arpa(
    path: str | os.PathLike[str],
    table: Table | Sequence[Table],
    vocabulary: Vocabulary,
    progress: Progress = silent,
) -> None:
    """Write a table, compressed where the name ends in .gz, .zst, .xz or .bz2.

    A backoff of -inf is written as -99, since KenLM cannot read -inf. table: or the shards of one, as for `arpa_parts`.
    Raises OutputError where the file cannot be written; then, and when interrupted, an older file is unchanged. Raises
    ModelFormatError where a table is damaged.
    """
    parts = arpa_parts(table, vocabulary, progress)
    with replace_file(Path(path)) as raw, compressing(raw, path) as file:
        for part in parts:
            file.write(part)


def arpa_parts(
    table: Table | Sequence[Table], vocabulary: Vocabulary, progress: Progress = silent
) -> Iterator[bytes | memoryview]:
    """Return the contents of an ARPA file in parts of a few MB; use each part before asking for the next.

    table: or the shards of one, in order, each of which has all unigrams. Raises ModelFormatError where one is damaged.
    """
    tables = [table] if isinstance(table, Table) else table
    size = tables[0].vocabulary_size
    if len(vocabulary) != size:
        raise ValueError(f"a vocabulary of {len(vocabulary)} tokens for a table of {size} unigrams")
    return _parts(tables, vocabulary, progress)


def _parts(tables: Sequence[Table], vocabulary: Vocabulary, progress: Progress) -> Iterator[bytes | memoryview]:
    by_order = [tables[:1], *[tables] * (tables[0].order - 1)]
    sizes = [sum(table.level_sizes[n] for table in own) for n, own in enumerate(by_order)]
    done = 0
    yield b"\\data\\\n"
    for order, size in enumerate(sizes, start=1):
        yield b"ngram %d=%d\n" % (order, size)
    for order, own in enumerate(by_order, start=1):
        yield b"\n\\%d-grams:\n" % order
        for lines, ngrams in itertools.chain.from_iterable(_format_order(table, vocabulary, order) for table in own):
            progress(TASK, done, sum(sizes))
            yield lines
            done += ngrams
    yield b"\n\\end\\\n"
    progress(TASK, sum(sizes), sum(sizes))


def _format_order(table: Table, vocabulary: Vocabulary, order: int) -> Iterator[tuple[memoryview, int]]:
    """Yield the lines of one order, a few MB at a time, each part with its number of n-grams."""
    level = table.level(order)
    spelled = vocabulary.arrays()
    fixed = (*table.columns, spelled["text"], spelled["offsets"], order)
    threads = thread_count()
    buffers = [np.empty(_BATCH * _LINE_BYTES, np.uint8) for _ in range(threads)]
    edges = [*range(level.start, level.stop, _BATCH), level.stop]
    batches = list(itertools.pairwise(edges))
    for i in range(0, len(batches), threads):
        group = batches[i : i + threads]
        calls = [
            (*fixed, context_path(table.level_sizes, table.begin, order, start), stop, out)
            for (start, stop), out in zip(group, buffers, strict=False)
        ]
        for (start, stop), out, (node, used) in zip(group, buffers, run_all(write_lines, calls), strict=False):
            yield _checked_lines(node, out[:used]), stop - start
            while node < stop:  # long words: continue in a larger buffer
                longest = int(np.diff(spelled["offsets"]).max()) + 1
                larger = np.empty(max(out.size, 2 * MAX_NUMBER_BYTES + order * longest), np.uint8)
                node, used = write_lines(
                    *fixed, context_path(table.level_sizes, table.begin, order, node), stop, larger
                )
                yield _checked_lines(node, larger[:used]), 0


def _checked_lines(node: int, lines: ndarray) -> memoryview:
    if node == DAMAGED:
        raise ModelFormatError(
            "the n-gram table holds an impossible word, node or number; the model is damaged: get or train it again"
        )
    return lines.data
