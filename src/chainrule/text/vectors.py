"""Word vectors in files, as word2vec and GloVe write them: a word and its numbers, row by row.

    text      a line a word, numbers as decimals; word2vec's first line says how many words and numbers, GloVe has none
    binary    word2vec's: such a first line, then each word, a space, and its numbers as little-endian float32

Only the rows of words that are asked for are kept. Words are bytes, and may hold spaces, as some of GloVe's do.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.files import compressing, replace_file
from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.text.splitters import JOINER
from chainrule.text.streams import file_size, opened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from jaxtyping import Float32, Int64
    from numpy import ndarray

    from chainrule.text.streams import ByteStream

_MOST_NUMBERS = 1 << 16  # of a word
_AT_ONCE = 1 << 20  # bytes; no line is longer
_TOLD_EVERY = 1 << 12  # rows


@dataclass(frozen=True)
class Vectors:
    """What a file has of a vocabulary. ids: of the tokens that were found, each once."""

    name: str
    ids: Int64[ndarray, " found"]
    rows: Float32[ndarray, "found numbers"]


class _Layout(NamedTuple):
    """How a file is written. words: as its first line says, if it does. first: a row that has been read already."""

    width: int
    words: int | None
    is_binary: bool
    first: bytes


class _Row(NamedTuple):
    """place: which line, or which word of a binary file. numbers: as they are written there."""

    place: int
    word: bytes
    numbers: bytes


def read_vectors(name: str, tokens: Sequence[bytes], progress: Progress = silent) -> Vectors:
    """The vectors of tokens, by their ids; of two rows for a word, the first.

    A token that is not there as it is has the vector of the word without the mark by which the word tokenizer knows
    that it touches its neighbour.
    Raises TextError if the file cannot be read, is cut short, or has a row of another width or what is no number.
    """
    exact = {token: i for i, token in enumerate(tokens)}
    bare = _without_joiners(tokens)
    own: dict[int, Float32[ndarray, " numbers"]] = {}
    lent: dict[int, Float32[ndarray, " numbers"]] = {}
    size, count = file_size(name), 0
    with opened(name) as stream:
        file: io.BufferedReader[Any] = io.BufferedReader(_Raw(stream), _AT_ONCE)
        layout = _layout(name, file)
        for count, row in enumerate(_binary(name, file, layout) if layout.is_binary else _text(name, file, layout), 1):
            if count % _TOLD_EVERY == 0:
                progress("reading word vectors", stream.place, size or None)
            if row.word in exact or row.word in bare:
                numbers = _numbers(name, layout, row)
                if row.word in exact:
                    own[exact.pop(row.word)] = numbers
                lent |= dict.fromkeys(bare.pop(row.word, ()), numbers)
    if layout.words not in (None, count):
        raise TextError(
            f"{name}: its first line says {layout.words:,} words, and there are {count:,}; it is cut short, or two "
            "files in one: get it again"
        )
    found = lent | own
    rows = np.array(list(found.values()), np.float32).reshape(len(found), layout.width)
    return Vectors(name, np.array(list(found), np.int64), rows)


def write_vectors(
    path: Path, tokens: Sequence[bytes], rows: Float32[ndarray, "vocab numbers"], progress: Progress = silent
) -> None:
    """In word2vec's text format, compressed if the name ends so. Raises OutputError."""
    with replace_file(path) as raw, compressing(raw, path) as file:
        file.write(b"%d %d\n" % rows.shape)
        for i, (token, row) in enumerate(zip(tokens, rows, strict=True)):
            if i % _TOLD_EVERY == 0:
                progress("writing word vectors", i, len(tokens))
            file.write(b"%s %s\n" % (token, " ".join(map(str, row)).encode()))


def _without_joiners(tokens: Sequence[bytes]) -> dict[bytes, list[int]]:
    """The ids of the tokens that have some, by what is left of them."""
    joiner = JOINER.encode()
    found: dict[bytes, list[int]] = {}
    for i, token in enumerate(tokens):
        word = token.removeprefix(joiner).removesuffix(joiner)
        if word not in (token, b""):
            found.setdefault(word, []).append(i)
    return found


def _layout(name: str, file: io.BufferedReader[Any]) -> _Layout:
    first = _line(name, file)
    if header := re.fullmatch(rb"\s*(\d{1,18})\s+(\d{1,18})\s*", first):
        words, width = map(int, header.groups())
        is_binary = _trailing_numbers(file.peek(_AT_ONCE).partition(b"\n")[0]) < width
        first = b""
    else:
        words, width, is_binary = None, _trailing_numbers(first), False
    if not 1 <= width <= _MOST_NUMBERS:
        raise TextError(
            f"{name}: it does not begin with a word and its numbers, nor with how many words and numbers follow; give "
            "a text file of word2vec or GloVe, or a binary one of word2vec (those of GloVe hold no words)"
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
            if len(parts) <= layout.width or (_is_number(word.split()[-1]) and b" " in word):
                raise _of_another_width(name, layout, place, _trailing_numbers(line))
        yield _Row(place, word, numbers)


def _binary(name: str, file: io.BufferedReader[Any], layout: _Layout) -> Iterator[_Row]:
    assert layout.words is not None
    data, at, size = b"", 0, 4 * layout.width
    for place in range(1, layout.words + 1):
        space = data.find(b" ", at)
        if space < 0 or len(data) < space + 1 + size:
            data, at = data[at:] + file.read(_AT_ONCE), 0
            space = data.find(b" ")
        if space < 0 or len(data) < space + 1 + size:
            raise TextError(f"{name}: it ends within word {place:,} of {layout.words:,}; it is cut short: get it again")
        numbers = slice(space + 1, space + 1 + size)
        yield _Row(place, data[at:space].lstrip(b"\n"), data[numbers])
        at = numbers.stop
    if (data[at:] + file.read(_AT_ONCE)).strip():
        raise TextError(f"{name}: it goes on after the {layout.words:,} words that its first line says: get it again")


def _numbers(name: str, layout: _Layout, row: _Row) -> Float32[ndarray, " numbers"]:
    """Raises TextError if one is no finite number."""
    found = np.frombuffer(row.numbers, "<f4") if layout.is_binary else _decimals(row.numbers)
    if found.size != layout.width:
        raise _of_another_width(name, layout, row.place, found.size)
    if not np.isfinite(found).all():
        where = f"{'word' if layout.is_binary else 'line'} {row.place:,}"
        word = row.word.decode(errors="replace")
        raise TextError(f"{name}: {where}, {word!r}, has what is no finite number; it is damaged: get it again")
    return found


def _of_another_width(name: str, layout: _Layout, place: int, numbers: int) -> TextError:
    return TextError(
        f"{name}: line {place:,} has {numbers:,} numbers after its word; expected {layout.width:,}, as above"
    )


def _decimals(numbers: bytes) -> Float32[ndarray, " numbers"]:
    """NaN where one is no number."""
    found = np.array([float(part) if _is_number(part) else np.nan for part in numbers.split()])
    with np.errstate(over="ignore"):
        return found.astype(np.float32)


def _line(name: str, file: io.BufferedReader[Any]) -> bytes:
    line = file.readline(_AT_ONCE)
    if len(line) == _AT_ONCE:
        raise TextError(f"{name}: a line has over {_AT_ONCE:,} bytes, so it holds no word and its numbers")
    return line


def _trailing_numbers(line: bytes) -> int:
    """How many numbers stand at the end of a line, its first part apart."""
    return sum(1 for _ in takewhile(_is_number, reversed(line.split()[1:])))


def _is_number(part: bytes) -> bool:
    try:
        float(part)
    except ValueError:
        return False
    return True


class _Raw(io.RawIOBase):
    """A stream of bytes for io's readers."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        return self._stream.fill(np.frombuffer(room, np.uint8))
