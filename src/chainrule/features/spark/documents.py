"""Texts as Spark data frames of documents, and their blocks on the workers.

A frame has the columns text (bytes), source and start: the number of a file, and the byte where the piece of it begins
that a task reads. They say in which order the documents were, which Spark itself does not keep.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np

from chainrule.errors import SettingError, TextError
from chainrule.text.corpus.block import LINE_FEED, NEVER_IN_UTF8, Block, byte_array
from chainrule.text.corpus.corpus import Corpus
from chainrule.text.corpus.plain_text import invalid_utf8

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame, SparkSession

_BLOCK_BYTES = 1 << 22
_LOCAL = "file://"
_COMPRESSED = (".gz", ".bz2")  # what Spark decompresses by itself


@dataclass(frozen=True)
class Documents:
    """The documents of a text. files: their names by number, in order; empty for the rows of a data frame."""

    frame: DataFrame
    files: Mapping[int, str]

    @property
    def are_lines(self) -> bool:
        return bool(self.files)

    def locate(self, source: int, start: int) -> str:
        """Return the place where a piece begins, for messages."""
        if not self.files:
            return "the data frame"
        return f"{self.files.get(source, 'a file')}, in the part from byte {start:,} on"


class PieceError(TextError):
    """An error in a piece of a file."""

    def __init__(self, message: str, source: int, start: int) -> None:
        super().__init__(message)
        self.place = source, start


class Piece(NamedTuple):
    """A block of documents, and the piece of a file that it belongs to."""

    source: int
    start: int
    block: Block


def documents_of(session: SparkSession, texts: Any, column: str | None = None) -> Documents:
    """Return the documents of paths (their lines) or of a data frame (its rows).

    column: that of the frame; None for its only one. Paths with a scheme, such as s3a://, go to Spark unchanged; others
    are resolved here, as everywhere in chainrule. Raises TextError, SettingError.
    """
    from pyspark.sql import functions

    if is_frame(texts):
        text = functions.col(column or only_column(texts)).cast("binary")
        no_place = functions.lit(0).cast("long")
        return Documents(texts.select(text.alias("text"), no_place.alias("source"), no_place.alias("start")), {})
    paths = addresses_of(texts)
    lines = session.read.option("lineSep", "\n").text(paths)
    files = _files(lines, paths)
    numbers = functions.create_map(*[functions.lit(part) for name, i in files.items() for part in (name, i)])
    return Documents(
        lines.select(
            functions.col("value").cast("binary").alias("text"),
            numbers[functions.input_file_name()].cast("long").alias("source"),
            functions.input_file_block_start().alias("start"),
        ),
        {i: name for name, i in files.items()},
    )


def is_frame(texts: Any) -> bool:
    """Return whether texts are the rows of a data frame, and not paths."""
    return hasattr(texts, "mapInArrow")


def addresses_of(texts: Any) -> list[str]:
    """Return the addresses of the files of some paths, for Spark; no session is needed.

    Raises TextError where a file of this machine is missing, all are empty, or one is named twice; SettingError where
    Spark cannot read it.
    """
    names = [os.fspath(text) for text in ([texts] if isinstance(texts, str | os.PathLike) else texts)]
    paths = [path for name in names for path in _resolved(name)]
    if len(set(paths)) < len(paths):
        raise TextError(f"{next(path for path in paths if paths.count(path) > 1)}: is named twice")
    if not any(_may_have_text(path) for path in paths):
        raise TextError(f"{', '.join(names)}: there is no text in it; at least one document is needed")
    return paths


def only_column(frame: DataFrame) -> str:
    """Return the name of the only column. Raises SettingError if there are several."""
    if len(frame.columns) != 1:
        raise SettingError(f"the data frame has the columns {', '.join(frame.columns)}; say which one is the text")
    return frame.columns[0]


def pieces(batches: Iterable[RecordBatch], *, are_lines: bool) -> Iterator[Piece]:
    """Yield, on a worker, the documents of Spark's batches, in blocks.

    Raises PieceError where one is not UTF-8 or is null.
    """
    held: list[bytes] = []
    size, place, before = 0, (0, 0), 0  # documents of the piece in earlier blocks

    def piece() -> Piece:
        try:
            return Piece(*place, block_of(held, are_lines=are_lines, first=before + 1))
        except TextError as error:
            raise PieceError(str(error), *place) from None

    for batch in batches:
        texts, sources, starts = (batch.column(i).to_pylist() for i in range(3))
        for text, source, start in zip(texts, sources, starts, strict=True):
            if (source, start) != place or size > _BLOCK_BYTES:
                if held:
                    yield piece()
                before = before + len(held) if (source, start) == place else 0
                held, size, place = [], 0, (source, start)
            if text is None:
                raise PieceError("a document is null; drop such rows first", source, start)
            held.append(text)
            size += len(text) + 1
    if held:
        yield piece()


def block_of(texts: list[bytes], *, are_lines: bool, first: int = 1) -> Block:
    """Return documents, ended by newlines, or by a byte that is in no text if they have newlines themselves."""
    joined = b"\n".join(texts)
    try:
        joined.decode()
    except UnicodeDecodeError as error:
        text = byte_array(joined)
        number = first + int(np.searchsorted(np.cumsum([len(each) + 1 for each in texts]), error.start, side="right"))
        raise invalid_utf8(text, f"document {number:,}: byte 0x{text[error.start]:02x}") from None
    end = LINE_FEED
    if are_lines:
        joined = (joined + b"\n").replace(b"\r\n", b"\n")  # as local readers do
    elif joined.count(b"\n") == len(texts) - 1:
        joined += b"\n"
    else:
        end = NEVER_IN_UTF8
        joined = bytes([end]).join([*texts, b""])
    return Block(byte_array(joined), "the text", first, end, unit="document")


def _resolved(name: str) -> list[str]:
    """Return the addresses of a path's files, for Spark."""
    if urlsplit(name).scheme not in ("", "file"):
        return [name]
    local = unquote(urlsplit(name).path) if name.startswith("file:") else name
    corpus = Corpus.of(local)
    files = [os.path.abspath(file) for some in corpus.files for file in some]
    for file in files:
        kind = corpus.reading.format_of(file)
        if kind != "plain":
            raise SettingError(
                f"{file}: Spark reads {kind} as a data frame; give one, such as session.read.{kind}(...)"
            )
        if file.endswith((".zst", ".xz", ".lzma")):
            raise SettingError(f"{file}: Spark cannot decompress it; expected plain text, {' or '.join(_COMPRESSED)}")
    return [f"{_LOCAL}{file}" for file in files]


def _may_have_text(path: str) -> bool:
    """Return whether a file may have text: False for a file of 0 bytes of this machine."""
    return not path.startswith(_LOCAL) or os.path.getsize(path.removeprefix(_LOCAL)) > 0


def _files(lines: DataFrame, paths: list[str]) -> dict[str, int]:
    """Return the number of every file as Spark names it: in the order of the paths, and of names within a folder."""
    names = sorted(lines.inputFiles())
    plain = {unquote(name).replace("file:///", "file:/").replace("file:/", "file:///"): name for name in names}
    given = [plain[path] for path in paths if path in plain]
    return {name: i for i, name in enumerate([*given, *(name for name in names if name not in given)], start=1)}
