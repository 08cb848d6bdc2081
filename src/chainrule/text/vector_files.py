"""Word vectors in the files of word2vec and GloVe: in each row, a word and its vector.

    text      one word a line, with decimals; word2vec has a first line with the numbers of words and dimensions
    binary    word2vec's: the same first line, then for each word, the word, a space, and little-endian float32

Only the rows of requested words are kept. Words are bytes, and may contain spaces, as some of GloVe's do.
"""

from __future__ import annotations

import io
import re
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.text.corpus.streams import file_size, open_stream
from chainrule.text.numbers import is_number, number_of
from chainrule.text.tokenization.splitters import JOINER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Float32, Int64
    from numpy import ndarray

    from chainrule.text.corpus.streams import ByteStream

_MAX_WIDTH = 1 << 16  # dimensions of a vector
_BATCH = 1 << 20  # bytes read at a time; no line is longer
_REPORT_EVERY = 1 << 12  # rows
_PRINTABLE = re.compile(rb"[\t\r\x20-\x7e]*(\n[^\0-\x08\x0b\x0c\x0e-\x1f\x7f]*)?")  # further lines may have any letters


@dataclass(frozen=True)
class Vectors:
    """The vectors that a file has for a vocabulary. ids: the tokens that have one, without duplicates. repeated: how
    many rows of the file were left out, since the word of each has one before.
    """

    name: str
    ids: Int64[ndarray, " words"]
    rows: Float32[ndarray, "words D"]
    repeated: int = 0


class AllVectors(NamedTuple):
    """All words of a file, in its order, and their vectors. repeated: the words of further rows, which are left out."""

    words: list[bytes]
    rows: Float32[ndarray, "words D"]
    repeated: list[bytes]


class _Layout(NamedTuple):
    """The layout of a file. words: the number of words in its first line, if any. first: a row read already."""

    width: int
    words: int | None
    is_binary: bool
    first: bytes


class _Row(NamedTuple):
    """A row of a file. place: the number of the line, or of the word in a binary file. numbers: as written there."""

    place: int
    word: bytes
    numbers: bytes


def read_vectors(name: str, tokens: Sequence[bytes], progress: Progress = silent) -> Vectors:
    """Read the vectors of tokens.

    A token with a joiner that is not in the file gets the vector of the word without the joiner. Of several rows of a
    word, the first counts. Raises TextError if the file cannot be read, is cut short, has rows of different widths, or
    something other than a number.
    """
    exact = {token: i for i, token in enumerate(tokens)}
    bare = _without_joiners(tokens)
    own: dict[int, Float32[ndarray, " D"]] = {}
    without_joiner: dict[int, Float32[ndarray, " D"]] = {}
    seen: set[bytes] = set()
    repeated = 0
    with _opened(name, "reading word vectors", progress) as (layout, rows_of_file):
        for row in rows_of_file:
            if row.word in seen:
                repeated += 1
            elif row.word in exact or row.word in bare:
                seen.add(row.word)
                numbers = _numbers(name, layout, row)
                if row.word in exact:
                    own[exact[row.word]] = numbers
                without_joiner |= dict.fromkeys(bare.get(row.word, ()), numbers)
    vectors = without_joiner | own
    rows = np.array(list(vectors.values()), np.float32).reshape(len(vectors), layout.width)
    return Vectors(name, np.array(list(vectors), np.int64), rows, repeated)


def read_all_vectors(name: str, progress: Progress = silent) -> AllVectors:
    """Return all words of a file, in its order, and their vectors. Raises TextError as `read_vectors`."""
    vectors: dict[bytes, Float32[ndarray, " D"]] = {}
    repeated: list[bytes] = []
    with _opened(name, "reading word vectors", progress) as (layout, rows_of_file):
        for row in rows_of_file:
            if row.word in vectors:
                repeated.append(row.word)
            else:
                vectors[row.word] = _numbers(name, layout, row)
    rows = np.array(list(vectors.values()), np.float32).reshape(len(vectors), layout.width)
    return AllVectors(list(vectors), rows, repeated)


def words_of_file(name: str, progress: Progress = silent) -> list[bytes]:
    """Return the distinct words of a file, in its order, without reading their vectors.

    Raises TextError as `read_vectors`.
    """
    with _opened(name, "reading words", progress) as (_, rows_of_file):
        return list(dict.fromkeys(row.word for row in rows_of_file))


@contextmanager
def _opened(name: str, what: str, progress: Progress) -> Iterator[tuple[_Layout, Iterator[_Row]]]:
    """Yield the layout of a file and its rows, which raise TextError at their end if some are missing."""
    size = file_size(name)
    with open_stream(name, is_text=True) as stream:
        file: io.BufferedReader[Any] = io.BufferedReader(_Raw(stream), _BATCH)
        layout = _layout(name, file)

        def rows() -> Iterator[_Row]:
            count = 0
            for count, row in enumerate((_binary if layout.is_binary else _text)(name, file, layout), 1):
                if count % _REPORT_EVERY == 0:
                    progress(what, stream.position, size or None)
                yield row
            _check_count(name, layout, count)

        yield layout, rows()


def _check_count(name: str, layout: _Layout, count: int) -> None:
    """Raise TextError if the number of words is not that of the first line."""
    if layout.words not in (None, count):
        raise TextError(
            f"{name}: its first line says {layout.words:,} words, but there are {count:,}; it is cut short, or two "
            "files in one: get it again"
        )


def _without_joiners(tokens: Sequence[bytes]) -> dict[bytes, list[int]]:
    """Return the ids of tokens with joiners, by the word without them."""
    joiner = JOINER.encode()
    ids: dict[bytes, list[int]] = {}
    for i, token in enumerate(tokens):
        word = token.removeprefix(joiner).removesuffix(joiner)
        if word not in (token, b""):
            ids.setdefault(word, []).append(i)
    return ids


def _layout(name: str, file: io.BufferedReader[Any]) -> _Layout:
    first = _line(name, file)
    if header := re.fullmatch(rb"\s*(\d{1,18})\s+(\d{1,18})\s*", first):
        words, width = map(int, header.groups())
        head = file.peek(_BATCH)
        is_binary = _trailing_numbers(head.partition(b"\n")[0]) < width and not _is_text(head, width)
        first = b""
    else:
        words, width, is_binary = None, _trailing_numbers(first), False
    if not 1 <= width <= _MAX_WIDTH:
        raise TextError(
            f"{name}: its first line is neither a word with numbers, nor the numbers of words and dimensions; give a "
            "text file of word2vec or GloVe, or a binary one of word2vec (those of GloVe have no words)"
        )
    return _Layout(width, words, is_binary, first)


def _text(name: str, file: io.BufferedReader[Any], layout: _Layout) -> Iterator[_Row]:
    lines = chain([layout.first] if layout.first else [], iter(lambda: _line(name, file), b""))
    for place, line in enumerate(lines, 1 if layout.first else 2):
        if line.isspace():
            continue
        word, _, numbers = line.rstrip().partition(b" ")
        if numbers.count(b" ") != layout.width - 1 or b"  " in line or b"\t" in line:  # or a word with spaces
            parts = line.rsplit(None, layout.width)
            word, numbers = parts[0], b" ".join(parts[1:])
            if len(parts) <= layout.width or (is_number(word.split()[-1]) and b" " in word):
                raise _width_error(name, layout, place, _trailing_numbers(line))
        yield _Row(place, word, numbers)


def _binary(name: str, file: io.BufferedReader[Any], layout: _Layout) -> Iterator[_Row]:
    assert layout.words is not None
    data, at, size = b"", 0, 4 * layout.width
    for place in range(1, layout.words + 1):
        space = data.find(b" ", at)
        if space < 0 or len(data) < space + 1 + size:
            data, at = data[at:] + file.read(_BATCH), 0
            space = data.find(b" ")
        if space < 0 or len(data) < space + 1 + size:
            raise TextError(f"{name}: ends in the middle of word {place:,} of {layout.words:,}; get it again")
        numbers = slice(space + 1, space + 1 + size)
        yield _Row(place, data[at:space].lstrip(b"\n"), data[numbers])
        at = numbers.stop
    if (data[at:] + file.read(_BATCH)).strip():
        raise TextError(f"{name}: has more than the {layout.words:,} words that its first line says; get it again")


def _numbers(name: str, layout: _Layout, row: _Row) -> Float32[ndarray, " D"]:
    """Return the vector of a row. Raises TextError if one of its numbers is not finite."""
    vector = np.frombuffer(row.numbers, "<f4") if layout.is_binary else _decimals(row.numbers)
    if vector.size != layout.width:
        raise _width_error(name, layout, row.place, vector.size)
    if not np.isfinite(vector).all():
        where = f"{'word' if layout.is_binary else 'line'} {row.place:,}"
        word = row.word.decode(errors="replace")
        raise TextError(f"{name}: {where}, {word!r}, has something other than a finite number; get it again")
    return vector


def _width_error(name: str, layout: _Layout, place: int, numbers: int) -> TextError:
    counted = "1 number" if numbers == 1 else f"{numbers:,} numbers"
    return TextError(f"{name}: line {place:,} has {counted} after its word; expected {layout.width:,}, as above")


def _decimals(numbers: bytes) -> Float32[ndarray, " D"]:
    """Return the numbers of a line; NaN for a part that is not a number."""
    values = np.array([_number(part) for part in numbers.split()])
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _number(part: bytes) -> float:
    try:
        return number_of(part)
    except ValueError:
        return np.nan


def _line(name: str, file: io.BufferedReader[Any]) -> bytes:
    line = file.readline(_BATCH)
    if len(line) == _BATCH:
        raise TextError(f"{name}: a line has over {_BATCH:,} bytes; expected a word and its numbers")
    return line


def _is_text(head: bytes, width: int) -> bool:
    """Return whether the bytes after the first word, as many as its vector has in a binary file, are printable."""
    return _PRINTABLE.fullmatch(head.partition(b" ")[2][: 4 * width]) is not None


def _trailing_numbers(line: bytes) -> int:
    """Return how many numbers are at the end of a line, not counting its first part."""
    return sum(1 for _ in takewhile(is_number, reversed(line.split()[1:])))


class _Raw(io.RawIOBase):
    """A ByteStream for io.BufferedReader."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        return self._stream.fill(np.frombuffer(room, np.uint8))
