"""Rows that tasks send to each other, in Arrow batches, and those that come to the driver."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame, Row

ROW_BYTES = 1 << 18  # of what can be cut; Java keeps an array above half a megabyte in a region of its own
_BATCH_BYTES = 1 << 24
_TYPES = {"long": "int64", "binary": "binary", "string": "string", "double": "float64"}


def batch_of(schema: str, *rows: tuple[Any, ...]) -> RecordBatch:
    """A batch of rows. schema: as Spark writes it."""
    import pyarrow as pa  # not at the top: the driver says it if this is missing

    fields = [field.split() for field in schema.split(", ")]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, _TYPES[kind]) for (_, kind), column in zip(fields, columns, strict=True)]
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


def rows_at_driver(frame: DataFrame) -> Iterator[Row]:
    """The rows of a data frame, a partition of which is in Java's memory at a time.

    The iterator is that of the RDD: all that a data frame's own has returned stays in the memory of Spark 4.3, where
    its scheduler keeps the jobs of a query (DAGScheduler.activeQueryToJobs) that is over before they begin.
    """
    rows: Iterator[Row] = frame.rdd.toLocalIterator()
    return rows


def groups_of(batches: Iterable[RecordBatch]) -> Iterator[tuple[int, Iterator[tuple[Any, ...]]]]:
    """Rows that follow one another and have the same first value, and that value."""
    return itertools.groupby(rows_of(batches), key=lambda row: row[0])
