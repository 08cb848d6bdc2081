"""Writes documents to a file, as lines of plain text or as JSON lines; and tables, as CSV, TSV, JSON lines or Parquet.

The suffix of the name says which, and whether the file is compressed.
"""

from __future__ import annotations

import csv
import io
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from chainrule.base.files import compressing, replace_file
from chainrule.base.json import finite
from chainrule.errors import OutputError, TextError
from chainrule.text.corpus.block import LINE_FEED
from chainrule.text.corpus.parquet import pyarrow_for
from chainrule.text.corpus.reading import FORMATS, text_suffix

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from chainrule.text.corpus.block import Block

_CHUNK = 1 << 18  # bytes written at a time, since compressing a whole block would delay Ctrl-C for seconds


class DocumentFile:
    """A file being written. documents, bytes: written so far, before compression."""

    def __init__(self, name: str, file: BinaryIO, field: str) -> None:
        self.documents = self.bytes = 0
        self._name, self._file, self._field = name, file, field
        self._is_json = FORMATS.get(text_suffix(name)) == "json"

    def write(self, block: Block) -> None:
        """Writes a block. Raises TextError if a document has newlines but the file one document a line; OSError."""
        data = self._as_json(block) if self._is_json else self._as_lines(block)
        for start in range(0, len(data), _CHUNK):
            self._file.write(data[start : start + _CHUNK])
        self.documents += int((block.text == block.document_end).sum())
        self.bytes += len(data)

    def _as_json(self, block: Block) -> bytes:
        records = (json.dumps({self._field: text}, ensure_ascii=False) for text in block.documents())
        return "".join(record + "\n" for record in records).encode()

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
def document_file(path: Path, field: str = "text") -> Iterator[DocumentFile]:
    """A file to write documents to, which replaces `path` at the end of the `with` block, unless the block fails.

    field: the field for the text, in JSON lines. Raises OutputError.
    """
    check_format(path)
    with replace_file(path) as raw, compressing(raw, path) as file:
        yield DocumentFile(str(path), file, field)


def check_format(path: Path) -> None:
    """Raises OutputError if the format cannot be written; to be called before the work, not after it."""
    kind = FORMATS.get(text_suffix(str(path)))
    if kind in ("parquet", "table"):
        name = "CSV" if kind == "table" else "Parquet"
        raise OutputError(f"{path}: {name} can only be read; give it a name that ends in .jsonl or .jsonl.zst")


@contextmanager
def table_file(
    path: Path, example: Callable[[], Mapping[str, Any]] | None = None
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A function that writes a row, a dictionary from columns to values. The file replaces `path` at the end of the
    `with` block, unless the block fails.

    example: a row with the columns that a table of no rows has, asked for at the end where there are none.

    The first row names the columns of CSV, TSV and Parquet; a row without one of them has an empty cell. CSV and TSV
    write infinity as inf, true as TRUE, and lists as JSON, and JSON lines infinity as null. Raises OutputError, also
    where a row has a column that the first one lacks.
    """
    check_table_format(path)
    suffix = text_suffix(str(path))
    with replace_file(path) as raw, compressing(raw, path) as file:
        if FORMATS.get(suffix) == "json":
            yield lambda row: cast("None", file.write(_as_line(row)))
        elif suffix == ".parquet":
            with _parquet_rows(path, file, example) as write:
                yield write
        else:
            rows = _DelimitedRows(path, file, "," if suffix == ".csv" else "\t")
            yield rows.write
            if not rows.columns and example is not None:
                rows.write_header(example())


TABLES = (".csv", ".tsv", ".jsonl", ".parquet")


def check_table_format(path: Path) -> None:
    """Raises OutputError if no table can be written to a file of this name; to be called before the work."""
    suffix = text_suffix(str(path))
    if suffix == ".parquet":
        if path.suffix.lower() != suffix:
            raise OutputError(f"{path}: Parquet is compressed already; give it a name that ends in .parquet")
        pyarrow_for(str(path))
    elif suffix not in (*TABLES, ".ndjson"):
        raise OutputError(f"{path}: the name of a table ends in {', '.join(TABLES[:-1])} or {TABLES[-1]}")


def _as_line(row: Mapping[str, Any]) -> bytes:
    values = {name: finite(value) if isinstance(value, float) else value for name, value in row.items()}
    return json.dumps(values, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"


class _DelimitedRows:
    """Rows of CSV or TSV. columns: those of the header, once it is written."""

    def __init__(self, path: Path, file: BinaryIO, delimiter: str) -> None:
        self.columns: list[str] = []
        self._number = 0  # of the row
        self._path, self._file, self._line = path, file, io.StringIO()
        self._writer = csv.writer(self._line, delimiter=delimiter, lineterminator="\n")

    def write_header(self, row: Mapping[str, Any]) -> None:
        self.columns.extend(row)
        self._write(self.columns)

    def write(self, row: Mapping[str, Any]) -> None:
        """Raises OutputError."""
        if not self.columns:
            self.write_header(row)
        self._number += 1
        _check_columns(self._path, self._number, row, self.columns)
        self._write([_cell(row.get(name)) for name in self.columns])

    def _write(self, cells: Sequence[Any]) -> None:
        self._writer.writerow(cells)
        self._file.write(self._line.getvalue().encode("utf-8", "replace"))
        self._line.seek(0)
        self._line.truncate()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else value


def _check_columns(path: Path, number: int, row: Mapping[str, Any], columns: Collection[str]) -> None:
    """number: of the row, from 1. Raises OutputError."""
    other = next((name for name in row if name not in columns), None)
    if other is not None:
        raise OutputError(
            f"{path}: row {number:,} has the column {other!r}, which the first row lacks; give each record the "
            "same fields, or the file a name that ends in .jsonl"
        )


@contextmanager
def _parquet_rows(
    path: Path, file: BinaryIO, example: Callable[[], Mapping[str, Any]] | None
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    pyarrow, parquet = pyarrow_for(str(path))
    rows: list[Mapping[str, Any]] = []
    written = 0
    writer: Any = None

    def flush() -> None:
        nonlocal writer, written
        try:
            table = pyarrow.Table.from_pylist(rows, None if writer is None else writer.schema)
        except pyarrow.ArrowException as error:
            raise OutputError(
                f"{path}: a field has values of several types: {' '.join(str(error).split())}; give it one type, or "
                "the file a name that ends in .jsonl"
            ) from error
        writer = writer or parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)
        written += len(rows)
        rows.clear()

    def write(row: Mapping[str, Any]) -> None:
        if rows or writer is not None:
            _check_columns(path, written + len(rows) + 1, row, rows[0] if rows else writer.schema.names)
        rows.append(row)
        if len(rows) == _ROWS:
            flush()

    yield write
    if rows:
        flush()
    if writer is None and example is not None:
        columns = pyarrow.Table.from_pylist([example()]).schema
        writer = parquet.ParquetWriter(file, columns)
        writer.write_table(columns.empty_table())
    if writer is not None:
        writer.close()


_ROWS = 1 << 16  # of a Parquet file, written at a time
