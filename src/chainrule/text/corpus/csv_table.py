"""The rows of CSV and TSV. Knows no names of columns.

CSV has its cells between commas, or semicolons or tabs if the first line has those instead; a cell in double quotes may
have commas and newlines, and a double quote twice (RFC 4180). TSV has tabs, and quotes as they are, unless all names of
columns are in quotes, as R writes them, or a cell has the form in which tables with quotes in it are written.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, NamedTuple

from chainrule.errors import TextError
from chainrule.text.corpus.reading import text_suffix

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chainrule.text.corpus.block import Block


class Row(NamedTuple):
    """The cells of a row, the number of the line that it begins in, and the row as it is in the file."""

    cells: list[str]
    line: int
    written: str


def rows_by_block(name: str, blocks: Iterator[Block]) -> Iterator[tuple[list[Row], int]]:
    """The rows in some lines, a block at a time, without empty ones; and the repairs of each block. Raises TextError.

    name: that of the file; it is CSV if its suffix says so, else TSV.
    """
    return _csv_rows(name, blocks) if text_suffix(name) == ".csv" else _tsv_rows(blocks)


def _tsv_rows(blocks: Iterator[Block]) -> Iterator[tuple[list[Row], int]]:
    is_quoted: bool | None = None  # whether texts are in quotes, as in the first line
    for block in blocks:
        rows = []
        for number, line in enumerate(block.documents(), block.first):
            if not line.strip():
                continue
            cells = line.split("\t")
            if '"' in line:
                is_quoted = all(map(_is_quoted, cells)) if is_quoted is None else is_quoted
                cells = [_unquoted(cell, is_quoted) for cell in cells]
            is_quoted = bool(is_quoted)
            rows.append(Row(cells, number, line))
        yield rows, block.repaired


def _is_quoted(cell: str) -> bool:
    return len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in cell[1:-1].replace('""', "")


def _unquoted(cell: str, always: bool) -> str:
    """The content of a cell in quotes. always: also of one that has no quotes in it, and may be a quotation."""
    return cell[1:-1].replace('""', '"') if _is_quoted(cell) and (always or '""' in cell[1:-1]) else cell


def _csv_rows(name: str, blocks: Iterator[Block]) -> Iterator[tuple[list[Row], int]]:
    delimiter = ""
    open_lines: list[str] = []  # of a row that has not ended
    first = 1
    error: csv.Error | None = None
    for block in blocks:
        lines = [*open_lines, *(line + "\n" for line in block.documents())]
        delimiter = delimiter or next((_delimiter(line) for line in lines if line.strip()), "")
        rows, ended, error = _complete_rows(lines, delimiter or ",", first)
        yield rows, block.repaired
        open_lines, first = lines[ended:], first + ended
        if error is not None and str(error) != _UNENDED:
            break
    if error is not None:
        raise TextError(
            f"{name}, line {first}: is not CSV: {error}; expected cells with commas or newlines in double quotes, and "
            'each double quote in them twice, ""'
        ) from error


_UNENDED = "unexpected end of data"


def _complete_rows(lines: Sequence[str], delimiter: str, first: int) -> tuple[list[Row], int, csv.Error | None]:
    """The rows that end in these lines; the number of their lines; and what is wrong with the rest, if anything.

    first: the number of the first line.
    """
    reader = csv.reader(iter(lines), delimiter=delimiter, strict=True)
    rows: list[Row] = []
    ended = 0
    try:
        for cells in reader:
            if cells:
                rows.append(Row(cells, first + ended, "".join(lines[ended : reader.line_num]).removesuffix("\n")))
            ended = reader.line_num
    except csv.Error as error:
        return rows, ended, error
    return rows, ended, None


def _delimiter(header: str) -> str:
    """Return the character between the cells of the first line."""
    return next((character for character in ",;\t" if character in header), ",")
