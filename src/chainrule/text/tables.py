"""Records with named fields, from JSON lines, CSV and TSV: the examples of a task.

The first line of CSV and TSV names the fields; a TSV file of two columns without such a line has the fields text and
label.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.errors import TextError
from chainrule.text.corpus.csv_table import rows_of
from chainrule.text.corpus.plain_text import lines_of
from chainrule.text.corpus.reading import FORMATS, text_suffix
from chainrule.text.corpus.records import as_written, json_objects, raise_error

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from chainrule.text.corpus.records import OnBad

_DEFAULT_NAMES = ("text", "label")


class Record(NamedTuple):
    """The fields of an example as strings. location: file and line, for messages."""

    fields: Mapping[str, str]
    location: str = "an example"


def read_table(
    name: str | os.PathLike[str], needed: Collection[str], on_bad: OnBad = raise_error, *, has_header: bool = False
) -> list[Record]:
    """Read the records of a file.

    needed: fields that each must have. has_header: whether the first line of CSV and TSV always names the columns.
    on_bad: a callback that gets a TextError with file and line for each record that lacks one, which is left out.
    Raises TextError if there is no record.
    """
    name = os.fspath(name)
    records = []
    for record in _records(name, needed, on_bad, has_header=has_header):
        missing = next((field for field in needed if field not in record.fields), None)
        if missing is None:
            records.append(record)
        else:
            names = ", ".join(repr(field) for field in record.fields) or "none"
            on_bad(TextError(f"{record.location}: there is no field {missing!r}; the fields are {names}"))
    if not records:
        what = "row" if has_header else "example"
        raise TextError(f"{name}: there is no {what} in it; expected JSON lines, CSV or TSV with named fields")
    return records


def _records(name: str, needed: Collection[str], on_bad: OnBad, *, has_header: bool) -> Iterator[Record]:
    if FORMATS.get(text_suffix(name)) == "json":
        for location, record in json_objects(name, on_bad):
            bad = next((field for field in needed if field in record and not _is_text(record[field])), None)
            if bad is None:
                yield Record({field: _text(value) for field, value in record.items()}, location)
            else:
                on_bad(TextError(f"{location}: the field {bad!r} is {record[bad]!r}; expected a string or a number"))
        return
    rows = table_rows(name, is_csv=text_suffix(name) == ".csv")
    names: list[str] | None = None
    for location, row in rows:
        if names is None:
            is_header = has_header or bool(set(row) & set(needed))
            missing = next((field for field in needed if has_header and field not in row), None)
            if missing is not None:
                raise TextError(f"{name}: has no column {missing!r}; it has {', '.join(row)}")
            twice = next((name for i, name in enumerate(row) if is_header and name in row[:i]), None)
            if twice is not None:
                raise TextError(f"{location}: two columns are called {twice!r}; give each its own name")
            names = row if is_header else list(_DEFAULT_NAMES)
            if not is_header and len(row) != len(names):
                raise TextError(
                    f"{location}: found {len(row)} columns, none of them called {' or '.join(map(repr, needed))}; "
                    "expected a first line that names the columns, or two columns, text and label"
                )
            if is_header:
                continue
        if len(row) != len(names):
            on_bad(TextError(f"{location}: found {len(row)} columns; expected {len(names)}: {', '.join(names)}"))
            continue
        yield Record(dict(zip(names, row, strict=True)), location)


def table_rows(name: str, *, is_csv: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield the columns of each line that is not empty, with its location. Raises TextError."""
    if not is_csv:
        for number, line in enumerate(lines_of(name), 1):
            if line.strip():
                yield f"{name}, line {number}", [column.strip() for column in line.rstrip("\r").split("\t")]
        return
    for row in rows_of(name):
        yield f"{name}, line {row.line}", row.cells


def _is_text(value: Any) -> bool:
    return isinstance(value, str | bool) or (isinstance(value, int | float) and math.isfinite(value))


def _text(value: Any) -> str:
    """Return a string unchanged; any other value as in the file."""
    value = as_written(value)
    return value if isinstance(value, str) else ("" if value is None else str(value))
