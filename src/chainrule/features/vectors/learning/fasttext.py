"""Words as sets of their characters' n-grams (subwords, Bojanowski 2017), and fastText's .bin files of their vectors.

N-grams are numbered as in these files, which have arguments, dictionary, the input matrix and the output matrix,
little-endian throughout. The input matrix has a row a word, then a row a bucket of n-grams.
"""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from chainrule.base.files import open_regular, replace_file
from chainrule.base.progress import Progress, silent
from chainrule.errors import ModelFormatError
from chainrule.features.vectors.learning.row_kernels import ngram_buckets
from chainrule.text.corpus.block import byte_array

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from jaxtyping import Float32, Int32, Int64
    from numpy import ndarray

MOST_CHARACTERS = 1000  # of an n-gram


class Ngrams(NamedTuple):
    """The shortest and longest n-grams of characters, and how many buckets they are hashed to."""

    shortest: int
    longest: int
    buckets: int

    @property
    def is_sound(self) -> bool:
        """Whether these numbers are plausible, and not those of a damaged file."""
        return 1 <= self.shortest <= self.longest < MOST_CHARACTERS and 1 <= self.buckets < 1 << 31

    def of(self, word: bytes) -> Int64[ndarray, " ngrams"]:
        """Return the buckets of a word's n-grams, in fastText's order."""
        text = byte_array(b"<" + word + b">")
        found = np.empty(text.size * (self.longest - self.shortest + 1), np.int64)
        return found[: ngram_buckets(text, 0, text.size, self.shortest, self.longest, self.buckets, found)]


class Units(NamedTuple):
    """The input rows that each word consists of: its own, then those of its n-grams.

    starts: where those of each word begin. seen: the buckets that words of the vocabulary have, ascending; the row of
    seen[k] is the number of words + k.
    """

    starts: Int64[ndarray, " words+1"]
    rows: Int32[ndarray, " units"]
    seen: Int64[ndarray, " buckets"]


def units_of(words: Sequence[bytes], ngrams: Ngrams | None) -> Units:
    """Return the units of a vocabulary's words. Without n-grams, each word is its only unit."""
    own = np.arange(len(words), dtype=np.int64)
    if ngrams is None:
        return Units(np.arange(len(words) + 1, dtype=np.int64), own.astype(np.int32), np.empty(0, np.int64))
    parts = [ngrams.of(word) for word in words]
    starts = np.concatenate([[0], np.cumsum([1 + part.size for part in parts])]).astype(np.int64)
    rows = np.empty(starts[-1], np.int64)
    is_own = np.zeros(rows.size, bool)
    is_own[starts[:-1]] = True
    seen, places = np.unique(np.concatenate(parts), return_inverse=True)
    rows[is_own], rows[~is_own] = own, len(words) + places
    return Units(starts, rows.astype(np.int32), seen)


def means_of(
    units: Units, inputs: Float32[ndarray, "rows D"], rows: ndarray | None = None
) -> Float32[ndarray, "words D"]:
    """Return the vector of each word: the mean of its units'. rows: the row of each unit among the inputs."""
    rows = units.rows if rows is None else rows
    means = np.empty((units.starts.size - 1, inputs.shape[1]), np.float32)
    for start in range(0, len(means), 1 << 12):
        edges = units.starts[start : start + (1 << 12) + 1]
        summed = np.add.reduceat(inputs[rows[edges[0] : edges[-1]]], edges[:-1] - edges[0])
        means[start : start + len(summed)] = summed / np.diff(edges)[:, None].astype(np.float32)
    return means


MAGIC, _VERSION = 793712314, 12
_ARGUMENTS = struct.Struct("<12id")
_SIZES = struct.Struct("<3i2q")
_LOSSES, _MODELS = {"hierarchical": 1, "negative": 2, "softmax": 3}, {"cbow": 1, "skipgram": 2, "supervised": 3}
_AT_ONCE = 1 << 14  # rows
_MOST = 1 << 31


@dataclass(frozen=True)
class FastText:
    """The contents of such a file. inputs: a row for each word, then a row for each of the ascending buckets `seen`."""

    words: Sequence[bytes]
    counts: Int64[ndarray, " words"]
    ngrams: Ngrams | None
    seen: Int64[ndarray, " buckets"]
    inputs: Float32[ndarray, "rows D"]
    outputs: Float32[ndarray, "words D"]
    method: str
    loss: str
    window: int = 5
    epochs: int = 5
    negatives: int = 5
    sample: float = 1e-4


def is_fasttext(path: str | os.PathLike[str]) -> bool:
    """Return whether a regular file begins as fastText's files do; a pipe is not opened, since that would consume its
    beginning.
    """
    if not Path(path).is_file():
        return False
    try:
        with open_regular(path) as file:
            return file.read(4) == struct.pack("<i", MAGIC)
    except OSError:
        return False


def write_fasttext(path: Path, model: FastText, progress: Progress = silent) -> None:
    """Write a file of version 12. Buckets that no word has are rows of zeros. Raises OutputError."""
    width, words = model.inputs.shape[1], len(model.words)
    shortest, longest, buckets = model.ngrams or (0, 0, 0)
    with replace_file(path) as file:
        file.write(struct.pack("<2i", MAGIC, _VERSION))
        shape = width, model.window, model.epochs, int(np.clip(model.counts.min(), 1, _MOST - 1)), model.negatives, 1
        kind = _LOSSES.get(model.loss, 2), _MODELS.get(model.method, 2)
        file.write(_ARGUMENTS.pack(*shape, *kind, buckets, shortest, longest, 100, model.sample))
        file.write(_SIZES.pack(words, words, 0, int(model.counts.sum()), -1))
        for word, count in zip(model.words, model.counts.tolist(), strict=True):
            file.write(word + b"\0" + struct.pack("<qb", count, 0))
        file.write(b"\0" + struct.pack("<2q", words + buckets, width))
        _write_rows(file, model.inputs[:words])
        for start in range(0, buckets, _AT_ONCE):
            rows = np.zeros((min(_AT_ONCE, buckets - start), width), np.float32)
            first, last = np.searchsorted(model.seen, [start, start + len(rows)])
            rows[model.seen[first:last] - start] = model.inputs[words + first : words + last]
            _write_rows(file, rows)
            progress("writing buckets", start, buckets)
        file.write(b"\0" + struct.pack("<2q", *model.outputs.shape))
        _write_rows(file, model.outputs)


def _write_rows(file: BinaryIO, rows: Float32[ndarray, "rows D"]) -> None:
    for start in range(0, len(rows), _AT_ONCE):
        file.write(np.ascontiguousarray(rows[start : start + _AT_ONCE], "<f4").data)


class _Reader:
    """Reads a mapped file forwards. Raises ModelFormatError where it ends too early."""

    def __init__(self, path: str, data: mmap.mmap) -> None:
        self._path, self._data, self.place = path, data, 0

    def unpack(self, layout: struct.Struct, what: str) -> tuple[float, ...]:
        self.need(layout.size, what)
        values = layout.unpack_from(self._data, self.place)
        self.place += layout.size
        return values

    def need(self, size: int, what: str) -> None:
        if size < 0 or self.place + size > len(self._data):
            raise ModelFormatError(f"{self._path}: ends within {what}; it is cut short or damaged: get it again")

    def word(self) -> bytes:
        end = self._data.find(b"\0", self.place, self.place + (1 << 16))
        if end < 0:
            self.place = len(self._data)
            self.need(1, "a word")
        word, self.place = self._data[self.place : end], end + 1
        return word

    def matrix(self, what: str) -> Float32[ndarray, "rows D"]:
        """Return the next matrix of the file, mapped, not copied."""
        (quantised,) = self.unpack(struct.Struct("<b"), what)
        if quantised:
            raise ModelFormatError(
                f"{self._path}: its {what} is quantised (.ftz), which is not read; give the .bin it was made of"
            )
        rows, width = (int(size) for size in self.unpack(struct.Struct("<2q"), what))
        if not (0 <= rows < _MOST and 0 < width < 1 << 16):
            raise ModelFormatError(f"{self._path}: its {what} has the shape {rows:,} x {width:,}; it is damaged")
        self.need(rows * width * 4, what)
        found = np.frombuffer(self._data, "<f4", rows * width, self.place).reshape(rows, width)
        self.place += rows * width * 4
        return found


def read_fasttext(path: str | os.PathLike[str]) -> FastText:
    """Read a file; matrices are mapped. Raises ModelFormatError."""
    name = str(path)
    try:
        with open_regular(path) as file:
            reader = _Reader(name, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        raise ModelFormatError(f"{name}: cannot be read: {error}") from error
    magic, version = reader.unpack(struct.Struct("<2i"), "its first line")
    if magic != MAGIC or not 11 <= version <= _VERSION:
        raise ModelFormatError(f"{name}: is no .bin file of fastText of version 11 or 12")
    width, window, epochs, _, negatives, _, loss, kind, buckets, shortest, longest, _, sample = reader.unpack(
        _ARGUMENTS, "its arguments"
    )
    if min(width, window, epochs, negatives) < 0 or not 0 <= sample < math.inf:  # NaN, too
        raise ModelFormatError(
            f"{name}: its window is {window}, its epochs {epochs}, its negatives {negatives} and its sample {sample}; "
            "expected numbers that are not below 0: it is damaged"
        )
    size, words, labels, _, pruned = (int(number) for number in reader.unpack(_SIZES, "its dictionary"))
    if not (0 < words <= size < _MOST and words + labels == size and 0 <= buckets < _MOST):
        raise ModelFormatError(f"{name}: its dictionary has {size:,} entries, {words:,} of them words; it is damaged")
    entries, counts = [], np.zeros(words, np.int64)
    for place in range(size):
        word = reader.word()
        count, kind_of_entry = reader.unpack(struct.Struct("<qb"), "its dictionary")
        if place < words:
            entries.append(word)
            counts[place] = count
        if kind_of_entry not in (0, 1):
            raise ModelFormatError(
                f"{name}: entry {place + 1:,} of its dictionary is neither a word nor a label; it is damaged"
            )
    if pruned >= 0:
        raise ModelFormatError(f"{name}: its n-grams are pruned, as of a quantised model; give the .bin it was made of")
    inputs, outputs = reader.matrix("input matrix"), reader.matrix("output matrix")
    ngrams = Ngrams(int(shortest), int(longest), int(buckets)) if longest > 0 and buckets else None
    if ngrams is not None and not ngrams.is_sound:
        raise ModelFormatError(f"{name}: its n-grams are {tuple(ngrams)}; it is damaged")
    rows = words + (ngrams.buckets if ngrams else 0)
    if inputs.shape[1] != width or len(inputs) < rows:
        raise ModelFormatError(f"{name}: its input matrix is {inputs.shape}, expected ({rows}, {int(width)})")
    return FastText(
        words=entries,
        counts=counts,
        ngrams=ngrams,
        seen=np.arange(rows - words),
        inputs=inputs,
        outputs=outputs,
        method={number: text for text, number in _MODELS.items()}.get(int(kind), "skipgram"),
        loss={number: text for text, number in _LOSSES.items()}.get(int(loss), "negative"),
        window=int(window),
        epochs=int(epochs),
        negatives=int(negatives),
        sample=float(sample),
    )
