"""Tables as plain text and Markdown, bar charts as text, and text that is safe to print on a terminal."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Control characters; line and paragraph separators; characters that change the direction of the text after them
# (Unicode's UAX #9: embeddings, overrides and isolates, which make a line read as another one); lone surrogates.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u206f\ud800-\udfff]")
_BREAKS = str.maketrans("\t\n\r", "   ")


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return aligned columns, two spaces apart: the first to the left, the others to the right.

    A wide character counts as two columns, as on a terminal.
    """
    from rich.cells import cell_len

    table = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(cell_len(row[i]) for row in table) for i in range(len(header))]
    lines = []
    for row in table:
        gaps = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = [gap + cell if i else cell + gap for i, (cell, gap) in enumerate(zip(row, gaps, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def count_of(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: 1 step, 2,000 steps. plural: where it is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def cell(value: float | None, form: str) -> str:
    """Return a number as a cell of a table; empty if it is unknown or not finite."""
    return format(value, form) if value is not None and math.isfinite(value) else ""


def printable(text: str) -> str:
    """Return the text on one line: characters that a terminal obeys instead of showing become escapes, such as \\n.

    Joiners, direction marks, spaces of all widths and characters newer than Python's Unicode stay: Persian, emoji and
    typography need them.
    """
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def on_one_line(text: str) -> str:
    """Return the text with spaces in place of tabs and line ends, which would break a line of columns."""
    return text.translate(_BREAKS)


def printable_lines(text: str) -> str:
    """Return the text as `printable` does, but keep line ends."""
    return "\n".join(map(printable, text.split("\n")))


def text_of_rows(rows: Sequence[tuple[str, str]]) -> str:
    """Return names and values, a line each, the values below one another."""
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{name:<{width}}  {printable(value)}" for name, value in rows)


def bars(labels: Sequence[str], counts: Sequence[int], dark: Sequence[bool], width: int = 50) -> str:
    """Return a line with a bar for each count; some bars are dark."""
    most = max(max(counts, default=0), 1)
    space, digits = max(map(len, labels)), max(len(f"{count:,}") for count in counts)
    return "\n".join(
        f"{label:>{space}}  {count:>{digits},}  {('█' if is_dark else '░') * round(width * count / most)}".rstrip()
        for label, count, is_dark in zip(labels, counts, dark, strict=True)
    )


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose cells are escaped."""
    lines = [_markdown_row(header), "|---|" + "---:|" * (len(header) - 1)]
    return "\n".join(lines + [_markdown_row(row) for row in rows]) + "\n"


def markdown_code(text: str) -> str:
    """Return a code span that shows any text; invisible characters are spelled out."""
    text = printable(text)
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def markdown_value(text: str) -> str:
    """Return the text, in a code span if Markdown would find markup in it."""
    return markdown_code(text) if _plain(text) != text else text


def markdown_cell(text: str) -> str:
    """Return the text with escaped bars, which would end the cell even in code."""
    return text.replace("|", "\\|")


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(markdown_cell(_plain(cell)) for cell in cells) + " |"


def _plain(text: str) -> str:
    """Return the text with Markdown's markup escaped."""
    return re.sub(r"([\\`*_<>\[\]~&])", r"\\\1", printable(text))
