"""Arrays, rows and messages on their way between Spark's tasks, and from tasks to the driver.

Rows go in Arrow batches, arrays as bytes, which Spark moves without looking into them. Spark holds a row as a whole in
Java's memory, several times: as it comes from Python, where rows are sorted, and where they are written to disk. The
n-grams that begin with a comma alone would be rows of a hundred megabytes. So messages between ranges of words, of any
size, are cut into rows of a quarter of a megabyte. It also puts a whole partition of rows into Java's memory at a time,
so arrays come to the driver in chunks.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from chainrule.base.threads import set_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jaxtyping import UInt8
    from numpy import ndarray
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame, Row

P = ParamSpec("P")
R = TypeVar("R")

ROW_BYTES = 1 << 18  # of what can be cut; Java keeps an array above half a megabyte in a region of its own
_BATCH_BYTES = 1 << 24
_TYPES = {"long": "int64", "binary": "binary", "string": "string", "double": "float64"}


def batch_of(schema: str, *rows: tuple[Any, ...]) -> RecordBatch:
    """Return a batch of rows. schema: as Spark writes it."""
    import pyarrow as pa  # not at the top: the driver says it if this is missing

    fields = [field.split() for field in schema.split(", ")]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, _TYPES[kind]) for (_, kind), column in zip(fields, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in fields])


def batches_of(schema: str, rows: Iterable[tuple[Any, ...]]) -> Iterator[RecordBatch]:
    """Yield rows in batches of some megabytes, since each batch costs time, and small rows are many."""
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


def task(
    batched: Callable[[Iterable[R]], Iterator[RecordBatch]],
) -> Callable[[Callable[P, Iterator[R]]], Callable[P, Iterator[RecordBatch]]]:
    """Return a decorator for the work of a task, which gives rows: they go in batches, and kernels run on one thread.

    Spark runs a task on each core.
    """

    def decorate(work: Callable[P, Iterator[R]]) -> Callable[P, Iterator[RecordBatch]]:
        @wraps(work)
        def on_one_thread(*args: P.args, **kwargs: P.kwargs) -> Iterator[RecordBatch]:
            set_threads(1)
            return batched(work(*args, **kwargs))

        return on_one_thread

    return decorate


def rows_of(batches: Iterable[RecordBatch]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of batches, as tuples."""
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def rows_at_driver(frame: DataFrame) -> Iterator[Row]:
    """Return the rows of a data frame, a partition of which is in Java's memory at a time.

    The iterator is that of the RDD: all that a data frame's own has returned stays in the memory of Spark 4.3, where
    its scheduler keeps the jobs of a query (DAGScheduler.activeQueryToJobs) that is over before they begin.
    """
    rows: Iterator[Row] = frame.rdd.toLocalIterator()
    return rows


def groups_of(batches: Iterable[RecordBatch]) -> Iterator[tuple[int, Iterator[tuple[Any, ...]]]]:
    """Return rows that follow one another and have the same first value, and that value."""
    return itertools.groupby(rows_of(batches), key=lambda row: row[0])


CHUNKS = "part long, name string, kind string, start long, size long, data binary"
_PARTITION_BYTES = 1 << 23  # on average


class Chunk(NamedTuple):
    """A row of CHUNKS: the bytes from `start` on, of `size` bytes in all, that have this name in this part."""

    part: int
    name: str
    kind: str
    start: int
    size: int
    data: bytes


def chunks_of(part: int, name: str, kind: str, data: UInt8[ndarray, " bytes"]) -> Iterator[Chunk]:
    """Yield the chunks of some bytes; one if there are none."""
    for start in range(0, max(1, data.size), ROW_BYTES):
        yield Chunk(part, name, kind, start, data.size, data[start : start + ROW_BYTES].tobytes())


def gather_chunks(
    rows: DataFrame, size: int, room_for: Callable[[int], UInt8[ndarray, " bytes"]], on_chunk: Callable[[int], None]
) -> dict[tuple[int, str], tuple[str, UInt8[ndarray, " bytes"]]]:
    """Return, by part and name, the kind and the bytes of all chunks.

    rows: of CHUNKS. size: about how many bytes they have. room_for: makes an array of so many bytes. on_chunk: called
    after each chunk with the bytes that came until then.
    """
    gathered: dict[tuple[int, str], tuple[str, UInt8[ndarray, " bytes"]]] = {}
    total = 0
    for row in rows_at_driver(rows.repartition(1 + size // _PARTITION_BYTES, "part", "name", "start")):
        key = row.part, row.name
        if key not in gathered:
            gathered[key] = row.kind, room_for(row.size)
        gathered[key][1][row.start : row.start + len(row.data)] = np.frombuffer(row.data, np.uint8)
        total += len(row.data)
        on_chunk(total)
    return gathered


MESSAGES = "part long, kind string, level long, source long, start long, data binary"
SORTED_BY = "part", "kind", "level", "source", "start"


class Message(NamedTuple):
    """To the range `part`. level: an order, or 0. source: the range that it comes from.

    Of every kind, `data` holds arrays:
    counts      of a range, its own: at level 0 a section and the places of suffixes, later `LevelCounts` and places
    suffixes    which n-grams of the receiver the source's n-grams end in: at level 0 as a section, later as places
    lower       their probabilities, from the source
    summary     a `RangeSummary`
    backoffs    of the words of a range
    estimates   of the n-grams of an order: log-probabilities, and the back-offs of their contexts
    piece       to a shard: estimates of all orders; the source is their first word
    error       a message about a text
    """

    part: int
    kind: str
    level: int
    source: int
    data: bytes | bytearray


def message_batches(messages: Iterable[Message]) -> Iterator[RecordBatch]:
    """Return batches of MESSAGES. No two messages have the same part, kind, level and source."""

    def rows() -> Iterator[tuple[Any, ...]]:
        for *key, data in messages:
            for start in range(0, max(1, len(data)), ROW_BYTES):
                yield *key, start, bytes(data[start : start + ROW_BYTES])

    return batches_of(MESSAGES, rows())


def messages_by_part(batches: Iterable[RecordBatch]) -> Iterator[tuple[int, dict[str, list[Message]]]]:
    """Yield each part, and the messages to it by their kind. batches: of MESSAGES, in the order of SORTED_BY."""
    for part, rows in groups_of(batches):
        by_kind: dict[str, list[Message]] = defaultdict(list)
        for message in messages_of(rows):
            by_kind[message.kind].append(message)
        yield part, by_kind


def messages_of(rows: Iterable[Sequence[Any]]) -> Iterator[Message]:
    """Yield messages, put together from rows in the order of SORTED_BY."""
    for (part, kind, level, source), pieces in itertools.groupby(rows, key=lambda row: tuple(row[:4])):
        yield Message(part, kind, level, source, bytearray().join(piece[5] for piece in pieces))


_KINDS = [np.dtype(kind) for kind in (np.int32, np.int64, np.float32, np.float64)]


def pack(*arrays: ndarray[Any, Any]) -> bytes:
    """Return arrays of one dimension as bytes: how many there are, the kind and the size of each, and their numbers."""
    header = [len(arrays), *(number for array in arrays for number in (_KINDS.index(array.dtype), array.size))]
    return b"".join(np.ascontiguousarray(array).data for array in [np.array(header, np.int64), *arrays])


def unpack(data: bytes | bytearray) -> list[ndarray[Any, Any]]:
    """Return the arrays that `pack` packed; they can be written to, and lie in `data` where that can."""
    room = data if isinstance(data, bytearray) else bytearray(data)
    (number,) = np.frombuffer(room, np.int64, 1).tolist()
    header = np.frombuffer(room, np.int64, 2 * number, 8).tolist()
    arrays, place = [], 8 * (1 + 2 * number)
    for kind, size in zip(header[::2], header[1::2], strict=True):
        arrays.append(np.frombuffer(room, _KINDS[kind], size, place))
        place += arrays[-1].nbytes
    return arrays
