"""Reads co-occurrences that were counted before: lines of word, context and count, or the file of GloVe's cooccur.

Pairs may come in any order; counts of the same pair are added up. Files are not trusted: every error is a TextError.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.files import read_file
from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.text.corpus.streams import file_size, open_stream
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS
from chainrule.vectors.cooccurrence_kernels import UNIT
from chainrule.vectors.cooccurrences import Cooccurrences

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jaxtyping import Float64, Int64
    from numpy import ndarray

    from chainrule.text.corpus.streams import ByteStream

RECORD = np.dtype([("word", "<i4"), ("context", "<i4"), ("count", "<f8")])  # of GloVe's cooccur, words from 1 on
_BLOCK_BYTES = 1 << 22
_AT_ONCE = 1 << 20  # records
_TASK = "reading co-occurrences"
_LEAST, _MOST = 2.0**-31, 2.0**30  # a count


class CooccurrenceFile(NamedTuple):
    """occurrences: of each word, where the file tells. digest: the SHA-256 of the file."""

    words: list[bytes]
    occurrences: list[int] | None
    counted: Cooccurrences
    digest: str


def vocabulary_path(path: Path) -> Path:
    """Where the words of a binary file are listed, as GloVe's vocab_count does."""
    return path.with_name(path.stem + ".vocab.txt")


def read_cooccurrences(path: Path, progress: Progress = silent) -> CooccurrenceFile:
    """A file whose name ends in .bin is binary. Raises TextError."""
    return _read_records(path, progress) if path.suffix == ".bin" else _read_lines(path, progress)


def _read_lines(path: Path, progress: Progress) -> CooccurrenceFile:
    name = str(path)
    word_ids: dict[bytes, int] = {}
    context_ids: dict[bytes, int] = {}
    parts: list[tuple[list[int], list[int], ndarray]] = []
    size, number = file_size(name), 0
    with open_stream(name) as stream:
        for lines in _blocks_of_lines(stream):
            rows = [line.split() for line in lines]
            try:
                words, contexts, texts = zip(*rows, strict=True)
                counts = np.array(texts, np.float64)
            except ValueError:
                _raise_line(name, rows, number)
            if ((counts < _LEAST) | ~(counts <= _MOST)).any():  # NaN is neither
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
    """The lines of a stream that are not blank, some megabytes at a time."""
    room, rest = np.empty(_BLOCK_BYTES, np.uint8), b""
    while size := stream.fill(room):
        whole, cut, rest = (rest + room[:size].tobytes()).rpartition(b"\n")
        if cut and (lines := [line for line in whole.split(b"\n") if line.strip()]):
            yield lines
    if rest.strip():
        yield [rest]


def _raise_line(name: str, rows: list[list[bytes]], before: int) -> None:
    """Raises TextError for the first row that is wrong."""
    for number, row in enumerate(rows, before + 1):
        try:
            is_right = len(row) == 3 and _LEAST <= float(row[2]) <= _MOST
        except ValueError:
            is_right = False
        if not is_right:
            shown = b" ".join(row).decode(errors="replace")[:60]
            raise TextError(
                f"{name}, line {number:,}: {shown!r} is no co-occurrence; expected a word, a context and their count, "
                f"a number above 0 and at most {int(_MOST):,}"
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
    """Words with how often each occurs, a line each."""
    if not path.is_file():
        raise TextError(
            f"{records}: its words are expected in {path}, as counting writes them; put GloVe's vocab.txt there"
        )
    try:
        lines = read_file(path).splitlines()
    except OSError as error:
        raise TextError(f"{path}: cannot be read: {error.strerror}") from error
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
    """In order, each pair once."""
    sums, keys = np.rint(counts * UNIT).astype(np.int64), words * size + contexts
    if not (np.diff(keys) > 0).all():
        order = np.argsort(keys, kind="stable")
        keys, places = np.unique(keys[order], return_index=True)
        sums = np.add.reduceat(sums[order], places)
    starts = np.concatenate([[0], np.cumsum(np.bincount(keys // size, minlength=size))]).astype(np.int64)
    return Cooccurrences(starts, (keys % size).astype(np.int32), sums)
