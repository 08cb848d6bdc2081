"""The rows of Parquet files, with the library pyarrow."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from chainrule.errors import TextError, installing
from chainrule.text.corpus.reading import suggest_fields
from chainrule.text.corpus.streams import EXPANSION, EXPANSION_BYTES, file_size, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROWS = 1024  # decoded at a time
_BUFFER_BYTES = 1 << 20  # of a column, read at a time, instead of a whole row group


def parquet_rows(
    name: str, field: str | None = None, *, whole: bool = True
) -> Iterator[tuple[list[dict[str, Any]], float]]:
    """Some rows at a time, by the names of columns, and the share of rows read so far.

    field: a column of strings, which are given as bytes, perhaps not UTF-8; without `whole`, the others are not read.
    Raises TextError, also if pyarrow is not installed.
    """
    pyarrow, parquet = pyarrow_for(name)
    done = size = 0
    try:
        with parquet.ParquetFile(name, buffer_size=_BUFFER_BYTES) as file:
            if field is not None:
                _check_column(name, file.schema_arrow, field)
            rows = max(file.metadata.num_rows, 1)
            for batch in file.iter_batches(_ROWS, columns=None if whole else [field], use_threads=False):
                size += batch.nbytes
                done += batch.num_rows
                _check_expansion(name, size)
                table = pyarrow.Table.from_batches([batch])
                if field is not None:
                    values = table.column(field).cast(pyarrow.large_binary())
                    table = table.set_column(table.schema.get_field_index(field), field, values)
                yield table.to_pylist(), done / rows
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
            f"{name}: Parquet needs the library pyarrow; install it with: {installing('parquet')}"
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
