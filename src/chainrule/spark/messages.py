"""What ranges of words send to each other: messages of any size, in rows of a quarter of a megabyte.

Spark holds a row as a whole in Java's memory, several times: as it comes from Python, where rows are sorted, and where
they are written to disk. The n-grams that begin with a comma alone would be rows of a hundred megabytes.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from chainrule.spark.rows import ROW_BYTES, batches_of, groups_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from pyarrow import RecordBatch

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
    """Batches of MESSAGES. No two messages have the same part, kind, level and source."""

    def rows() -> Iterator[tuple[Any, ...]]:
        for *key, data in messages:
            for start in range(0, max(1, len(data)), ROW_BYTES):
                yield *key, start, bytes(data[start : start + ROW_BYTES])

    return batches_of(MESSAGES, rows())


def messages_by_part(batches: Iterable[RecordBatch]) -> Iterator[tuple[int, dict[str, list[Message]]]]:
    """Each part, and the messages to it by their kind. batches: of MESSAGES, in the order of SORTED_BY."""
    for part, rows in groups_of(batches):
        by_kind: dict[str, list[Message]] = defaultdict(list)
        for message in messages_of(rows):
            by_kind[message.kind].append(message)
        yield part, by_kind


def messages_of(rows: Iterable[Sequence[Any]]) -> Iterator[Message]:
    """Messages, put together from rows in the order of SORTED_BY."""
    for (part, kind, level, source), pieces in itertools.groupby(rows, key=lambda row: tuple(row[:4])):
        yield Message(part, kind, level, source, bytearray().join(piece[5] for piece in pieces))
