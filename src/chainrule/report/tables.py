"""Bars and tables of Markdown, beside the plain ones. Cells are strings already."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from chainrule.base.plain_tables import printable, text_table

__all__ = ["bars", "markdown_cell", "markdown_code", "markdown_table", "markdown_value", "printable", "text_table"]

if TYPE_CHECKING:
    from collections.abc import Sequence


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


def markdown_value(text: str) -> str:
    """Text as it is: in a code span, where Markdown would see markup in it."""
    return markdown_code(text) if _plain(text) != text else text


def markdown_cell(text: str) -> str:
    """What a cell of a Markdown table must not hold as it is: the bar, also where it stands in code."""
    return text.replace("|", "\\|")


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(markdown_cell(_plain(cell)) for cell in cells) + " |"


def _plain(text: str) -> str:
    """Text in which Markdown sees no markup."""
    return re.sub(r"([\\`*_<>\[\]~&])", r"\\\1", printable(text))
