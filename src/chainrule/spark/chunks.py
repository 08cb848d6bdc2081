"""Arrays on their way to the driver, in chunks: Spark puts a whole partition of rows into Java's memory at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.spark.rows import ROW_BYTES, rows_at_driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jaxtyping import UInt8
    from numpy import ndarray
    from pyspark.sql import DataFrame

CHUNKS = "part long, name string, kind string, start long, size long, data binary"
_PARTITION_BYTES = 1 << 23  # on average


class Chunk(NamedTuple):
    """A row of CHUNKS: the bytes from `start` on of `size` bytes, which are called so in this part."""

    part: int
    name: str
    kind: str
    start: int
    size: int
    data: bytes


def chunks_of(part: int, name: str, kind: str, data: UInt8[ndarray, " bytes"]) -> Iterator[Chunk]:
    """The chunks of some bytes; one if there are none."""
    for start in range(0, max(1, data.size), ROW_BYTES):
        yield Chunk(part, name, kind, start, data.size, data[start : start + ROW_BYTES].tobytes())


def gather_chunks(
    rows: DataFrame, size: int, room_for: Callable[[int], UInt8[ndarray, " bytes"]], on_chunk: Callable[[int], None]
) -> dict[tuple[int, str], tuple[str, UInt8[ndarray, " bytes"]]]:
    """By part and name, the kind and the bytes of all chunks.

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
