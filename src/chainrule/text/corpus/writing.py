"""Writes documents to a file, as lines of plain text or as records; and tables, as CSV, TSV, JSON lines or Parquet.

The suffix of the name says which, and whether the file is compressed.
"""

from __future__ import annotations

import io
import json
from contextlib import contextmanager
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Any, BinaryIO

from chainrule.base.files import compressing, replace_file
from chainrule.base.results import finite
from chainrule.errors import OutputError, TextError
from chainrule.text.corpus.block import LINE_FEED
from chainrule.text.corpus.parquet import pyarrow_for
from chainrule.text.corpus.reading import FORMATS, TABLES, TEXT_FIELD, text_suffix
from chainrule.text.corpus.record_blocks import as_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from jaxtyping import UInt8
    from numpy import ndarray

    from chainrule.text.corpus.block import Block

    Columns = Mapping[str, Any]  # the values of each column of a table, by its name: a sequence, an array or Texts

_CHUNK = 1 << 18  # bytes written at a time, since compressing a whole block would delay Ctrl-C for seconds


class DocumentFile:
    """A file being written. documents, bytes: written so far, before compression."""

    def __init__(self, name: str, file: BinaryIO, field: str, write: Callable[[Columns], None] | None = None) -> None:
        """Begin with an empty file.

        field: the one with the text of a record. write: a function that writes records; None: documents are lines.
        """
        self.documents = self.bytes = 0
        self._name, self._file, self._field, self._write = name, file, field, write

    def write(self, block: Block) -> None:
        """Writes a block; as records, with all fields that it keeps. Raises TextError if a document has newlines but
        the file one document a line; OSError.
        """
        self.documents += int((block.text == block.document_end).sum())
        if self._write is not None:
            rows = self._rows(block)
            for names, group in groupby(rows, tuple):
                some = list(group)
                self._write({name: [row[name] for row in some] for name in names})
            return
        data = self._as_lines(block)
        for start in range(0, len(data), _CHUNK):
            self._file.write(data[start : start + _CHUNK])
        self.bytes += len(data)

    def _rows(self, block: Block) -> Iterator[Mapping[str, Any]]:
        """The records; the text of one is as it was in its file, unless it was split into lines, or repaired."""
        suffix, field = text_suffix(self._name), self._field
        for number, (text, own) in enumerate(zip(block.documents(), block.fields or repeat({}), strict=False), 1):
            is_same = isinstance(own.get(field), str) and own[field].replace("\r\n", "\n") == text
            row = own if is_same else {**own, field: text}
            row = row if suffix == ".parquet" else as_json(row)
            for name, cell in row.items() if suffix == ".tsv" else ():
                if isinstance(cell, str) and ("\t" in cell or "\n" in cell):
                    raise TextError(
                        f"{block.locate(number)}: the field {name!r} has a tab or a line end, for which TSV has no "
                        f"room; give {self._name} a name that ends in .csv or .jsonl"
                    )
            yield row

    def _as_lines(self, block: Block) -> bytes:
        text = block.text.tobytes()
        if block.document_end == LINE_FEED:
            return text
        end = bytes([block.document_end])
        if b"\n" in text:
            place = block.locate(text[: text.index(b"\n")].count(end) + 1)
            raise TextError(
                f"{place}: the document has newlines, but {self._name} has one document a line; give it a name that "
                "ends in .jsonl, or split documents into lines with document='line'"
            )
        return text.replace(end, b"\n")


@contextmanager
def document_file(path: Path, field: str = TEXT_FIELD, *, records: bool = False) -> Iterator[DocumentFile]:
    """A file to write documents to, which replaces `path` at the end of the `with` block, unless the block fails.

    Names that end in .jsonl, .csv and .parquet become files of records, with the fields that blocks keep; field: that
    of the text. records: whether the documents come from records, so that a name in .tsv does so, too. Raises
    OutputError.
    """
    check_format(path, records=True)
    with replace_file(path) as raw, compressing(raw, path) as file:
        if not writes_records(path, records=records):
            yield DocumentFile(str(path), file, field)
            return
        counted = _Counted(file)
        with _table(path, counted, lambda: {field: ""}) as write:  # type: ignore[arg-type]
            documents = DocumentFile(str(path), file, field, write)
            yield documents
        documents.bytes = counted.size


def writes_records(path: Path, *, records: bool) -> bool:
    """Whether documents are written to a file of this name as records. records: whether they come from records."""
    suffix = text_suffix(str(path))
    return suffix in FORMATS or (suffix == ".tsv" and records)


class _Counted(io.RawIOBase):
    """A file that counts the bytes written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.size = file, 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.size += len(data)
        return self._file.write(data)


def check_format(path: Path, *, records: bool = False) -> None:
    """Raises OutputError if the format cannot be written; to be called before the work, not after it.

    records: whether all formats of records can be.
    """
    kind = FORMATS.get(text_suffix(str(path)))
    if records and kind is not None:
        check_table_format(path)
    elif kind in ("parquet", "table"):
        name = "CSV" if kind == "table" else "Parquet"
        raise OutputError(f"{path}: {name} can only be read; give it a name that ends in .jsonl or .jsonl.zst")


@contextmanager
def table_file(
    path: Path, example: Callable[[], Mapping[str, Any]] | None = None
) -> Iterator[Callable[[Columns], None]]:
    """Yield a function that writes rows, as a dictionary from names of columns to as many values each.

    The file replaces `path` at the end of the `with` block, unless the block fails. example: a row with the columns
    that a table of no rows has, asked for at the end where there are none.

    The first row names the columns of CSV, TSV and Parquet; a row without one of them has an empty cell. CSV and TSV
    write infinity as inf, true as TRUE, and lists as JSON, and JSON lines infinity as null. Raises OutputError, also
    where a row has a column that the first one lacks.
    """
    check_table_format(path)
    with replace_file(path) as raw, compressing(raw, path) as file, _table(path, file, example) as write:
        yield write


@contextmanager
def _table(
    path: Path, file: BinaryIO, example: Callable[[], Mapping[str, Any]] | None
) -> Iterator[Callable[[Columns], None]]:
    suffix = text_suffix(str(path))
    if FORMATS.get(suffix) == "json":
        yield lambda columns: file.writelines(map(_as_line, rows_in(columns)))
    elif suffix == ".parquet":
        with _parquet_rows(path, file, example) as write:
            yield write
    else:
        rows = _DelimitedRows(path, file, "," if suffix == ".csv" else "\t")
        yield rows.write
        if not rows.columns and example is not None:
            rows.write_header(example())


class WithLines(dict[str, Any]):
    """The columns of some rows, with these as lines of CSV or TSV, if they are formatted already."""

    lines: UInt8[ndarray, " bytes"] | None = None


def listed(values: Any) -> Sequence[Any]:
    """Return the values of a column as Python's."""
    own: Sequence[Any] = values if isinstance(values, list | tuple) else values.tolist()
    return own


def rows_in(columns: Columns) -> Iterator[dict[str, Any]]:
    """Return the rows of a table that is given by its columns."""
    values = map(listed, columns.values())
    return (dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True))


def check_table_format(path: Path) -> None:
    """Raise OutputError if no table can be written to a file of this name; to be called before the work."""
    suffix = text_suffix(str(path))
    if suffix == ".parquet":
        if path.suffix.lower() != suffix:
            raise OutputError(f"{path}: Parquet is compressed already; give it a name that ends in .parquet")
        pyarrow_for(str(path))
    elif suffix not in (*TABLES, ".ndjson"):
        known = f"{', '.join(TABLES[:-1])} or {TABLES[-1]}"
        after = ", after a name" if path.name.lower() in TABLES else ""
        raise OutputError(f"{path}: the name of a table ends in {known}{after}")


def _as_line(row: Mapping[str, Any]) -> bytes:
    values = {name: finite(value) if isinstance(value, float) else value for name, value in row.items()}
    return _ENCODER.encode(values).encode("utf-8", "replace") + b"\n"


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


class _DelimitedRows:
    """Rows of CSV or TSV, written column by column, which is twice as fast as by the module csv.

    columns: those of the header, once it is written.
    """

    def __init__(self, path: Path, file: BinaryIO, delimiter: str) -> None:
        self.columns: list[str] = []
        self._number = 0  # of rows written
        self._path, self._file, self._delimiter = path, file, delimiter

    def write_header(self, row: Mapping[str, Any]) -> None:
        self.columns.extend(row)
        self._write([[name] for name in self.columns])

    def write(self, columns: Columns) -> None:
        """Write the rows of a table that is given by its columns. Raises OutputError."""
        rows = _row_count(columns)
        if not rows:
            return
        if not self.columns:
            self.write_header(columns)
        _check_columns(self._path, self._number + 1, columns, self.columns)
        self._number += rows
        if isinstance(columns, WithLines) and columns.lines is not None and [*columns] == self.columns:
            self._file.write(columns.lines.data)
        else:
            self._write([listed(columns.get(name, (None,) * rows)) for name in self.columns])

    def _write(self, columns: Sequence[Sequence[Any]]) -> None:
        cells = [_cells(values, self._delimiter) for values in columns]
        if len(cells) == 1:  # an empty line would be no row
            cells = [[cell or '""' for cell in cells[0]]]
        lines = map(self._delimiter.join, zip(*cells, strict=True))
        self._file.write(("\n".join(lines) + "\n").encode("utf-8", "replace"))


def _row_count(columns: Columns) -> int:
    return len(next(iter(columns.values()), ()))


def _cells(values: Sequence[Any], delimiter: str) -> list[str]:
    """Return values as CSV writes them (RFC 4180): quoted where they have a delimiter, a quotation mark or a line
    end.
    """
    kinds = set(map(type, values))
    if kinds <= {int, float}:
        return [*map(repr, values)]
    texts = values if kinds == {str} else map(_cell, values)
    marks = ('"', delimiter, "\n", "\r")
    return [_quoted(text) if any(mark in text for mark in marks) else text for text in texts]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _cell(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list | tuple) else str(value)


def _check_columns(path: Path, number: int, row: Mapping[str, Any], columns: Collection[str]) -> None:
    """Raise OutputError if a row has a column that the first row lacks. number: of the row, from 1."""
    other = next((name for name in row if name not in columns), None)
    if other is not None:
        raise OutputError(
            f"{path}: row {number:,} has the column {other!r}, which the first row lacks; give each record the "
            "same fields, or the file a name that ends in .jsonl"
        )


@contextmanager
def _parquet_rows(
    path: Path, file: BinaryIO, example: Callable[[], Mapping[str, Any]] | None
) -> Iterator[Callable[[Columns], None]]:
    pyarrow, parquet = pyarrow_for(str(path))
    waiting: dict[str, list[Any]] = {}  # by column: lists of values, and arrays of pyarrow
    written = count = 0
    writer: Any = None

    def flush() -> None:
        nonlocal writer, written, count
        try:
            columns = {name: joined(parts) for name, parts in waiting.items()}
            table = pyarrow.Table.from_pydict(columns, None if writer is None else writer.schema)
        except pyarrow.ArrowException as error:
            raise OutputError(
                f"{path}: a field has values of several types: {' '.join(str(error).split())}; give it one type, or "
                "the file a name that ends in .jsonl"
            ) from error
        if writer is None:  # the values of floats rarely repeat, so that a dictionary of them takes time and room
            shared = [own.name for own in table.schema if not pyarrow.types.is_floating(own.type)]
            writer = parquet.ParquetWriter(file, table.schema, use_dictionary=shared)
        writer.write_table(table)
        written, count = written + count, 0
        for parts in waiting.values():
            parts.clear()

    def joined(parts: list[Any]) -> Any:
        if all(isinstance(part, pyarrow.Array) for part in parts):
            return pyarrow.concat_arrays(parts)
        return [value for part in parts for value in listed(part)]

    def write(columns: Columns) -> None:
        nonlocal count
        rows = _row_count(columns)
        if not rows:
            return
        if not waiting:
            waiting.update((name, []) for name in columns)
        _check_columns(path, written + count + 1, columns, waiting)
        for name, parts in waiting.items():
            parts.append(columns.get(name, (None,) * rows))
        count += rows
        if count >= _ROWS:
            flush()

    yield write
    if count:
        flush()
    if writer is None:  # a file of no bytes would not be Parquet
        columns = pyarrow.Table.from_pylist([] if example is None else [example()]).schema
        writer = parquet.ParquetWriter(file, columns)
        writer.write_table(columns.empty_table())
    writer.close()


_ROWS = 1 << 16  # of a Parquet file, written at a time
