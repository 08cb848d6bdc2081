"""Rows that tasks send to each other, in Arrow batches."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyarrow import RecordBatch

ROW_BYTES = 1 << 18  # of what can be cut; Java keeps an array above half a megabyte in a region of its own
_BATCH_BYTES = 1 << 24
_TYPES: dict[str, Callable[[], Any]] = {
    "long": pa.int64,
    "binary": pa.binary,
    "string": pa.string,
    "double": pa.float64,
}


def batch_of(schema: str, *rows: tuple[Any, ...]) -> RecordBatch:
    """A batch of rows. schema: as Spark writes it."""
    fields = [field.split() for field in schema.split(", ")]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, _TYPES[kind]()) for (_, kind), column in zip(fields, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in fields])


def batches_of(schema: str, rows: Iterable[tuple[Any, ...]]) -> Iterator[RecordBatch]:
    """Rows in batches of some megabytes, since each batch costs time, and small rows are many."""
    waiting: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        waiting.append(row)
        size += sum(len(value) for value in row if isinstance(value, bytes))
        if size > _BATCH_BYTES:
            yield batch_of(schema, *waiting)
            waiting, size = [], 0
    if waiting:
        yield batch_of(schema, *waiting)


def rows_of(batches: Iterable[RecordBatch]) -> Iterator[tuple[Any, ...]]:
    """The rows of batches, as tuples."""
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def groups_of(batches: Iterable[RecordBatch]) -> Iterator[tuple[int, Iterator[tuple[Any, ...]]]]:
    """Rows that follow one another and have the same first value, and that value."""
    return itertools.groupby(rows_of(batches), key=lambda row: row[0])
