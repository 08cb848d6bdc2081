"""Records as blocks: each record, or each line of its text, is a document. Reads JSON lines."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import TextError
from chainrule.text.corpus.block import LINE_FEED, NEVER_IN_UTF8, Block, byte_array
from chainrule.text.corpus.plain_text import line_blocks
from chainrule.text.corpus.reading import FORMATS, UTF_8, text_suffix
from chainrule.text.corpus.streams import encode_string, open_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from chainrule.text.corpus.reading import EncodingErrors, Reading
    from chainrule.text.corpus.streams import ByteStream

    # Called for a bad record of a benchmark: raises the error, or notes it and continues with the other records.
    OnBad = Callable[[TextError], None]

_MOST_DIGITS = 4300  # of Python's integers
_JSON = json.JSONDecoder(parse_int=float)
_EXACT_JSON = json.JSONDecoder(parse_int=lambda digits: int(digits) if len(digits) < _MOST_DIGITS else float(digits))
_SHOWN = 8  # fields named in a message, at most


def raise_error(error: TextError) -> None:
    """Raise the error, as an `OnBad`."""
    raise error


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
        """Add a record. text: valid UTF-8. fields: all of its fields."""
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
        """Return the block of all records added, if any."""
        if not self.pieces:
            return None
        end = LINE_FEED if self.reading.document == "line" else NEVER_IN_UTF8
        text = byte_array(bytes([end]).join([*self.pieces, b""]))
        numbers = np.array(self.numbers)
        consecutive = numbers[-1] - numbers[0] == numbers.size - 1 and bool((np.diff(numbers) == 1).all())
        listed = None if consecutive else numbers
        return Block(text, self.source, int(numbers[0]), end, self.unit, listed, self.repaired, self.fields)


def json_blocks(stream: ByteStream, reading: Reading, *, wait: bool = True, fields: bool = False) -> Iterator[Block]:
    """Read lines that are JSON objects with a text field; skip empty lines. Raises TextError with file and line.

    fields: whether blocks keep all fields of the objects.
    """
    decoder = _EXACT_JSON if fields else _JSON
    for lines in line_blocks(stream, reading.encoding_errors, wait=wait):
        documents = Documents(stream.name, "line", reading, repaired=lines.repaired, fields=[] if fields else None)
        for number, line in enumerate(lines.text.tobytes().split(b"\n")[:-1], lines.first):
            if line and not line.isspace():
                try:
                    record = _json_object(line, f" with the field {reading.text_field!r}", decoder)
                    text, places = _text_of(record, reading)
                except TextError as error:
                    raise TextError(f"{stream.name}, line {number}: {error}{_reason(stream.name, reading)}") from error
                documents.add(text, number, record)
                documents.repaired += places
        if block := documents.block():
            yield block


def json_objects(
    name: str,
    on_bad: OnBad = raise_error,
    *,
    encoding: str = UTF_8,
    encoding_errors: EncodingErrors = "strict",
    exact: bool = False,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a file of JSON lines, compressed or not, each with its location; - is standard input.

    Skips empty lines. on_bad: a callback that gets a TextError with file and line for each line that is no object.
    exact: whole numbers stay whole, to be written again; otherwise they are floats, see `as_written`.
    """
    decoder = _EXACT_JSON if exact else _JSON
    with open_stream(name, encoding, encoding_errors) as stream:
        for lines in line_blocks(stream, encoding_errors):
            for number, line in enumerate(lines.text.tobytes().split(b"\n")[:-1], lines.first):
                if line and not line.isspace():
                    place = f"{name}, line {number}"
                    try:
                        record = _json_object(line, decoder=decoder)
                    except TextError as error:
                        on_bad(TextError(f"{place}: {error}"))
                    else:
                        yield place, record


def _json_object(line: bytes, fields: str = "", decoder: json.JSONDecoder = _JSON) -> dict[str, Any]:
    """Parse a line. fields: the fields that it should have, for the message. Raises TextError."""
    try:
        record: Any = decoder.decode(line.decode())
    except json.JSONDecodeError as error:
        raise TextError(
            f"is not JSON: {error.msg} at column {error.colno}; expected one object a line: the file is damaged, cut "
            "short, or not JSON lines"
        ) from error
    except RecursionError as error:
        raise TextError("is JSON nested too deeply to be read; expected an object with few levels") from error
    if not isinstance(record, dict):
        raise TextError(f"found {_kind(record)}, expected a JSON object{fields}")
    return record


def _text_of(record: dict[str, Any], reading: Reading) -> tuple[bytes, int]:
    """Return the text field of a JSON object, and the number of lone surrogates repaired in it. Raises TextError."""
    if reading.text_field not in record:
        raise TextError(f"there is no field {reading.text_field!r}; {suggest_fields(record)}")
    text = record[reading.text_field]
    if not isinstance(text, str):
        raise TextError(f"the field {reading.text_field!r} is {_kind(text)}, expected a string")
    try:
        return encode_string(text, reading.encoding_errors)
    except UnicodeEncodeError as error:
        raise TextError(
            f"the field {reading.text_field!r} has \\u{ord(text[error.start]):04x} in it, half of a surrogate pair "
            "and no character; correct it, or set encoding_errors='replace' or encoding_errors='skip'"
        ) from error


def _reason(name: str, reading: Reading) -> str:
    """Say why a file with this name is read as JSON lines, for messages, if its name does not say it."""
    if FORMATS.get(text_suffix(name)) == "json":
        return ""
    reason = "document='record'" if reading.field is None else f"field={reading.field!r}"
    return f"; it is read as JSON lines because of {reason}"


def _kind(value: Any) -> str:
    """Return the kind of a JSON value, for messages."""
    kinds = {dict: "an object", list: "a list", str: "a string", float: "a number", bool: "true or false"}
    return kinds.get(type(value), "null")


def read_field(record: dict[str, Any], field: str, place: str) -> Any:
    """Return the value of a field, as written in the file.

    Raises TextError with its location if there is no such field.
    """
    if field not in record:
        raise TextError(f"{place}: there is no field {field!r}; {suggest_fields(record, '')}")
    return as_written(record[field])


def as_written(value: Any) -> Any:
    """Return 2 for 2.0, since JSON's whole numbers are parsed as floats here; any other value unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def suggest_fields(names: Any, options: str = "Reading(field=...)") -> str:
    """Name the fields that exist, for a message that one is missing. options: the settings that choose fields."""
    shown = [repr(name) for name in list(names)[:_SHOWN]]
    more = ", ..." if len(names) > _SHOWN else ""
    which = f"; choose one with {options}" if options else ""
    return f"there are {', '.join(shown)}{more}{which}" if shown else "the record is empty"


def after_fields(own: dict[str, Any], fields: Mapping[str, Any], text_field: str) -> dict[str, Any]:
    """Return figures of a text after the fields of its record, for JSON; that with the text is there under its name,
    too.
    """
    beside = as_json(fields_beside(fields, own, text_field))
    return {**beside, **({text_field: own["text"]} if fields else {}), **own}


def as_json(value: Any) -> Any:
    """Return a value of a record as JSON can write it: dates and bytes of Parquet as strings, what is not finite as
    null.
    """
    if isinstance(value, dict):
        return {str(name): as_json(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [as_json(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


def fields_beside(fields: Mapping[str, Any], own: Mapping[str, Any], text_field: str) -> dict[str, Any]:
    """Return the fields of a record beside its text; one that has a name of `own` is called record_NAME."""
    return {f"record_{name}" if name in own else name: value for name, value in fields.items() if name != text_field}


def columns_beside(
    fields: Sequence[Mapping[str, Any]], columns: Mapping[str, list[Any]], rows: Sequence[int], text_field: str
) -> Iterator[Mapping[str, list[Any]]]:
    """Yield the columns of a table with the fields of its records before them, see `fields_beside`.

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
