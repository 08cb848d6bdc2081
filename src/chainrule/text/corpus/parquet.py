"""Parquet files, with the library pyarrow: a row is a record, and one column may have the text."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from itertools import count, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import TextError
from chainrule.text.corpus.plain_text import DOCUMENT_BYTES, invalid_utf8
from chainrule.text.corpus.record_blocks import Documents
from chainrule.text.corpus.records import Record, bad_record, suggest_fields
from chainrule.text.corpus.streams import EXPANSION, EXPANSION_BYTES, file_size, repair, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.reading import Reading
    from chainrule.text.corpus.records import OnBad

_ROWS = 1024  # decoded at a time
_BUFFER_BYTES = 1 << 20  # of a column, read at a time, instead of a whole row group


def parquet_blocks(
    name: str, reading: Reading, on_bad: OnBad, *, fields: bool = False
) -> Iterator[tuple[Block, float]]:
    """The rows of a file as records, in blocks, each with the share of rows read so far.

    on_bad: as for `record_blocks`. fields: whether blocks keep the other columns, too. Raises TextError, also if
    pyarrow is not installed.
    """
    field, row, size = reading.text_field, 1, 0
    pyarrow, _ = pyarrow_for(name)
    with _opened(name) as file:
        _check_column(name, file.schema_arrow, field)
        rows = max(file.metadata.num_rows, 1)
        for batch in file.iter_batches(_ROWS, columns=None if fields else [field], use_threads=False):
            values = batch.column(field).cast(pyarrow.large_binary())
            size += values.nbytes
            _check_expansion(name, size)
            documents = Documents(name, "row", reading, fields=[] if fields else None)
            records = batch.to_pylist() if fields else repeat({})
            for number, value, record in zip(count(row), values.to_pylist(), records, strict=False):
                place = f"{name}, row {number}"
                try:
                    text = _utf8(value, reading, documents)
                except TextError as error:
                    on_bad(bad_record(Record(record, place, number), str(error)))
                else:
                    documents.add(text, number, record)
            row += len(values)
            if block := documents.block():
                yield block, (row - 1) / rows


def parquet_records(name: str) -> Iterator[Record]:
    """The rows of a file. Raises TextError, also if pyarrow is not installed."""
    number = size = 0
    with _opened(name) as file:
        for batch in file.iter_batches(_ROWS, use_threads=False):
            size += batch.nbytes
            _check_expansion(name, size)
            for fields in batch.to_pylist():
                number += 1
                yield Record(fields, f"{name}, row {number}", number)


@contextmanager
def _opened(name: str) -> Iterator[Any]:
    """An open file. Raises TextError where it, or what is read of it, is not Parquet."""
    pyarrow, parquet = pyarrow_for(name)
    try:
        with parquet.ParquetFile(name, buffer_size=_BUFFER_BYTES) as file:
            yield file
    except OSError as error:
        raise unreadable(name, error) from error
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:  # the latter for a name in the file
        raise TextError(f"{name}: is not a whole Parquet file: {' '.join(str(error).split())}") from error


def parquet_digest(name: str) -> str:
    """The SHA-256 of the file. Raises TextError."""
    try:
        with open(name, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(name, error) from error


def pyarrow_for(name: str) -> tuple[Any, Any]:
    """The library and its part for Parquet. Raises TextError with the file's name if it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise TextError(
            f"{name}: Parquet needs the library pyarrow; install it with: pip install 'chainrule[parquet]'"
        ) from error
    return pyarrow, pyarrow.parquet


def _check_column(name: str, schema: Any, field: str) -> None:
    import pyarrow

    if schema.names.count(field) != 1:
        raise TextError(f"{name}: there is no column {field!r}; {suggest_fields(schema.names)}")
    kind = schema.field(field).type
    kind = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    tests = (pyarrow.types.is_string, pyarrow.types.is_large_string, pyarrow.types.is_binary)
    if not any(test(kind) for test in tests):
        raise TextError(f"{name}: the column {field!r} has type {kind}; expected strings; name another with field=...")


def _check_expansion(name: str, size: int) -> None:
    """Refuses decompression bombs: a page of Parquet may repeat one string a million times."""
    if size > max(EXPANSION_BYTES, EXPANSION * file_size(name)):
        raise TextError(
            f"{name}: expands to more than {size:,} bytes of text, over {EXPANSION} times its own size, like a "
            "decompression bomb, so reading stopped; if that is intended, write it as plain text first"
        )


def _utf8(value: bytes | None, reading: Reading, documents: Documents) -> bytes:
    """Raises TextError, which does not name the row."""
    if value is None:
        raise TextError(f"the field {reading.text_field!r} is null, expected a string")
    if len(value) > DOCUMENT_BYTES:
        raise TextError(f"is longer than {DOCUMENT_BYTES:,} bytes, the most that a document may have")
    try:
        value.decode()
    except UnicodeDecodeError as error:
        text = np.frombuffer(value, np.uint8)
        if reading.encoding_errors == "strict":
            raise invalid_utf8(text, f"byte 0x{value[error.start]:02x} at offset {error.start} of the field") from error
        value, places = repair(text, reading.encoding_errors)
        documents.repaired += places
    return value
