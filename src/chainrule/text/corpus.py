"""Files to blocks of UTF-8 text. A line is a document. Knows nothing of tokens.

Reading goes block by block, each cut at the end of a line, so that a corpus may be larger than memory. Every block is
checked to be UTF-8; a byte-order mark at the start of a file and the carriage return of a CRLF line end are dropped.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import lzma
import os
import re
import sys
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast, runtime_checkable

from chainrule.errors import TextError
from chainrule.files import DECOMPRESSORS
from chainrule.progress import Progress, silent
from chainrule.text.splitters import LINE_FEED
from chainrule.text.vocabulary import byte_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jaxtyping import UInt8
    from numpy import ndarray

BLOCK_BYTES = 1 << 23
STANDARD_INPUT = "-"
_BYTE_ORDER_MARK = codecs.BOM_UTF8
_LINE_END = re.compile("\r?\n")


@dataclass(frozen=True)
class Block:
    """Whole documents of one source, each ended by the byte `document_end`, which stands nowhere else in it."""

    text: UInt8[ndarray, " bytes"]  # UTF-8, but for the ends of documents
    source: str
    first: int  # the number of its first document in the source, from 1
    document_end: int = LINE_FEED  # or NEVER_IN_UTF8, where documents may hold newlines
    unit: str = "line"  # what the numbers count; empty where a whole file is one document

    def documents(self) -> list[str]:
        """Without their ends."""
        end = bytes([self.document_end])
        return [document.decode() for document in self.text.tobytes().split(end)[:-1]]

    def place(self, number: int) -> str:
        """Where its document of this number, from 1, stands, for messages: "corpus.txt, line 7"."""
        return f"{self.source}, {self.unit} {self.first + number - 1}" if self.unit else self.source


@runtime_checkable
class Source(Protocol):
    """What text can be read from, any number of times unless it is standard input."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Their names."""

    @property
    def digests(self) -> dict[str, str]:
        """The SHA-256 of each source that has been read to its end."""

    def blocks(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]: ...


@dataclass(frozen=True)
class Lines:
    """A text in memory, a document a line; a line end inside of one is a space, and one at its end is dropped."""

    lines: Iterable[str]
    name: str = "the given lines"

    def __post_init__(self) -> None:
        if isinstance(self.lines, str):
            raise TypeError("Lines takes several lines; put a single one in a list")
        lines = tuple(self.lines)  # what can be read only once is read now
        for line in lines:
            if not isinstance(line, str):
                raise TypeError(f"Lines takes strings, not {type(line).__name__}")
        object.__setattr__(self, "lines", lines)

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def digests(self) -> dict[str, str]:
        return {self.name: hashlib.sha256(self._joined()).hexdigest()}

    def blocks(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]:
        """Raises TextError where there is no line."""
        if not self.lines:
            raise TextError(f"{self.name}: there is no text in it; at least one line is needed")
        yield Block(byte_array(self._joined()), self.name, 1)

    def _joined(self) -> bytes:
        lines = (_LINE_END.sub(" ", line.removesuffix("\n").removesuffix("\r")) for line in self.lines)
        return "".join(line + "\n" for line in lines).encode("utf-8", "replace")


@dataclass
class Corpus:
    """Files that are read one after the other; "-" is standard input.

    After a pass, `digests` holds the SHA-256 of each source's bytes.
    """

    sources: tuple[str, ...]
    digests: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Corpus:
        """Raises TextError where a source is missing or a folder."""
        if isinstance(sources, str | os.PathLike):
            sources = [sources]
        names = tuple(os.fspath(source) for source in sources)
        for name in names:
            _check_source(name)
        if names.count(STANDARD_INPUT) > 1:
            raise TextError("standard input, -, can be read only once")
        if not names:
            raise TextError("no text was given; name one or more files, or - for standard input")
        return cls(names)

    def blocks(self, progress: Progress = silent, task: str = "reading") -> Iterator[Block]:
        """Raises TextError where a source cannot be read, is not UTF-8, or where all are empty."""
        sizes = [_size(name) for name in self.sources]
        total = sum(sizes) or None
        done = 0.0
        empty = True
        for name, size in zip(self.sources, sizes, strict=True):
            for block, bytes_read in _read_blocks(name, self.digests):
                empty = False
                yield block
                progress(task, done + bytes_read, total)
            done += size
        if empty:
            raise TextError(f"{', '.join(self.sources)}: there is no text in it; at least one line is needed")


def lines_as_they_come(source: str, progress: Progress = silent, task: str = "reading") -> Iterator[Block]:
    """Blocks of the lines that are there now, so that a pipe gets its answers before it closes.

    Raises TextError as `Corpus.blocks`.
    """
    _check_source(source)
    total = _size(source) or None
    for block, bytes_read in _read_blocks(source, {}, wait=False):
        yield block
        progress(task, bytes_read, total)


def _check_source(name: str) -> None:
    if name == STANDARD_INPUT:
        return
    if not os.path.exists(name):
        raise TextError(f"{name or 'an empty name'}: there is no such file")
    if os.path.isdir(name):
        raise TextError(f"{name}: this is a folder; name the text files in it")


def _size(name: str) -> int:
    """The bytes of a file; 0 for what cannot tell, such as standard input."""
    try:
        return 0 if name == STANDARD_INPUT else os.path.getsize(name)
    except OSError as error:
        raise TextError(f"{name}: cannot be read: {error.strerror}") from error


def _read_blocks(name: str, digests: dict[str, str], *, wait: bool = True) -> Iterator[tuple[Block, int]]:
    """Blocks of one source, each with the bytes of the file that have been read for it."""
    digest = hashlib.sha256()
    line, place = 1, 0
    rest: list[bytes] = []  # the beginning of a line whose end has not been read yet
    try:
        with _opened(name) as (file, raw):
            knows_place = name != STANDARD_INPUT and raw.seekable()  # a pipe such as <(zcat corpus.gz) does not
            while True:
                data = file.read(BLOCK_BYTES) if wait else cast(io.BufferedReader, file).read1(BLOCK_BYTES)
                digest.update(data)
                if not data and not rest:
                    break
                cut = data.rfind(b"\n") + 1
                if data and cut == 0:
                    rest.append(data)
                    continue
                text = b"".join([*rest, data[:cut]])
                rest = [data[cut:]] if data[cut:] else []
                _check_utf8(text, name, line, place)
                lines = text.count(b"\n")
                yield Block(_clean(text, first=place == 0), name, line), raw.tell() if knows_place else 0
                line, place = line + lines, place + len(text)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise TextError(
            f"{name}: cannot be read: {error.strerror if isinstance(error, OSError) and error.strerror else error}"
        ) from error
    digests[name] = digest.hexdigest()


@contextmanager
def _opened(name: str) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The stream of a source's text and the stream of its bytes on disk, which differ where it is compressed."""
    if name == STANDARD_INPUT:
        yield sys.stdin.buffer, sys.stdin.buffer
        return
    opener = DECOMPRESSORS.get(Path(name).suffix)
    with open(name, "rb") as raw:
        if opener is None:
            yield raw, raw
        else:
            with opener(raw) as file:
                yield cast(BinaryIO, file), raw


def _check_utf8(text: bytes, name: str, line: int, place: int) -> None:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        line += text.count(b"\n", 0, error.start)
        raise TextError(
            f"{name}, line {line}: byte 0x{text[error.start]:02x} at offset {place + error.start} is not UTF-8; "
            f"{_what_else(text)}"
        ) from error


def _what_else(text: bytes) -> str:
    """What a text that is not UTF-8 seems to be, and what to do."""
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "it looks like UTF-16; convert it to UTF-8 first, for instance with iconv -f UTF-16 -t UTF-8"
    if b"\0" in text[:4096]:
        return "it looks like a binary file"
    return "convert it to UTF-8 first, for instance with iconv"


def _clean(text: bytes, *, first: bool) -> UInt8[ndarray, " bytes"]:
    if first and text.startswith(_BYTE_ORDER_MARK):
        text = text[len(_BYTE_ORDER_MARK) :]
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    return byte_array(text if text.endswith(b"\n") else text + b"\n")
