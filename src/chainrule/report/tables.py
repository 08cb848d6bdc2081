"""Tables as plain text and as Markdown. Cells are strings already; numbers are aligned to the right."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


# Control characters; ends of lines and paragraphs; what turns the direction of the text after it (Unicode's UAX #9:
# embeddings, overrides and isolates, which make a line read as another one) or its shaping; and lone surrogates.
_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u206f\ud800-\udfff]")


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns, two spaces apart: the first to the left, the others to the right.

    Wide characters count as the two columns that they take on a terminal.
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


def bars(labels: Sequence[str], counts: Sequence[int], dark: Sequence[bool], width: int = 50) -> str:
    """A bar a line, as long as its count says; some of them darker."""
    most = max(max(counts, default=0), 1)
    space, digits = max(map(len, labels)), max(len(f"{count:,}") for count in counts)
    return "\n".join(
        f"{label:>{space}}  {count:>{digits},}  {('█' if is_dark else '░') * round(width * count / most)}".rstrip()
        for label, count, is_dark in zip(labels, counts, dark, strict=True)
    )


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells are shown as they are: nothing in them is markup."""
    lines = [_markdown_row(header), "|---|" + "---:|" * (len(header) - 1)]
    return "\n".join(lines + [_markdown_row(row) for row in rows]) + "\n"


def markdown_code(text: str) -> str:
    """A code span that shows any text as it is, but for characters that cannot be seen."""
    text = printable(text)
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def markdown_cell(text: str) -> str:
    """What a cell of a Markdown table must not hold as it is: the bar, also where it stands in code."""
    return text.replace("|", "\\|")


def printable(text: str) -> str:
    """The text in one line: what a terminal would obey and not show is written as an escape, \\n for a newline.

    Joiners, marks of direction, spaces of all widths and characters newer than Python's Unicode stay: Persian, emoji
    and typography are made of them.
    """
    return _OBEYED.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(markdown_cell(_plain(cell)) for cell in cells) + " |"


def _plain(text: str) -> str:
    """Text in which Markdown sees no markup."""
    return re.sub(r"([\\`*_<>\[\]~&])", r"\\\1", printable(text))
