"""Records as blocks: a record is a document, newlines in it or not, or each line of its text is one. And JSON lines."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import TextError
from chainrule.text.block import LINE_FEED, NEVER_IN_UTF8, Block, byte_array
from chainrule.text.plain import line_blocks
from chainrule.text.streams import open_stream
from chainrule.text.utf8 import encode_string

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chainrule.text.reading import Reading
    from chainrule.text.streams import ByteStream

    # What is done about a bad record of a benchmark, whose others are still worth measuring: it is raised or noted.
    OnBad = Callable[[TextError], None]

_JSON = json.JSONDecoder(parse_int=float)  # Python's integers refuse numbers of more than 4300 digits
_SHOWN = 8  # fields that a message names at most


def raise_error(error: TextError) -> None:
    """An `OnBad` for which one bad record is an error."""
    raise error


@dataclass
class Documents:
    """Collects records for a block."""

    source: str
    unit: str
    reading: Reading
    pieces: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)  # of the record that each document came from
    repaired: int = 0

    def add(self, text: bytes, number: int) -> None:
        """text: valid UTF-8."""
        text = text.replace(b"\r\n", b"\n")
        if self.reading.document == "line":
            lines = text.removesuffix(b"\n").split(b"\n")
            self.pieces += lines
            self.numbers += [number] * len(lines)
        else:
            self.pieces.append(text)
            self.numbers.append(number)

    def block(self) -> Block | None:
        """What has been collected, if anything."""
        if not self.pieces:
            return None
        end = LINE_FEED if self.reading.document == "line" else NEVER_IN_UTF8
        text = byte_array(bytes([end]).join([*self.pieces, b""]))
        numbers = np.array(self.numbers)
        follow = numbers[-1] - numbers[0] == numbers.size - 1 and bool((np.diff(numbers) == 1).all())
        return Block(
            text, self.source, int(numbers[0]), end, self.unit, None if follow else numbers, repaired=self.repaired
        )


def json_blocks(stream: ByteStream, reading: Reading, *, wait: bool = True) -> Iterator[Block]:
    """An object with a text field a line; empty lines are passed over. Raises TextError, told with file and line."""
    for lines in line_blocks(stream, reading.encoding_errors, wait=wait):
        documents = Documents(stream.name, "line", reading, repaired=lines.repaired)
        for number, line in enumerate(lines.text.tobytes().split(b"\n")[:-1], lines.first):
            if line and not line.isspace():
                try:
                    text, places = _json_text(line, reading)
                except TextError as error:
                    raise TextError(f"{stream.name}, line {number}: {error}") from error
                documents.add(text, number)
                documents.repaired += places
        if block := documents.block():
            yield block


def json_objects(name: str, on_bad: OnBad = raise_error) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file of JSON lines, compressed or not, each with its place; - is standard input.

    Empty lines are passed over. on_bad: gets a TextError with file and line for one that is no object.
    """
    with open_stream(name) as stream:
        for lines in line_blocks(stream, "strict"):
            for number, line in enumerate(lines.text.tobytes().split(b"\n")[:-1], lines.first):
                if line and not line.isspace():
                    place = f"{name}, line {number}"
                    try:
                        record = _json_object(line)
                    except TextError as error:
                        on_bad(TextError(f"{place}: {error}"))
                    else:
                        yield place, record


def _json_object(line: bytes, fields: str = "") -> dict[str, Any]:
    """fields: which it should have, for the message. Raises TextError."""
    try:
        record: Any = _JSON.decode(line.decode())
    except json.JSONDecodeError as error:
        raise TextError(
            f"is not JSON: {error.msg} at column {error.colno}; expected one object a line, so the file is "
            "damaged or cut short, or no JSON lines"
        ) from error
    except RecursionError as error:
        raise TextError("is JSON nested too deeply to be read; expected an object of a few levels") from error
    if not isinstance(record, dict):
        raise TextError(f"found {_kind(record)}, expected a JSON object{fields}")
    return record


def _json_text(line: bytes, reading: Reading) -> tuple[bytes, int]:
    """The text field of a JSON object; and how many lone surrogates were repaired in it. Raises TextError."""
    record = _json_object(line, f" with the field {reading.field!r}")
    if reading.field not in record:
        raise TextError(f"there is no field {reading.field!r}; {suggest_fields(record)}")
    text = record[reading.field]
    if not isinstance(text, str):
        raise TextError(f"the field {reading.field!r} is {_kind(text)}, expected a string")
    try:
        return encode_string(text, reading.encoding_errors)
    except UnicodeEncodeError as error:
        raise TextError(
            f"the field {reading.field!r} has \\u{ord(text[error.start]):04x} in it, half of a surrogate pair "
            "and no character; correct it, or say encoding_errors='replace' or encoding_errors='skip'"
        ) from error


def _kind(value: Any) -> str:
    """What a JSON value is."""
    kinds = {dict: "an object", list: "a list", str: "a string", float: "a number", bool: "true or false"}
    return kinds.get(type(value), "null")


def read_field(record: dict[str, Any], field: str, place: str) -> Any:
    """What a record has; a whole number as it was written, in place of the float that JSON is read as.

    Raises TextError, told with its place, where there is no such field.
    """
    if field not in record:
        raise TextError(f"{place}: there is no field {field!r}; {suggest_fields(record, '')}")
    return as_written(record[field])


def as_written(value: Any) -> Any:
    """2 where JSON was read as 2.0; as it is elsewhere."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def suggest_fields(names: Any, options: str = "field=...") -> str:
    """What to say instead of a field that is not there. options: the settings that name fields."""
    shown = [repr(name) for name in list(names)[:_SHOWN]]
    more = ", ..." if len(names) > _SHOWN else ""
    which = f"; say which with {options}" if options else ""
    return f"there are {', '.join(shown)}{more}{which}" if shown else "the record is empty"
