"""Reads and writes text files of counts, in the format of SRILM and Google: words, a tab, the count.

Words are separated by spaces. A file may hold n-grams of several orders, unsorted; the counts of several files are
added up. Lines are parsed on all processors, then each order is sorted. Files are not trusted: every error is a
TextError that names the line.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from chainrule.base.files import compressing, replace_file
from chainrule.base.progress import Progress, silent
from chainrule.base.scratch import parts_released, release_pages
from chainrule.base.threads import map_in_order, run, run_all
from chainrule.errors import TextError
from chainrule.ngram.config import MAX_ORDER
from chainrule.ngram.counting import counting_kernels as kernels
from chainrule.ngram.counting.counting_kernels import MAX_COUNT_BYTES, write_counts
from chainrule.ngram.counting.counts import Counts
from chainrule.ngram.trie.assembly_kernels import (
    count_children,
    find_nodes,
    find_suffixes,
    group_keys,
    is_ascending,
    sort_groups,
)
from chainrule.ngram.trie.query_kernels import NO_NODE
from chainrule.ngram.trie.table import build_index, context_path, narrowest, parts_of
from chainrule.protocol import BEGIN, END
from chainrule.text.corpus.streams import STANDARD_INPUT, file_size, open_stream
from chainrule.text.tokenization.vocabulary import Vocabulary

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from jaxtyping import Int, Int32, Int64, UInt8
    from numpy import ndarray

READING = "reading counts"
SORTING = "sorting counts"
BLOCK_BYTES = 1 << 22  # also the longest possible line
_MAX_SUM = 1 << 62
_SHOWN = 60  # bytes of a line that a message quotes, at most
_PROBLEMS = {
    kernels.NO_COUNT: "expected words and then a count, which is a whole number",
    kernels.NEGATIVE: "a count cannot be negative",
    kernels.TOO_LARGE: f"a count can be at most {kernels.MAX_COUNT:,}",
    kernels.NO_WORDS: "there is a count without words; expected words, a tab and their count",
    kernels.TOO_MANY_WORDS: f"expected at most {MAX_ORDER} words and a count",
    kernels.MISPLACED: "<s> can only be the first word and </s> only the last",
}


@dataclass(frozen=True)
class CountFile:
    """The contents of count files: by order, n-grams as rows of word ids, and their counts."""

    rows: list[Int32[ndarray, "ngrams order"]]
    counts: list[Int64[ndarray, " ngrams"]]


def read_counts(
    names: Sequence[str],
    order: int | None = None,
    progress: Progress = silent,
    vocabulary: Vocabulary | None = None,
) -> tuple[Counts, Vocabulary, dict[str, str]]:
    """Return the sum of the counts of several files, their vocabulary, and the SHA-256 of each file.

    names: the files' names, compressed or not; - is standard input. order: longer n-grams are skipped; by default the
    highest order in the files. vocabulary: words known in advance. Raises TextError.
    """
    vocabulary = Vocabulary() if vocabulary is None else vocabulary
    digests: dict[str, str] = {}
    read = _read(names, order or MAX_ORDER, vocabulary, digests, progress)
    highest = max((n for n, rows in enumerate(read.rows, start=1) if len(rows)), default=0)
    sources = ", ".join(names)
    if highest == 0:
        raise TextError(f"{sources}: there are no counts in it; expected lines of words, a tab and their count")
    if order is not None and highest < order:
        raise TextError(
            f"{sources}: there are no {order}-grams in it, only {highest}-grams and shorter; set order={highest}"
        )
    for total in (float(counts.sum(dtype=np.float64)) for counts in read.counts):
        if total > _MAX_SUM:
            raise TextError(f"{sources}: the counts of one order add up to {total:.3g}; expected at most {_MAX_SUM:,}")
    return _Assembly(names, vocabulary, read, highest).counts(progress), vocabulary, digests


def _read(
    names: Sequence[str], order: int, vocabulary: Vocabulary, digests: dict[str, str], progress: Progress
) -> CountFile:
    rows: list[list[ndarray]] = [[] for _ in range(order)]
    counts: list[list[ndarray]] = [[] for _ in range(order)]
    for parsed in map_in_order(lambda block: _parse(block, order), _blocks(names, digests, progress)):
        mapping = vocabulary.absorb(parsed.vocabulary)
        for n, (block_rows, block_counts) in enumerate(zip(parsed.file.rows, parsed.file.counts, strict=True)):
            if len(block_rows):
                rows[n].append(mapping[block_rows])
                counts[n].append(block_counts)
    return CountFile(
        [np.concatenate(parts) if parts else np.empty((0, n), np.int32) for n, parts in enumerate(rows, start=1)],
        [np.concatenate(parts) if parts else np.empty(0, np.int64) for parts in counts],
    )


@dataclass(frozen=True)
class _Block:
    """Whole lines of a file."""

    name: str
    text: UInt8[ndarray, " bytes"]
    first_line: int


@dataclass(frozen=True)
class _Parsed:
    """The counts of a block, with a separate vocabulary."""

    vocabulary: Vocabulary
    file: CountFile


def _blocks(names: Sequence[str], digests: dict[str, str], progress: Progress) -> Iterator[_Block]:
    """Yield all lines of all files, in blocks. Raises TextError."""
    total = sum(map(file_size, names))
    before = 0
    for name in names:
        with open_stream(name, is_text=True) as stream:
            rest, line = b"", 1
            while True:
                buffer = np.empty(len(rest) + BLOCK_BYTES, np.uint8)
                buffer[: len(rest)] = np.frombuffer(rest, np.uint8)
                size = stream.fill(buffer[len(rest) :])
                progress(READING, before + stream.position, total or None)
                filled = buffer[: len(rest) + size]
                data = filled.tobytes()
                cut = data.rfind(b"\n") + 1 if size else len(data)
                if cut == 0 and size == BLOCK_BYTES:
                    raise TextError(
                        f"{name}, line {line}: the line has more than {BLOCK_BYTES:,} bytes; is this a count file?"
                    )
                if cut:
                    yield _Block(name, filled[:cut], line)
                    line += data.count(b"\n", 0, cut)
                rest = data[cut:]
                if not size:
                    break
            digests[name] = stream.hexdigest()
            before += stream.position


def _parse(block: _Block, order: int) -> _Parsed:
    """Return the counts of a block. Raises TextError."""
    text = block.text
    try:
        str(text.data, "utf-8")
    except UnicodeDecodeError as error:
        _fail(block, error.start, "not UTF-8; convert the file, for instance with iconv")
    lines = int(np.count_nonzero(text == ord("\n"))) + 1
    words, markers = np.empty(text.size + 1, np.uint8), np.empty(text.size // 2 + 1, np.int8)
    lengths, counts = np.empty(lines, np.uint8), np.empty(lines, np.int64)
    status, used, word_count, lines, wrong = kernels.parse_counts(
        text, order, MAX_ORDER, words, markers, lengths, counts
    )
    if status != kernels.OK:
        _fail(block, wrong, _PROBLEMS[status])
    words[used] = ord("\n")
    vocabulary = Vocabulary()
    ids = markers[:word_count].astype(np.int32)
    ids[ids < 0] = vocabulary.encode(words[: used + 1], grow=True).ids[:-1]
    lengths, counts = lengths[:lines], counts[:lines]
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    rows, counts_by_order = [], []
    for n in range(1, order + 1):
        is_order = lengths == n
        rows.append(ids[starts[is_order][:, None] + np.arange(n)])
        counts_by_order.append(counts[is_order])
    return _Parsed(vocabulary, CountFile(rows, counts_by_order))


def _fail(block: _Block, at: int, problem: str) -> NoReturn:
    data = block.text.tobytes()
    start = data.rfind(b"\n", 0, at) + 1
    line = data[start:].split(b"\n", 1)[0]
    shown = line[:_SHOWN].decode(errors="replace") + ("..." if len(line) > _SHOWN else "")
    raise TextError(f"{block.name}, line {block.first_line + data.count(bytes([10]), 0, start)}: {shown!r}: {problem}")


class _Assembly:
    """Builds the trie of counts level by level."""

    def __init__(self, names: Sequence[str], vocabulary: Vocabulary, read: CountFile, order: int) -> None:
        self._names, self._vocabulary, self._read, self._order = names, vocabulary, read, order
        size = len(vocabulary)
        limit = 1 + size + sum(len(rows) for rows in read.rows[1:])
        self._index = narrowest(limit)
        self._sizes = [size]
        self._words = np.concatenate([[0], np.arange(size)]).astype(np.int32)
        self._begin = np.array([1, 1 + size], self._index)
        self._suffixes = [np.zeros(1 + size, self._index)]
        listed, counts = np.zeros(size, np.bool_), np.zeros(size, np.int64)
        listed[read.rows[0][:, 0]], listed[BEGIN] = True, True
        np.add.at(counts, read.rows[0][:, 0], read.counts[0])
        self._counts = [np.zeros(1, np.int64), counts]
        for rows in read.rows[1:order]:
            unlisted = np.flatnonzero(~listed[rows].all(axis=1))
            if unlisted.size:
                row = rows[unlisted[0]]
                self._fail(row, row[~listed[row]][:1])

    def counts(self, progress: Progress) -> Counts:
        """Return the finished counts. Raises TextError."""
        for order in range(2, self._order + 1):
            progress(SORTING, order - 2, self._order - 1)
            self._add_level(self._read.rows[order - 1], self._read.counts[order - 1])
            self._read.rows[order - 1] = np.empty((0, order), np.int32)  # frees the memory
        progress(SORTING, 1, 1)
        self._counts[1][BEGIN] = 0  # <s> is never predicted
        counts = np.concatenate(self._counts)
        counts = counts.astype(narrowest(int(counts.sum(dtype=np.float64)) + 1), copy=False)
        return Counts(tuple(self._sizes), self._words, self._begin, np.concatenate(self._suffixes), counts)

    def _add_level(self, rows: Int32[ndarray, "ngrams order"], counts: Int64[ndarray, " ngrams"]) -> None:
        order = rows.shape[1]
        first_node = self._words.size
        first_context = first_node - self._sizes[-1]
        contexts = np.empty(len(rows), self._index)
        slots = build_index(self._words, self._begin)
        run(find_nodes, self._words, self._begin, slots, rows, order - 1, contexts)
        orphans = np.flatnonzero(contexts == NO_NODE)
        if orphans.size:
            self._fail(rows[orphans[0]], rows[orphans[0]][:-1])
        words = np.ascontiguousarray(rows[:, -1])
        children = run(count_children, contexts, 0, words.size, first_context, self._sizes[-1])
        begin = np.full(self._sizes[-1] + 1, first_node, self._index)
        begin[1:] += np.cumsum(children, dtype=self._index)
        if not run(is_ascending, contexts, words):
            keys = np.empty(words.size, np.int64)
            run(group_keys, contexts, words, 0, words.size, first_context, begin[:-1] - first_node, keys)
            run_all(
                sort_groups,
                [(keys, begin, first_node, start, stop) for start, stop in parts_of(slice(0, begin.size - 1))],
            )
            merged, sums = np.empty_like(words), np.empty_like(counts)
            size = run(kernels.merge_equal, keys, begin, first_node, counts, merged, sums)
            words, counts = merged[:size], sums[:size]
        self._words = np.concatenate([self._words, words])
        self._begin = np.concatenate([self._begin[:-1], begin])
        self._sizes.append(words.size)
        self._counts.append(counts)
        self._check_contexts(first_context, first_node)
        self._find_suffixes(first_context, first_node)

    def _check_contexts(self, first_context: int, first_node: int) -> None:
        """Raise TextError where an n-gram has a higher count than its context."""
        both_levels = np.concatenate([np.zeros(first_context, np.int64), *self._counts[-2:]])
        node = run(kernels.first_above_context, self._begin, both_levels, first_context, first_node)
        if node >= 0:
            ngram = self._spelled(node)
            where = self._locate(ngram)
            raise TextError(
                f"{where}: {self._shown(ngram)} has a count of {both_levels[node]:,}, and its context "
                f"{self._shown(ngram[:-1])} a lower one; counts of a lower order are missing, or are not raw counts"
            )

    def _find_suffixes(self, first_context: int, first_node: int) -> None:
        suffixes = np.empty(self._sizes[-1], self._index)
        fixed = self._words, self._begin, first_context
        below = self._suffixes[-1][-self._sizes[-2] :]
        calls = [
            (*fixed, start, stop, below, suffixes) for start, stop in parts_of(slice(0, first_node - first_context))
        ]
        if sum(run_all(find_suffixes, calls)):
            ngram = self._spelled(first_node + int(np.flatnonzero(suffixes == NO_NODE)[0]))
            self._fail(ngram, ngram[1:])
        self._suffixes.append(suffixes)

    def _spelled(self, node: int) -> Int32[ndarray, " order"]:
        """Return the words of a node of the highest level."""
        spelled = []
        for _ in self._sizes:
            spelled.append(int(self._words[node]))
            node = int(np.searchsorted(self._begin, self._index(node), side="right")) - 1
        return np.array(spelled[::-1], np.int32)

    def _shown(self, ngram: Int[ndarray, " order"]) -> str:
        return repr(b" ".join(self._vocabulary.token_bytes(int(word)) for word in ngram).decode(errors="replace"))

    def _fail(self, ngram: Int[ndarray, " order"], part: Int[ndarray, " part"]) -> NoReturn:
        raise TextError(
            f"{self._locate(ngram)}: {self._shown(ngram)} has a count, but its part {self._shown(part)} has none; "
            f"{len(part)}-grams are missing or cut off: give the files of all lower orders, too"
        )

    def _locate(self, ngram: Int[ndarray, " order"]) -> str:
        return locate_ngram([self._vocabulary.token_bytes(int(word)) for word in ngram], self._names)


def locate_ngram(ngram: Sequence[bytes], names: Sequence[str]) -> str:
    """Return the file and line of an n-gram, by searching the files again; all file names if it cannot be located."""
    words = rb"[ \t]+".join(map(re.escape, ngram))
    pattern = re.compile(rb"^[ \t]*" + words + rb"[ \t]+\d+[ \t\r]*$", re.MULTILINE)
    for block in _blocks([name for name in names if name != STANDARD_INPUT], {}, silent):
        data = block.text.tobytes()
        if match := pattern.search(data):
            return f"{block.name}, line {block.first_line + data.count(bytes([10]), 0, match.start())}"
    return ", ".join(names)


WRITING = "writing counts"
_BATCH = 1 << 16  # n-grams that a thread writes at once
_MIN_BUFFER = 1 << 20


def write_counts_file(
    path: str | os.PathLike[str], counts: Counts, vocabulary: Vocabulary, progress: Progress = silent
) -> int:
    """Write all orders, from unigrams up, compressed where the name ends in .gz, .zst, .xz or .bz2.

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
    """Return the lines of a batch of nodes. node_counts: the counts of all nodes. spelled: the words of the vocabulary.

    buffer_bytes: the size of the buffer, at least a line.
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
