"""A data frame as Spark has them, in this process: what is done with one can be tested without Java."""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

from chainrule.features.spark.transport import batch_of, rows_of

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence

    from pyarrow import RecordBatch


class Frame:
    """Rows in partitions. Spark keeps no order of rows, and repeats tasks: so does this."""

    def __init__(self, schema: str, partitions: Sequence[Sequence[tuple[Any, ...]]], chance: random.Random) -> None:
        self.schema, self.partitions, self.chance = schema, [list(rows) for rows in partitions], chance
        self.columns = [field.split()[0] for field in schema.split(", ")]
        self.row = namedtuple("Row", self.columns)  # type: ignore[misc]

    def repartition(self, number: int, *columns: str) -> Frame:
        """Rows with equal values come together, in any order."""
        partitions: list[list[tuple[Any, ...]]] = [[] for _ in range(number)]
        places = [self.columns.index(column) for column in columns]
        salt = self.chance.random()
        for row in self.rows():
            partitions[hash((salt, *(row[place] for place in places))) % number].append(row)
        for rows in partitions:
            self.chance.shuffle(rows)
        return Frame(self.schema, partitions, self.chance)

    def sortWithinPartitions(self, *columns: str) -> Frame:
        places = [self.columns.index(column) for column in columns]
        ordered = [sorted(rows, key=lambda row: [row[place] for place in places]) for rows in self.partitions]
        return Frame(self.schema, ordered, self.chance)

    def mapInArrow(self, work: Callable[..., Iterator[RecordBatch]], schema: str) -> Frame:
        """Each task is done twice, with its rows in other batches, and must give the same."""
        partitions = []
        for rows in self.partitions:
            first, again = (list(rows_of(work(iter(self._batches(rows))))) for _ in range(2))
            assert first == again
            partitions.append(again)
        return Frame(schema, partitions, self.chance)

    def where(self, condition: str) -> Frame:
        code = compile(condition.replace(" = ", " == "), "condition", "eval")
        kept = [[row for row in rows if eval(code, self.row(*row)._asdict())] for rows in self.partitions]
        return Frame(self.schema, kept, self.chance)

    def select(self, column: str) -> Frame:
        place = self.columns.index(column)
        rows = [[(row[place],) for row in rows] for rows in self.partitions]
        return Frame(self.schema.split(", ")[place], rows, self.chance)

    def union(self, other: Frame) -> Frame:
        return Frame(self.schema, self.partitions + other.partitions, self.chance)

    def persist(self, level: object) -> Frame:
        return self

    def unpersist(self) -> None:
        pass

    def count(self) -> int:
        return len(self.rows())

    def take(self, number: int) -> list[Any]:
        return self.collect()[:number]

    def collect(self) -> list[Any]:
        return [self.row(*row) for row in self.rows()]

    @property
    def rdd(self) -> Frame:
        return self

    def toLocalIterator(self) -> Iterator[Any]:
        return iter(self.collect())

    def rows(self) -> list[tuple[Any, ...]]:
        return [row for rows in self.partitions for row in rows]

    def _batches(self, rows: list[tuple[Any, ...]]) -> Iterator[RecordBatch]:
        while rows:
            size = self.chance.randint(1, 5)
            yield batch_of(self.schema, *rows[:size])
            rows = rows[size:]
