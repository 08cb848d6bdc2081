"""Bar charts as text and Markdown tables; plain tables are in `base`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from chainrule.base.plain_tables import printable, text_table

__all__ = ["bars", "markdown_cell", "markdown_code", "markdown_table", "markdown_value", "printable", "text_table"]

if TYPE_CHECKING:
    from collections.abc import Sequence


def bars(labels: Sequence[str], counts: Sequence[int], dark: Sequence[bool], width: int = 50) -> str:
    """A line with a bar for each count; some bars are dark."""
    most = max(max(counts, default=0), 1)
    space, digits = max(map(len, labels)), max(len(f"{count:,}") for count in counts)
    return "\n".join(
        f"{label:>{space}}  {count:>{digits},}  {('█' if is_dark else '░') * round(width * count / most)}".rstrip()
        for label, count, is_dark in zip(labels, counts, dark, strict=True)
    )


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose cells are escaped."""
    lines = [_markdown_row(header), "|---|" + "---:|" * (len(header) - 1)]
    return "\n".join(lines + [_markdown_row(row) for row in rows]) + "\n"


def markdown_code(text: str) -> str:
    """A code span that shows any text; invisible characters are spelled out."""
    text = printable(text)
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def markdown_value(text: str) -> str:
    """The text, in a code span if Markdown would find markup in it."""
    return markdown_code(text) if _plain(text) != text else text


def markdown_cell(text: str) -> str:
    """The text with escaped bars, which would end the cell even in code."""
    return text.replace("|", "\\|")


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(markdown_cell(_plain(cell)) for cell in cells) + " |"


def _plain(text: str) -> str:
    """The text with Markdown's markup escaped."""
    return re.sub(r"([\\`*_<>\[\]~&])", r"\\\1", printable(text))
