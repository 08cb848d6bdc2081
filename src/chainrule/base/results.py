"""Results of verbs, which show themselves: as text, as JSON, which has no infinity and no NaN, and as rows of a table.

The shell prints a result, writes it as JSON or writes its rows to a file, and knows nothing else of it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Result(Protocol):
    """The result of a verb, or one of those that it gives one after another.

    `str` of it is what a person reads.
    """

    def as_json(self) -> Any:
        """Return the result for programs: one line of JSON. Infinities and NaN are None."""

    def to_records(self) -> Iterable[Mapping[str, Any]]:
        """Return the rows of a table; none where the result is no part of one."""


@runtime_checkable
class Noted(Protocol):
    """A result that has more to say than belongs into its table."""

    def notes(self) -> Iterable[str]:
        """Return notes for standard error: what was left out, or what to beware of."""


@runtime_checkable
class Itemised(Protocol):
    """A result whose table has a row for each of many items, and whose text has the figures over all of them: who asks
    for the table gets the text, too.
    """

    row_of: ClassVar[str]  # what a row is of


class Shown(NamedTuple):
    """A result whose forms are known already."""

    text: str
    json: Any
    records: Sequence[Mapping[str, Any]] = ()

    def __str__(self) -> str:
        return self.text

    def as_json(self) -> Any:
        return self.json

    def to_records(self) -> Sequence[Mapping[str, Any]]:
        return self.records


def row(text: str, record: Mapping[str, Any]) -> Shown:
    """Return a result that is one row of a table: a line of text, an object of JSON, a record."""
    return Shown(text, record, [record])


def table(text: str, records: Sequence[Mapping[str, Any]]) -> Shown:
    """Return a result that is several rows, shown together: an aligned table, a list of JSON objects, the records."""
    return Shown(text, records, records)


def finite(number: float) -> float | None:
    """Return the number, or None (null in JSON) where it is infinite or NaN."""
    return number if math.isfinite(number) else None


def named_figures(result: object, names: Iterable[str]) -> dict[str, Any]:
    """Return fields and properties of a result, by name."""
    return {name: getattr(result, name) for name in names}


def finite_figures(value: Any) -> Any:
    """Return a value for JSON, or several in dictionaries, lists and tuples, with each number passed through
    `finite`.
    """
    if isinstance(value, dict):
        return {name: finite_figures(own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [finite_figures(own) for own in value]
    return finite(value) if isinstance(value, float) else value
