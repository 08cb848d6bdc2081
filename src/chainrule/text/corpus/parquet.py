"""Parquet files as blocks, with the library pyarrow: a row is a record, and one column has the text."""

from __future__ import annotations

import hashlib
from itertools import count, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import TextError
from chainrule.text.corpus.plain_text import DOCUMENT_BYTES, invalid_utf8
from chainrule.text.corpus.records import Documents, suggest_fields
from chainrule.text.corpus.streams import EXPANSION, EXPANSION_BYTES, file_size, repair, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.reading import Reading

_ROWS = 1024  # decoded at a time
_BUFFER_BYTES = 1 << 20  # of a column, read at a time, instead of a whole row group


def parquet_blocks(name: str, reading: Reading, *, fields: bool = False) -> Iterator[tuple[Block, float]]:
    """Yield the rows of a file as records, in blocks, each with the share of rows read so far.

    fields: whether blocks keep the other columns, too. Raises TextError, also if pyarrow is not installed.
    """
    pyarrow, parquet = pyarrow_for(name)
    row, size = 1, 0
    try:
        with parquet.ParquetFile(name, buffer_size=_BUFFER_BYTES) as file:
            _check_column(name, file.schema_arrow, reading.text_field)
            rows = max(file.metadata.num_rows, 1)
            for batch in file.iter_batches(_ROWS, columns=None if fields else [reading.text_field], use_threads=False):
                values = batch.column(reading.text_field).cast(pyarrow.large_binary())
                size += values.nbytes
                _check_expansion(name, size)
                documents = Documents(name, "row", reading, fields=[] if fields else None)
                records = batch.to_pylist() if fields else repeat(None)
                for number, value, record in zip(count(row), values.to_pylist(), records, strict=False):
                    documents.add(_utf8(value, reading, documents, f"{name}, row {number}"), number, record)
                row += len(values)
                if block := documents.block():
                    yield block, (row - 1) / rows
    except OSError as error:
        raise unreadable(name, error) from error
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:  # the latter for a name in the file
        raise TextError(f"{name}: is not a whole Parquet file: {' '.join(str(error).split())}") from error


def parquet_digest(name: str) -> str:
    """Return the SHA-256 of the file. Raises TextError."""
    try:
        with open(name, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(name, error) from error


def pyarrow_for(name: str) -> tuple[Any, Any]:
    """Return the library and its part for Parquet. Raises TextError with the file's name if it is not installed."""
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
    """Refuse decompression bombs: a page of Parquet may repeat one string a million times."""
    if size > max(EXPANSION_BYTES, EXPANSION * file_size(name)):
        raise TextError(
            f"{name}: expands to more than {size:,} bytes of text, over {EXPANSION} times its own size, like a "
            "decompression bomb, so reading stopped; if that is intended, write it as plain text first"
        )


def _utf8(value: bytes | None, reading: Reading, documents: Documents, place: str) -> bytes:
    if value is None:
        raise TextError(f"{place}: the field {reading.text_field!r} is null, expected a string")
    if len(value) > DOCUMENT_BYTES:
        raise TextError(f"{place}: is longer than {DOCUMENT_BYTES:,} bytes, the most that a document may have")
    try:
        value.decode()
    except UnicodeDecodeError as error:
        text = np.frombuffer(value, np.uint8)
        if reading.encoding_errors == "strict":
            byte = f"byte 0x{value[error.start]:02x} at offset {error.start} of the field"
            raise invalid_utf8(text, f"{place}: {byte}") from error
        value, places = repair(text, reading.encoding_errors)
        documents.repaired += places
    return value
