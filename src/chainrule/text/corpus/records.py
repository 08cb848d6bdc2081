"""Reads the records of a file: JSON lines, CSV, TSV or Parquet, compressed or not. Each has named fields.

The first line of CSV and TSV names the columns, unless the reader of such records knows them. A file whose name does
not say what it holds is JSON lines if it begins with a brace, and else TSV.
"""

from __future__ import annotations

import json
import math
import os
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from chainrule.base.progress import Progress, silent
from chainrule.base.tables import count_of
from chainrule.errors import TextError
from chainrule.text.corpus.csv_table import rows_by_block
from chainrule.text.corpus.plain_text import line_blocks
from chainrule.text.corpus.reading import FORMATS, UTF_8, suggest_fields, text_suffix
from chainrule.text.corpus.streams import open_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.reading import EncodingErrors, Format
    from chainrule.text.corpus.streams import ByteStream

    # Called for a record that cannot be read: raises the error, or notes it, and the record is left out.
    OnBad = Callable[[TextError], None]
    # The cells of the first row of CSV or TSV, and its place -> the names of the columns, and whether it is no record.
    Header = Callable[[Sequence[str], str], tuple[Sequence[str], bool]]

Item = TypeVar("Item")
_JSON = json.JSONDecoder()
_ANY_NUMBERS = json.JSONDecoder(parse_int=float)  # Python's integers refuse numbers of more than 4300 digits


class Record(NamedTuple):
    """The fields of a record; its file and line, for messages; the line's number; and the record as it is in the file.

    written: empty for Parquet.
    """

    fields: Mapping[str, Any]
    location: str = "an example"
    number: int = 0
    written: str = ""


def raise_error(error: TextError) -> None:
    """Raise the error, as an `OnBad`."""
    raise error


def bad_record(record: Record, reason: str) -> TextError:
    """The error for a record."""
    error = TextError(f"{record.location}: {reason}")
    error.record = record
    return error


def always_named(cells: Sequence[str], place: str) -> tuple[Sequence[str], bool]:
    """A `Header` of tables whose first row always names the columns."""
    return cells, True


def read_records(
    name: str, on_bad: OnBad = raise_error, header: Header = always_named, *, encoding: str = UTF_8
) -> Iterator[Record]:
    """The records of a file; - is standard input. Raises TextError where the file as a whole cannot be read.

    on_bad: a callback that gets a TextError with file and line for each record that is left out: a line that is no
    JSON object, a row with more or fewer cells than columns.
    """
    if text_suffix(name) == ".parquet":
        from chainrule.text.corpus.parquet import parquet_rows

        rows = chain.from_iterable(rows for rows, _ in parquet_rows(name))
        yield from (Record(fields, f"{name}, row {number}", number) for number, fields in enumerate(rows, 1))
        return
    kinds: dict[str, Format] = {**FORMATS, ".json": "json", ".tsv": "table"}
    with open_stream(name, encoding) as stream:
        for records, _ in stream_records(stream, kinds.get(text_suffix(name)), on_bad, header):
            yield from records


def items_of(records: Iterable[Record], read: Callable[[Record], Item], on_bad: OnBad) -> Iterator[Item]:
    """What `read` makes of each record; the TextErrors that it raises go to `on_bad`."""
    for record in records:
        try:
            item = read(record)
        except TextError as error:
            if error.record is None:
                reason = str(error)
                error = error if reason.startswith(record.location) else bad_record(record, reason)
                error.record = record
            on_bad(error)
        else:
            yield item


def read_items(
    name: str,
    read: Callable[[Record], Item],
    what: str,
    on_bad: OnBad = raise_error,
    header: Header = always_named,
    *,
    expected: str = "",
    encoding: str = UTF_8,
    progress: Progress = silent,
    task: str = "reading",
) -> list[Item]:
    """What `read` makes of the records of a file. Raises TextError where there is none, or the file cannot be read.

    what: the name of an item, and expected: what it looks like, for the message. on_bad: gets the errors of `read`,
    too. progress: a callback for `task`, of a `read` that takes long.
    """
    first: list[TextError] = []

    def note(error: TextError) -> None:
        if not first:
            first.append(error)
        on_bad(error)

    def counted(records: Sequence[Record]) -> Iterator[Record]:
        for i, record in enumerate(records):
            progress(task, i, len(records))
            yield record

    records = read_records(name, note, header, encoding=encoding)
    items = list(items_of(records if progress is silent else counted([*records]), read, note))
    if not items:
        why = f" that can be read; {first[0]}" if first else f"; expected {expected}" if expected else ""
        raise TextError(f"{name}: there is no {what} in it{why}")
    return items


def read_table(
    name: str | os.PathLike[str], needed: Collection[str], on_bad: OnBad = raise_error, *, has_header: bool = False
) -> list[Record]:
    """The records of a file, their fields as strings without space at the ends. needed: fields that each must have.

    has_header: whether the first line of CSV and TSV always names the columns; otherwise, a table of two columns of
    which none has the name of a needed field has the columns text and label. Raises TextError if there is no record.
    """

    def header(cells: Sequence[str], place: str) -> tuple[Sequence[str], bool]:
        if has_header or set(cells) & set(needed):
            return cells, True
        if len(cells) == 2:
            return ("text", "label"), False
        raise TextError(
            f"{place}: found {len(cells)} columns, none of them called {' or '.join(map(repr, needed))}; expected a "
            "first line that names the columns, or two columns, text and label"
        )

    def read(record: Record) -> Record:
        for field in needed:
            value = read_field(record.fields, field)
            if not (isinstance(value, str | bool) or (isinstance(value, int | float) and math.isfinite(value))):
                raise TextError(f"the field {field!r} is {value!r}; expected a string or a number")
        return record._replace(fields={field: _text(value) for field, value in record.fields.items()})

    what, expected = "row" if has_header else "example", "JSON lines, CSV, TSV or Parquet with named fields"
    return read_items(os.fspath(name), read, what, on_bad, header, expected=expected)


def stream_records(
    stream: ByteStream,
    kind: Format | None,
    on_bad: OnBad,
    header: Header = always_named,
    *,
    rule: EncodingErrors = "strict",
    wait: bool = True,
) -> Iterator[tuple[list[Record], int]]:
    """The records of JSON lines or a table, a block at a time, and the repairs of each block.

    kind: None if the first line says it. on_bad, header: as for `read_records`. rule, wait: as for `line_blocks`.
    """
    blocks = line_blocks(stream, rule, wait=wait)
    if kind is None:
        first = next(blocks, None)
        blocks = chain([] if first is None else [first], blocks)
        kind = "json" if first is not None and first.text.tobytes().lstrip().startswith(b"{") else "table"
    if kind == "json":
        for block in blocks:
            yield list(_json_records(block, on_bad)), block.repaired
        return
    names: list[str] = []
    for rows, repaired in rows_by_block(stream.name, blocks):
        records = []
        for row in rows:
            place = f"{stream.name}, line {row.line}"
            if not names:
                given, is_header = header([cell.strip() for cell in row.cells], place)
                names = list(given)
                _check_names(names, place)
                if is_header:
                    continue
            record = Record(dict(zip(names, row.cells, strict=False)), place, row.line, row.written)
            if len(row.cells) == len(names):
                records.append(record)
            else:
                columns = count_of(len(row.cells), "column")
                on_bad(bad_record(record, f"found {columns}; expected {len(names)}: {', '.join(names)}"))
        yield records, repaired


def _json_records(block: Block, on_bad: OnBad) -> Iterator[Record]:
    for number, line in enumerate(block.text.tobytes().split(b"\n")[:-1], block.first):
        if not line or line.isspace():
            continue
        place, written = f"{block.source}, line {number}", line.decode()
        try:
            yield Record(_json_object(written), place, number, written)
        except TextError as error:
            on_bad(bad_record(Record({}, place, number, written), str(error)))


def _json_object(line: str) -> dict[str, Any]:
    """Raises TextError."""
    try:
        try:
            record: Any = _JSON.decode(line)
        except json.JSONDecodeError as error:
            raise TextError(
                f"is not JSON: {error.msg.removesuffix(' at')} at column {error.colno}; expected one object a "
                "line: the file is damaged, cut short, or not JSON lines"
            ) from error
        except ValueError:
            record = _ANY_NUMBERS.decode(line)
    except RecursionError as error:
        raise TextError("is JSON nested too deeply to be read; expected an object with few levels") from error
    if not isinstance(record, dict):
        raise TextError(f"found {kind_of_value(record)}, expected a JSON object")
    return record


def kind_of_value(value: Any) -> str:
    """The kind of a JSON value, for messages."""
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _check_names(names: Sequence[str], place: str) -> None:
    """Raises TextError where two columns have one name."""
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise TextError(f"{place}: two columns are called {twice!r}; give each its own name")


def read_field(fields: Mapping[str, Any], field: str, place: str = "") -> Any:
    """The value of a field, as written in the file. Raises TextError if there is no such field.

    place: of the record, for the message; `items_of` adds it where it is not given.
    """
    if field not in fields:
        raise TextError(f"{place}{': ' * bool(place)}there is no field {field!r}; {suggest_fields(fields, '')}")
    return as_written(fields[field])


def as_written(value: Any) -> Any:
    """2 for 2.0, so that a label is the same in all files; any other value as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _text(value: Any) -> str:
    value = as_written(value)
    return "" if value is None else str(value).strip()
