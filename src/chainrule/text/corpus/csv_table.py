"""CSV and TSV as blocks: a row is a record, the first one names the columns, and one column has the text.

CSV has its cells between commas, or semicolons or tabs if the first line has those instead; a cell in double quotes may
have commas and newlines, and a double quote twice (RFC 4180). TSV has tabs, and no quotes.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, NamedTuple

from chainrule.errors import TextError
from chainrule.text.corpus.plain_text import line_blocks
from chainrule.text.corpus.reading import UTF_8, text_suffix
from chainrule.text.corpus.records import Documents, suggest_fields
from chainrule.text.corpus.streams import open_stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.reading import Reading
    from chainrule.text.corpus.streams import ByteStream


class Row(NamedTuple):
    """The cells of a row, and the number of the line that it begins in."""

    cells: list[str]
    line: int


def table_blocks(stream: ByteStream, reading: Reading, *, wait: bool = True, fields: bool = False) -> Iterator[Block]:
    """Yield the rows of a table as records, in blocks. Raises TextError with file and line.

    wait: as for `line_blocks`. fields: whether blocks keep the other columns, too.
    """
    names: list[str] | None = None
    column = 0
    for rows, repaired in rows_by_block(stream.name, line_blocks(stream, reading.encoding_errors, wait=wait)):
        documents = Documents(stream.name, "line", reading, repaired=repaired, fields=[] if fields else None)
        for row in rows:
            if names is None:
                names = row.cells
                column = _column_of(reading.text_field, names, f"{stream.name}, line {row.line}")
                continue
            check_width(row, names, stream.name)
            record = dict(zip(names, row.cells, strict=True)) if fields else {}
            documents.add(row.cells[column].encode(), row.line, record)
        if block := documents.block():
            yield block


def rows_by_block(name: str, blocks: Iterator[Block]) -> Iterator[tuple[list[Row], int]]:
    """Yield the rows in some lines, a block at a time, without empty ones; and the repairs of each block.

    Raises TextError. name: that of the file, whose suffix says whether it is TSV.
    """
    if text_suffix(name) == ".tsv":
        for block in blocks:
            numbered = enumerate(block.documents(), block.first)
            yield [Row(line.split("\t"), number) for number, line in numbered if line.strip()], block.repaired
        return
    delimiter = ""
    open_lines: list[str] = []  # of a row that has not ended
    first = 1
    error: csv.Error | None = None
    for block in blocks:
        lines = [*open_lines, *(line + "\n" for line in block.documents())]
        delimiter = delimiter or next((_delimiter(line) for line in lines if line.strip()), "")
        rows, ended, error = _complete_rows(lines, delimiter or ",")
        yield [Row(cells, first + line) for cells, line in rows], block.repaired
        open_lines, first = lines[ended:], first + ended
        if error is not None and str(error) != _UNENDED:
            break
    if error is not None:
        raise TextError(
            f"{name}, line {first}: is not CSV: {error}; expected cells with commas or newlines in double quotes, and "
            'each double quote in them twice, ""'
        ) from error


def rows_of(name: str, encoding: str = UTF_8) -> Iterator[Row]:
    """Yield the rows of a file, which may be compressed. Raises TextError."""
    with open_stream(name, encoding) as stream:
        for rows, _ in rows_by_block(name, line_blocks(stream, "strict")):
            yield from rows


_UNENDED = "unexpected end of data"


def _complete_rows(lines: Sequence[str], delimiter: str) -> tuple[list[tuple[list[str], int]], int, csv.Error | None]:
    """Return the rows that end in these lines, each with the index of its first line; the number of their lines; and
    what is wrong with the rest, if anything.
    """
    reader = csv.reader(iter(lines), delimiter=delimiter, strict=True)
    rows: list[tuple[list[str], int]] = []
    ended = 0
    try:
        for cells in reader:
            if cells:
                rows.append((cells, ended))
            ended = reader.line_num
    except csv.Error as error:
        return rows, ended, error
    return rows, ended, None


def _delimiter(header: str) -> str:
    """Return the character between the cells of the first line."""
    return next((character for character in ",;\t" if character in header), ",")


def check_width(row: Row, names: Sequence[str], name: str) -> None:
    """Raise TextError unless a row has a cell for each column."""
    if len(row.cells) != len(names):
        raise TextError(
            f"{name}, line {row.line}: found {len(row.cells)} columns; expected {len(names)}: {', '.join(names)}"
        )


def _column_of(field: str, names: Sequence[str], place: str) -> int:
    """Return the index of the column with the texts. Raises TextError, also where a name is that of two columns."""
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise TextError(f"{place}: two columns are called {twice!r}; give each its own name")
    if field not in names:
        raise TextError(
            f"{place}: the first line names the columns, and none is {field!r}; {suggest_fields(names)}; text without "
            "columns is read from standard input, or from a name that ends in .txt"
        )
    return list(names).index(field)
