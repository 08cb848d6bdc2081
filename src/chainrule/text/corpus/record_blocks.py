"""The texts of records as blocks: each record, or each line of its text, is a document. Other fields beside them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import TextError
from chainrule.text.corpus.block import LINE_FEED, NEVER_IN_UTF8, Block, byte_array
from chainrule.text.corpus.parquet import parquet_rows
from chainrule.text.corpus.plain_text import DOCUMENT_BYTES, invalid_utf8
from chainrule.text.corpus.reading import FORMATS, suggest_fields, text_suffix
from chainrule.text.corpus.records import Record, bad_record, kind_of_value, stream_records
from chainrule.text.corpus.streams import encode_string, repair

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chainrule.text.corpus.reading import Format, Reading
    from chainrule.text.corpus.records import OnBad
    from chainrule.text.corpus.streams import ByteStream


@dataclass
class Documents:
    """Collects records for a block."""

    source: str
    unit: str
    reading: Reading
    pieces: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)  # the record of each document
    repaired: int = 0
    fields: list[Mapping[str, Any]] | None = None  # of the record of each document, if they are kept

    def add(self, text: bytes, number: int, fields: Mapping[str, Any] | None = None) -> None:
        """Adds a record. text: valid UTF-8. fields: all of its fields."""
        text = text.replace(b"\r\n", b"\n")
        if self.reading.document == "line":
            lines = text.removesuffix(b"\n").split(b"\n")
            self.pieces += lines
        else:
            lines = [text]
            self.pieces.append(text)
        self.numbers += [number] * len(lines)
        if self.fields is not None:
            self.fields += [fields or {}] * len(lines)

    def block(self) -> Block | None:
        """The block of all records added, if any."""
        if not self.pieces:
            return None
        end = LINE_FEED if self.reading.document == "line" else NEVER_IN_UTF8
        text = byte_array(bytes([end]).join([*self.pieces, b""]))
        numbers = np.array(self.numbers)
        consecutive = numbers[-1] - numbers[0] == numbers.size - 1 and bool((np.diff(numbers) == 1).all())
        listed = None if consecutive else numbers
        return Block(text, self.source, int(numbers[0]), end, self.unit, listed, self.repaired, self.fields)


def record_blocks(
    stream: ByteStream, kind: Format, reading: Reading, on_bad: OnBad, *, wait: bool = True, fields: bool = False
) -> Iterator[Block]:
    """Reads the texts of JSON lines or of a table. Raises TextError with file and line.

    on_bad: as for `read_records`; it also gets records without a text. wait: as for `line_blocks`. fields: whether
    blocks keep all fields of the records.
    """
    name, text_field = stream.name, reading.text_field
    reason = ""  # why the file is read as JSON lines, if its name does not say it
    if kind == "json" and FORMATS.get(text_suffix(name)) != "json":
        why = "document='record'" if reading.field is None else f"field={reading.field!r}"
        reason = f"; it is read as JSON lines because of {why}"

    def bad(error: TextError) -> None:
        on_bad(bad_record(error.record, str(error).removeprefix(f"{error.record.location}: ") + reason))

    def header(cells: Sequence[str], place: str) -> tuple[Sequence[str], bool]:
        if text_field not in cells:
            raise TextError(
                f"{place}: the first line names the columns, and none is {text_field!r}; {suggest_fields(cells)}; text "
                "without columns is read from standard input, or from a name that ends in .txt"
            )
        return cells, True

    for records, repaired in stream_records(stream, kind, bad, header, rule=reading.encoding_errors, wait=wait):
        documents = Documents(name, "line", reading, repaired=repaired, fields=[] if fields else None)
        for record in records:
            try:
                text, places = _text_of(record.fields, reading)
            except TextError as error:
                bad(bad_record(record, str(error)))
                continue
            documents.add(text, record.number, record.fields)
            documents.repaired += places
        if block := documents.block():
            yield block


def _text_of(fields: Mapping[str, Any], reading: Reading) -> tuple[bytes, int]:
    """The text of a record, and the number of lone surrogates repaired in it. Raises TextError."""
    if reading.text_field not in fields:
        raise TextError(f"there is no field {reading.text_field!r}; {suggest_fields(fields)}")
    text = fields[reading.text_field]
    if not isinstance(text, str):
        raise TextError(f"the field {reading.text_field!r} is {kind_of_value(text)}, expected a string")
    try:
        return encode_string(text, reading.encoding_errors)
    except UnicodeEncodeError as error:
        raise TextError(
            f"the field {reading.text_field!r} has \\u{ord(text[error.start]):04x} in it, half of a surrogate pair "
            "and no character; correct it, or set encoding_errors='replace' or encoding_errors='skip'"
        ) from error


def parquet_blocks(
    name: str, reading: Reading, on_bad: OnBad, *, fields: bool = False
) -> Iterator[tuple[Block, float]]:
    """The rows of Parquet in blocks, each with the share of rows read so far. The rest is as for `record_blocks`."""
    done, field = 0, reading.text_field
    for rows, share in parquet_rows(name, field, whole=fields):
        documents = Documents(name, "row", reading, fields=[] if fields else None)
        for number, row in enumerate(rows, done + 1):
            try:
                text = _utf8(row[field], reading, documents)
            except TextError as error:
                on_bad(bad_record(Record(row, f"{name}, row {number}", number), str(error)))
            else:
                documents.add(text, number, {**row, field: text.decode()} if fields else None)
        done += len(rows)
        if block := documents.block():
            yield block, share


def _utf8(value: bytes | None, reading: Reading, documents: Documents) -> bytes:
    """Raises TextError, which does not name the row."""
    if value is None:
        raise TextError(f"the field {reading.text_field!r} is null, expected a string")
    if len(value) > DOCUMENT_BYTES:
        raise TextError(f"is longer than {DOCUMENT_BYTES:,} bytes, the most that a document may have")
    try:
        value.decode()
    except UnicodeDecodeError as error:
        text = np.frombuffer(value, np.uint8)
        if reading.encoding_errors == "strict":
            raise invalid_utf8(text, f"byte 0x{value[error.start]:02x} at offset {error.start} of the field") from error
        value, places = repair(text, reading.encoding_errors)
        documents.repaired += places
    return value


def after_fields(own: dict[str, Any], fields: Mapping[str, Any], text_field: str) -> dict[str, Any]:
    """Figures of a text after the fields of its record, for JSON; that with the text is there under its name, too."""
    beside = as_json(fields_beside(fields, own, text_field))
    return {**beside, **({text_field: own["text"]} if fields else {}), **own}


def as_json(value: Any) -> Any:
    """A value of a record as JSON can write it: dates and bytes of Parquet as strings, what is not finite as null."""
    if isinstance(value, dict):
        return {str(name): as_json(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [as_json(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


def fields_beside(fields: Mapping[str, Any], own: Mapping[str, Any], text_field: str) -> dict[str, Any]:
    """The fields of a record beside its text; one that has a name of `own` is called record_NAME."""
    return {f"record_{name}" if name in own else name: value for name, value in fields.items() if name != text_field}


def columns_beside(
    fields: Sequence[Mapping[str, Any]], columns: Mapping[str, list[Any]], rows: Sequence[int], text_field: str
) -> Iterator[Mapping[str, list[Any]]]:
    """The columns of a table with the fields of its records before them, see `fields_beside`.

    fields: of each record; none, if there are no records. rows: how many rows each record has. Records with different
    fields come one by one.
    """
    if not fields:
        yield columns
    elif all(own.keys() == fields[0].keys() for own in fields):
        beside = fields_beside({name: name for name in fields[0]}, columns, text_field)
        records = [record for record, size in zip(fields, rows, strict=False) for _ in range(size)]
        yield {**{shown: [record[name] for record in records] for shown, name in beside.items()}, **columns}
    else:
        stops = itertools.accumulate(rows, initial=0)
        for record, size, (start, stop) in zip(fields, rows, itertools.pairwise(stops), strict=False):
            own = {name: values[start:stop] for name, values in columns.items()}
            yield from columns_beside([record], own, [size], text_field)
