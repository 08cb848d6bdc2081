"""Co-occurrences of words: how often each stands near each other one, counted from a text or read from a file.

They are counted in parts where memory is short. The sums do not depend on threads or parts, since they are of whole
numbers. Files are lines of word, context and count, or those of GloVe's cooccur. Pairs may come in any order; counts of
the same pair are added up. Files are not trusted: every error is a TextError.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.files import read_file
from chainrule.base.memory import available_memory
from chainrule.base.progress import Progress, silent
from chainrule.base.scratch import room_for
from chainrule.base.threads import run, run_all
from chainrule.errors import TextError, os_errors_as
from chainrule.features.vectors.learning.cooccurrence_kernels import UNIT, count_rows, merge_rows, sort_positions
from chainrule.protocol import END
from chainrule.text.corpus.streams import file_size, open_stream
from chainrule.text.numbers import number_of
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS
from chainrule.text.tokenization.vocabulary_kernels import FIRST_ORDINARY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jaxtyping import Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.features.vectors.learning.config import CooccurrenceConfig
    from chainrule.text.corpus.streams import ByteStream

_BLOCKS = 64  # of rows: a thread counts one at a time
_COUNTED_BYTES = 12  # a column and a sum


class Cooccurrences(NamedTuple):
    """Word i has the contexts columns[starts[i]:starts[i + 1]], ascending, and as many sums, in which UNIT stands for
    1.
    """

    starts: Int64[ndarray, " words+1"]
    columns: Int32[ndarray, " pairs"]
    sums: Int64[ndarray, " pairs"]

    def dense(self) -> Float64[ndarray, "words words"]:
        """Return the counts as one matrix, for small vocabularies."""
        words = self.starts.size - 1
        matrix = np.zeros((words, words))
        matrix[np.repeat(np.arange(words), np.diff(self.starts)), self.columns] = self.sums / UNIT
        return matrix


def count_stream(
    stream: Int32[ndarray, " tokens"], words: int, config: CooccurrenceConfig, progress: Progress
) -> Cooccurrences:
    """Return the co-occurrences of a stream of ids: row r is the word of id r + FIRST_ORDINARY, other ids are left out,
    END ends a document.

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
    """Return how many tokens are counted at once: as many as surely fit into a quarter of the memory."""
    at_hand = available_memory()
    if at_hand is None:
        return max(1, tokens)
    each = 12 + 2 * min(config.window, 16) * _COUNTED_BYTES  # positions, and at most this many pairs, mostly repeated
    return max(1 << 16, min(tokens, at_hand // 2 // each))


def _rows_of(stream: Int32[ndarray, " tokens"]) -> Int32[ndarray, " rows"]:
    """Return words as rows, -1 for the end of a document; other tokens are left out, and do not count in distances."""
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
    """Return runs of rows with about as much work each."""
    done = np.cumsum(counts + 1)
    edges = np.searchsorted(done, np.linspace(0, done[-1], _BLOCKS + 1)[1:-1])
    bounds = np.unique(np.concatenate([[0], edges, [counts.size]])).tolist()
    return list(pairwise(bounds))


def _merged(first: Cooccurrences, second: Cooccurrences) -> Cooccurrences:
    room = first.columns.size + second.columns.size
    starts, columns, sums = np.empty_like(first.starts), room_for((room,), np.int32), room_for((room,), np.int64)
    size = run(merge_rows, *first, *second, starts, columns, sums)
    return Cooccurrences(starts, columns[:size], sums[:size])


RECORD = np.dtype([("word", "<i4"), ("context", "<i4"), ("count", "<f8")])  # of GloVe's cooccur, words from 1 on
_BLOCK_BYTES = 1 << 22
_AT_ONCE = 1 << 20  # records
_TASK = "reading co-occurrences"
_LEAST, _MOST = 2.0**-31, 2.0**30  # a count


class CooccurrenceFile(NamedTuple):
    """The contents of a file of co-occurrences.

    occurrences: how often each word occurs, if the file says so. digest: the SHA-256 of the file.
    """

    words: list[bytes]
    occurrences: list[int] | None
    counted: Cooccurrences
    digest: str


def vocabulary_path(path: Path) -> Path:
    """Return where the words of a binary file are listed, as GloVe's vocab_count does."""
    return path.with_name(path.stem + ".vocab.txt")


def read_cooccurrence_file(path: Path, progress: Progress = silent) -> CooccurrenceFile:
    """Read a file of co-occurrences; one whose name ends in .bin is binary. Raises TextError."""
    return _read_records(path, progress) if path.suffix == ".bin" else _read_lines(path, progress)


def _read_lines(path: Path, progress: Progress) -> CooccurrenceFile:
    name = str(path)
    word_ids: dict[bytes, int] = {}
    context_ids: dict[bytes, int] = {}
    parts: list[tuple[list[int], list[int], ndarray]] = []
    size, number = file_size(name), 0
    with open_stream(name, is_text=True) as stream:
        for lines in _blocks_of_lines(stream):
            rows = [line.split() for line in lines]
            try:
                words, contexts, texts = zip(*rows, strict=True)
                counts = np.array(texts, np.float64)
            except ValueError:
                _raise_line(name, rows, number)
            if ((counts < _LEAST) | ~(counts <= _MOST)).any() or b"_" in b"".join(texts):  # NaN is neither
                _raise_line(name, rows, number)
            parts.append(
                (
                    [word_ids.setdefault(word, len(word_ids)) for word in words],
                    [context_ids.setdefault(context, len(context_ids)) for context in contexts],
                    counts,
                )
            )
            number += len(rows)
            progress(_TASK, stream.position, size or None)
        digest = stream.hexdigest()
    if not parts:
        raise TextError(f"{name}: is empty; expected lines of a word, a context and their count")
    # Words are numbered by their first line, which is by frequency in our files; then contexts that have no line.
    for context in context_ids:
        word_ids.setdefault(context, len(word_ids))
    of_context = np.array([word_ids[context] for context in context_ids], np.int64)
    words_of = np.concatenate([np.array(part[0], np.int64) for part in parts])
    contexts_of = of_context[np.concatenate([np.array(part[1], np.int64) for part in parts])]
    listed = list(word_ids)
    _check_words(name, listed)
    counts = np.concatenate([part[2] for part in parts])
    return CooccurrenceFile(listed, None, _summed(words_of, contexts_of, counts, len(listed)), digest)


def _blocks_of_lines(stream: ByteStream) -> Iterator[list[bytes]]:
    """Yield the lines of a stream that are not blank, some megabytes at a time."""
    room, rest = np.empty(_BLOCK_BYTES, np.uint8), b""
    while size := stream.fill(room):
        whole, cut, rest = (rest + room[:size].tobytes()).rpartition(b"\n")
        if cut and (lines := [line for line in whole.split(b"\n") if line.strip()]):
            yield lines
    if rest.strip():
        yield [rest]


def _raise_line(name: str, rows: list[list[bytes]], before: int) -> None:
    """Raise TextError for the first row that is wrong."""
    for number, row in enumerate(rows, before + 1):
        try:
            is_right = len(row) == 3 and _LEAST <= number_of(row[2]) <= _MOST
        except ValueError:
            is_right = False
        if not is_right:
            shown = b" ".join(row).decode(errors="replace")[:60]
            raise TextError(
                f"{name}, line {number:,}: {shown!r} is not a co-occurrence; expected a word, a context and their "
                f"count, a number above 0 and at most {int(_MOST):,}"
            )


def _read_records(path: Path, progress: Progress) -> CooccurrenceFile:
    words, occurrences = _read_vocabulary(vocabulary_path(path), path)
    with open_stream(str(path)) as stream:
        size = file_size(str(path))
        if not size or size % RECORD.itemsize:
            raise TextError(
                f"{path}: has {size:,} bytes, not a multiple of {RECORD.itemsize}; it is empty or cut short: count "
                "the co-occurrences again"
            )
        records = np.empty(size // RECORD.itemsize, RECORD)
        room, place = records.view(np.uint8), 0
        while place < size and (read := stream.fill(room[place : place + _AT_ONCE * RECORD.itemsize])):
            place += read
            progress(_TASK, place, size)
        digest = stream.hexdigest()
    ids = np.stack([records["word"], records["context"]])
    wrong = (ids < 1) | (ids > len(words))
    counts = records["count"]
    bad = wrong.any(axis=0) | (counts < _LEAST) | ~(counts <= _MOST)
    if bad.any():
        first = int(bad.argmax())
        raise TextError(
            f"{path}: record {first + 1:,} is {records[first].item()}; expected two numbers of words from 1 to "
            f"{len(words):,}, as {vocabulary_path(path).name} has them, and a count above 0; the files do not belong "
            "together, or are damaged"
        )
    counted = _summed(ids[0].astype(np.int64) - 1, ids[1].astype(np.int64) - 1, counts, len(words))
    return CooccurrenceFile(words, occurrences, counted, digest)


def _read_vocabulary(path: Path, records: Path) -> tuple[list[bytes], list[int]]:
    """Return words and how often each occurs, one on each line."""
    if not path.is_file():
        raise TextError(
            f"{records}: its words are expected in {path}, as counting writes them; put GloVe's vocab.txt there"
        )
    with os_errors_as(TextError, path, "read"):
        lines = read_file(path, is_text=True).splitlines()
    words, occurrences = [], []
    for number, line in enumerate(lines, 1):
        parts = line.split()
        if len(parts) != 2 or not parts[1].isdigit():
            raise TextError(
                f"{path}, line {number:,}: {line[:60].decode(errors='replace')!r}; expected a word and its count"
            )
        words.append(parts[0])
        occurrences.append(int(parts[1]))
    if len(set(words)) < len(words):
        repeated = Counter(words).most_common(1)[0][0]
        raise TextError(f"{path}: {repeated.decode(errors='replace')!r} has two lines; expected one for each word")
    _check_words(str(path), words)
    return words, occurrences


def _check_words(name: str, words: list[bytes]) -> None:
    for word in words:
        try:
            word.decode()
        except UnicodeDecodeError as error:
            raise TextError(f"{name}: the word {word[:60]!r} is not UTF-8; convert the file first") from error
    for marker in MARKER_TOKENS:
        if marker.encode() in words:
            raise TextError(f"{name}: {marker} is a marker of ours, not a word; leave it out of the counts")


def _summed(
    words: Int64[ndarray, " pairs"], contexts: Int64[ndarray, " pairs"], counts: Float64[ndarray, " pairs"], size: int
) -> Cooccurrences:
    """Return the pairs in order, each once, with its sum."""
    sums, keys = np.rint(counts * UNIT).astype(np.int64), words * size + contexts
    if not (np.diff(keys) > 0).all():
        order = np.argsort(keys, kind="stable")
        keys, places = np.unique(keys[order], return_index=True)
        sums = np.add.reduceat(sums[order], places)
    starts = np.concatenate([[0], np.cumsum(np.bincount(keys // size, minlength=size))]).astype(np.int64)
    return Cooccurrences(starts, (keys % size).astype(np.int32), sums)
